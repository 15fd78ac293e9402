/* ctl/process/env_dir.h -- the MT_DIR of a process's own environment, remembered: whoever shows all
 * processes asks for it every second, and what there is to read is up to the process. One thread
 * may call. Never asks the process. */
#ifndef MT_CTL_PROCESS_ENV_DIR_H
#define MT_CTL_PROCESS_ENV_DIR_H

#include "ctl/process/process.h"

enum mt_env_dir_state {
	MT_ENV_DIR_NOT_READ,
	/* an environment without a byte, as in the middle of an exec: it is asked for again */
	MT_ENV_DIR_EMPTY,
	/* MT_DIR is not set or empty, or the environment cannot be read in time */
	MT_ENV_DIR_NONE,
	MT_ENV_DIR_NAMED,
	/* set to a path that takes the kernel long to follow: 40 links of 4 kB each */
	MT_ENV_DIR_COSTLY,
};

/* NAMED: *out is it. Else NONE or COSTLY. An answer holds for 60 s while the process runs the same
 * program (same pid, start and place of the stack). */
enum mt_env_dir_state mt_env_dir_find(const struct mt_process *process, char *out,
				      size_t out_bytes);

/* Whether the answer holds for 10 s more. */
bool mt_env_dir_is_fresh(const struct mt_process *process);

/* What somebody else has read; `path` with NAMED, where an empty one is NONE, as it is to the
 * library. */
void mt_env_dir_remember(const struct mt_process *process, enum mt_env_dir_state answer,
			 const char *path);

#endif
