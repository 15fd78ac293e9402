/* check_captures.c -- a capture survives whatever the shim does while it is open: fences of frees
 * in other threads, SIGUSR1, mtctl trim; and what was captured still does what it says when it is
 * replayed. */
#include "checks.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { BYTES = 1 << 20, NODES = 32 };

/* Captures NODES fills of a block, with `during` called in the middle; replays, and looks at the
 * block. */
static void capture_and_replay(struct CUstream_st *stream, int mode, uint64_t block,
			       void (*during)(void))
{
	struct CUgraphExec_st *exec;
	struct CUgraph_st *graph = NULL;
	int code;

	gpu_ok(cu.cuMemsetD32_v2(block, 0, BYTES / 4));
	gpu_ok(cu.cuCtxSynchronize());
	gpu_ok(cu.cuStreamBeginCapture_v2(stream, mode));
	for (int i = 0; i < NODES; i++) {
		gpu_ok(gpu_fill(stream, block, BYTES, (uint8_t)i));
		if (during && i == NODES / 2)
			during();
	}
	code = cu.cuStreamEndCapture(stream, &graph);
	gpu_expect(code == MT_CU_SUCCESS,
		   "the capture did not survive: cuStreamEndCapture answers %d", code);
	exec = gpu_instantiate(graph);
	gpu_ok(cu.cuGraphLaunch(exec, stream));
	gpu_ok(cu.cuStreamSynchronize(stream));
	gpu_expect(gpu_differing(block, BYTES, NODES - 1) == 0,
		   "the replayed graph did not do its work");
	gpu_ok(cu.cuGraphExecDestroy(exec));
	gpu_ok(cu.cuGraphDestroy(graph));
}

static _Atomic bool stop; /* tells the storm to end; no data depends on it */
static atomic_size_t frees_count;

/* With a relaxed capture mode, as a program must set it that frees while others capture. Small
 * blocks and a pause: what is freed during a capture cannot be recycled before its end. */
static void *storm_thread(void *argument)
{
	int mode = MT_CU_CAPTURE_RELAXED;

	gpu_ok(cu.cuCtxSetCurrent(argument));
	gpu_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
	while (!atomic_load(&stop)) {
		struct timespec pause = {0, 100000};
		uint64_t blocks[8];
		int code = 0;

		for (int i = 0; i < 8; i++)
			blocks[i] = gpu_alloc(512);
		for (int i = 0; i < 8; i++)
			code = code ? code : cu.cuMemFree_v2(blocks[i]);
		if (code && !is_pooling())
			gpu_skip("this driver refuses cuMemFree in a relaxed thread during a "
				 "capture (%d)",
				 code);
		gpu_expect(!code, "cuMemFree during a capture answers %d", code);
		atomic_fetch_add(&frees_count, 8);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

void check_capture_storm(void)
{
	enum { STORMS = 4 };
	pthread_t threads[STORMS];
	struct CUctx_st *context;
	struct CUstream_st *stream;
	uint64_t block;
	uint64_t until;
	int captures = 0;

	gpu_start();
	gpu_ok(cu.cuCtxGetCurrent(&context));
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	block = gpu_alloc(BYTES);
	capture_and_replay(stream, MT_CU_CAPTURE_RELAXED, block, NULL);
	for (int i = 0; i < STORMS; i++)
		gpu_expect(pthread_create(&threads[i], NULL, storm_thread, context) == 0,
			   "no thread");
	for (until = gpu_now_ns() + 2000000000ull; gpu_now_ns() < until; captures++)
		capture_and_replay(stream, captures % 3, block, NULL);
	atomic_store(&stop, true);
	for (int i = 0; i < STORMS; i++)
		pthread_join(threads[i], NULL);
	printf("%d captures survived %zu frees\n", captures, atomic_load(&frees_count));
	gpu_expect(captures > 3 && frees_count > 100, "there was no storm");
}

/* What a cleanup would give back: else it has no reason to touch the driver. */
static void leave_idle_blocks(void)
{
	uint64_t blocks[16];

	for (int i = 0; i < 16; i++)
		blocks[i] = gpu_alloc(4 << 20);
	for (int i = 0; i < 16; i++)
		gpu_ok(cu.cuMemFree_v2(blocks[i]));
	gpu_ok(cu.cuCtxSynchronize());
}

static void signal_now(void)
{
	raise(SIGUSR1);
	gpu_sleep_ms(1500);
}

void check_capture_signal(void)
{
	struct CUstream_st *stream;
	uint64_t block;

	gpu_start();
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	block = gpu_alloc(BYTES);
	for (int mode = MT_CU_CAPTURE_GLOBAL; mode <= MT_CU_CAPTURE_RELAXED; mode++) {
		leave_idle_blocks();
		capture_and_replay(stream, mode, block, signal_now);
	}
}

static void trim_now(void)
{
	gpu_sleep_ms(500);
	ask_mtctl("trim");
	gpu_sleep_ms(500);
}

void check_capture_trim(void)
{
	struct CUstream_st *stream;
	uint64_t block;

	gpu_start();
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	block = gpu_alloc(BYTES);
	leave_idle_blocks();
	capture_and_replay(stream, MT_CU_CAPTURE_GLOBAL, block, trim_now);
}

/* Allocating during a relaxed capture of the same thread is allowed, freeing as well; what the
 * capture wrote to must stay apart from what is handed out meanwhile. */
void check_capture_alloc(void)
{
	struct CUstream_st *stream;
	struct CUgraphExec_st *exec;
	struct CUgraph_st *graph;
	uint64_t captured;
	uint64_t taken[8];
	int code;

	gpu_start();
	leave_idle_blocks();
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	captured = gpu_alloc(4 << 20);
	gpu_ok(cu.cuStreamBeginCapture_v2(stream, MT_CU_CAPTURE_RELAXED));
	gpu_ok(gpu_fill(stream, captured, 4 << 20, 0x33));
	for (int i = 0; i < 8; i++)
		gpu_ok(cu.cuMemAlloc_v2(&taken[i], 4 << 20));
	for (int i = 0; i < 8; i += 2) {
		code = cu.cuMemFree_v2(taken[i]);
		if (code && !is_pooling())
			gpu_skip("this driver refuses cuMemFree during a relaxed capture (%d)",
				 code);
		gpu_expect(!code, "cuMemFree during a relaxed capture answers %d", code);
	}
	code = cu.cuStreamEndCapture(stream, &graph);
	gpu_expect(code == MT_CU_SUCCESS,
		   "the capture did not survive: cuStreamEndCapture answers %d", code);
	for (int i = 1; i < 8; i += 2)
		gpu_ok(cu.cuMemsetD32_v2(taken[i], 0x44444444, 1 << 20));
	exec = gpu_instantiate(graph);
	gpu_ok(cu.cuGraphLaunch(exec, stream));
	gpu_ok(cu.cuStreamSynchronize(stream));
	gpu_expect(gpu_differing(captured, 4 << 20, 0x33) == 0,
		   "the replayed graph did not do its work");
	for (int i = 1; i < 8; i += 2)
		gpu_expect(gpu_differing(taken[i], 4 << 20, 0x44) == 0,
			   "a block taken during the capture was overwritten");
}
