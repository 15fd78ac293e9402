/* internal.h -- the insides of the stand-in driver. One lock guards everything; it is held from
 * fake_enter to fake_leave and let go only where a call waits (fake_wait) and where a worker
 * sleeps, copies or calls back. Its own declarations of the CUDA Driver API, on purpose not the
 * shim's: two that agree with cuda.h are worth more than one. */
#ifndef FAKE_INTERNAL_H
#define FAKE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api.h"
#include "fakecuda.h"

#define FAKE_DEVICE_MAX 8

/* ---- functions by number ---- */

enum fake_fn {
#define N(symbol, base, since, needs, parameters) FN_##symbol,
#define Z(symbol, base, since, needs, parameters) FN_##symbol, FN_##symbol##_ptsz,
#define D(symbol, base, since, needs, parameters) FN_##symbol, FN_##symbol##_ptds,
	FAKE_FUNCTIONS(N, Z, D)
#undef N
#undef Z
#undef D
		FN_COUNT
};

/* Both spellings of a function that works on the default stream; on_symbol gets to know which was
 * called. */
#define FAKE_TWINS(symbol, suffix, parameters, ...)                                                \
	int symbol parameters                                                                      \
	{                                                                                          \
		return on_##symbol(FN_##symbol, __VA_ARGS__);                                      \
	}                                                                                          \
	int symbol##suffix parameters                                                              \
	{                                                                                          \
		return on_##symbol(FN_##symbol##suffix, __VA_ARGS__);                              \
	}

/* needs of functions.def */
enum {
	FAKE_ANY = 0,
	FAKE_INIT = 1,
	FAKE_CTX = 2,
	FAKE_UNSAFE = 4,
	FAKE_HOLD = 1 | 4,
	FAKE_SAFE = 1 | 2 | 4
};

struct fake_row {
	const char *symbol;
	const char *base;
	int since;
	int needs;
	bool per_thread; /* works on the per-thread default stream */
	void *address;
};
extern const struct fake_row fake_rows[FN_COUNT];
int fake_row_find(const char *symbol); /* -1: none */

/* ---- state, settings, entry (core.c) ---- */

struct fake_settings {
	int devices;
	uint64_t memory_bytes;
	uint64_t other_bytes;
	size_t granularity;
	int version;
	bool reuse;
	int free_waits;
	bool green_seen;
	const char *ledger_path;
};
extern struct fake_settings fake_settings;
extern const int fake_built_version;

struct fake_device {
	struct CUctx_st *primary;
	unsigned int primary_flags;
	uint64_t charged_bytes;
	struct CUmemPoolHandle_st *default_pool;
	struct CUmemPoolHandle_st *current_pool;
	uint64_t graph_used_bytes, graph_used_high;
	uint64_t graph_idle_bytes, graph_reserved_high; /* idle: kept, and charged */
};
extern struct fake_device fake_devices[FAKE_DEVICE_MAX];
extern struct fakecuda_ledger fake_ledger; /* under the lock, apart from calls */

/* Counts, logs, delays and fails the call as ordered, checks what it needs; answers 0 with the lock
 * held, and the current context where the function needs one. Any other answer is the call's,
 * without the lock. */
int fake_enter(enum fake_fn fn, struct CUctx_st **context);
/* Lets the lock go and hands the result on. */
int fake_leave(int result);
void fake_lock(void);
void fake_unlock(void);
bool fake_device_is(int device);
void fake_misuse(struct CUctx_st *context, const char *what, uint64_t address);
void fake_write_ledger(void);

/* ---- memory that processes share (shared.c); nothing is shared until fake_share ---- */

void fake_share(const char *path);
/* Under the lock: what this process is charged on a device from now on; what the others are. */
void fake_shared_charge(int device, uint64_t charged_bytes);
uint64_t fake_shared_others(int device);
void fake_unshare(void);
void fake_configure(void);
void fake_inject_order(const char *text, bool is_latency);
extern _Atomic uint64_t fake_call_counts[FN_COUNT];
int fake_inject(enum fake_fn fn);

/* ---- handles (object.c): checked by range and type, so that no wrong handle is followed ---- */

enum fake_type {
	FAKE_NOTHING,
	FAKE_CONTEXT,
	FAKE_STREAM,
	FAKE_EVENT,
	FAKE_GRAPH_OBJECT,
	FAKE_EXEC,
	FAKE_MODULE,
	FAKE_MEMPOOL,
	FAKE_GREEN,
	FAKE_ARRAY_OBJECT,
	FAKE_MIPMAP,
	FAKE_LIBRARY,
	FAKE_LINK,
	FAKE_TYPE_COUNT
};
struct fake_object {
	uint64_t id; /* never the same again; 0: dead */
};
/* as its last owner left it: the caller clears it */
void *fake_object_new(enum fake_type type, size_t bytes);
void fake_object_free(enum fake_type type, void *object);
bool fake_object_is(enum fake_type type, const void *object);
uint64_t fake_next_id(void);

/* ---- threads and contexts (context.c) ---- */

struct fake_thread {
	struct {
		struct CUctx_st *context;
		uint64_t id;
	} stack[64];
	int depth;
	int capture_mode;
	bool is_worker; /* a callback runs: no calls allowed */
	bool is_watched;
};
extern _Thread_local struct fake_thread fake_thread;

struct fake_dep {
	struct CUstream_st *stream;
	uint64_t seq;
};
/* What must be done first; an empty one is done. */
struct fake_deps {
	struct fake_dep *at;
	unsigned int count, room;
};

struct CUctx_st {
	struct fake_object object;
	int device;
	bool is_primary, is_green, is_ending;
	struct CUctx_st *root; /* a green context's primary one; else itself */
	unsigned int refs, flags;
	int sticky;
	struct CUstream_st *streams;
	struct CUstream_st *legacy;
	struct fake_deps barrier; /* cuCtxWaitEvent: before all later work */
	struct fake_block *blocks;
	struct CUevent_st *events;
	size_t small_bytes;
	struct CUctx_st *peers[16];
	struct CUctx_st *next; /* all live ones */
};
extern struct CUctx_st *fake_contexts;
struct CUctx_st *fake_current(void); /* NULL: none */
int fake_context_check(const struct CUctx_st *context);
struct CUctx_st *fake_context_make(int device, bool is_primary);
void fake_context_end(struct CUctx_st *context);
void fake_thread_watch(void);

/* ---- memory (memory.c) ---- */

struct fake_block {
	uint64_t base;
	size_t bytes;     /* as asked for */
	size_t map_bytes; /* whole pages from the slot's start */
	uint64_t map_start;
	size_t charge; /* what counts against the device; small ones share pieces */
	uint64_t id;   /* 0: dead */
	enum fakecuda_kind kind;
	struct CUctx_st *context;
	int device;
	bool is_small, is_freeing, is_reserved, sync_memops;
	bool is_exported;
	uint8_t size_class;
	unsigned int host_flags;
	int fd;                 /* shared memory behind it, or -1 */
	void *owner;            /* async pool */
	struct fake_deps ready; /* async, freed: reuse by other streams waits for these */
	uint64_t freed_on;      /* async, freed: the stream's number */
	bool is_idle;
	struct fake_block *context_next, *context_prev;
	struct fake_block *queue_next;
};
/* NULL: *result says why. fd -1: anonymous memory; charge false: not the device's. */
struct fake_block *fake_block_new(enum fakecuda_kind kind, struct CUctx_st *context, size_t bytes,
				  bool charge, int *result);
/* Only the addresses, nothing behind them. */
struct fake_block *fake_block_reserve(size_t bytes, size_t alignment, int *result);
void fake_block_free(struct fake_block *block);
struct fake_block *fake_block_at(uint64_t address);
struct fake_block *fake_host_at(const void *address); /* registered host memory */
bool fake_address_is_ours(uint64_t address);
bool fake_charge(int device, uint64_t bytes);
void fake_uncharge(int device, uint64_t bytes);
uint64_t fake_free_bytes(int device);
/* May work of this context touch [address, address + bytes)? Foreign addresses (the program's own)
 * may. */
bool fake_may_touch(const struct CUctx_st *context, uint64_t address, size_t bytes, bool is_copy);

/* ---- work and streams (stream.c) ---- */

enum fake_work_kind {
	WORK_NOTHING,
	WORK_FILL,
	WORK_COPY,
	WORK_KERNEL_FILL,
	WORK_KERNEL_CHECK,
	WORK_KERNEL_DELAY,
	WORK_KERNEL_ILLEGAL,
	WORK_HOST,
	WORK_CALLBACK,
	WORK_STAMP,
	WORK_RECORD, /* in graphs */
	WORK_FREE,
	WORK_GRAPH_ALLOC,
	WORK_GRAPH_FREE,
	WORK_GRAPH
};
struct fake_work {
	enum fake_work_kind kind;
	uint64_t dst, src;
	size_t bytes; /* of a row */
	size_t rows, dst_pitch, src_pitch;
	uint32_t value;
	unsigned int width; /* of the value, in bytes */
	unsigned int delay_us;
	uint64_t result;
	void (*host)(void *);
	void (*callback)(struct CUstream_st *, int, void *);
	void *data;
	struct CUevent_st *event;
	uint64_t event_id, record_id;
	struct CUgraphExec_st *exec;
	struct fake_block *block;
	uint64_t block_id;
	void *staged; /* freed afterwards */
};
struct fake_op {
	struct fake_op *next;
	struct fake_work work;
	struct fake_deps deps;
};

struct CUstream_st {
	struct fake_object object;
	struct CUctx_st *context;
	struct CUstream_st *next; /* of the context */
	const void *thread;       /* whose per-thread default stream */
	unsigned int flags;       /* 1: non-blocking */
	int priority;
	bool is_default, is_dying, has_worker;
	struct fake_op *head, *tail;
	uint64_t submitted, completed; /* never set back: what names them outlives the stream */
	pthread_cond_t wake;
	struct fake_capture *capture;
	struct CUgraphNode_st **tails; /* what the next captured node depends on */
	unsigned int tail_count;
};

/* The stream a handle means for this function; default streams are made at need. */
int fake_stream_of(struct CUctx_st *context, struct CUstream_st *handle, enum fake_fn fn,
		   struct CUstream_st **out);
struct CUstream_st *fake_stream_make(struct CUctx_st *context, unsigned int flags, int priority);
struct CUstream_st *fake_stream_legacy(struct CUctx_st *context);
void fake_stream_end(struct CUstream_st *stream);
/* Queues work, or captures it. */
int fake_submit(struct CUstream_st *stream, const struct fake_work *work);
int fake_submit_after(struct CUstream_st *stream, const struct fake_work *work,
		      const struct fake_deps *deps);
void fake_run(struct CUstream_st *stream, const struct fake_work *work); /* run.c */
void fake_work_drop(struct fake_work *work);
bool fake_deps_done(struct fake_deps *deps);
void fake_deps_add(struct fake_deps *deps, struct CUstream_st *stream, uint64_t seq);
void fake_deps_add_all(struct fake_deps *deps, const struct fake_deps *more);
void fake_deps_clear(struct fake_deps *deps);
void fake_wait(struct fake_deps *deps); /* lets the lock go meanwhile; leaves deps empty */
void fake_wait_stream(struct CUstream_st *stream);
/* Everything submitted to a context (with its green ones if it is primary): all of it, or what
 * legacy work waits for. */
void fake_context_deps(struct CUctx_st *context, bool blocking_only, struct fake_deps *deps);
/* What an event of the context sees. */
void fake_context_event_deps(struct CUctx_st *context, struct fake_deps *deps);
void fake_notify(void);
void fake_wait_change(void); /* until anything was done; the lock is let go meanwhile */

/* ---- events (event.c) ---- */

struct CUevent_st {
	struct fake_object object;
	struct CUctx_st *context;
	struct CUevent_st *next, *previous; /* of the context */
	unsigned int flags;
	bool is_recorded;
	bool is_captured;             /* last recorded in a capture */
	struct fake_capture *capture; /* while that one is open */
	uint64_t capture_id;
	struct CUgraphNode_st **nodes;
	unsigned int node_count;
	struct fake_deps deps;
	uint64_t record_id;
	uint64_t time_ns;
};
void fake_event_stamp(const struct fake_work *work);
void fake_context_events_end(struct CUctx_st *context);

/* ---- captures and graphs (capture.c, graph.c) ---- */

struct fake_capture {
	struct fake_capture *next;
	uint64_t id;
	int mode;
	const void *thread;
	struct CUstream_st *origin;
	struct CUgraph_st *graph;
	bool is_invalid;
	bool into_existing;
};
extern struct fake_capture *fake_captures;
bool fake_capture_forbids(bool invalidate);
void fake_capture_spoil(struct fake_capture *capture);
/* Invalidates what captures in this context (with its green ones); true when there was something.
 */
bool fake_capture_spoil_context(struct CUctx_st *context);
bool fake_capture_blocks_legacy(struct CUctx_st *context); /* a blocking stream of it captures */
int fake_capture_work(struct CUstream_st *stream, const struct fake_work *work);
int fake_capture_join(struct CUstream_st *stream, struct CUevent_st *event);
void fake_capture_stream_ends(struct CUstream_st *stream);
void fake_capture_event_ends(struct CUevent_st *event);

struct CUgraphNode_st {
	struct fake_work work;
	struct CUgraph_st *graph;
	struct CUgraphNode_st **deps;
	unsigned int dep_count;
	unsigned int mark;
};
/* What a graph allocates, shared by it and its executable ones. */
struct fake_graph_memory {
	unsigned int refs, count;
	struct {
		struct fake_block *block;
		uint64_t id; /* its context may have ended */
	} * at;
};
struct CUgraph_st {
	struct fake_object object;
	struct CUgraphNode_st **nodes;
	unsigned int count, room;
	struct fake_graph_memory *memory;
};
struct CUgraphExec_st {
	struct fake_object object;
	struct fake_work *works;
	unsigned int count;
	unsigned int refs; /* itself and launches in flight */
	struct fake_graph_memory *memory;
	bool is_dead;
};
struct CUgraph_st *fake_graph_make(void);
void fake_graph_drop(struct CUgraph_st *graph);
struct CUgraphNode_st *fake_graph_add(struct CUgraph_st *graph, const struct fake_work *work,
				      struct CUgraphNode_st *const *deps, unsigned int count);
void fake_exec_unref(struct CUgraphExec_st *exec);
void fake_graph_memory_unref(struct fake_graph_memory *memory); /* graph_memory.c */
int fake_graph_allocate(struct CUstream_st *stream, uint64_t *dptr, size_t bytes);

/* ---- what the kinds of memory tell each other ---- */

/* pool.c: it is gone without a free */
void fake_pool_forget(struct fake_block *block);
/* freed, and nothing uses it any more */
void fake_pool_give_back(struct fake_block *block);
/* a wait has ended: above the threshold goes back */
void fake_pools_settle(int device);
bool fake_vmm_may_touch(uint64_t address, size_t bytes, const struct CUctx_st *context); /* vmm.c */
void fake_peers_forget(const struct CUctx_st *context); /* peer.c */
int fake_event_record_context(struct CUctx_st *context, struct CUevent_st *event);
void fake_host_context_ends(const struct CUctx_st *context);
int fake_copy_sync(enum fake_fn fn, const struct fake_work *work);
int fake_copy_async(enum fake_fn fn, const struct fake_work *work, struct CUstream_st *stream);
int fake_fill(enum fake_fn fn, struct fake_work work, struct CUstream_st *stream);

void *fake_alloc(size_t bytes); /* zeroed, never NULL */

#endif
