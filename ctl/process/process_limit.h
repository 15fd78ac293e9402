/* ctl/process/process_limit.h -- the limit that counts for a shimmed process, as the shim in it
 * goes by it. */
#ifndef MT_CTL_PROCESS_PROCESS_LIMIT_H
#define MT_CTL_PROCESS_PROCESS_LIMIT_H

#include "ctl/process/limit.h"
#include "ctl/process/process.h"
#include "ctl/process/stats_file.h"

/* The limit that the process itself publishes, and so with MT_LIMIT_MB and MT_CGROUP, with what is
 * used of it now: far from a limit the process makes do with an upper bound, pages of files and
 * all. Where it does not look (asleep, MT_PRESSURE=0) the groups that its MT_CGROUP names, else
 * those that /proc names. file NULL: nothing is known of its settings. */
enum mt_err mt_process_limit_find(const struct mt_process *process,
				  const struct mt_stats_file *file, struct mt_limit *out);

/* The directory that MT_CGROUP names in the process, "" for none: the settings table has room for
 * 71 characters, so that a longer one is taken from the process's environment. May hold anything:
 * clean it before it is printed. */
void mt_process_limit_given(const struct mt_process *process, const struct mt_stats_file *file,
			    char *out, size_t out_bytes);

/* The limits from that directory up, as mtctl can reach it: a process in another mount namespace
 * sees others. INVALID: it is no memory cgroup. */
enum mt_err mt_limit_find_given(const struct mt_process *process, const char *directory,
				struct mt_limit *out);

/* The directory of the group that this limit (NULL: none) is one of; else the one that MT_CGROUP
 * names; else the process's own group. As mtctl can reach it. false: there is none. */
bool mt_process_limit_directory(const struct mt_process *process, const struct mt_stats_file *file,
				const struct mt_limit *limit, char *out, size_t out_bytes);

#endif
