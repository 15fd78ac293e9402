/* compat/raw_fork.h -- children that are made past fork's handlers. Rank 5. */
#ifndef MT_COPY_H
#define MT_COPY_H

/* Once, from the constructor. */
void mt_copy_start(void);

#endif
