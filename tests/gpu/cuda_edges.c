/* cuda_edges.c -- what is free in pages of the driver's, ends of contexts, and calls that fail for
 * another reason than idle memory. Usage: cuda_edges WORD. Prints the answers; those of a driver
 * alone are the same. */
#include "cuda_shows.h"

#define CONTEXTS 300 /* more than the pool knows */

static size_t free_bytes(void)
{
	size_t bytes = 0, total;

	OK(cu.cuMemGetInfo_v2(&bytes, &total));
	return bytes;
}

static void fail(const char *function, unsigned int nth, int code)
{
	int (*order)(const char *, unsigned int, int) = (int (*)(const char *, unsigned int, int))(
		uintptr_t)dlsym(RTLD_DEFAULT, "fakecuda_fail");

	OK(order(function, nth, code));
}

/* ---- what is free ---- */

/* Free memory beside live blocks, and after they have been freed: small ones share pages, larger
 * ones take whole ones. */
static void pages(void)
{
	static const size_t sizes[] = {1,      3000,   100000,     MB - 1,      MB,
				       MB + 1, 3 * MB, 5 * MB + 7, 100 * MB + 1};
	static uint64_t blocks[240];
	size_t all = free_bytes();

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t dptr = take(sizes[i]);
		size_t beside = free_bytes();

		OK(cu.cuMemFree_v2(dptr));
		printf("%zu: %zu, then %zu\n", sizes[i], all - beside, all - free_bytes());
	}
	for (int i = 0; i < 240; i++)
		blocks[i] = take(2 * MB + 1);
	for (int i = 0; i < 240; i++)
		OK(cu.cuMemFree_v2(blocks[i]));
	printf("240: %zu\n", all - free_bytes());
}

/* As many as share the device's pages, each some bytes below the size from which on a block has its
 * own. */
static void just_below(void)
{
	uint64_t dptr;
	int count = 0;

	while (cu.cuMemAlloc_v2(&dptr, MB - 100) == 0)
		count++;
	printf("%d\n", count);
}

/* ---- ends of contexts ---- */

static void failed_destroy(void)
{
	void *other;

	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	cache(900 * MB);
	OK(cu.cuCtxSetCurrent(context));
	fail("cuCtxDestroy_v2", 1, 999);
	SHOW(cu.cuCtxDestroy_v2(other));
	SHOW(cu.cuMemAlloc_v2(&(uint64_t){0}, 900 * MB));
	SHOW(cu.cuCtxDestroy_v2(other));
}

static void many(void)
{
	for (int i = 0; i < CONTEXTS; i++) {
		uint64_t dptr;
		void *made;

		OK(cu.cuCtxCreate_v2(&made, 0, 0));
		dptr = take(3 * MB);
		OK(cu.cuMemFree_v2(dptr));
		if (i % 20 == 0 || i > CONTEXTS - 4) {
			int result = cu.cuMemAlloc_v2(&dptr, 1000 * MB);

			printf("context %d: %d\n", i, result);
			if (result == 0)
				OK(cu.cuMemFree_v2(dptr));
		}
		OK(cu.cuCtxPopCurrent_v2(&made));
	}
}

/* ---- other reasons ---- */

/* Little is pending beside much that is free. */
static void unknown_size(void)
{
	uint64_t dptr = take(5 * MB);
	void *other;

	let_wait();
	OK(cu.cuMemFree_v2(dptr));
	fail("cuStreamCreate", 0, 2);
	SHOW(cu.cuStreamCreate(&other, 0));
	SHOW(cu.cuModuleLoadData(&other, "image"));
}

/* Freed before the launch of a graph with a host function, and too small for a fence of its own. */
static void graph_small(void)
{
	void *blocking, *graph, *executable;
	uint64_t dptr = take(14 * MB);

	OK(cu.cuStreamCreate(&blocking, 0));
	OK(cu.cuStreamBeginCapture_v2(blocking, 1));
	OK(cu.cuLaunchHostFunc(blocking, wait_for_release, NULL));
	OK(cu.cuStreamEndCapture(blocking, &graph));
	OK(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
	OK(cu.cuMemFree_v2(dptr));
	OK(cu.cuGraphLaunch(executable, blocking));
	SHOW(cu.cuMemAlloc_v2(&dptr, 990 * MB));
}

/* A thread that has no context current frees a block, then one that has. */
static void no_context(void)
{
	uint64_t dptr = take(20 * MB);

	OK(cu.cuCtxSetCurrent(NULL));
	SHOW(cu.cuMemFree_v2(dptr));
	OK(cu.cuCtxSetCurrent(context));
	SHOW(cu.cuMemFree_v2(dptr));
}

static const struct cuda_word words[] = {
	{"no_context", no_context},         {"pages", pages}, {"just_below", just_below},
	{"failed_destroy", failed_destroy}, {"many", many},   {"unknown_size", unknown_size},
	{"graph_small", graph_small},
};

int main(int argc, char **argv)
{
	return cuda_run_word(argc, argv, words, sizeof(words) / sizeof(words[0]));
}
