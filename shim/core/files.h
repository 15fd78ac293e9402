/* core/files.h -- the stats file, the control file and what is written on request (heap profile,
 * blocks) of this process: their folder, their names, and the only reads and writes of the first
 * two. No descriptor is kept (programs close them all and reuse the numbers): every access opens,
 * checks that it is still the file we made, and closes. No load or store goes to a mapping of them.
 * Called by the worker, and under the actions lock. Never allocates. */
#ifndef MT_CORE_FILES_H
#define MT_CORE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sys/attr.h"
#include "core/config.h"

/* Makes the folder where it is missing, checks it and opens it; *out_folder is the caller's to
 * close. Only on a file system in memory. NOT_AVAILABLE: on another one; FOREIGN: somebody else's;
 * SYSTEM. May wait for the disk or the network that the way to the folder leads over: no lock held.
 */
enum mt_err mt_files_open_folder(const struct mt_config *config, int *out_folder);

/* The folder again, in a process that has made its files: checked and opened, without a word where
 * that fails. */
enum mt_err mt_files_reopen_folder(int *out_folder);

/* Makes both files in the folder that was opened. Under the publish lock. On failure the shim runs
 * without. */
enum mt_err mt_files_make(int folder, uint64_t *out_start_ticks, uint64_t *out_pidns);

/* Says once, by a line of the log, why the last call of the two failed. No lock held. */
void mt_files_log_failure(void);

bool mt_files_exist(void);

/* Maps the control file's futex word; only for the kernel's use, see core/control_file.h. NULL
 * where there is none. */
_Atomic uint32_t *mt_files_map_word(void);

/* Up to three pieces written with one open. A piece of 0 bytes is left out. */
struct mt_piece {
	const void *from;
	size_t bytes;
	size_t offset;
};
enum mt_err mt_files_write_stats(const struct mt_piece *pieces, int count);

/* Reads the control file from its start; the bytes read, or -1. keep: from now on by one
 * descriptor, instead of opening it each time (which was most of what a wake-up cost). Only where
 * the caller has a table of descriptors of its own, and reads alone. */
void mt_files_keep_control_open(void);
ssize_t mt_files_read_control(void *out, size_t bytes);

/* What is made when it is asked for, beside the stats file: the heap profile, NAME.heap; the blocks
 * of the pool, NAME.blocks. One at a time. begin: the name of a file that is not there yet, for the
 * caller to make; the folder is checked again. end: if that file is `whole`, it takes the place of
 * the last one of its kind; else it goes. drop: the last one goes. */
enum mt_dump { MT_DUMP_HEAP, MT_DUMP_BLOCKS, MT_DUMP_COUNT };
enum mt_err mt_files_begin_dump(char *out, size_t out_bytes);
enum mt_err mt_files_end_dump(enum mt_dump dump, bool whole);
void mt_files_remove_dump(enum mt_dump dump);

/* Unlinks them all. */
void mt_files_remove(void);

/* The same in a process that is about to leave by _exit(2). Async-signal-safe, no lock. What
 * another thread of ours makes at the same moment stays, for a sweep (core/sweep.h). */
void mt_files_unlink_at_exit(void);

/* For a process that has made none: those of its name were left by the program that it was before
 * its exec, which keeps pid and start time. 8 to 15 us. */
void mt_files_remove_inherited(const struct mt_config *config);

/* In a forked child: the files are the parent's. */
void mt_files_fork_child(void);

#endif
