/* gpu/usage.h -- the figures of the pool, and how much memory each device has left.
 *
 * Sums over contexts are taken when they are read; peaks are kept as the sums rise. mt_pool_usage
 * takes each context's lock for an instant. The capture gate is entered around a read of a device's
 * free memory, the only call to the driver made here. Any thread may call. */
#ifndef MT_GPU_USAGE_H
#define MT_GPU_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/context.h"

/* Of one device, over all contexts, under the names of torch.cuda.memory_stats and of
 * MT_DEVICE_FIELDS (core/figures.def). The sums over the devices are gpu_NAME of
 * MT_STATS_FIELDS. */
#define MT_POOL_FIGURES(X)                                                                         \
	X(allocated_bytes)      /* held by the program, rounded as asked of the driver */          \
	X(requested_bytes)      /* held by the program, as it asked */                             \
	X(reserved_bytes)       /* held from the driver: allocated + pending + idle */             \
	X(active_bytes)         /* allocated + pending */                                          \
	X(pending_bytes)        /* freed, and work that may use it still runs */                   \
	X(idle_bytes)           /* cached and ready */                                             \
	X(allocated_peak_bytes) /* highest since the start or the last reset */                    \
	X(reserved_peak_bytes)                                                                     \
	X(active_peak_bytes)                                                                       \
	X(inactive_split_bytes) /* always 0: blocks are never split */                             \
	X(blocks_count)         /* live */                                                         \
	X(alloc_count)          /* cuMemAlloc calls served */                                      \
	X(free_count)                                                                              \
	X(hit_count) /* of alloc_count, served without the driver */                               \
	/* flushes after an out-of-memory of any kind of allocation, and the program's retries */  \
	X(num_alloc_retries)                                                                       \
	X(num_ooms)         /* out-of-memory errors that the program did not overcome */           \
	X(num_device_alloc) /* cuMemAlloc calls made to the driver */                              \
	X(num_device_free)  /* cuMemFree calls made to the driver */                               \
	X(returned_bytes)   /* released to the driver from the cache, ever */                      \
	X(decayed_bytes)    /* of those, by decay */

struct mt_pool_usage {
#define X(name) uint64_t name;
	MT_POOL_FIGURES(X)
#undef X
	uint64_t largest_idle_bytes; /* largest single idle block */
};

void mt_pool_usage(int device, struct mt_pool_usage *out);
void mt_pool_reset_peak(void);
/* Returns the most that any context of the device does; UNDECIDED: none has allocated. */
enum mt_pool_mode mt_pool_mode_of(int device);
bool mt_pool_is_used(void); /* any context has allocated */

/* Idle and pending bytes on a device. */
uint64_t mt_pool_cached_bytes(int device);

/* Returns what the driver would have free in addition if it had the cached blocks: in its pages. A
 * context's small blocks share pages; the program's blocks of other kinds may share them too, which
 * makes a difference of one page. */
uint64_t mt_pool_withheld_bytes(int device);

/* Counts out-of-memory errors of the program (num_ooms), and one that it overcame by itself
 * (num_alloc_retries). */
void mt_pool_note_ooms(int device, uint64_t count);
void mt_pool_note_retry(int device);

/* Raises the peaks after a block of the context was handed out. The context's lock is held; the
 * counters of its device's other contexts are read without theirs. */
void mt_usage_note_peaks(struct mt_context *context);

/* ---- what a device has left ---- */

/* Reads the driver's free and total bytes of a device through a context that has allocated there.
 * Returns false if there is none, and while a capture is open. On a thread if the shim may
 * call the driver. */
bool mt_device_memory_read(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes);

/* The same; the caller has entered the gate, or is in relaxed capture mode. */
bool mt_device_memory_ask(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes);

#endif
