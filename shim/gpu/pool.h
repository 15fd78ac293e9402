/* gpu/pool.h -- device blocks kept for reuse, one pool per CUDA context, over the driver it is
 * given. Whole blocks only: each is one real cuMemAlloc of its context, so that a cached block can
 * always go back, and IPC, peers and address ranges stay true. A freed block is handed out again
 * only when all work enqueued before the free, in every context that could have touched it, is done
 * (gpu/fence.h).
 *
 * Any thread may call. Its locks (sys/lock_ranks.def) are never held over a driver call (one named
 * exception: the capture gate, gpu/capture.h). Never calls malloc: it runs inside cuMemAlloc, which
 * may run inside the program's malloc hooks; its tables are mapped. Results are the driver's (enum
 * mt_cu_result). The order of every call's bookkeeping: reserve the record, call the driver, fill
 * the record; a driver that fails leaves nothing behind.
 *
 * A context's mode is decided at its first allocation: POOL (blocks are cached), ACCOUNT (each call
 * goes to the driver and is only counted) or OFF; it may later change from POOL to ACCOUNT alone.
 */
#ifndef MT_GPU_POOL_H
#define MT_GPU_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/driver.h"

/* Ordered by how much the pool does. A mode function never returns UNDECIDED: that is a device
 * without an allocation. */
enum mt_pool_mode { MT_POOL_UNDECIDED, MT_POOL_OFF, MT_POOL_ACCOUNT, MT_POOL_POOL };

/* devices with figures of their own; those beyond share the last */
#define MT_POOL_DEVICES 16

#define MT_POOL_ROUNDUPS 17 /* up to 32 GiB by size */

struct mt_pool_settings {
	/* a ready block unused for so long goes back; 0: only when asked */
	uint64_t decay_ms;
	uint64_t max_idle_bytes; /* per device: most bytes cached, 0 for no cap of its own */
	uint64_t max_idle_pct;   /* the same as a share of the device's memory, 100 for none */
	/* of the device's memory free: below it nothing is cached; 0 for no such trigger */
	uint64_t low_free_pct;
	/* MT_CUDA_CONF; gpu/pool_conf.h parses it */
	/* Sizes are rounded up to a 1/n of their power of two; 0: the default rounding. [0] is for
	 * sizes under 1 MiB, [i] for those from 2^(i-1) MiB to under 2^i, the last one for all
	 * above. */
	uint8_t roundup_divisions[MT_POOL_ROUNDUPS];
	/* blocks larger than this serve only requests that round to exactly their size */
	uint64_t max_split_bytes;
	/* share of the device above which the oldest idle blocks go back before an allocation; 0
	 * off */
	double gc_threshold;
	/* Decides a context's mode at its first allocation. Called under no lock. */
	enum mt_pool_mode (*mode)(void);
};

/* What PyTorch's users know under these names (torch.cuda.memory_stats), per device, over all
 * contexts. */
struct mt_pool_usage {
	uint64_t allocated_bytes;      /* handed to the program, as asked and rounded */
	uint64_t requested_bytes;      /* handed to the program, as asked */
	uint64_t reserved_bytes;       /* held from the driver: allocated + pending + idle */
	uint64_t active_bytes;         /* allocated + pending */
	uint64_t pending_bytes;        /* freed, and work that may use it still runs */
	uint64_t idle_bytes;           /* cached and known ready */
	uint64_t largest_idle_bytes;   /* largest single idle block */
	uint64_t allocated_peak_bytes; /* highest since the start or the last reset */
	uint64_t reserved_peak_bytes;
	uint64_t active_peak_bytes;
	uint64_t inactive_split_bytes; /* always 0: blocks are never split */
	uint64_t blocks_count;         /* live */
	uint64_t alloc_count;          /* cuMemAlloc calls served */
	uint64_t free_count;
	uint64_t hit_count; /* of alloc_count, served without the driver */
	/* flushes after the driver was out of memory, for any kind of allocation, the program's own
	 * too */
	uint64_t num_alloc_retries;
	/* out-of-memory errors handed to the program, which it did not overcome by itself */
	uint64_t num_ooms;
	uint64_t num_device_alloc; /* cuMemAlloc calls made to the driver */
	uint64_t num_device_free;  /* cuMemFree calls made to the driver */
	uint64_t returned_bytes;   /* given back to the driver from the cache, ever */
	uint64_t decayed_bytes;    /* of those, by decay */
};

/* Once, before any other call; the settings are copied. Again after mt_pool_fork_child only in
 * tests. */
void mt_pool_start(const struct mt_driver *driver, const struct mt_pool_settings *settings);

/* `mtctl set` has changed a setting; mode is not looked at again. */
void mt_pool_configure(const struct mt_pool_settings *settings);

/* cuMemAlloc. Sizes of 0 and NULL outputs are answered by the driver. The driver out of memory:
 * mt_pool_short_begin and the like. */
int mt_pool_alloc(uint64_t *out_dptr, size_t bytes);

/* cuMemFree of a block of ours; false, and nothing done, for a pointer that is not known: that one
 * is the driver's. The second free of a cached block is CUDA_ERROR_INVALID_VALUE. */
bool mt_pool_take_back(uint64_t dptr, int *out_result);

/* The block will not be recycled: its free goes straight to the driver. Any address inside the
 * block. */
void mt_pool_mark_non_recyclable(uint64_t dptr);

/* The live block with this base leaves the pool without a call to the driver: the caller frees it
 * in another way than cuMemFree. False where there is no live block with this base. */
bool mt_pool_release(uint64_t dptr);

/* Base and size as asked for of the live block with this base; false for what is not ours.
 * *out_cached tells a block that the program has freed. */
bool mt_pool_range(uint64_t base, size_t *out_bytes, bool *out_cached);

/* A call of the driver's that allocates met CUDA_ERROR_OUT_OF_MEMORY, so the driver has let the
 * thread allocate here:
 *  if (result == MT_CU_OUT_OF_MEMORY && mt_pool_short_begin(&shortage, device, bytes)) {
 *   while (result == MT_CU_OUT_OF_MEMORY && mt_pool_short_next(&shortage))
 *    result = the same call again;
 *   mt_pool_short_end(&shortage);
 *  }
 * From begin to end nothing is cached on the device. device -1: the current context's, all where
 * none is current. bytes: 0 where unknown. begin: false, and no end follows, where nothing can be
 * made room of: no pool, or more bytes than the device has. Counts a retry. next: gives back first
 * what is idle, then what its own context is done with, then waits (10 s at most) for what is
 * pending, then as long as other threads give back; false: another try is useless. Any thread;
 * between the two it is not cancelled. */
struct mt_shortage {
	int device;
	int cancel;
	unsigned step;
	uint64_t freed, start_ns, bytes;
};
bool mt_pool_short_begin(struct mt_shortage *shortage, int device, uint64_t bytes);
bool mt_pool_short_next(struct mt_shortage *shortage);
void mt_pool_short_end(const struct mt_shortage *shortage);

/* The program got so many out-of-memory errors on the device (num_ooms), or overcame one by itself
 * (num_alloc_retries). */
void mt_pool_note_ooms(int device, uint64_t count);
void mt_pool_note_retry(int device);

/* Idle and pending bytes on a device. */
uint64_t mt_pool_cached_bytes(int device);

/* What the driver would have free on the device beside what it has, if it had those back: in its
 * pages. A context's small blocks share pages; that the program's blocks of other kinds do so too
 * is not known, which makes a page's difference. */
uint64_t mt_pool_withheld_bytes(int device);

/* For a caller that adds mt_pool_withheld_bytes to what the driver has free: a block on its way
 * back to the driver is in neither. begin waits until none is on its way (some microseconds; 100 ms
 * at most), and the worker starts none before the end. end returns false where a block has been on
 * its way meanwhile: the sum may lack it. Each begin has its end. Any thread, no lock held. */
uint32_t mt_pool_read_begin(int device);
bool mt_pool_read_end(int device, uint32_t releases);

/* False on a thread on which the driver runs a host function of the program: there it permits no
 * call. Such a thread is the driver's own, so one that was permitted a call once is not asked about
 * again. Any thread, no lock held. */
bool mt_pool_may_call(void);

/* ---- life of contexts ---- */

/* The program has a new context: its work counts in every fence from now on, whether it ever
 * allocates here or not. What is remembered of an earlier context with this handle is forgotten. */
void mt_pool_context_made(struct CUctx_st *context, int device);

/* The same for contexts that came by in another way: one that need not be current, the current one.
 * Nothing where it is known. */
void mt_pool_know(struct CUctx_st *context);
void mt_pool_know_current(void);

/* A context that mt_pool_context_made told of lives: it is not a primary one. */
bool mt_pool_has_made(struct CUctx_st *context);

/* Before the driver's destroy: the context's cached blocks are forgotten (they die with it) and its
 * events destroyed; its live blocks are no longer ours. Nothing is called in the driver for it
 * afterwards. Until the driver has waited for the context's work, a fence would miss that work: so
 * with the gate of gpu/capture.h closed until the destroy has returned. Answers what was cached,
 * for mt_pool_context_died. */
struct mt_block;
struct mt_block *mt_pool_context_dies(struct CUctx_st *context);

/* After the destroy, with the gate open again. is_over: the context is gone, and what was cached
 * with it. Else the driver's own cuMemFree, which is what the program has called, gets what was
 * cached. */
void mt_pool_context_died(struct CUctx_st *context, struct mt_block *cached, bool is_over);

/* References to a context beyond its first, which cuCtxAttach counts. What was attached past us is
 * not counted: the driver has as many or more. detach_begin: true where the cuCtxDetach to come
 * cannot be the last one, and detach_end must follow it. await_detaches: before one that may be the
 * last, until those are through. Any thread. */
void mt_pool_context_attached(struct CUctx_st *context);
bool mt_pool_detach_begin(struct CUctx_st *context);
void mt_pool_detach_end(struct CUctx_st *context, int result);
void mt_pool_await_detaches(struct CUctx_st *context);

/* Between mt_capture_close and a call that may end the context: waits until no call of ours is in
 * it. At most 2 s: one that waits for work which waits for the caller would hang it, and it may be
 * no end at all. */
void mt_pool_context_rests(struct CUctx_st *context);

/* It was no end. */
void mt_pool_context_goes_on(struct CUctx_st *context);

/* The same where the driver has ended the context already, with the gate closed since before. */
void mt_pool_context_ended(struct CUctx_st *context);

/* user may now touch owner's blocks. */
void mt_pool_peer(struct CUctx_st *user, struct CUctx_st *owner);

/* Green contexts exist on the device: events of a context do not see their work, so nothing is
 * pooled any more. No driver call. */
void mt_pool_green(int device);

/* Fences for what has been freed so far. Before a capture, in which none can be had and the driver
 * serves every call itself; and before a function of the program's on the host, which may wait for
 * the program: a later fence would wait for it. */
void mt_pool_fence_freed(void);

/* ---- for the worker: on a thread of ours, in relaxed capture mode; each does nothing while a
 * capture is open ---- */

/* Decay, caps, low memory: gives back at most `most` blocks of those that are due, oldest first.
 * Answers bytes given back. *out_next_ms is when to come again, UINT64_MAX when nothing is cached.
 */
uint64_t mt_pool_tick(uint64_t now_ns, uint32_t most, uint64_t *out_next_ms);

/* Gives back everything that is ready; the bytes. */
uint64_t mt_pool_trim(void);

/* While held, these two give no further block back, and end after the one in hand: somebody waits
 * for the thread they are on. Any thread. The program's own calls are not concerned. */
void mt_pool_hold_back(bool held);

/* The mode function's answer may have changed: contexts that pool now only account if it says so.
 */
void mt_pool_reconsider(void);

/* The driver's own free and total bytes of a device, asked through a context that has allocated
 * here; false where there is none, and while a capture is open. On a thread as above. */
bool mt_pool_memory(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes);

/* ---- figures ---- */

void mt_pool_usage(int device, struct mt_pool_usage *out);
void mt_pool_reset_peak(void);
/* the most that any context of the device does; UNDECIDED: none has allocated */
enum mt_pool_mode mt_pool_mode_of(int device);
bool mt_pool_is_used(void); /* any context has allocated */

/* The child makes no CUDA calls; its cuMemFree of a pointer goes to the driver. */
void mt_pool_fork_child(void);

#endif
