/* compat/raw_fork.h -- children that are made past fork's handlers. Rank 5. */
#ifndef MT_COMPAT_RAW_FORK_H
#define MT_COMPAT_RAW_FORK_H

/* Once, from the constructor. */
void mt_raw_fork_start(void);

#endif
