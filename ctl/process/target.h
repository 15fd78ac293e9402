/* ctl/process/target.h -- a shimmed process together with what it says of itself: process.h,
 * stats_dir.h and stats_file.h in the order in which every command needs them. */
#ifndef MT_CTL_PROCESS_TARGET_H
#define MT_CTL_PROCESS_TARGET_H

#include "ctl/process/process.h"
#include "ctl/process/stats_file.h"

struct mt_target {
	struct mt_process process;
	struct mt_stats_file file;
};

/* Reads the stats file of a process again and checks that it is this process's own. NOT_AVAILABLE:
 * asleep. */
enum mt_err mt_target_read(const struct mt_process *process, struct mt_stats_file *out,
			   struct mt_why *why);
enum mt_err mt_target_read_head(const struct mt_process *process, struct mt_stats_head *out,
				struct mt_why *why);

/* Tried once: INVALID may be a write in flight. For who reads many, and tries again those that
 * failed together. */
enum mt_err mt_target_try_head(const struct mt_process *process, struct mt_stats_head *out,
			       struct mt_why *why);

/* The same of a file that was opened before, which may have been removed since. */
enum mt_err mt_target_read_open(const struct mt_process *process, int fd, struct mt_stats_file *out,
				struct mt_why *why);

/* The table of devices that belongs to a head, which mt_target_read_near has read or another
 * function: head->devices_count of `out` are filled. */
enum mt_err mt_target_read_devices(const struct mt_process *process,
				   const struct mt_stats_head *head, bool is_near,
				   struct mt_stats_device *out, struct mt_why *why);

/* The head of a process of mt_process_scan, where its file lies in the directory that mtctl would
 * look in first, and is proven to be written by what the process runs now: same pid, start,
 * namespace and owner, and its stack is where the writer's is, a random place that every exec
 * chooses again. So its maps and environment need not be read. true: it is shimmed and awake.
 * false: nothing is known. Call mt_stats_dir_forget after the last. */
bool mt_target_read_near(struct mt_process *process, struct mt_stats_head *out);

/* A pid from the command line; MT_EXIT_USAGE, said on stderr, where the text is none. */
enum mt_exit mt_target_parse_pid(const char *text, pid_t *out);

/* Prints "process 12 (comm): reason" on stderr, and returns the exit code for the error. */
enum mt_exit mt_target_fail(const struct mt_process *process, enum mt_err error,
			    const struct mt_why *why);

/* Finds the process by the text of its pid, and reads its file. Says on stderr what went wrong, and
 * answers the exit code for it; MT_EXIT_NOTHING for a process that is asleep. */
enum mt_exit mt_target_open(const char *pid, struct mt_target *out);

/* The same without reading the file: asleep is no error here. */
enum mt_exit mt_target_find(const char *pid, struct mt_process *out);

#endif
