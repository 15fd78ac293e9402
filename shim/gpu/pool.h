/* gpu/pool.h -- device blocks kept for reuse, one pool for each CUDA context, over the driver that
 * it is given.
 *
 * Each block is one whole cuMemAlloc of its context, so that a cached block can always go back, and
 * IPC, peers and address ranges stay true. A freed block is handed out again only when all work
 * enqueued before the free is done (gpu/fence.c). A block that another context could have used is
 * the driver's at its free.
 *
 * Any thread may call. No lock (sys/lock_ranks.def) is held over a call to the driver but the
 * capture gate (gpu/capture.h). Never calls malloc: it runs inside cuMemAlloc, which may run inside
 * the program's malloc hooks; its tables are mapped. Results are the driver's (enum mt_cu_result).
 * Every call reserves the record, calls the driver, then fills the record: a driver that fails
 * leaves nothing behind.
 *
 * A context's mode is decided at its first allocation: POOL (blocks are cached) or ACCOUNT (each
 * call goes to the driver and is counted). Later it changes only from POOL to ACCOUNT. */
#ifndef MT_GPU_POOL_H
#define MT_GPU_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/context.h"

/* Starts the pool: once, before any other call. Tests call it again, with no other thread in it. */
void mt_pool_start(const struct mt_driver *driver, mt_pool_mode_fn mode);

/* cuMemAlloc. Sizes of 0 and NULL outputs go to the driver. If the driver is out of memory the
 * pool gives back and tries again (gpu/release.c). Returns the driver's result. */
int mt_pool_alloc(uint64_t *out_dptr, size_t bytes);

/* cuMemFree of a block of the pool. Returns false, and does nothing, for an unknown pointer: it is
 * the driver's. The second free of a cached block results in CUDA_ERROR_INVALID_VALUE. */
bool mt_pool_free(uint64_t dptr, int *out_result);

/* Marks the block with this base: it is not handed out again, and its free goes to the driver. */
void mt_pool_mark_non_recyclable(uint64_t base);

/* The live block with this base leaves the pool without a call to the driver: the caller frees it
 * in another way than cuMemFree. Returns false if there is no such block. */
bool mt_pool_disown(uint64_t dptr);

/* Returns whether a block of the pool has this base; its size as asked for, and whether the program
 * has freed it. */
bool mt_pool_range(uint64_t base, size_t *out_bytes, bool *out_cached);

/* Asks the mode function again: contexts that pool only account from now on if it says so. */
void mt_pool_update_mode(void);

/* The child makes no CUDA call of the shim; its cuMemFree goes to the driver. */
void mt_pool_fork_child(void);

/* ---- figures (gpu/pool.c). Sums over contexts are taken when they are read, peaks are kept as
 * the sums rise. A read of a device's free memory is the only call to the driver here. ---- */

/* Of one device, over all contexts, under the names of torch.cuda.memory_stats and of
 * MT_DEVICE_FIELDS (core/figures.def). The sums over the devices are gpu_NAME of
 * MT_STATS_FIELDS. */
#define MT_POOL_FIGURES(X)                                                                         \
	MT_CONTEXT_HOLDINGS(X)                                                                     \
	MT_CONTEXT_TOTALS(X)                                                                       \
	X(reserved_bytes)       /* held from the driver: allocated + pending + idle */             \
	X(allocated_peak_bytes) /* highest since the start or the last reset */                    \
	X(reserved_peak_bytes)                                                                     \
	/* flushes after an out-of-memory of any kind of allocation, and the program's retries */  \
	X(num_alloc_retries)                                                                       \
	X(num_ooms) /* out-of-memory errors that the program did not overcome */

struct mt_pool_usage {
#define X(name) uint64_t name;
	MT_POOL_FIGURES(X)
#undef X
};

void mt_pool_usage(int number, struct mt_pool_usage *out);
void mt_pool_reset_peak(void);
/* Returns the most that any context of the device does; UNDECIDED: none has allocated. */
enum mt_pool_mode mt_pool_mode_of(int number);
bool mt_pool_is_used(void); /* any context was known */

/* Idle and pending bytes on a device (MT_ANY_DEVICE: on all). */
uint64_t mt_pool_cached_bytes(int number);

/* Returns what the driver would have free in addition if it had the cached blocks: in its pages. A
 * context's small blocks share pages; the program's blocks of other kinds may share them too, which
 * makes a difference of one page. */
uint64_t mt_pool_withheld_bytes(int number);

/* ---- what a device has left ---- */

/* Reads the driver's free and total bytes of a device through a context that has allocated there,
 * in relaxed capture mode. Returns false if there is none. On a thread on which the shim may call
 * the driver. */
bool mt_pool_read_memory(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes);

/* ---- when cached blocks go back to the driver, and how (gpu/release.c): one by one. Each block is
 * first taken out of bins and table under the context's lock, then freed with no lock held, with
 * its context counted in use and, if none is current, pushed. No lock is held at a call. ---- */

/* Which blocks of a context. */
struct mt_release {
	/* pending ones, by the driver's own cuMemFree, which may wait: only in a call of the
	 * program; else idle ones */
	bool is_pending;
	uint32_t blocks;         /* stop after so many blocks */
	uint64_t bytes;          /* or as many bytes as the driver charges for (mt_block_charge) */
	uint64_t freed_until_ns; /* only blocks freed by then */
	bool is_decay;
	/* The program does not wait for it: stops at mt_pool.pauses_release and during a capture.
	 * Else not, as the driver has just let the program allocate. */
	bool is_background;
};

/* Returns the rule for all idle blocks. */
static inline struct mt_release mt_release_all(void)
{
	return (struct mt_release){
		.blocks = UINT32_MAX, .bytes = UINT64_MAX, .freed_until_ns = UINT64_MAX};
}

/* Around a read of the driver's free memory to which mt_pool_withheld_bytes is added: a block that
 * is being freed is in neither. begin waits until no thread is freeing one (some microseconds; up
 * to 50 ms), and the worker starts none before the end. end returns false if a block was freed
 * meanwhile: the sum may lack it. An end must follow each begin. Any thread. */
uint32_t mt_pool_read_begin(int number);
bool mt_pool_read_end(int number, uint32_t releases);

/* Releases idle blocks, if all blocks of the context's device would be over its cap with `bytes`
 * more: a quarter above the largest that the program has held, and 64 MB more if a free does not
 * wait. Before that, if a free does not wait: while another block of next_bytes would be over it
 * and none is idle, waits up to 100 ms for the context's oldest fences, then for the driver's
 * cuMemFree. Before the driver is asked for bytes (next_bytes 0 during a capture), and after a free
 * by which, or since the last one, blocks became pending, or idle after that. */
void mt_release_make_room(struct mt_context *context, uint64_t bytes, uint64_t next_bytes);

/* ---- blocks that are pending after their free (gpu/fence.c): with MT_CUDA_FREE=async alone. A
 * free that waits leaves none; those of other threads' frees are pending while these wait. ---- */

/* Asks about up to `limit` pending blocks, oldest first, until the work of one is not done: it is
 * not done for later ones either. Returns whether one became idle. The lock is held on entry and on
 * return, but not in between. */
bool mt_pending_poll(struct mt_context *context, unsigned limit);

/* The same with no lock held; the context is. */
void mt_pending_check(struct mt_context *context, unsigned limit);

/* ---- what the worker gives back: decay, low memory, cleanups. On the driver thread
 * (gpu/driver.h) or a thread of the program, in relaxed capture mode, no lock held. Nothing while a
 * capture is open. ---- */

/* Releases up to `limit` blocks that are due by decay or low memory, oldest first. Returns
 * the bytes. *out_next_ms: when to run again; UINT64_MAX: nothing is cached. */
uint64_t mt_pool_tick(uint64_t now_ns, uint32_t limit, uint64_t *out_next_ms);

/* Releases everything that is ready on the device (MT_ANY_DEVICE: on all); returns the bytes. */
uint64_t mt_pool_trim(int device);

/* ---- the driver is out of memory: releases what the pool holds of the device, step by step, while
 * the caller tries its call again. Any thread, no lock held. From begin to end the thread is not
 * cancelled, and nothing is cached on the device. ---- */

/* As mt_pool_again uses them, after a call of the driver that allocates returned
 * CUDA_ERROR_OUT_OF_MEMORY.
 *
 * begin: device -1 is that of the current context, or all devices if none is current; bytes is
 * the size asked for, 0 if unknown. Counts a retry. Returns false, and no end follows, if
 * there is neither a pool nor a process to ask, or the device is smaller than the request.
 *
 * next: releases the idle blocks, and waits up to 10 s for pending ones, or while other threads
 * release; then asks other processes (gpu/rescue.c). Returns false if another try is useless. */
struct mt_gpu_rescue { /* zeroed: no other process was asked yet */
	bool is_over;
	uint32_t thread; /* the caller, if the turn to ask is its own; else 0 */
	uint64_t began_ns;
	uint64_t freed_bytes; /* as the replies said so far */
	uint64_t bytes, pid;  /* for this process, and the process that gave most of it */
};

struct mt_pool_shortage {
	int device;
	int cancel;
	unsigned tries;
	bool has_own; /* this process may hold more */
	uint64_t released_count, start_ns, bytes;
	struct mt_gpu_rescue rescue;
};
bool mt_pool_shortage_begin(struct mt_pool_shortage *shortage, int device, uint64_t bytes);
bool mt_pool_shortage_next(struct mt_pool_shortage *shortage);
void mt_pool_shortage_end(struct mt_pool_shortage *shortage);

/* Makes the same call again until it does not lack memory, or another try is useless. Its result;
 * out of memory if there was none. */
#define mt_pool_again(on_device, bytes, call)                                                      \
	({                                                                                         \
		int again_ = MT_CU_OUT_OF_MEMORY;                                                  \
		struct mt_pool_shortage shortage_;                                                 \
                                                                                                   \
		if (mt_pool_shortage_begin(&shortage_, on_device, bytes)) {                        \
			while (again_ == MT_CU_OUT_OF_MEMORY && mt_pool_shortage_next(&shortage_)) \
				again_ = call;                                                     \
			mt_pool_shortage_end(&shortage_);                                          \
		}                                                                                  \
		again_;                                                                            \
	})

/* ---- MT_CUDA_RESCUE (gpu/rescue.c): a process that is out of device memory asks the other
 * processes of its user for what they do not use on that device (core/control_file.h), and gives
 * when it is asked.
 *
 * One thread of a process asks at a time, for up to MT_RESCUE_NS; the others wait for it as long.
 * A process that was asked caches nothing on the device for a second. If nobody has given anything,
 * the process asks again after ten times what it has waited, and not before 0.1 s. While it waits,
 * that thread calls the driver only to try again, takes no lock and allocates nothing. The worker
 * replies, so that two processes may ask each other.
 *
 * Given are the pool's idle blocks and the driver's own pools at once, pending blocks as their work
 * ends, and the device caches of Python's frameworks when its main thread comes to it. A process
 * under a tool that watches the CUDA calls neither asks nor gives, nor does a client of the MPS
 * server. Nothing is given during a capture. ---- */

/* The next three: on a thread that is out of memory, with no lock held, not cancellable. Returns
 * whether other processes may be asked now. */
bool mt_gpu_rescue_is_possible(void);

/* Asks at the first call. Waits until a process has given something more, for up to 20 ms, or for
 * the thread that asks: true, try again. Returns false if nothing more will come. bytes: the size
 * asked for; 0: unknown. device: may be MT_ANY_DEVICE. */
bool mt_gpu_rescue_next(struct mt_gpu_rescue *rescue, int device, uint64_t bytes);

/* Must follow the last call. */
void mt_gpu_rescue_end(struct mt_gpu_rescue *rescue);

void mt_gpu_rescue_publish(void); /* worker thread */

/* Replies to other processes. Returns when to run again, in ns of CLOCK_MONOTONIC; UINT64_MAX: at
 * any turn. Worker thread. */
uint64_t mt_gpu_rescue_tick(uint64_t now_ns);

#endif
