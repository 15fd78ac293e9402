/* core/control_rescue.h -- asks the other processes of this user for device memory that they do not
 * use, by their control files. Only files in the folder of this process's own files, of this user,
 * of this pid namespace and of living processes that use CUDA. Owns the list of the processes that
 * were asked: one thread at a time may call. Takes no lock, allocates nothing, keeps errno, waits
 * for no other process, and keeps no file open. */
#ifndef MT_CORE_CONTROL_RESCUE_H
#define MT_CORE_CONTROL_RESCUE_H

#include <stdint.h>

#include "core/stats_layout.h"

/* Sends the request to up to MT_RESCUERS_COUNT processes, with the time of each write as asked_ns.
 * Returns how many got it; 0 also if this process has no files. */
#define MT_RESCUERS_COUNT 64
uint32_t mt_control_rescue_send(const struct mt_rescue_request *request);

/* What they have replied so far. */
struct mt_rescue_gain {
	uint64_t freed_bytes; /* all of them, also to others that had asked at the same time */
	uint64_t bytes;       /* to this process */
	uint64_t most_bytes;  /* of the one that gave most */
	uint64_t most_pid;    /* that one */
	uint32_t open_count;  /* processes from which more may come */
};
void mt_control_rescue_read(struct mt_rescue_gain *out);

#endif
