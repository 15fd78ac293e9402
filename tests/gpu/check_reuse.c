/* check_reuse.c -- the stale-reuse detector. A long kernel is followed, in the same stream, by one
 * that writes to block A; A is freed at once; blocks of A's size are taken, filled through another
 * stream, and read back after the late writer is done. Whoever hands A out again too early loses
 * its contents to the late writer. Once everything is done the pool must hand A out again: else
 * nothing was tried. */
#include "checks.h"

#include <pthread.h>
#include <stdio.h>

enum { BYTES = 1 << 20, BLOCKS = 4, LONG_MS = 200, LATE = 0x11, MINE = 0x22 };

/* late is the writer's stream, in whichever context: what it writes must be there before anyone
 * looks. */
static void take_and_check(uint64_t freed, struct CUstream_st *late, struct CUctx_st *late_context)
{
	struct CUctx_st *own;
	struct CUstream_st *mine = gpu_stream(GPU_STREAM_NON_BLOCKING);
	uint64_t blocks[BLOCKS];
	bool came_again = false;

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = gpu_alloc(BYTES);
		gpu_ok(gpu_fill(mine, blocks[i], BYTES, MINE));
		came_again |= blocks[i] == freed;
	}
	gpu_ok(cu.cuStreamSynchronize(mine));
	gpu_ok(cu.cuCtxSynchronize());
	gpu_ok(cu.cuCtxGetCurrent(&own));
	gpu_ok(cu.cuCtxSetCurrent(late_context ? late_context : own));
	gpu_ok(cu.cuStreamSynchronize(late));
	gpu_ok(cu.cuCtxSetCurrent(own));
	for (int i = 0; i < BLOCKS; i++) {
		size_t differing = gpu_differing(blocks[i], BYTES, MINE);

		gpu_expect(!differing,
			   "%zu bytes of block %d were overwritten by work from before the free",
			   differing, i);
		gpu_ok(cu.cuMemFree_v2(blocks[i]));
	}
	printf("freed address handed out while the writer was under way: %s\n",
	       came_again ? "yes" : "no");
}

/* Idle now: the pool has no reason not to use A. */
static void expect_hit(uint64_t freed)
{
	bool came_again = false;

	gpu_ok(cu.cuCtxSynchronize());
	for (int i = 0; i < 2 * BLOCKS; i++)
		came_again |= gpu_alloc(BYTES) == freed;
	gpu_expect(came_again || !is_pooling(), "the pool never handed the block out again");
}

static void reuse_in(struct CUstream_st *stream)
{
	uint64_t block = gpu_alloc(BYTES);

	/* Warm: kernels are loaded at their first launch, which may wait for the device. */
	gpu_ok(gpu_fill(stream, block, BYTES, 0));
	gpu_spin(stream, 0);
	gpu_ok(cu.cuCtxSynchronize());
	gpu_spin(stream, LONG_MS);
	gpu_ok(gpu_fill(stream, block, BYTES, LATE));
	gpu_ok(cu.cuMemFree_v2(block));
	take_and_check(block, stream, NULL);
	expect_hit(block);
}

void check_reuse_non_blocking(void)
{
	gpu_start();
	reuse_in(gpu_stream(GPU_STREAM_NON_BLOCKING));
}

void check_reuse_blocking(void)
{
	gpu_start();
	reuse_in(gpu_stream(0));
}

void check_reuse_per_thread(void)
{
	gpu_start();
	reuse_in(GPU_STREAM_PER_THREAD);
}

void check_reuse_null(void)
{
	gpu_start();
	reuse_in(NULL);
}

void check_reuse_graph(void)
{
	struct CUstream_st *stream;
	struct CUgraphExec_st *exec;
	struct CUgraph_st *graph;
	uint64_t block;

	gpu_start();
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	block = gpu_alloc(BYTES);
	gpu_ok(cu.cuStreamBeginCapture_v2(stream, MT_CU_CAPTURE_GLOBAL));
	gpu_spin(stream, LONG_MS);
	gpu_ok(gpu_fill(stream, block, BYTES, LATE));
	gpu_ok(cu.cuStreamEndCapture(stream, &graph));
	exec = gpu_instantiate(graph);
	gpu_ok(cu.cuGraphLaunch(exec, stream));
	gpu_ok(cu.cuCtxSynchronize());
	gpu_ok(cu.cuGraphLaunch(exec, stream));
	gpu_ok(cu.cuMemFree_v2(block));
	take_and_check(block, stream, NULL);
	expect_hit(block);
}

/* Pooling may well stop where there are green contexts: no hit is asked for. */
void check_reuse_green(void)
{
	struct CUgreenCtx_st *green;
	struct CUstream_st *stream;
	struct CUctx_st *primary;
	struct CUctx_st *context;
	uint64_t block;

	gpu_start();
	gpu_ok(cu.cuCtxGetCurrent(&primary));
	if (!gpu_green(&green, &stream))
		gpu_skip("no green contexts here");
	gpu_ok(cu.cuCtxFromGreenCtx(&context, green));
	block = gpu_alloc(BYTES);
	/* Where a function of the primary context cannot be launched there, one of the green
	 * context can. */
	if (gpu_try_spin(stream, 0) != MT_CU_SUCCESS) {
		gpu_ok(cu.cuCtxSetCurrent(context));
		gpu_kernels();
	}
	gpu_ok(gpu_fill(stream, block, BYTES, 0));
	gpu_spin(stream, 0);
	gpu_ok(cu.cuStreamSynchronize(stream));
	gpu_spin(stream, LONG_MS);
	gpu_ok(gpu_fill(stream, block, BYTES, LATE));
	gpu_ok(cu.cuCtxSetCurrent(primary));
	gpu_ok(cu.cuMemFree_v2(block));
	take_and_check(block, stream, context);
}

/* ---- many threads, each with a stream, blocks of few sizes going round among them ---- */

enum { THREADS = 8, ROUNDS = 150, HELD = 4 };

struct worker {
	struct CUctx_st *context;
	unsigned int seed;
	size_t bad_bytes;
};

/* Fills, lets the stream run on behind a short kernel, reads back, fills once more and frees while
 * that still runs. */
static void *worker_thread(void *argument)
{
	static const size_t sizes[] = {512, 4096, 65536, 1 << 20};
	struct worker *worker = argument;
	struct CUstream_st *stream;

	gpu_ok(cu.cuCtxSetCurrent(worker->context));
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t blocks[HELD];
		size_t bytes = sizes[(worker->seed = worker->seed * 1103515245 + 12345) >> 16 & 3];
		uint8_t value = (uint8_t)(worker->seed >> 8);

		for (int i = 0; i < HELD; i++) {
			blocks[i] = gpu_alloc(bytes);
			gpu_ok(gpu_fill(stream, blocks[i], bytes, value));
		}
		gpu_ok(cu.cuStreamSynchronize(stream));
		for (int i = 0; i < HELD; i++)
			worker->bad_bytes += gpu_differing(blocks[i], bytes, value);
		gpu_spin(stream, 1);
		for (int i = 0; i < HELD; i++) {
			gpu_ok(gpu_fill(stream, blocks[i], bytes, (uint8_t)~value));
			gpu_ok(cu.cuMemFree_v2(blocks[i]));
		}
	}
	gpu_ok(cu.cuStreamSynchronize(stream));
	return NULL;
}

void check_reuse_threads(void)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	size_t bad_bytes = 0;

	gpu_start();
	for (unsigned int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.seed = i + 1};
		gpu_ok(cu.cuCtxGetCurrent(&workers[i].context));
		gpu_expect(pthread_create(&threads[i], NULL, worker_thread, &workers[i]) == 0,
			   "no thread");
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		bad_bytes += workers[i].bad_bytes;
	}
	gpu_expect(!bad_bytes, "%zu bytes were overwritten", bad_bytes);
}
