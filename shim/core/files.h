/* core/files.h -- the files of this process: the stats file, the control file and the dumps that
 * mtctl requests (heap profile, device blocks, Python lines). Owns their folder and names. The
 * worker thread and callers that hold the publish lock may call, unless a comment says otherwise.
 * Takes no lock. Keeps errno. Never allocates, never reads or writes a mapping of a file. Keeps no
 * descriptor open, since programs close all of them and reuse the numbers: each access opens the
 * file, checks that it is the one this process made, and closes it. */
#ifndef MT_CORE_FILES_H
#define MT_CORE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/config.h"
#include "core/stats_layout.h"
#include "sys/attr.h"

/* Notes the path of the folder, which depends on the user. Before the worker starts, so that it and
 * the end of the process find it noted. */
void mt_files_set_folder(const struct mt_config *config);

/* Makes the folder if it is missing, checks it and opens it. *out_folder: a descriptor that the
 * caller closes. Returns MT_ERR_NOT_AVAILABLE if the file system is not in memory,
 * MT_ERR_FOREIGN if another user owns or can enter the folder, else MT_ERR_SYSTEM. May wait for
 * the file systems on the path: hold no lock. */
enum mt_err mt_files_open_folder(const struct mt_config *config, int *out_folder);

/* As mt_files_open_folder, in a process whose files exist; a failure is not logged. Any thread. */
enum mt_err mt_files_reopen_folder(int *out_folder);

/* Makes the stats file and the control file in an open folder. Hold the publish lock. On an error
 * neither exists and the shim runs without them. */
enum mt_err mt_files_make(int folder, uint64_t *out_start_ticks, uint64_t *out_pidns);

/* Logs, once in a process, why mt_files_open_folder or mt_files_make failed. Hold no lock. */
void mt_files_log_failure(void);

/* Returns whether both files exist. Any thread. */
bool mt_files_exist(void);

/* Maps the control file and returns the address of its futex word, for futex calls only; NULL if
 * there is none. */
_Atomic uint32_t *mt_files_map_word(void);

/* Writes up to three pieces of the stats file with one open. A piece of 0 bytes is skipped. */
struct mt_piece {
	const void *from;
	size_t bytes;
	size_t offset;
};
enum mt_err mt_files_write_stats(const struct mt_piece *pieces, int count);

/* Keeps the control file open for reads by the calling thread, which must have its own descriptor
 * table. Makes a wake-up much cheaper. */
void mt_files_keep_control_open(void);

/* Reads the control file from its start. Returns the number of bytes read, or -1. */
ssize_t mt_files_read_control(void *out, size_t bytes);

/* Writes a part of the control file, of those that its owner writes. */
void mt_files_write_control(const void *from, size_t bytes, size_t offset);

/* ---- dumps: files beside the stats file, NAME.heap, NAME.blocks, NAME.lines, on request ---- */

#define X(kind, suffix) MT_DUMP_##kind,
enum mt_dump { MT_DUMP_KINDS(X) MT_DUMP_COUNT };
#undef X

/* Begins a dump: checks the folder and sets out to the path of a file that the caller makes. One
 * dump at a time. Returns MT_ERR_NOT_AVAILABLE if the files do not exist. */
enum mt_err mt_files_begin_dump(char *out, size_t out_bytes);

/* Ends it. whole: renames the file to its final name, over the last dump of its kind; else unlinks
 * it. Returns MT_ERR_SYSTEM if it is not in place. */
enum mt_err mt_files_end_dump(enum mt_dump dump, bool whole);

/* Unlinks the last dump of a kind. */
void mt_files_remove_dump(enum mt_dump dump);

/* ---- the end of the process ---- */

/* Unlinks all files of this process. */
void mt_files_remove(void);

/* As mt_files_remove, before _exit(2). Async-signal-safe. A file that another thread makes
 * meanwhile stays until a sweep (core/files.h). */
void mt_files_unlink_at_exit(void);

/* Unlinks the files that the program before an exec left under this process's name: exec keeps pid
 * and start time. For a process that has made none. */
void mt_files_remove_inherited(const struct mt_config *config);

/* Forgets the files in a forked child: they are the parent's. */
void mt_files_fork_child(void);

/* ---- sweep ---- */

/* Unlinks files in the shim's folder that ended processes left: those ended by a signal or a raw
 * system call. Only files of this pid namespace, and only if /proc shows that namespace. Files of a
 * live process stay. Owns the time of the next sweep. The worker thread calls, and the thread that
 * ends the process. Takes no lock; hold none. Keeps errno. Never allocates, never opens a file that
 * it unlinks. */

/* Sweeps before this process makes its files. folder: a descriptor from mt_files_open_folder. */
void mt_files_sweep_at_start(int folder);

/* Called at each tick. Of all processes that share a folder one sweeps it every 2 s, for up to 20
 * ms at a time; the next tick continues. now_ns: CLOCK_MONOTONIC. */
void mt_files_sweep_at_tick(uint64_t now_ns);

/* Sweeps for up to 20 ms while a process that has files ends. has_children: it has forked, so it
 * sweeps even if another process has just done so. */
void mt_files_sweep_at_end(bool has_children);

#endif
