/* ctl/process/env_dir.h -- a cache of the MT_DIR in the environments of processes. A command that
 * shows all processes needs it every second, and the size of an environment is up to the process.
 * One thread may call. */
#ifndef MT_CTL_PROCESS_ENV_DIR_H
#define MT_CTL_PROCESS_ENV_DIR_H

#include "ctl/process/process.h"

enum mt_env_dir_state {
	MT_ENV_DIR_NOT_READ,
	/* the environment has no byte, as in the middle of an exec: it is read again */
	MT_ENV_DIR_EMPTY,
	/* MT_DIR is not set or empty, or the environment cannot be read in time */
	MT_ENV_DIR_NONE,
	MT_ENV_DIR_NAMED,
	/* set to a path that takes the kernel long to follow, such as 40 links of 4 kB each */
	MT_ENV_DIR_COSTLY,
};

/* Returns MT_ENV_DIR_NAMED with the path in *out, MT_ENV_DIR_NONE or MT_ENV_DIR_COSTLY. Reads the
 * environment if no entry is cached. An entry is valid for 60 s while the process runs the same
 * program: same pid, start time and stack address. */
enum mt_env_dir_state mt_env_dir_find(const struct mt_process *process, char *out,
				      size_t out_bytes);

/* Returns whether the cached entry is valid for another 10 s. */
bool mt_env_dir_is_fresh(const struct mt_process *process);

/* Stores an entry that the caller has read. `path` counts with MT_ENV_DIR_NAMED only; an empty path
 * is MT_ENV_DIR_NONE, as in the library. */
void mt_env_dir_remember(const struct mt_process *process, enum mt_env_dir_state answer,
			 const char *path);

#endif
