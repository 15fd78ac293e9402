/* ctl/process/stats_dir.h -- the directory where a process keeps its files, and how they are opened
 * without trusting it. The directory is the MT_DIR of the process's own environment. Where that
 * cannot be told (programs that rewrite their title rewrite their environment too), two more are
 * tried: mtctl's MT_DIR, if it belongs to the user of the process, and the default directory of
 * that user; for root's mtctl root's default directory, too, since a process may have begun as
 * root's. A process in another mount namespace is reached through /proc/PID/root. A directory or
 * file that is a symlink, is owned by another user than the process runs as (for root's mtctl: or
 * root), or may be written by others is refused, and so is a file of another owner than its
 * directory. Nothing but mt_stats_dir_sweep ever changes a directory, and who opens a file of
 * blocks: that one is for a single reader, and takes memory as long as it has a name. */
#ifndef MT_CTL_PROCESS_STATS_DIR_H
#define MT_CTL_PROCESS_STATS_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "ctl/process/process.h"

enum mt_stats_dir_file {
	MT_STATS_DIR_STATS,
	MT_STATS_DIR_CONTROL,
	MT_STATS_DIR_HEAP,
	MT_STATS_DIR_BLOCKS
};

/* Opens a file of the process, close-on-exec. NOT_AVAILABLE: there is none, since the process is
 * asleep. FOREIGN: refused, or there is none since the library keeps no files in such a directory
 * (mt_stats_dir_check). */
enum mt_err mt_stats_dir_open(const struct mt_process *process, enum mt_stats_dir_file which,
			      int *out_fd, struct mt_why *why);

/* The stats file of a process of mtctl's own pid namespace in mtctl's MT_DIR or else in its user's
 * default directory, without a question to the process: a third of the work, and no proof that the
 * process writes there (mt_target_read_near has that). Who has opened the files of as many as there
 * are calls mt_stats_dir_forget. */
enum mt_err mt_stats_dir_open_near(const struct mt_process *process, int *out_fd,
				   struct mt_why *why);
void mt_stats_dir_forget(void);

/* The directory that mtctl's own environment names. */
void mt_stats_dir_path(char *out, size_t out_bytes);

/* Whether a process would make files there: on a file system in memory. Also true where the kernel
 * does not say. */
bool mt_stats_dir_is_in_memory(const char *path);

/* directory: a descriptor of it, or -1 where it does not exist; then parent is a descriptor of the
 * directory in which a process of user uid would make it, or -1 where that does not exist either.
 * Returns why the library keeps no files there, as the end of a sentence that the path begins; NULL
 * where it does, or where the kernel does not say. */
const char *mt_stats_dir_check(int directory, int parent, uid_t uid);

/* Removes the files of processes that are gone from one's own directory; only those of one's own
 * pid namespace, since nothing is known about the others. Silent. Whoever is in the list, which may
 * be empty and is by pid, lives, and is not asked again. */
void mt_stats_dir_sweep(const struct mt_process *list, size_t count);

#endif
