/* ctl/channel/process_limit.h -- the memory limit that the shim in a process uses. One thread may
 * call. */
#ifndef MT_CTL_CHANNEL_PROCESS_LIMIT_H
#define MT_CTL_CHANNEL_PROCESS_LIMIT_H

#include "ctl/figures/stats_file.h"
#include "ctl/process/limit.h"
#include "ctl/process/process.h"

/* Finds the limit that the process publishes, which includes MT_LIMIT_MB and MT_CGROUP, and reads
 * what is used of it now: far from a limit, the process publishes an upper bound only. If the
 * process publishes none (asleep, MT_PRESSURE=0): the limits of the cgroup in its MT_CGROUP, else
 * of its own, and its MT_LIMIT_MB. file is NULL if its settings are not known. */
enum mt_err mt_process_limit_find(const struct mt_process *process,
				  const struct mt_stats_file *file, struct mt_limit *out);

/* Writes the directory of MT_CGROUP in the process to *out, "" for none. The settings table holds
 * 71 characters; a longer value is read from the environment. The text may hold any bytes: clean it
 * before it is printed. */
void mt_process_limit_given(const struct mt_process *process, const struct mt_stats_file *file,
			    char *out, size_t out_bytes);

/* mt_limit_find_in for that directory, also through the root directory of a process in another
 * mount namespace. Returns MT_ERR_INVALID if it is no memory cgroup. */
enum mt_err mt_limit_find_given(const struct mt_process *process, const char *directory,
				struct mt_limit *out);

/* Writes a directory of a cgroup to *out: that of this limit (NULL: none), else that of MT_CGROUP,
 * else that of the process. Returns false if there is none. */
bool mt_process_limit_directory(const struct mt_process *process, const struct mt_stats_file *file,
				const struct mt_limit *limit, char *out, size_t out_bytes);

#endif
