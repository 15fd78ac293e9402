/* fakecuda_storm.c -- threads and contexts all over the stand-in at once: allocations, work, events
 * of streams and contexts, captures, async pools. Each thread checks that its own blocks hold what
 * it wrote; at the end the ledger is empty. Arguments: threads, operations of each. */
#include "fakecuda_test.h"

enum { CONTEXTS = 4, BLOCKS = 32 };

static context_t contexts[CONTEXTS];
static int operations;

struct own {
	stream_t stream;
	event_t event;
	context_t context;
	uint64_t blocks[BLOCKS];
	size_t bytes[BLOCKS];
	unsigned int seed;
};

static unsigned int dice(struct own *own, unsigned int sides)
{
	own->seed = own->seed * 1103515245u + 12345u;
	return (own->seed >> 16) % sides;
}

static void change_block(struct own *own)
{
	const unsigned int i = dice(own, BLOCKS);
	unsigned char first = 0;

	if (own->blocks[i] == 0) {
		own->bytes[i] = 1 + dice(own, 100000);
		own->blocks[i] = take(own->bytes[i]);
		GOOD(fill(own->stream, own->blocks[i], own->bytes[i], i + 1, dice(own, 50)));
		return;
	}
	GOOD(cuStreamSynchronize(own->stream));
	GOOD(cuMemcpyDtoH_v2(&first, own->blocks[i] + own->bytes[i] - 1, 1));
	EXPECT(first, i + 1);
	GOOD(cuMemFree_v2(own->blocks[i]));
	own->blocks[i] = 0;
}

static void use_async(struct own *own)
{
	uint64_t dptr = 0;

	GOOD(cuMemAllocAsync(&dptr, 1 + dice(own, 20000), own->stream));
	GOOD(cuMemsetD8Async(dptr, 3, 1, own->stream));
	GOOD(cuMemFreeAsync(dptr, own->stream));
}

static void capture(struct own *own)
{
	struct CUgraphExec_st *exec;
	graph_t graph = NULL;
	int result;

	GOOD(cuStreamBeginCapture_v2(own->stream, RELAXED));
	sleep_on(own->stream, 10);
	result = cuStreamEndCapture(own->stream, &graph);
	/* Another thread's context event or synchronisation may have spoilt it. */
	EXPECT(result == OK || result == CAPTURE_INVALIDATED, 1);
	if (result != OK)
		return;
	GOOD(cuGraphInstantiateWithFlags(&exec, graph, 0));
	GOOD(cuGraphLaunch(exec, own->stream));
	GOOD(cuGraphExecDestroy(exec));
	GOOD(cuGraphDestroy(graph));
}

static void record(struct own *own)
{
	const int result = cuCtxRecordEvent(own->context, own->event);
	int query;

	EXPECT(result == OK || result == CAPTURE_UNSUPPORTED, 1);
	query = cuEventQuery(own->event);
	EXPECT(query == OK || query == NOT_READY, 1);
}

static void renew_stream(struct own *own)
{
	GOOD(cuStreamSynchronize(own->stream)); /* a free waits for nothing here */
	GOOD(cuStreamDestroy_v2(own->stream));
	own->stream = stream_new(NON_BLOCKING);
}

static void *storm(void *number)
{
	struct own own = {.seed = (unsigned int)(uintptr_t)number + 1};
	int i;

	own.context = contexts[(uintptr_t)number % CONTEXTS];
	GOOD(cuCtxSetCurrent(own.context));
	own.stream = stream_new(NON_BLOCKING);
	own.event = event_new();
	for (i = 0; i < operations; i++) {
		const unsigned int what = dice(&own, 100);

		if (what < 60)
			change_block(&own);
		else if (what < 80)
			record(&own);
		else if (what < 90)
			use_async(&own);
		else if (what < 97)
			capture(&own);
		else
			renew_stream(&own);
	}
	GOOD(cuStreamSynchronize(own.stream));
	for (i = 0; i < BLOCKS; i++)
		GOOD(cuMemFree_v2(own.blocks[i]));
	GOOD(cuEventDestroy_v2(own.event));
	GOOD(cuStreamDestroy_v2(own.stream));
	return NULL;
}

int main(int argc, char **argv)
{
	const int threads = argc > 1 ? atoi(argv[1]) : 8;
	pthread_t running[64];
	struct fakecuda_ledger end;
	int i;

	operations = argc > 2 ? atoi(argv[2]) : 2000;
	begin();
	for (i = 0; i < CONTEXTS; i++)
		GOOD(cuCtxCreate_v2(&contexts[i], 0, i % 2));
	for (i = 0; i < threads && i < 64; i++)
		pthread_create(&running[i], NULL, storm, (void *)(uintptr_t)i);
	for (i = 0; i < threads && i < 64; i++)
		pthread_join(running[i], NULL);
	for (i = 0; i < CONTEXTS; i++) {
		GOOD(cuCtxSetCurrent(contexts[i]));
		GOOD(cuCtxSynchronize());
	}
	end = ledger();
	EXPECT(end.live_bytes[FAKECUDA_DEVICE] + end.live_bytes[FAKECUDA_ASYNC], 0);
	EXPECT(end.events + end.streams + end.graphs, 0);
	EXPECT(end.charged_bytes, 0);
	EXPECT(end.misuses + end.refused_frees, 0);
	printf("%d threads, %llu calls\n", threads, (unsigned long long)end.calls);
	return failures ? 1 : 0;
}
