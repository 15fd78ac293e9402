/* cuda_program.c -- an ordinary CUDA program: it does a little of everything and prints the
 * driver's answers and the contents of its memory, never an address: with the shim it must print
 * what it prints without. Usage: cuda_program ROAD (cuda_client.h). */
#include "cuda_client.h"

#define MB           ((size_t)1 << 20)
#define ROUNDS_COUNT 40

static unsigned char page[4 * MB];

/* A result with its call; SKIP where the driver has no such function. */
#define SAY(call) printf("%s: %d\n", #call, call)
#define SAY_IF(symbol, call)                                                                       \
	do {                                                                                       \
		if (cu.symbol != NULL)                                                             \
			printf("%s: %d\n", #symbol, cu.symbol call);                               \
		else                                                                               \
			printf("%s: missing\n", #symbol);                                          \
	} while (0)

static unsigned long long sum_of(uint64_t dptr, size_t bytes)
{
	unsigned long long sum = 0;
	int result = cu.cuMemcpyDtoH_v2(page, dptr, bytes);

	for (size_t i = 0; i < bytes; i++)
		sum = sum * 31 + page[i];
	return result == 0 ? sum : (unsigned long long)result;
}

static void fill(uint64_t dptr, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		page[i] = (unsigned char)(i * 7 + seed);
	if (cu.cuMemcpyHtoD_v2(dptr, page, bytes) != 0)
		printf("no copy of %zu bytes\n", bytes);
}

static void device(void)
{
	char name[64] = "";
	int version = 0, count = 0;

	SAY(cu.cuInit(0));
	SAY(cu.cuDriverGetVersion(&version));
	SAY(cu.cuDeviceGetCount(&count));
	SAY(cu.cuDeviceGetName(name, sizeof(name), 0));
	printf("driver %d, %d devices, %s\n", version, count, name);
}

/* What training does: the same sizes, again and again. */
static void rounds(void)
{
	static const size_t sizes[] = {1, 512, 513, 4096, 30000, 100000, 300005};
	uint64_t block[7];
	unsigned long long sum = 0;
	int bad = 0;

	for (unsigned round = 0; round < ROUNDS_COUNT; round++) {
		for (unsigned i = 0; i < 7; i++) {
			bad += cu.cuMemAlloc_v2(&block[i], sizes[i]) != 0 || block[i] % 256 != 0;
			fill(block[i], sizes[i], round + i);
		}
		for (unsigned i = 0; i < 7; i++) {
			sum = sum * 17 + sum_of(block[i], sizes[i]);
			bad += cu.cuMemFree_v2(block[i]) != 0;
		}
	}
	printf("rounds: %d bad, sum %llu\n", bad, sum);
}

static void odd_calls(void)
{
	uint64_t block = 0, kept = 0;
	size_t bytes = 0;
	int type = 0;
	size_t free_bytes = 0, total = 0, later = 0;

	SAY(cu.cuMemAlloc_v2(&block, 0));
	SAY(cu.cuMemAlloc_v2(NULL, 100));
	SAY(cu.cuMemFree_v2(0));
	/* In the driver's own unit, so that what it has free changes by just that. */
	SAY(cu.cuMemAlloc_v2(&block, 2 * MB));
	SAY(cu.cuMemFree_v2(block + 16));
	SAY(cu.cuMemGetAddressRange_v2(&kept, &bytes, block));
	printf("range: %d, %zu bytes\n", kept == block, bytes);
	SAY(cu.cuMemGetAddressRange_v2(&kept, &bytes, block + 1000));
	printf("range: %d, %zu bytes\n", kept == block, bytes);
	SAY(cu.cuPointerGetAttribute(&type, 2, block));
	printf("memory type %d\n", type);
	SAY(cu.cuMemGetInfo_v2(&free_bytes, &total));
	SAY(cu.cuMemFree_v2(block));
	SAY(cu.cuMemFree_v2(block));
	SAY(cu.cuMemGetInfo_v2(&later, &total));
	printf("free grew by %zu\n", later - free_bytes);
	SAY(cu.cuMemGetInfo_v2(NULL, &total));
	SAY(cu.cuMemGetInfo_v2(&later, NULL));
	SAY(cu.cuMemFree_v2(12345));
	SAY(cu.cuMemAlloc_v2(&kept, total * 2));
	SAY(cu.cuPointerGetAttribute(&type, 2, block));
}

static void other_kinds(void)
{
	const struct cuda_allocation_prop prop = {.type = 1, .location = {1, 0}};
	const struct cuda_access access = {{1, 0}, 3};
	const struct cuda_array description = {64, 64, 0x20, 4};
	unsigned long long handle = 0;
	size_t pitch = 0, granularity = 2 * MB;
	uint64_t dptr = 0;
	void *host = NULL, *array = NULL;

	SAY(cu.cuMemAllocPitch_v2(&dptr, &pitch, 1000, 30, 4));
	SAY(cu.cuMemsetD8_v2(dptr, 3, pitch * 30));
	printf("pitch %zu, sum %llu\n", pitch, sum_of(dptr, pitch * 30));
	SAY(cu.cuMemFree_v2(dptr));
	SAY_IF(cuMemAllocManaged, (&dptr, MB, 1));
	SAY(cu.cuMemFree_v2(dptr));
	SAY_IF(cuArrayCreate_v2, (&array, &description));
	SAY_IF(cuArrayDestroy, (array));
	SAY_IF(cuMemHostAlloc, (&host, MB, 0));
	memset(host, 5, MB);
	SAY_IF(cuMemFreeHost, (host));
	SAY_IF(cuMemHostRegister_v2, (page, MB, 0));
	SAY_IF(cuMemHostUnregister, (page));
	SAY_IF(cuMemGetAllocationGranularity, (&granularity, &prop, 0));
	SAY_IF(cuMemCreate, (&handle, granularity, &prop, 0));
	SAY_IF(cuMemAddressReserve, (&dptr, granularity, 0, 0, 0));
	SAY_IF(cuMemMap, (dptr, granularity, 0, handle, 0));
	SAY_IF(cuMemSetAccess, (dptr, granularity, &access, 1));
	fill(dptr, MB, 9);
	printf("mapped: %llu\n", sum_of(dptr, MB));
	SAY_IF(cuMemUnmap, (dptr, granularity));
	SAY_IF(cuMemAddressFree, (dptr, granularity));
	SAY_IF(cuMemRelease, (handle));
}

static void streams(void)
{
	void *stream = NULL, *event = NULL, *graph = NULL, *executable = NULL;
	uint64_t dptr = 0, asynchronous = 0;

	SAY(cu.cuStreamCreate(&stream, 1));
	SAY(cu.cuMemAlloc_v2(&dptr, MB));
	SAY(cu.cuMemsetD8Async(dptr, 7, MB, stream));
	SAY(cu.cuEventCreate(&event, 2));
	SAY(cu.cuEventRecord(event, stream));
	SAY(cu.cuEventSynchronize(event));
	SAY(cu.cuEventDestroy_v2(event));
	printf("stream: %llu\n", sum_of(dptr, MB));
	SAY_IF(cuMemAllocAsync, (&asynchronous, MB, stream));
	SAY_IF(cuMemFreeAsync, (asynchronous, stream));
	SAY(cu.cuStreamBeginCapture_v2(stream, 0));
	SAY(cu.cuMemsetD8Async(dptr, 8, MB, stream));
	SAY(cu.cuStreamEndCapture(stream, &graph));
	SAY_IF(cuGraphInstantiateWithFlags, (&executable, graph, 0));
	if (executable != NULL) {
		SAY(cu.cuGraphLaunch(executable, stream));
		SAY(cu.cuStreamSynchronize(stream));
		printf("graph: %llu\n", sum_of(dptr, MB));
		SAY(cu.cuGraphExecDestroy(executable));
	}
	SAY(cu.cuGraphDestroy(graph));
	SAY(cu.cuMemFree_v2(dptr));
	SAY(cu.cuStreamDestroy_v2(stream));
}

static void contexts(void)
{
	void *first = NULL, *other = NULL;
	uint64_t dptr = 0, left = 0;

	SAY(cu.cuCtxGetCurrent(&first));
	SAY(cu.cuCtxCreate_v2(&other, 0, 0));
	SAY(cu.cuMemAlloc_v2(&dptr, MB));
	SAY(cu.cuMemAlloc_v2(&left, MB));
	SAY(cu.cuMemFree_v2(dptr));
	SAY(cu.cuCtxDestroy_v2(other));
	SAY(cu.cuCtxSetCurrent(first));
	SAY(cu.cuMemFree_v2(left));
	SAY(cu.cuMemAlloc_v2(&dptr, MB));
	SAY(cu.cuMemFree_v2(dptr));
}

int main(int argc, char **argv)
{
	void *context = NULL;

	if (cuda_client_start(argc > 1 ? argv[1] : "local") != 0) {
		puts("no such road");
		return 3;
	}
	device();
	SAY(cu.cuDevicePrimaryCtxRetain(&context, 0));
	SAY(cu.cuCtxSetCurrent(context));
	rounds();
	odd_calls();
	other_kinds();
	streams();
	contexts();
	SAY(cu.cuDevicePrimaryCtxRelease_v2(0));
	return 7;
}
