/* ctl/channel/target.h -- a shimmed process together with its stats file: process.h, stats_dir.h
 * and stats_file.h in the order in which every command needs them. One thread may call. */
#ifndef MT_CTL_CHANNEL_TARGET_H
#define MT_CTL_CHANNEL_TARGET_H

#include <jansson.h>

#include "ctl/figures/stats_file.h"
#include "ctl/process/limit.h"
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
 * (mt_process_title). For a command that acts on one process: if several have the name, they are
 * listed, and MT_EXIT_USAGE is returned. is_tree: it means the one of which the others descend.
 * Does not check that a process with this id exists. */
enum mt_exit mt_target_choose(const char *word, bool is_tree, pid_t *out);

/* Prints "process 12 (comm): reason", for a process that is asleep also what to do, on stderr. */
enum mt_exit mt_target_fail(const struct mt_process *process, enum mt_err error,
			    const struct mt_error_reason *why);

/* Why a process that carries the shim has no files, with what is printed of it. LITTLE: it holds
 * MT_MIN_MB, of which malloc has allocated little since its start or its fork; or the kernel has
 * refused its worker by a limit other than pids.max, which cannot be told from outside. */
#define MT_ASLEEP_REASONS(X)                                                                       \
	X(LITTLE, "malloc has allocated little in it since its start or its fork, it can "         \
		  "start no thread, or its malloc is its own")                                     \
	X(THREADS,                                                                                 \
	  "pids.max of its cgroup has refused threads, which the shim's worker needs, or "         \
	  "malloc has allocated little in it")                                                     \
	X(SMALL, "it holds less anonymous memory than MT_MIN_MB; started with MT_MIN_MB=0 it has " \
		 "figures")                                                                        \
	X(OFF, "MT_ENABLE, MT_ONLY or MT_EXCLUDE keep it out of this program")                     \
	X(RECORDED,                                                                                \
	  "malloc has allocated little or is its own, no thread can be started, settings "         \
	  "keep it out, or MT_MIN_MB is large")

enum mt_asleep {
#define X(name, text) MT_ASLEEP_##name,
	MT_ASLEEP_REASONS(X)
#undef X
};

/* Returns why a process without files is asleep, by its status, command line and environment.
 * RECORDED: one of the reasons, since a title of its own hides its name or its environment. */
enum mt_asleep mt_target_asleep(const struct mt_process *process);
const char *mt_target_asleep_text(enum mt_asleep reason);

/* Returns pids.max of its cgroup (version 2 or 1) if that has refused a thread, else 0. */
uint64_t mt_target_full_pids_max(const struct mt_process *process);

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

/* Writes the name of the script that a command line runs, without its folder: of "python3 -u
 * /srv/train.py --fast" it is "train.py", of "python3 -m http.server" it is "http.server". Writes
 * "" if the command is no interpreter, or runs no script. Pure. */
void mt_process_script(const char *command, char *out, size_t out_bytes);

/* Writes a command line as a list shows it: the name of the script, or of the module, then the
 * arguments. Of "/usr/bin/python3 -u /srv/train.py --fast" it is "train.py --fast". Of a command
 * that runs no script it is the whole line without the folder of the program: "python3 -c ...",
 * "redis-server *:6379". Pure. */
void mt_process_title(const char *command, char *out, size_t out_bytes);

/* Returns whether the name is that of the process (comm), that of its command without the folder,
 * or that of its script. Pure. */
bool mt_process_has_name(const struct mt_process *process, const char *name);

/* Lists the processes of the calling user (root: of every user) that have the name, sorted by pid.
 * If some of them carry the shim and are shown (mt_stats_dir_is_shown), only those. Leaves out
 * mtctl itself. Returns how many; the caller frees *out. *out_nearest: the name of a shimmed
 * process that the caller may have meant, "" for none; only if the count is 0. */
size_t mt_process_find_named(const char *name, struct mt_process **out,
			     struct mt_error_reason *out_nearest);

/* The stats of one process as JSON, for `mtctl stat --json` and for
 * /api/processes/PID of `mtctl serve`. The keys are a public contract: docs/json.md. The caller
 * owns each object. Pure, except mt_stats_json_print_oom. */

/* Returns an object that names a process: `pid`, `comm`. */
json_t *mt_process_json(const struct mt_process *process);

/* Returns an object with every field by its name, then devices, out-of-memory reports, cleanups,
 * samples and settings. */
json_t *mt_stats_json(const struct mt_target *target);

/* Returns an array of all settings: objects with name, value and origin. */
json_t *mt_stats_json_settings(const struct mt_stats_file *file);

/* Returns one cleanup as an object. */
json_t *mt_stats_json_cleanup(const struct mt_stats_cleanup *cleanup);

/* Prints the out-of-memory reports of devices and of MT_RSS_LIMIT_MB to stdout, the oldest first.
 * indented: on several lines, else on one. */
void mt_stats_json_print_oom(const struct mt_target *target, bool indented);

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
 * mount namespace. limit_mb: its MT_LIMIT_MB; 0: none. Returns MT_ERR_INVALID if it is no memory
 * cgroup. */
enum mt_err mt_limit_find_given(const struct mt_process *process, const char *directory,
				uint64_t limit_mb, struct mt_limit *out);

/* Writes a directory of a cgroup to *out: that of this limit (NULL: none), else that of MT_CGROUP,
 * else that of the process. Returns false if there is none. */
bool mt_process_limit_directory(const struct mt_process *process, const struct mt_stats_file *file,
				const struct mt_limit *limit, char *out, size_t out_bytes);

#endif
