/* gpu/context.h -- the contexts that the pool knows, each with its blocks, events and counters, how
 * they begin and end as the wrappers of the driver report it, and the devices.
 *
 * Owns struct mt_pool: all state of the pool. A slot of `contexts` is never unmapped and may serve
 * another context later: `init` tells them apart. Each context has a lock (rank `context`); a
 * thread holds one of them at a time, and none over a call to the driver. A thread that makes a
 * call which the context must outlive counts itself in `users` (under the lock) around it; the end
 * of the context waits for those. Any thread may call. */
#ifndef MT_GPU_CONTEXT_H
#define MT_GPU_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/lock.h"
#include "gpu/driver.h"
#include "gpu/blocks.h"

/* ---- how the pool works ---- */

/* Ordered by how much the pool does. A mode function never returns UNDECIDED: that is a device
 * without an allocation. */
enum mt_pool_mode { MT_POOL_UNDECIDED, MT_POOL_ACCOUNT, MT_POOL_POOL };

/* devices with figures of their own; those beyond share the last */
#define MT_POOL_DEVICES 16

/* Decides a context's mode at its first allocation, and sets whether a free waits as the driver's
 * does. Called with no lock held. NULL: POOL, and it does not. */
typedef enum mt_pool_mode (*mt_pool_mode_fn)(bool *out_waits);

/* ---- contexts and devices ---- */

/* known at the same time; with more, nothing is pooled, since an unknown one may use any block */
#define MT_CONTEXTS 256

/* An event of the driver, made in a context: in its list of free ones, or of a pending block of it.
 * There are as many as blocks were pending at one time. */
struct mt_event {
	struct mt_event *next; /* first: the slab's link */
	struct CUevent_st *event;
};

/* Written under the context's lock, read by any thread, under the names of MT_POOL_FIGURES. What a
 * context holds ends with it; its device keeps the rest. */
#define MT_CONTEXT_HOLDINGS(X)                                                                     \
	X(allocated_bytes) /* held by the program, rounded as asked of the driver */               \
	X(requested_bytes) /* held by the program, as it asked */                                  \
	X(pending_bytes)   /* freed, and work that may use it still runs */                        \
	X(idle_bytes)      /* cached and ready */                                                  \
	X(blocks_count)    /* live */
#define MT_CONTEXT_TOTALS(X)                                                                       \
	X(alloc_count) /* cuMemAlloc calls served */                                               \
	X(free_count)                                                                              \
	X(hit_count)        /* of alloc_count, served without the driver */                        \
	X(num_device_alloc) /* cuMemAlloc calls made to the driver */                              \
	X(num_device_free)  /* cuMemFree calls made to the driver */                               \
	X(returned_bytes)   /* released to the driver from the cache, ever */                      \
	X(decayed_bytes)    /* of those, by decay */

struct mt_counters {
#define X(name) _Atomic uint64_t name;
	MT_CONTEXT_HOLDINGS(X)
	MT_CONTEXT_TOTALS(X)
#undef X
	/* bytes of blocks below MT_BIN_SMALL, which share pages; larger blocks, in the driver's
	 * pages. By whether they are live, or pending and idle. */
	_Atomic uint64_t small[2], pages[2];
};

/* What errors have left of a context: it only rises. */
enum mt_context_health {
	MT_CONTEXT_WELL,
	MT_CONTEXT_BROKEN, /* freed blocks are no longer cached */
	MT_CONTEXT_DEAD,   /* an error has ended it: nothing runs there any more */
	MT_CONTEXT_GONE    /* the driver says that there is no such context */
};

struct mt_context {
	/* Read at every call, seldom written: a cache line that all cores can share. */
	_Atomic(struct CUctx_st *) handle; /* NULL: the slot is free */
	_Atomic uint32_t init;             /* counts the contexts that had this slot */
	_Atomic uint8_t mode;              /* enum mt_pool_mode */
	_Atomic uint8_t health;            /* enum mt_context_health */
	_Atomic bool is_primary;           /* known to be the primary context of its device */
	/* the driver may end it now: no cuMemFree of ours begins there */
	_Atomic bool is_ending;
	_Atomic int device;
	/* idle blocks are freed in its order; NULL: by cuMemFree */
	_Atomic(struct CUstream_st *) stream;
	struct mt_bins *idle; /* from the first time that a context of this slot pools */
	/* Written at every call, under the lock: they move from core to core with it. */
	struct mt_lock lock __attribute__((aligned(64)));
	uint32_t users; /* calls in flight that the context must outlive */
	/* a block became pending, or idle after that, since a free has made room */
	bool needs_room;
	struct mt_block_line idle_line, pending_line; /* oldest first */
	struct mt_event *free_events;
	struct mt_counters counters;
} __attribute__((aligned(64)));

struct mt_pool_device {
	_Atomic uint64_t total_bytes; /* 0: not known */
	_Atomic uint64_t allocated_peak, reserved_peak;
	_Atomic uint64_t charged_peak; /* of live blocks, in the driver's pages */
	/* num_alloc_retries and num_ooms of MT_POOL_FIGURES; counters, no ordering */
	_Atomic uint64_t retries, ooms;
	/* mt_pool_shortage_begin to _end: nothing is cached meanwhile. seq_cst: a free that did not
	 * see it is itself seen. */
	_Atomic uint32_t shortages;
	/* threads that hold an idle block which is no longer cached and not yet freed */
	_Atomic uint32_t releasing_count;
	/* how often a thread began to free an idle block; threads between mt_pool_read_begin and
	 * _end */
	_Atomic uint32_t releases, readers;
	struct mt_counters past; /* sums of its ended contexts; only those that never fall */
	/* another process lacks memory: one of the shortages, until then; 0: none does */
	_Atomic uint64_t yields_until_ns;
};

/* All state of the pool. */
struct mt_pool {
	_Atomic(const struct mt_driver *) driver;
	/* false: every call is handed on (before the start, in a forked child, after
	 * CUDA_ERROR_DEINITIALIZED) */
	_Atomic bool is_up;
	bool can_fence; /* the driver has all that a fence needs (CUDA 12.5) */
	/* green contexts exist, or more contexts than can be known: events do not see all work */
	_Atomic bool is_mixed;
	/* contexts may use blocks of other devices, through peer access or a copy. Order: none
	 * needed, the thread that set it frees the block or tells the one that does */
	_Atomic bool is_joined;
	/* set by any thread: mt_pool_tick and mt_pool_trim release no further block and return
	 * after the current one; order: none needed, one more block does no harm */
	_Atomic bool pauses_release;
	_Atomic(mt_pool_mode_fn) mode;
	_Atomic bool waits; /* a free waits as the driver's does */
	struct mt_pool_device devices[MT_POOL_DEVICES];
	struct mt_context contexts[MT_CONTEXTS];
	/* for a thread that takes a slot of `contexts` or frees it */
	struct mt_lock slots_lock;
	_Atomic uint32_t contexts_count; /* slots ever used */
};

extern struct mt_pool mt_pool;

static inline const struct mt_driver *mt_pool_driver(void)
{
	mt_lock_check_foreign_call("a driver call");
	return mt_load_acquire(&mt_pool.driver);
}

/* Whether calls are served: see is_up. */
static inline bool mt_pool_is_up(void)
{
	return mt_load_relaxed(&mt_pool.is_up);
}

/* A snapshot, unless the context is held or locked. Order: none needed, but by a look-up
 * (find_context). */
static inline struct CUctx_st *mt_context_handle(const struct mt_context *context)
{
	return mt_load_relaxed(&context->handle);
}

static inline uint32_t mt_context_init(const struct mt_context *context)
{
	return mt_load_relaxed(&context->init);
}

static inline enum mt_pool_mode mt_context_mode(const struct mt_context *context)
{
	return (enum mt_pool_mode)mt_load_relaxed(&context->mode);
}

static inline bool mt_context_is_ending(const struct mt_context *context)
{
	return mt_load_seq(&context->is_ending);
}

/* The context's lock is held, so a plain add is enough; readers may lag. */
static inline void mt_counter_add(_Atomic uint64_t *counter, uint64_t delta)
{
	mt_store_relaxed(counter, mt_load_relaxed(counter) + delta);
}

/* Returns the current context, registered if it was not, with its mode decided. NULL: none is
 * current, the driver refused, or no slot is left. */
struct mt_context *mt_context_current(void);

/* Returns the primary context of the device; NULL: it is not active. Retaining is the only way to
 * its handle; of an active context it creates nothing. The retain is released again, which is the
 * last release if the program's has come in between: not while the gate is entered. */
struct CUctx_st *mt_context_primary(int device);

/* Returns whether it is the calling thread's current context, and work of no other context may use
 * its blocks: none is on its device, nor on any other after mt_context_join_devices. The streams of
 * a primary context may copy from and to any block of its device. The capture gate is entered,
 * which keeps one from ending meanwhile; no lock is held. */
bool mt_context_is_single(struct mt_context *context);

/* Asks the function of mt_pool_start; keeps whether a free waits. */
enum mt_pool_mode mt_context_ask_mode(void);

/* Returns false on a thread on which the driver runs a host function of the program: it permits no
 * call there. Such a thread is the driver's own, so that a thread that was permitted a call once is
 * not asked again. No lock is held. */
bool mt_context_may_call(void);

/* hold counts the caller in `users`; false if the slot has no context. drop must follow true. */
bool mt_context_hold(struct mt_context *context);
void mt_context_drop(struct mt_context *context);

/* Drops `held` (NULL: none) and holds the next context of the device (MT_ANY_DEVICE: of any); NULL:
 * that was the last. */
struct mt_context *mt_context_next(struct mt_context *held, int device);
#define MT_EACH_HELD_CONTEXT(context, device)                                                      \
	for (struct mt_context *context = mt_context_next(NULL, device); context;                  \
	     context = mt_context_next(context, device))

/* Makes a held context current unless it is. Returns whether it was pushed, for mt_context_pop. On
 * failure nothing is pushed and *out_result has the reason. */
bool mt_context_push(struct mt_context *context, int *out_result);
void mt_context_pop(bool was_pushed);

static inline enum mt_context_health mt_context_health(const struct mt_context *context)
{
	return (enum mt_context_health)mt_load_relaxed(&context->health);
}

/* Unless it is worse already. Any thread. */
void mt_context_worsen(struct mt_context *context, enum mt_context_health health);

/* Notes a result of the driver in this context. After all but success, not ready, out of memory and
 * not permitted nothing more is pooled there. Any thread, no lock held. */
void mt_context_note_result(struct mt_context *context, int result);
bool mt_context_is_sticky(int result);

/* The same for a call that the program made about a block of the context. The driver's result
 * concerns the current context, so it counts only if that is this one. */
void mt_context_note_call(struct mt_context *context, int result);

/* Returns whether freed blocks of the context are cached. */
static inline bool mt_context_pools(struct mt_context *context)
{
	return mt_context_mode(context) == MT_POOL_POOL &&
	       mt_context_health(context) == MT_CONTEXT_WELL && !mt_load_relaxed(&mt_pool.is_mixed);
}

#define MT_ANY_DEVICE (-1) /* all devices */

/* Devices beyond the last share its figures. */
static inline struct mt_pool_device *mt_pool_device(int device)
{
	return &mt_pool.devices[device >= 0 && device < MT_POOL_DEVICES ? device
									: MT_POOL_DEVICES - 1];
}

static inline int mt_context_ordinal(const struct mt_context *context)
{
	return mt_load_relaxed(&context->device);
}

static inline struct mt_pool_device *mt_context_device(const struct mt_context *context)
{
	return mt_pool_device(mt_context_ordinal(context));
}

static inline bool mt_context_is_on(const struct mt_context *context, int device)
{
	return device == MT_ANY_DEVICE || mt_context_device(context) == mt_pool_device(device);
}

/* Returns whether a thread is between mt_pool_shortage_begin and _end on the context's device:
 * blocks freed meanwhile go straight to the driver. */
static inline bool mt_context_has_shortage(struct mt_context *context)
{
	return mt_load_seq(&mt_context_device(context)->shortages) > 0;
}

/* ---- contexts that begin and end, as the wrappers report them. Threads of the program, not
 * cancelled, no lock held. Take the locks `slots` and `context`. ---- */

/* The program has created a context: its work may use blocks of others from now on, even if it
 * never allocates. An earlier context with this handle is forgotten. */
void mt_context_created(struct CUctx_st *context, int device);

/* The same for the current context, found in another way. Does nothing if it is known. */
void mt_context_register(void);

/* Before peer access or a copy between devices: work of the current context, and of every other
 * one, may use blocks of all devices from now on. */
void mt_context_join_devices(void);

/* After mt_capture_gate_close, before a call that may end the context: lets no further call of the
 * shim begin there and waits for those in flight. Up to 2 s: such a call may wait for work that
 * waits for the caller, and the context may not end. Returns the context's init; MT_NO_INIT: not
 * known. A context that has the handle later is not meant. */
#define MT_NO_INIT (UINT32_MAX - 1)
uint32_t mt_context_pause(struct CUctx_st *handle);

/* The context did not end: calls may begin again. */
void mt_context_resume(struct CUctx_st *handle);

/* The driver has ended the context of that init, with the gate closed since before the pause:
 * forgets it, with its blocks and events, which died with it. MT_ANY_INIT: the context that has
 * this handle now. */
#define MT_ANY_INIT UINT32_MAX
void mt_context_ended(struct CUctx_st *handle, uint32_t init);

#define MT_EACH_CONTEXT(context)                                                                   \
	for (struct mt_context *context = mt_pool.contexts,                                        \
			       *context##_end =                                                    \
				       context + mt_load_acquire(&mt_pool.contexts_count);         \
	     context < context##_end; context++)

/* What the contexts of a device (MT_ANY_DEVICE: of all) hold of the driver; their counters are read
 * without locks. */
struct mt_holdings {
	uint64_t allocated, pending, idle;
	uint64_t frees_count;           /* that reached the driver, of contexts that are there */
	uint64_t charged_live, charged; /* live blocks, and all blocks, in the driver's pages */
};

static inline struct mt_holdings mt_pool_holdings(int device)
{
	struct mt_holdings sum = {0};

	MT_EACH_CONTEXT(context)
	{
		uint64_t small, pages;

		if (!mt_context_is_on(context, device))
			continue;
		sum.frees_count += mt_load_relaxed(&context->counters.num_device_free);
		sum.allocated += mt_load_relaxed(&context->counters.allocated_bytes);
		sum.pending += mt_load_relaxed(&context->counters.pending_bytes);
		sum.idle += mt_load_relaxed(&context->counters.idle_bytes);
		small = mt_load_relaxed(&context->counters.small[true]);
		pages = mt_load_relaxed(&context->counters.pages[true]);
		sum.charged_live += pages + mt_bins_pages(small);
		small += mt_load_relaxed(&context->counters.small[false]);
		sum.charged += pages + mt_load_relaxed(&context->counters.pages[false]) +
			       mt_bins_pages(small);
	}
	return sum;
}

/* ---- the blocks of all contexts: their records, and a table by their base, which has a lock of
 * its own (rank `blocks`). A record is written under its context's lock. ---- */

/* Forgets all of them and maps the table: before any other call. */
void mt_blocks_start(void);

/* Returns a spare record; NULL if nothing can be mapped. */
struct mt_block *mt_block_reserve(void);

/* Makes a record spare again that is in no table and no list. */
void mt_block_release(struct mt_block *block);

/* Returns the block with this base, its context's lock taken; NULL, and no lock: none is known, or
 * calls are not served. */
struct mt_block *mt_block_lock(uint64_t base, struct mt_context **out_context);

/* Changes a block's state, and with it its list and bin, the context's figures, the table, and to
 * whom its event belongs: a busy block takes one that its context has left. To UNUSED: the record
 * is spare. Not to PENDING, which has two ways into its list. The lock is held. */
void mt_block_move(struct mt_context *context, struct mt_block *block, enum mt_block_state to);

/* Calls `visit`, with no lock held here, for each record that was ever handed out, used or spare;
 * it checks the record. Slow. Records handed out for the first time meanwhile may be missing; none
 * comes twice. */
void mt_blocks_each(void (*visit)(struct mt_block *block, void *data), void *data);

/* ---- fences (gpu/fence.c): when a freed block may be used again. All work of its context that was
 * enqueued before its free is done.
 *
 * The free records an event in the context (cuCtxRecordEvent, CUDA 12.5) and, if it waits, waits
 * for it. So nothing that the program enqueues after a free delays its block. The driver's own
 * cuMemFree gets a block whose event cannot be recorded, one that is freed while another context is
 * current, and one that work of another context may use: no event of its own context sees that
 * work. Older drivers offer no way that does not wait for the device: nothing is pooled there.
 *
 * Calls to the driver are made with no lock held and with the capture gate entered. While a capture
 * is open nothing is recorded, and events are queried in relaxed capture mode. ---- */

/* Whether the work that may use a freed block is done. LOST: that can never be known, or no event
 * was recorded. */
enum mt_fence_status { MT_FENCE_DONE, MT_FENCE_NOT_YET, MT_FENCE_LOST };

/* Asks about a live block, which the program frees: records its event first. waits: waits for it;
 * else the block is pending if it is not done, and an older one is asked about before it. Or asks
 * about a pending block. DONE: it is idle, or was forgotten. LOST: a live block is busy, and the
 * driver's cuMemFree is to free it; a pending one stays so. The lock is held on entry and on
 * return, but not in between. */
enum mt_fence_status mt_fence_settle(struct mt_context *context, struct mt_block *block,
				     bool waits);

/* The driver's events died with the context, whose lock is held. */
void mt_fence_forget_events(struct mt_context *context);

#endif
