/* ctl/known.h -- what was lately found out about processes, so that who looks at all of them every second does not read
 * the maps and command lines of all of them every second. It holds for 5 s, and only while the process runs the same
 * program (same pid, start and place of the stack). A program that looks once has no use for it, and no harm. One thread
 * may call, for all processes by rising pid between mt_known_begin and mt_known_end. */
#ifndef MT_CTL_KNOWN_H
#define MT_CTL_KNOWN_H

#include "ctl/process.h"

void mt_known_begin(void);

/* mt_process_look and mt_process_read_command of a process of mt_process_scan, now or some seconds ago; one that may not be
 * looked into is not shimmed. */
void mt_known_look(struct mt_process *process);

/* For a process that is known to be shimmed: its command line alone. */
void mt_known_read_command(struct mt_process *process);

void mt_known_end(void);

#endif
