/* gpu/release.h -- when cached blocks go back to the driver, and how: one by one. Each block is
 * first taken out of bins and table under the context's lock, then freed with no lock held, with
 * its context counted in use and, if none is current, pushed. Any thread; no lock is held at a
 * call. */
#ifndef MT_GPU_RELEASE_H
#define MT_GPU_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/context.h"

/* Which blocks of a context. */
enum mt_release_kind {
	MT_RELEASE_IDLE,
	MT_RELEASE_OWN_DONE, /* pending, and their own context is done with them */
	/* By the driver's own cuMemFree, which may wait: only in a call of the program. */
	MT_RELEASE_PENDING
};

struct mt_release {
	enum mt_release_kind kind;
	uint32_t blocks;         /* stop after so many blocks */
	uint64_t bytes;          /* or so many bytes */
	uint64_t freed_until_ns; /* only blocks freed by then */
	bool is_decay;
	/* also during a capture: the driver has just let the program allocate. The blocks are free
	 * at the return */
	bool in_capture;
	bool is_background; /* the program does not wait for it: stops at mt_pool_pause_release */
};

static inline struct mt_release mt_release_all(enum mt_release_kind kind)
{
	return (struct mt_release){.kind = kind,
				   .blocks = UINT32_MAX,
				   .bytes = UINT64_MAX,
				   .freed_until_ns = UINT64_MAX};
}

/* Releases blocks of a held context, oldest first, until the rule says stop or a capture begins.
 * Returns the bytes; counts down the rule's bytes and blocks. */
uint64_t mt_release(struct mt_context *context, struct mt_release *rule);

/* The same for all contexts of a device. */
uint64_t mt_release_device(int device, struct mt_release *rule);

/* After a cuMemFree: releases pending blocks of a broken context, which can never be known to be
 * ready. */
void mt_release_broken(struct mt_context *context);

/* Waits until no other thread is freeing a block, up to limit_ns: some microseconds, unless the
 * machine or the driver is busy. Such a thread waits for nothing else. device: MT_ANY_DEVICE for
 * all. */
void mt_release_wait_for_others(int device, uint64_t limit_ns);

/* Around a read of the driver's free memory to which mt_pool_withheld_bytes is added: a block that
 * is being freed is in neither. begin waits until no thread is freeing one (some microseconds; up
 * to 50 ms), and the worker starts none before the end. end returns false if a block was freed
 * meanwhile: the sum may lack it. An end must follow each begin. Any thread. */
uint32_t mt_pool_read_begin(int device);
bool mt_pool_read_end(int device, uint32_t releases);

/* The cap of what is held from the driver on a device: a quarter above the largest that the program
 * has held, and 64 MB more if a free does not wait, or work of another context is not done. */

/* Before the driver is asked for so many bytes: waits for the context's oldest fences and releases
 * idle blocks that would be over the cap. */
void mt_release_make_room(struct mt_context *context, uint64_t bytes);

/* After a free that did not wait. While another block of this size would pass the cap and none is
 * idle, waits up to 100 ms for the context's oldest fences, then for the driver's cuMemFree; then
 * releases what the device holds above the cap. */
void mt_release_keep_cap(struct mt_context *context, uint64_t bytes);

/* Returns the bytes that the device holds above that cap. */
uint64_t mt_release_over_cap(int device);

/* ---- what the worker gives back: decay, low memory, cleanups. On the driver thread
 * (gpu/thread.h) or a thread of the program, in relaxed capture mode, no lock held. Nothing while a
 * capture is open. ---- */

/* Releases up to `limit` blocks that are due by decay or low memory, oldest first. Returns
 * the bytes. *out_next_ms: when to run again; UINT64_MAX: nothing is cached. */
uint64_t mt_pool_tick(uint64_t now_ns, uint32_t limit, uint64_t *out_next_ms);

/* Releases everything that is ready on the device (MT_ANY_DEVICE: on all); returns the bytes. */
uint64_t mt_pool_trim(int device);

/* While paused, the two functions above release no further block and return after the current one.
 * Any thread. The program's own calls go on. */
void mt_pool_pause_release(bool held);

/* ---- the driver is out of memory: releases what the pool holds of the device, step by step, while
 * the caller tries its call again. Any thread, no lock held. From begin to end the thread is not
 * cancelled, and nothing is cached on the device. ---- */

/* After a call of the driver that allocates returned CUDA_ERROR_OUT_OF_MEMORY:
 *
 *  if (result == MT_CU_OUT_OF_MEMORY && mt_shortage_begin(&shortage, device, bytes)) {
 *   while (result == MT_CU_OUT_OF_MEMORY && mt_shortage_next(&shortage))
 *    result = the same call again;
 *   mt_shortage_end(&shortage);
 *  }
 *
 * begin: device -1 is that of the current context, or all devices if none is current; bytes is
 * the size asked for, 0 if unknown. Counts a retry. Returns false, and no end follows, if
 * there is neither a pool nor a process to ask, or the device is smaller than the request.
 *
 * next: releases the blocks with which their own context is done, and waits up to 10 s for more of
 * them, or while other threads release; then asks other processes (gpu/rescue.h). Returns false if another try is useless. */
struct mt_shortage {
	int device;
	int cancel;
	unsigned tries;
	bool has_own; /* this process may hold more */
	bool is_last; /* nobody gives more: one more try */
	uint64_t released_count, start_ns, bytes;
	struct mt_gpu_rescue rescue;
};
bool mt_shortage_begin(struct mt_shortage *shortage, int device, uint64_t bytes);
bool mt_shortage_next(struct mt_shortage *shortage);
void mt_shortage_end(struct mt_shortage *shortage);

#endif
