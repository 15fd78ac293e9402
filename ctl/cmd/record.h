/* ctl/cmd/record.h -- what `mtctl run` shares with `mtctl record`. For one thread. */
#ifndef MT_CTL_CMD_RECORD_H
#define MT_CTL_CMD_RECORD_H

#include <sys/types.h>

/* Says in one line on stderr that the kernel has killed the program at its limit, where the program
 * has left a file that `mtctl last` explains. Else nothing. */
void mt_record_say_last_look(pid_t pid);

#endif
