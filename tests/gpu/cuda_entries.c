/* cuda_entries.c -- programs that test the wrappers of the driver, one a word: each says what is
 * wrong, and `done` at the end. Linked against the stand-in for the driver. Those that SHOW are run
 * without the shim too, and must say the same. */
#include "cuda_kinds.h"

/* Each kind allocated and freed; between, a line on stdin is waited for. */
static void each_kind(void)
{
	uint64_t keys[KINDS] = {0};
	int word;

	(void)begin();
	for (size_t i = 0; i < KINDS; i++)
		IS(0, kinds[i].make(&keys[i], 4 * MIB));
	printf("allocated\n");
	fflush(stdout);
	while ((word = getchar()) != '\n' && word != EOF)
		continue;
	for (size_t i = 0; i < KINDS; i++)
		IS(0, kinds[i].drop(keys[i]));
	IS(0, ledger().live_bytes[FAKECUDA_MANAGED]);
	IS(0, ledger().refused_frees);
	printf("freed\n");
	fflush(stdout);
	while ((word = getchar()) != '\n' && word != EOF)
		continue;
}

/* 64 MB of device memory. What the pool caches stands in the way of each other kind, and goes. */
static void out_of_memory(void)
{
	(void)begin();
	for (size_t i = 1; i < KINDS; i++) {
		uint64_t cached = 0, key = 0, calls;

		if (!kinds[i].is_device || strcmp(kinds[i].name, "cuMemAllocManaged") == 0)
			continue;
		IS(0, cuMemAlloc_v2(&cached, 40 * MIB));
		IS(0, cuMemFree_v2(cached));
		IS(1, fakecuda_used_bytes(0) >= 40 * MIB);
		calls = fakecuda_calls(kinds[i].name);
		IS(0, kinds[i].make(&key, 40 * MIB));
		IS(2, fakecuda_calls(kinds[i].name) - calls);
		IS(0, kinds[i].drop(key));
	}
}

/* Nothing can help: the driver's own answer, and as many calls as are of use. */
static void hopeless(void)
{
	(void)begin();
	for (size_t i = 0; i < KINDS; i++) {
		uint64_t key = 0;

		if (!kinds[i].is_device || strcmp(kinds[i].name, "cuMemAllocManaged") == 0)
			continue;
		printf("%s: %d\n", kinds[i].name, kinds[i].make(&key, 100 * MIB));
	}
	SHOW(live_bytes());
}

static void null_outputs(void)
{
	size_t bytes = 0;
	uint64_t dptr = 0;

	(void)begin();
	SHOW(cuMemAlloc_v2(NULL, 1000));
	SHOW(cuMemAlloc_v2(&dptr, 0));
	SHOW(cuMemFree_v2(0));
	SHOW(cuMemAllocPitch_v2(NULL, &bytes, 10, 10, 4));
	SHOW(cuMemAllocPitch_v2(&dptr, NULL, 10, 10, 4));
	SHOW(cuMemAllocManaged(NULL, 1000, 1));
	SHOW(cuMemAllocAsync(NULL, 1000, NULL));
	SHOW(cuMemCreate(NULL, 4 * MIB, NULL, 0));
	SHOW(cuArrayCreate_v2(NULL, NULL));
	SHOW(cuArray3DCreate_v2(NULL, NULL));
	SHOW(cuMipmappedArrayCreate(NULL, NULL, 1));
	SHOW(cuMemHostAlloc(NULL, 1000, 0));
	SHOW(cuMemAllocHost_v2(NULL, 1000));
	SHOW(cuMemHostRegister_v2(NULL, 1000, 0));
	SHOW(cuMemGetInfo_v2(NULL, &bytes));
	SHOW(cuMemGetInfo_v2(&bytes, NULL));
	SHOW(cuMemGetInfo_v2(NULL, NULL));
	SHOW(cuCtxDestroy_v2(NULL));
	SHOW(cuStreamDestroy_v2(NULL));
	SHOW(cuStreamEndCapture(NULL, NULL));
	SHOW(live_bytes());
}

static void free_memory(void)
{
	size_t free_bytes = 0, total_bytes = 0;
	uint64_t dptr = 0;

	(void)begin();
	for (int i = 0; i < 3; i++) {
		IS(0, cuMemAlloc_v2(&dptr, 32 * MIB));
		IS(0, cuMemGetInfo_v2(&free_bytes, &total_bytes));
		SHOW(free_bytes);
		IS(0, cuMemFree_v2(dptr));
		IS(0, cuMemGetInfo_v2(&free_bytes, &total_bytes));
		SHOW(free_bytes);
		SHOW(total_bytes);
	}
}

static void show_range(uint64_t dptr, uint64_t from)
{
	int attributes[] = {MT_CU_POINTER_MEMORY_TYPE, MT_CU_POINTER_RANGE_SIZE,
			    MT_CU_POINTER_MAPPING_SIZE};
	unsigned int type = 0;
	size_t size = 0, mapped = 0;
	void *data[] = {&type, &size, &mapped};
	uint64_t base = 0, start = 0;
	size_t bytes = 0;

	SHOW(cuMemGetAddressRange_v2(&base, &bytes, dptr));
	SHOW(base ? base - from : 0);
	SHOW(bytes);
	SHOW(cuMemGetAddressRange_v2(NULL, &bytes, dptr));
	SHOW(cuPointerGetAttribute(&size, MT_CU_POINTER_RANGE_SIZE, dptr));
	SHOW(size);
	SHOW(cuPointerGetAttribute(&mapped, MT_CU_POINTER_MAPPING_SIZE, dptr));
	SHOW(mapped);
	SHOW(cuPointerGetAttribute(&start, MT_CU_POINTER_RANGE_START_ADDR, dptr));
	SHOW(start ? start - from : 0);
	SHOW(cuPointerGetAttribute(&type, MT_CU_POINTER_MEMORY_TYPE, dptr));
	size = mapped = 0;
	SHOW(cuPointerGetAttributes(3, attributes, data, dptr));
	SHOW(size);
	SHOW(mapped);
	SHOW(type);
}

static int by_ipc(uint64_t dptr)
{
	struct mt_cu_ipc_handle handle;

	return cuIpcGetMemHandle(&handle, dptr);
}

static void ranges(void)
{
	static const size_t sizes[] = {1, 1000, 3 * MIB, 5 * MIB + 17};

	(void)begin();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t dptr = 0;

		IS(0, cuMemAlloc_v2(&dptr, sizes[i]));
		show_range(dptr, dptr);
		show_range(dptr + sizes[i] - 1, dptr);
		show_range(dptr + sizes[i], dptr);
		IS(0, cuMemFree_v2(dptr));
		show_range(dptr, dptr);
		show_range(dptr + sizes[i] / 2, dptr);
		SHOW(by_ipc(dptr)); /* to the program it is no memory */
	}
}

/* ---- blocks that others know ---- */

static int no_export(uint64_t dptr)
{
	(void)dptr;
	return 0;
}
static int by_ipc_inside(uint64_t dptr)
{
	return by_ipc(dptr + 4096);
}
static int by_sync_memops(uint64_t dptr)
{
	unsigned int yes = 1;

	return cuPointerSetAttribute(&yes, MT_CU_POINTER_SYNC_MEMOPS, dptr);
}

static int by_tokens(uint64_t dptr)
{
	struct {
		unsigned long long p2p;
		unsigned int va_space;
	} tokens;

	(void)cuPointerGetAttribute(&tokens, MT_CU_POINTER_P2P_TOKENS, dptr);
	return 0;
}
/* These two need hardware that few have: whatever they answer, the block was named to them. */
static int by_handle(uint64_t dptr)
{
	int handle = -1;

	(void)cuMemGetHandleForAddressRange(&handle, dptr, 2 * MIB, 1, 0);
	if (handle >= 0)
		(void)close(handle);
	return 0;
}
static int by_multicast(uint64_t dptr)
{
	(void)cuMulticastBindAddr(0, 0, dptr, 2 * MIB, 0);
	return 0;
}

static bool is_recycled(int (*export)(uint64_t dptr))
{
	uint64_t first = 0, second = 0;

	IS(0, cuMemAlloc_v2(&first, 3 * MIB));
	IS(0, export(first));
	IS(0, cuMemFree_v2(first));
	IS(0, cuMemAlloc_v2(&second, 3 * MIB));
	IS(0, cuMemFree_v2(second));
	return first == second;
}

static void exports(void)
{
	(void)begin();
	IS(true, is_recycled(no_export));
	IS(false, is_recycled(by_ipc));
	IS(false, is_recycled(by_ipc_inside));
	IS(false, is_recycled(by_sync_memops));
	IS(false, is_recycled(by_tokens));
	IS(false, is_recycled(by_handle));
	IS(false, is_recycled(by_multicast));
	IS(true, is_recycled(no_export));
}

/* Two processes: one exports, the other opens, and closes after the first has freed. */
static void imported(void)
{
	struct mt_cu_ipc_handle handle;
	uint64_t dptr = 0, again = 0;
	int to_child[2], to_parent[2], status = 0;
	char word = 0;

	IS(0, pipe(to_child) + pipe(to_parent));
	pid_t child = fork();
	if (child == 0) {
		(void)begin();
		IS(sizeof(handle), read(to_child[0], &handle, sizeof(handle)));
		IS(0, cuIpcOpenMemHandle_v2(&dptr, handle, 1));
		IS(3 * MIB, ledger().live_bytes[FAKECUDA_IPC]);
		IS(0, cuMemsetD8Async(dptr, 7, 4096, NULL));
		IS(0, cuCtxSynchronize());
		IS(0, cuIpcCloseMemHandle(dptr));
		IS(1, cuIpcCloseMemHandle(dptr) != 0);
		IS(0, ledger().live_count[FAKECUDA_IPC]);
		IS(1, write(to_parent[1], &word, 1));
		fflush(stdout);
		_exit(bad ? 1 : 0);
	}
	(void)begin();
	IS(0, cuMemAlloc_v2(&dptr, 3 * MIB));
	IS(0, cuIpcGetMemHandle(&handle, dptr));
	IS(sizeof(handle), write(to_child[1], &handle, sizeof(handle)));
	IS(1, read(to_parent[0], &word, 1));
	IS(0, cuMemFree_v2(dptr));
	IS(0, cuMemAlloc_v2(&again, 3 * MIB));
	IS(1, again != dptr);
	IS(child, waitpid(child, &status, 0));
	IS(0, status);
}

/* ---- contexts ---- */

static void context_ends(void)
{
	uint64_t live = 0, cached = 0, managed = 0, again = 0;
	size_t free_bytes = 0, total_bytes = 0;

	IS(0, cuInit(0));
	for (int i = 0; i < 20; i++) {
		struct CUctx_st *context = NULL;

		IS(0, cuCtxCreate_v2(&context, 0, 0));
		IS(0, cuMemAlloc_v2(&live, MIB));
		IS(0, cuMemAlloc_v2(&cached, 3 * MIB));
		IS(0, cuMemFree_v2(cached));
		IS(0, cuMemAllocManaged(&managed, MIB, 1));
		IS(0, cuCtxDestroy_v2(context));
		IS(0, live_bytes());
		IS(0, cuCtxCreate_v2(&context, 0, 0));
		IS(0, cuMemFree_v2(cached) == 0);
		IS(0, cuMemAlloc_v2(&again, MIB));
		IS(0, cuMemGetInfo_v2(&free_bytes, &total_bytes));
		IS(total_bytes - fakecuda_used_bytes(0), free_bytes);
		IS(0, cuMemsetD8Async(again, 7, MIB, NULL));
		IS(0, cuCtxSynchronize());
		IS(0, cuMemFree_v2(again));
		IS(1, cuMemFree_v2(again));
		IS(0, cuCtxDestroy_v2(context));
	}
	IS(0, ledger().contexts);
	IS(0, ledger().events);
	IS(0, ledger().misuses);
	IS(0, fakecuda_used_bytes(0));
}

static void destroy_refused(void)
{
	struct CUctx_st *context = NULL, *primary = NULL;
	uint64_t dptr = 0, same = 0;

	context = begin();
	IS(0, cuMemAlloc_v2(&dptr, 3 * MIB));
	IS(1, cuCtxDestroy_v2((struct CUctx_st *)0x1234) != 0);
	IS(0, cuMemFree_v2(dptr));
	IS(0, cuMemAlloc_v2(&same, 3 * MIB));
	IS(1, same == dptr);
	IS(0, cuDevicePrimaryCtxRetain(&primary, 0));
	IS(1, cuCtxDestroy_v2(primary) != 0);
	IS(0, cuMemFree_v2(same));
	IS(0, cuDevicePrimaryCtxRelease_v2(0));
	IS(0, cuCtxDestroy_v2(context));
	IS(0, fakecuda_used_bytes(0));
}

static void primary(bool resets)
{
	struct CUctx_st *context = NULL;
	uint64_t live = 0, cached = 0;

	IS(0, cuInit(0));
	for (int i = 0; i < 20; i++) {
		IS(0, cuDevicePrimaryCtxRetain(&context, 0));
		IS(0, cuDevicePrimaryCtxRetain(&context, 0));
		IS(0, cuCtxSetCurrent(context));
		IS(0, cuMemAlloc_v2(&live, MIB));
		IS(0, cuMemAlloc_v2(&cached, 3 * MIB));
		IS(0, cuMemFree_v2(cached));
		if (resets) {
			IS(0, cuDevicePrimaryCtxReset_v2(0));
			/* Whether a reset takes what was retained with it, drivers do not agree on.
			 */
			(void)cuDevicePrimaryCtxRelease_v2(0);
			(void)cuDevicePrimaryCtxRelease_v2(0);
		} else {
			uint64_t again = 0;

			IS(0, cuDevicePrimaryCtxRelease_v2(0));
			IS(0, cuMemAlloc_v2(&again, 3 * MIB));
			IS(1, again == cached); /* it is not over yet */
			IS(0, cuMemFree_v2(again));
			IS(0, cuDevicePrimaryCtxRelease_v2(0));
		}
		IS(0, live_bytes());
		IS(0, fakecuda_used_bytes(0));
	}
	IS(0, ledger().contexts);
	IS(0, ledger().events);
	IS(0, ledger().misuses);
}

static void primary_release(void)
{
	primary(false);
}
static void primary_reset(void)
{
	primary(true);
}

/* ---- frees ---- */

static void odd_frees(void)
{
	uint64_t dptr = 0, async = 0;
	char own;

	(void)begin();
	IS(0, cuMemAlloc_v2(&dptr, 3 * MIB));
	IS(0, cuMemFree_v2(dptr));
	SHOW(cuMemFree_v2(dptr));
	SHOW(cuMemFree_v2(dptr + 512));
	SHOW(cuMemFree_v2((uint64_t)(uintptr_t)&own));
	SHOW(cuMemFree_v2(0x123456789000ull));
	SHOW(cuMemFreeAsync(dptr, NULL));
	IS(0, cuMemAllocAsync(&async, MIB, NULL));
	IS(0, cuMemFreeAsync(async, NULL));
	IS(0, cuCtxSynchronize());
	SHOW(cuMemFreeAsync(async, NULL));
	SHOW(cuMemFreeHost(&own));
}

static void async_free_of_a_pooled_block(void)
{
	uint64_t dptr = 0, other = 0;

	(void)begin();
	IS(0, cuMemAlloc_v2(&dptr, 3 * MIB));
	IS(0, cuMemFreeAsync(dptr, NULL));
	IS(0, cuCtxSynchronize());
	IS(0, ledger().live_bytes[FAKECUDA_DEVICE]);
	IS(1, cuMemFree_v2(dptr));
	IS(1, cuMemFreeAsync(dptr, NULL));
	IS(0, cuMemAlloc_v2(&other, 3 * MIB));
	IS(1, other != dptr);
	IS(0, cuMemFree_v2(other));
}

/* ---- ends ---- */

static void forked_child(void)
{
	uint64_t dptr = 0, other = 0;
	int status = 0;

	(void)begin();
	IS(0, cuMemAlloc_v2(&dptr, MIB));
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		IS(3, cuMemAlloc_v2(&other, MIB));
		IS(3, cuMemFree_v2(dptr));
		IS(3, cuMemAllocManaged(&other, MIB, 1));
		fflush(stdout);
		_exit(bad ? 1 : 0);
	}
	IS(child, waitpid(child, &status, 0));
	IS(0, status);
	IS(0, cuMemFree_v2(dptr));
}

static uint64_t left_over;

static void free_late(void)
{
	fakecuda_deinitialize();
	IS(4, cuMemFree_v2(0x1234));
	(void)cuMemFree_v2(left_over);
	IS(4, cuMemAllocManaged(&left_over, MIB, 1));
	fflush(stdout);
}

static void deinitialized(void)
{
	(void)begin();
	IS(0, cuMemAlloc_v2(&left_over, MIB));
	IS(0, atexit(free_late));
}

/* ---- captures ---- */

static _Atomic bool over;
static _Atomic int storm_bad;

static void *storm(void *context)
{
	uint64_t kept[32] = {0};

	if (cuCtxSetCurrent(context) != 0)
		storm_bad++;
	for (unsigned i = 0; !over; i++) {
		uint64_t *at = &kept[i * 7 % 32];

		if (*at && cuMemFree_v2(*at) != 0)
			storm_bad++;
		*at = 0;
		if (cuMemAlloc_v2(at, 4096u << i % 6) != 0)
			storm_bad++;
	}
	for (int i = 0; i < 32; i++)
		if (kept[i] && cuMemFree_v2(kept[i]) != 0)
			storm_bad++;
	return NULL;
}

static void capture_storm(void)
{
	struct CUctx_st *context = begin();
	struct CUstream_st *stream = NULL;
	pthread_t threads[3];
	uint64_t start = now_ms(), buffer = 0;
	int captures = 0, lost = 0;

	IS(0, cuStreamCreate(&stream, NON_BLOCKING));
	IS(0, cuMemAlloc_v2(&buffer, MIB));
	for (int i = 0; i < 3; i++)
		IS(0, pthread_create(&threads[i], NULL, storm, context));
	/* For two seconds; longer where the machine makes fewer than a hundred captures in them. */
	while (now_ms() - start < (captures > 100 ? 2000 : 30000)) {
		struct CUgraph_st *graph = NULL;

		IS(0, cuStreamBeginCapture_v2(stream, captures % 2 ? MT_CU_CAPTURE_THREAD_LOCAL
								   : MT_CU_CAPTURE_RELAXED));
		for (int i = 0; i < 20; i++)
			lost += cuMemsetD8Async(buffer, 1, 4096, stream) != 0;
		lost += cuStreamEndCapture(stream, &graph) != 0;
		if (graph)
			IS(0, cuGraphDestroy(graph));
		captures++;
		usleep(captures % 3 * 100);
	}
	over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	IS(0, lost);
	IS(0, storm_bad);
	IS(1, captures > 100);
	IS(0, cuStreamDestroy_v2(stream));
	IS(0, cuMemFree_v2(buffer));
	IS(0, ledger().misuses);
	IS(0, cuCtxDestroy_v2(context));
	IS(0, fakecuda_used_bytes(0));
}

/* A capture that nobody ends: its stream goes, and with it the closed gate. */
static void lost_capture(void)
{
	struct CUstream_st *stream = NULL;
	uint64_t first = 0, second = 0;

	(void)begin();
	IS(0, cuStreamCreate(&stream, NON_BLOCKING));
	IS(0, cuStreamBeginCapture_v2(stream, MT_CU_CAPTURE_RELAXED));
	IS(0, cuStreamDestroy_v2(stream));
	IS(1, cuStreamBeginCapture_v2(NULL, MT_CU_CAPTURE_RELAXED) != 0);
	IS(0, cuMemAlloc_v2(&first, 3 * MIB));
	IS(0, cuMemFree_v2(first));
	IS(0, cuMemAlloc_v2(&second, 3 * MIB));
	IS(1, first == second);
	IS(0, cuMemFree_v2(second));
}

/* ---- other devices ---- */

static void peers(void)
{
	struct CUctx_st *owner = begin(), *user = NULL;
	uint64_t dptr = 0;

	IS(0, cuCtxCreate_v2(&user, 0, 1));
	IS(0, cuCtxEnablePeerAccess(owner, 0));
	IS(704, cuCtxEnablePeerAccess(owner, 0));
	IS(0, cuCtxSetCurrent(owner));
	for (int i = 0; i < 50; i++) {
		IS(0, cuMemAlloc_v2(&dptr, 3 * MIB));
		IS(0, cuMemFree_v2(dptr));
	}
	IS(0, cuCtxDestroy_v2(user));
	IS(0, cuMemAlloc_v2(&dptr, 3 * MIB));
	IS(0, cuMemFree_v2(dptr));
	IS(0, cuCtxDestroy_v2(owner));
	IS(0, ledger().misuses);
	IS(0, fakecuda_used_bytes(0) + fakecuda_used_bytes(1));
}

/* Events of a context do not see a green context's work. */
static void green(void)
{
	struct {
		char bytes[512]; /* struct CUdevResource, larger than it is */
	} resource;
	struct CUgreenCtx_st *made = NULL;
	struct CUctx_st *context = NULL;
	void *description = NULL;
	uint64_t first = 0, second = 0;

	(void)begin();
	IS(true, is_recycled(no_export));
	IS(0, cuDeviceGetDevResource(0, &resource, 1));
	IS(0, cuDevResourceGenerateDesc(&description, &resource, 1));
	IS(0, cuGreenCtxCreate(&made, description, 0, 1));
	IS(false, is_recycled(no_export));
	IS(0, cuCtxFromGreenCtx(&context, made));
	IS(0, cuCtxSetCurrent(context));
	IS(0, cuMemAlloc_v2(&first, 3 * MIB));
	IS(0, cuMemFree_v2(first));
	IS(0, cuMemAlloc_v2(&second, 3 * MIB));
	IS(1, first != second);
	IS(0, cuMemFree_v2(second));
	/* What was cached before goes back by itself. */
	for (int i = 0; i < 1000 && ledger().live_bytes[FAKECUDA_DEVICE]; i++)
		usleep(10000);
	IS(0, ledger().live_bytes[FAKECUDA_DEVICE]);
}

/* ---- the Nth call of the driver fails ---- */

/* The status says which call of ours answered what, and that is all that a failing driver may
 * change. */
static void each_kind_or_not(void)
{
	struct CUctx_st *context = NULL;
	uint64_t keys[KINDS] = {0};
	bool made[KINDS] = {0};

	SHOW(cuInit(0));
	SHOW(cuCtxCreate_v2(&context, 0, 0));
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < KINDS; i++) {
			int result = kinds[i].make(&keys[i], 2 * MIB);

			made[i] = result == 0;
			printf("make %s: %d\n", kinds[i].name, result);
		}
		for (size_t i = 0; i < KINDS; i++) {
			int result = made[i] ? kinds[i].drop(keys[i]) : 0;

			printf("drop %s: %d\n", kinds[i].name, result);
			if (result != 0)
				IS(0, kinds[i].drop(keys[i]));
		}
	}
	if (context && cuCtxDestroy_v2(context) != 0)
		IS(0, cuCtxDestroy_v2(context));
	SHOW(ledger().refused_frees);
	SHOW(ledger().misuses);
	SHOW(ledger().contexts);
	SHOW(live_bytes());
	SHOW(fakecuda_used_bytes(0));
}

int main(int count, char **words)
{
	static const struct {
		const char *word;
		void (*run)(void);
	} programs[] = {
		{"kinds", each_kind},
		{"oom", out_of_memory},
		{"hopeless", hopeless},
		{"nulls", null_outputs},
		{"info", free_memory},
		{"ranges", ranges},
		{"exports", exports},
		{"contexts", context_ends},
		{"refused", destroy_refused},
		{"release", primary_release},
		{"reset", primary_reset},
		{"frees", odd_frees},
		{"async", async_free_of_a_pooled_block},
		{"fork", forked_child},
		{"late", deinitialized},
		{"storm", capture_storm},
		{"lost", lost_capture},
		{"imported", imported},
		{"green", green},
		{"peers", peers},
		{"faults", each_kind_or_not},
	};

	for (size_t i = 0; count > 1 && i < sizeof(programs) / sizeof(programs[0]); i++)
		if (strcmp(programs[i].word, words[1]) == 0) {
			programs[i].run();
			printf("done\n");
			return bad ? 1 : 0;
		}
	return 2;
}
