/* core/leave.h -- the ends of a process without exit handlers. */
#ifndef MT_LEAVE_H
#define MT_LEAVE_H

/* Looks up the functions behind ours; from the constructor. */
void mt_leave_start(void);

#endif
