/* gpu/context.h -- the contexts that the pool knows, each with its blocks, its events and its
 * figures, and the devices they lie on. A context's id is its handle. A slot is never given back to
 * the kernel and may serve another context later: `life` tells them apart. A lock for each
 * (context), two of them never at once; no lock is held over a driver call: who makes a call that a
 * context must outlive counts itself in `users` (under the lock) around it, and the context's end
 * waits for those. */
#ifndef MT_GPU_CONTEXT_H
#define MT_GPU_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/lock.h"
#include "gpu/driver.h"
#include "gpu/bins.h"
#include "gpu/blocks.h"
#include "gpu/pool_settings.h"

/* known at once; with more, nothing is pooled, for a context that is not known cannot be fenced */
#define MT_CONTEXTS 256

struct mt_event;
struct mt_group;

/* What is known of where it comes from. */
enum mt_context_origin { MT_CONTEXT_FOUND, MT_CONTEXT_MADE, MT_CONTEXT_PRIMARY };

enum mt_context_mode { MT_CONTEXT_UNDECIDED, MT_CONTEXT_OFF, MT_CONTEXT_ACCOUNT, MT_CONTEXT_POOL };

/* Written under the context's lock, read by anyone. Column: name. */
#define MT_CONTEXT_COUNTERS(X)                                                                     \
	X(allocated)                                                                               \
	X(requested)                                                                               \
	X(pending)                                                                                 \
	X(idle)                                                                                    \
	X(blocks)                                                                                  \
	X(allocs)                                                                                  \
	X(frees)                                                                                   \
	X(hits)                                                                                    \
	X(driver_allocs)                                                                           \
	X(driver_frees)                                                                            \
	X(returned)                                                                                \
	X(small)        /* of blocks below MT_BIN_SMALL, whatever their state */                   \
	X(small_cached) /* of those, pending and idle */                                           \
	X(pages_cached) /* pending and idle larger ones, in the driver's pages */                  \
	X(decayed)

struct mt_counters {
#define X(name) _Atomic uint64_t name;
	MT_CONTEXT_COUNTERS(X)
#undef X
};

struct mt_group_line {
	struct mt_group *first, *last;
};

struct mt_context {
	/* Read at every call, seldom written: a line that all cores can keep. */
	_Atomic(struct CUctx_st *) handle; /* NULL: nobody's */
	_Atomic uint32_t init;             /* counts the contexts that had this slot */
	_Atomic uint8_t mode;              /* enum mt_context_mode */
	_Atomic bool is_broken;            /* no cuMemFree is pooled any more */
	/* broken by a sticky error: nothing runs there any more */
	_Atomic bool is_gone;
	_Atomic uint8_t origin; /* enum mt_context_origin */
	/* the driver may end it now: no cuMemFree of ours begins there */
	_Atomic bool is_ending;
	_Atomic int device;
	/* references beyond the first; of them, those on their way back */
	_Atomic uint32_t attached, detaching;
	/* idle blocks are freed in its order; NULL: by cuMemFree */
	_Atomic(struct CUstream_st *) stream;
	/* a block was freed in the stream, and nobody has seen the stream done since */
	_Atomic bool has_unsettled;
	bool is_counted;                /* among its device's allocators */
	uint32_t lost_groups;           /* of those in `groups` */
	struct mt_bins *idle, *pending; /* NULL until the first block is cached */
	struct mt_event *events;        /* all of the context, wherever they are */
	/* Written at every call, under the lock: they go from core to core with it. */
	struct mt_lock lock __attribute__((aligned(64)));
	uint32_t users;                 /* calls in flight that the context must outlive */
	struct mt_block_line idle_line; /* oldest first */
	struct mt_group *open;          /* where the next free goes */
	struct mt_group_line groups;    /* closed, oldest first */
	struct mt_group *spare_groups;
	struct mt_event *stock;
	uint32_t stock_count;
	struct mt_counters counters;
} __attribute__((aligned(64)));

struct mt_pool_device {
	/* as last seen, with what we know to have happened since; 0: not known */
	_Atomic uint64_t total_bytes, free_bytes;
	_Atomic uint64_t measured_ns;
	_Atomic bool is_low;
	_Atomic bool is_scarce; /* mt_device_memory_is_scarce */
	_Atomic uint64_t allocated_peak, reserved_peak, active_peak;
	_Atomic uint64_t retries, ooms;
	/* mt_device_memory_short_begin to _end: nothing is cached meanwhile. seq_cst: a free that
	 * has not seen it is seen. */
	_Atomic uint32_t shortages;
	/* threads with blocks in hand that are no longer cached and not yet the driver's */
	_Atomic uint32_t givers;
	/* how often a thread has begun to give a block back; threads that must see no such block */
	_Atomic uint32_t releases, readers;
	/* contexts that have allocated here; order: none needed, sums may lag */
	_Atomic uint32_t allocators;
	struct mt_counters past; /* what its dead contexts counted; only the sums that never fall */
};

/* Everything the pool has. */
struct mt_pool {
	_Atomic(const struct mt_driver *) driver;
	/* false: every call is handed through (before the start, in a forked child, after error 4)
	 */
	_Atomic bool is_up;
	bool can_fence; /* the driver has all that a fence needs (CUDA 12.5) */
	/* green contexts exist, or more contexts than can be known: no fence sees everything */
	_Atomic bool is_mixed;
	/* mt_pool_hold_back; order: none needed, one block more does no harm */
	_Atomic bool holds_back;
	enum mt_pool_mode (*_Atomic mode)(void);
	_Atomic uint64_t decay_ms, max_idle_bytes, max_idle_pct, low_free_pct, max_split_bytes,
		gc_permille;
	_Atomic bool rounds_up; /* any of the next is not 0 */
	_Atomic uint8_t roundup_divisions[MT_POOL_ROUNDUPS];
	struct mt_pool_device devices[MT_POOL_DEVICES];
	struct mt_context contexts[MT_CONTEXTS];
	struct mt_lock slots_lock;       /* who takes a slot of contexts or gives it back */
	_Atomic uint32_t contexts_count; /* slots ever used */
};

extern struct mt_pool mt_pool;

static inline const struct mt_driver *mt_pool_driver(void)
{
	mt_lock_check_foreign_call("a driver call");
	return atomic_load_explicit(&mt_pool.driver, memory_order_acquire);
}

/* Counters: the lock of their context is held, so a plain add will do; readers may lag. */
static inline uint64_t mt_counter(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void mt_counter_add(_Atomic uint64_t *counter, uint64_t delta)
{
	atomic_store_explicit(counter, mt_counter(counter) + delta, memory_order_relaxed);
}

/* The driver has given us a block, and gets one back: it lets small ones share pages. The context's
 * lock is held. */
static inline void mt_context_note_held(struct mt_context *context, const struct mt_block *block,
					bool is_held)
{
	if (block->bytes < MT_BIN_SMALL)
		mt_counter_add(&context->counters.small, is_held ? block->bytes : -block->bytes);
}

/* A block becomes pending or idle, and ceases to be either. The context's lock is held. */
static inline void mt_context_note_cached(struct mt_context *context, const struct mt_block *block,
					  bool is_cached)
{
	bool is_small = block->bytes < MT_BIN_SMALL;
	uint64_t bytes = is_small ? block->bytes : mt_bins_pages(block->bytes);

	mt_counter_add(is_small ? &context->counters.small_cached : &context->counters.pages_cached,
		       is_cached ? bytes : -bytes);
}

/* The current context, made known if it was not, its mode decided. NULL where none is current, it
 * cannot be had, or no slot is left. */
struct mt_context *mt_context_current(void);

/* Makes a context known that need not be current, for fences alone; NULL where no slot is left. An
 * origin that tells more than FOUND is kept with a context that was known already too. */
struct mt_context *mt_context_know(struct CUctx_st *handle, int device,
				   enum mt_context_origin origin);

/* Makes known the primary contexts that are active on any device and have not allocated here: their
 * streams may copy from and to any block. With the capture gate entered, which keeps them from
 * ending meanwhile; no lock held. */
void mt_context_know_primaries(void);

/* False on a thread on which the driver runs a host function of the program: there it permits no
 * call. Such a thread is the driver's own, so one that was permitted a call once is not asked about
 * again. Any thread, no lock held. */
bool mt_context_may_call(void);

/* The known context with this handle, or NULL. */
struct mt_context *mt_context_find(struct CUctx_st *handle);

/* Counts the caller in, if the slot still has the context of that life: false else. */
bool mt_context_hold(struct mt_context *context, uint32_t init);
void mt_context_drop(struct mt_context *context);

/* Makes a held context current unless some context is (with `exactly`: unless this one is); answers
 * whether it was pushed, so that mt_context_exit pops it. On failure nothing is pushed and
 * *out_result has the reason. */
bool mt_context_enter(struct mt_context *context, bool exactly, int *out_result);
void mt_context_exit(bool was_pushed);

/* What an answer of the driver in this context means for the pool. Sticky errors and all else but
 * success, not ready, out of memory and not permitted (on this thread, now): nothing is pooled
 * there any more. Any thread, no lock held. */
void mt_context_note(struct mt_context *context, int result);
bool mt_context_is_sticky(int result);

/* The same for a call of the program's own, about a block of the context, made with whatever
 * context is current: the driver's answer is about the current context, so it counts only where
 * that is this one. */
void mt_context_note_call(struct mt_context *context, int result);

/* True: freed blocks of the context are kept. */
static inline bool mt_context_pools(struct mt_context *context)
{
	return atomic_load_explicit(&context->mode, memory_order_relaxed) == MT_CONTEXT_POOL &&
	       !atomic_load_explicit(&context->is_broken, memory_order_relaxed) &&
	       !atomic_load_explicit(&mt_pool.is_mixed, memory_order_relaxed);
}

#define MT_ANY_DEVICE (-1) /* all of them, where a device is asked for */

/* A device's figures have a place; those past the last share it. */
static inline struct mt_pool_device *mt_pool_device(int device)
{
	return &mt_pool.devices[device >= 0 && device < MT_POOL_DEVICES ? device
									: MT_POOL_DEVICES - 1];
}

static inline struct mt_pool_device *mt_context_device(struct mt_context *context)
{
	return mt_pool_device(atomic_load_explicit(&context->device, memory_order_relaxed));
}

#define MT_EACH_CONTEXT(context)                                                                   \
	for (struct mt_context *context = mt_pool.contexts,                                        \
			       *context##_end =                                                    \
				       context + atomic_load_explicit(&mt_pool.contexts_count,     \
								      memory_order_acquire);       \
	     context < context##_end; context++)

#endif
