/* ctl/channel/stats_dir.h -- opens the files that a process keeps in its directory, without
 * trusting them.
 *
 * The directory is the MT_DIR of the process's own environment. Programs that rewrite their title
 * overwrite their environment. If it cannot be read, mtctl tries three more: its own MT_DIR, if
 * that belongs to the user of the process; as root, the default directory of root, since the
 * process may have started as root; the default directory of the user. A process in another mount
 * namespace is reached through /proc/PID/root.
 *
 * Refused are: a directory or file that is a symbolic link, is owned by another user than the
 * process (or root, for the mtctl of root), or is writable by others; and a file with another owner
 * than its directory.
 *
 * Nothing here changes a directory, except mt_stats_dir_sweep, and the open of a file of blocks or
 * lines, which removes its name: that file is for one reader, and uses memory while it has a name.
 * One thread may call. */
#ifndef MT_CTL_CHANNEL_STATS_DIR_H
#define MT_CTL_CHANNEL_STATS_DIR_H

#include "ctl/process/process.h"
#include "shim/core/stats_layout.h"

#define X(kind, suffix) MT_STATS_DIR_##kind,
enum mt_stats_dir_file { MT_FILE_KINDS(X) };
#undef X

/* Opens a file of the process, close-on-exec. Returns MT_ERR_NOT_AVAILABLE if there is none
 * because the process is asleep. Returns MT_ERR_FOREIGN if it is refused, or if the library
 * keeps no files in such a directory (mt_stats_dir_check). */
enum mt_err mt_stats_dir_open(const struct mt_process *process, enum mt_stats_dir_file which,
			      int *out_fd, struct mt_error_reason *why);

/* Returns whether the process has another root than mtctl, in the same mount namespace. */
bool mt_stats_dir_in_chroot(const struct mt_process *process);

/* Returns whether a command that acts on all processes includes this one: if mtctl has an
 * MT_DIR, only those whose files are there, or would be. */
bool mt_stats_dir_is_shown(const struct mt_process *process);

/* Opens the stats file of a process of the pid namespace of mtctl in the MT_DIR of mtctl, or if
 * that is not set in the default directory of the user, without reading the environment of the
 * process: a third of the work. It does not prove that the process writes there;
 * mt_target_read_near does. A caller that opens the files of many processes calls
 * mt_stats_dir_forget after the last. */
enum mt_err mt_stats_dir_open_near(const struct mt_process *process, int *out_fd,
				   struct mt_error_reason *why);
void mt_stats_dir_forget(void);

/* Writes the directory that the environment of mtctl names to *out. */
void mt_stats_dir_path(char *out, size_t out_bytes);

/* Returns whether a process would make files in this directory: it is on a file system in memory.
 * Also true if that cannot be told. */
bool mt_stats_dir_is_in_memory(const char *path);

/* Returns why the library keeps no files in a directory, by the rules of shim/core/files.c, as the
 * end of a sentence that begins with the path. Returns NULL if it does, or if that cannot be
 * told. directory: an open descriptor, or -1 if it does not exist; then parent is a descriptor
 * of the directory in which a process of user uid would make it, or -1 if that does not exist
 * either. Never follows a path, never changes anything. */
const char *mt_stats_dir_check(int directory, int parent, uid_t uid);

/* Removes the files of processes that have ended from the directory of mtctl; only those of its own
 * pid namespace, since pids of others cannot be compared. Processes in the list (sorted by pid, may
 * be empty) are alive and are not checked again. Prints nothing. */
void mt_stats_dir_sweep(const struct mt_process *list, size_t count);

#endif
