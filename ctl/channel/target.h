/* ctl/channel/target.h -- a shimmed process together with its stats file: process.h, stats_dir.h
 * and stats_file.h in the order in which every command needs them. One thread may call. */
#ifndef MT_CTL_CHANNEL_TARGET_H
#define MT_CTL_CHANNEL_TARGET_H

#include "ctl/figures/stats_file.h"
#include "ctl/process/process.h"

struct mt_target {
	struct mt_process process;
	struct mt_stats_file file;
};

/* Reads the stats file of a process and checks that this process has written it. Returns
 * MT_ERR_NOT_AVAILABLE for a process that is asleep. */
enum mt_err mt_target_read(const struct mt_process *process, struct mt_stats_file *out,
			   struct mt_error_reason *why);
enum mt_err mt_target_read_head(const struct mt_process *process, struct mt_stats_head *out,
				struct mt_error_reason *why);

/* mt_target_read_head with one try: MT_ERR_INVALID may mean that a write is in progress. For a
 * caller that reads many files, and retries the failed ones together. */
enum mt_err mt_target_try_head(const struct mt_process *process, struct mt_stats_head *out,
			       struct mt_error_reason *why);

/* mt_target_read of a file that is already open; its name may be removed. */
enum mt_err mt_target_read_open(const struct mt_process *process, int fd, struct mt_stats_file *out,
				struct mt_error_reason *why);

/* Reads the table of devices that belongs to a head: head->devices_count entries of `out`. is_near:
 * mt_target_read_near has read the head. */
enum mt_err mt_target_read_devices(const struct mt_process *process,
				   const struct mt_stats_head *head, bool is_near,
				   struct mt_stats_device *out, struct mt_error_reason *why);

/* Reads the head of a process of mt_process_scan, if its file is in the directory that mtctl
 * tries first, and is proven to be written by the program that the process runs now: same pid,
 * start time, namespace and owner, and same stack address, which every exec chooses at random. So
 * its maps and environment need not be read. Returns true if it is shimmed and awake, false
 * if nothing is known. Call mt_stats_dir_forget after the last process. */
bool mt_target_read_near(struct mt_process *process, struct mt_stats_head *out);

/* ---- for commands: each prints why it fails, and returns the exit code ---- */

/* A word of the command line is the id of a process or a name: that of a command or of a script
 * (process_name.h). For a command that acts on one process: if several have the name, they are
 * listed, and MT_EXIT_USAGE is returned. is_tree: it means the one of which the others descend.
 * Does not check that a process with this id exists. */
enum mt_exit mt_target_choose(const char *word, bool is_tree, pid_t *out);

/* Prints "process 12 (comm): reason", for a process that is asleep also what to do, on stderr. */
enum mt_exit mt_target_fail(const struct mt_process *process, enum mt_err error,
			    const struct mt_error_reason *why);

/* Finds the process of a word, with the shim or without. */
enum mt_exit mt_target_find_any(const char *word, bool is_tree, struct mt_process *out);

/* The same; MT_EXIT_NOT_SHIMMED if it does not carry the shim. A process that is asleep is no
 * error. */
enum mt_exit mt_target_find(const char *word, struct mt_process *out);

/* The same for a command that acts on several: each word may also be a list, "12,13,train.py".
 * If a name means several processes, prints which. Each process is in *out once: all or none.
 * The caller frees *out. */
enum mt_exit mt_target_find_all(char **words, size_t count, struct mt_process **out,
				size_t *out_count);

/* Reads the file of target->process. MT_EXIT_NOTHING for a process that is asleep. */
enum mt_exit mt_target_load(struct mt_target *target);

#endif
