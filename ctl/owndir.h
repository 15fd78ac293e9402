/* ctl/owndir.h -- the MT_DIR of a process's own environment, remembered: whoever shows all processes asks for it every second, and
 * what there is to read is up to the process. One thread may call. Never asks the process. */
#ifndef MT_CTL_OWNDIR_H
#define MT_CTL_OWNDIR_H

#include "ctl/process.h"

/* false: not set, or not to be read. An answer, also that there is none, holds for 60 s while the process runs the same program
 * (same pid, start and place of the stack). An environment without a byte, as in the middle of an exec, is asked for again. */
bool mt_owndir_find(const struct mt_process *process, char *out, size_t out_bytes);

#endif
