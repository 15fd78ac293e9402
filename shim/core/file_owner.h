/* core/file_owner.h -- the processes that files of MT_DIR or MT_LAST_DIR belong to, by their names:
 * PID-STARTTIME-PIDNS.KIND (core/stats_layout.h). The shim and mtctl share it. Any thread may call.
 * Takes no lock, owns no state, allocates nothing, keeps errno. */
#ifndef MT_CORE_FILE_OWNER_H
#define MT_CORE_FILE_OWNER_H

#include <stdbool.h>
#include <stdint.h>

struct mt_file_owner {
	uint64_t pid, start_ticks, pidns;
};

/* Calls each() for every file in the open folder that has such a name, in no order. kinds: what may
 * end the name, up to a NULL; NULL: what is in MT_DIR. name: of the file, for the time of the call.
 * Returns false if each() has returned false, which ends it. */
bool mt_file_owner_each(int folder, const char *const *kinds,
			bool (*each)(const char *name, const struct mt_file_owner *owner,
				     void *data),
			void *data);

/* Returns whether no process has the owner's pid. Changes errno. */
bool mt_file_owner_is_missing(const struct mt_file_owner *owner);

/* Returns whether the owner has ended: its pid belongs to another process, or it is a zombie
 * without other threads. False if that is unknown. Reads a file of /proc. */
bool mt_file_owner_has_ended(const struct mt_file_owner *owner);

#endif
