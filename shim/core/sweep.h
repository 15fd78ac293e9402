/* core/sweep.h -- unlinks files in the shim's folder that ended processes left: those ended by a
 * signal or a raw system call. Only files of this pid namespace, and only if /proc shows that
 * namespace. Files of a live process stay. Owns the time of the next sweep. The worker thread
 * calls, and the thread that ends the process. Takes no lock; hold none. Keeps errno. Never
 * allocates, never opens a file that it unlinks. */
#ifndef MT_CORE_SWEEP_H
#define MT_CORE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

/* Sweeps before this process makes its files. folder: a descriptor from mt_files_open_folder. */
void mt_sweep_at_start(int folder);

/* Called at each tick. Of all processes that share a folder one sweeps it every 2 s, for up to 20
 * ms at a time; the next tick continues. now_ns: CLOCK_MONOTONIC. */
void mt_sweep_at_tick(uint64_t now_ns);

/* Sweeps for up to 20 ms while a process that has files ends. has_children: it has forked, so it
 * sweeps even if another process has just done so. */
void mt_sweep_at_end(bool has_children);

/* ---- file owner ---- */

/* The processes that the files of MT_DIR belong to, by the names of the files:
 * PID-STARTTIME-PIDNS.KIND (core/stats_layout.h). Any thread may call. Takes no lock, owns no
 * state, allocates nothing, keeps errno. */

struct mt_file_owner {
	uint64_t pid, start_ticks, pidns;
};

/* Calls each() for every file in the open folder that has such a name, in no order. name: of the
 * file, for the time of the call. Returns false if each() has returned false, which ends it. */
bool mt_file_owner_each(int folder,
			bool (*each)(const char *name, const struct mt_file_owner *owner,
				     void *data),
			void *data);

/* Returns whether the owner has ended: its pid belongs to another process, or it is a zombie
 * without other threads. False if that is unknown. Reads a file of /proc. */
bool mt_file_owner_has_ended(const struct mt_file_owner *owner);

#endif
