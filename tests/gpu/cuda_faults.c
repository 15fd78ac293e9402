/* cuda_faults.c -- what goes wrong in a program and is not to cost it more than without a pool: an
 * error of one context, calls in a host function, captures whose streams are destroyed. Usage:
 * cuda_faults WORD [pool]; with `pool` also what the pool alone can do is expected. Exit 0 and
 * `fine`; 4 with what went wrong; 1 where the driver answers an error. Fake driver only. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "cuda_client.h"

#define BYTES   ((size_t)1 << 20)
#define NEW     0x22
#define REFUSED 800

static uint64_t (*count_calls)(const char *symbol);
static uint64_t (*used_bytes)(int device);
static int (*set_failure)(const char *symbol, unsigned int nth, int code);
static bool has_pool;
static void *ours, *other;

static uint64_t allocate(size_t bytes)
{
	uint64_t dptr = 0;

	OK(cu.cuMemAlloc_v2(&dptr, bytes));
	return dptr;
}

static void expect_pool(void)
{
	const uint64_t before = count_calls("cuMemAlloc_v2");

	for (int i = 0; i < 100; i++)
		OK(cu.cuMemFree_v2(allocate(BYTES)));
	EXPECT(!has_pool || count_calls("cuMemAlloc_v2") - before < 10);
}

static void break_current(void)
{
	unsigned int delay_us = 0;
	void *module, *function, *parameters[] = {&delay_us};

	OK(cu.cuModuleLoadData(&module, "any"));
	OK(cu.cuModuleGetFunction(&function, module, "fake_illegal"));
	OK(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	EXPECT(cu.cuCtxSynchronize() == 700);
}

/* ---- an error of another context ---- */

/* A block that the pool hands to the driver's own cuMemFree. */
static uint64_t exported(void)
{
	const uint64_t block = allocate(BYTES);
	struct cuda_ipc handle;

	OK(cu.cuIpcGetMemHandle(&handle, block));
	return block;
}

static void *destroy_other(void *unused)
{
	(void)unused;
	OK(cu.cuCtxDestroy_v2(other));
	return NULL;
}

static void free_in_a_bad_context(bool is_destroyed, uint64_t block)
{
	pthread_t thread;

	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	if (is_destroyed) {
		pthread_create(&thread, NULL, destroy_other, NULL);
		pthread_join(thread, NULL);
	} else {
		break_current();
	}
	EXPECT(cu.cuMemFree_v2(block) == (is_destroyed ? 709 : 700));
	OK(cu.cuCtxSetCurrent(ours));
	if (!is_destroyed)
		(void)cu.cuCtxDestroy_v2(other);
}

static void free_beside(bool is_destroyed)
{
	uint64_t block;

	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	block = exported();
	expect_pool();
	free_in_a_bad_context(is_destroyed, block);
	expect_pool();
	OK(cu.cuMemFree_v2(block));
}

static void broken_neighbour(void)
{
	free_beside(false);
}

static void destroyed_neighbour(void)
{
	free_beside(true);
}

/* The byte behind what was asked for is no memory, whatever the current context has met. */
static void asked_beside_an_error(void)
{
	uint64_t block;
	int device;

	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	block = allocate(1000);
	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	break_current();
	OK(cu.cuPointerGetAttribute(&device, 9, block + 999));
	EXPECT(cu.cuPointerGetAttribute(&device, 9, block + 1000) == 1);
	OK(cu.cuCtxSetCurrent(ours));
	OK(cu.cuMemFree_v2(block));
}

/* The program has freed 900 of 1,000 MB when an error ends their context. While none is current
 * the driver frees nothing; the next context gets all of it, however long that takes. */
static void cached_before_an_error(void)
{
	uint64_t some[9], calls;
	void *none;

	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	for (int i = 0; i < 9; i++)
		some[i] = allocate(100 << 20);
	for (int i = 0; i < 9; i++)
		OK(cu.cuMemFree_v2(some[i]));
	break_current();
	OK(cu.cuCtxPopCurrent_v2(&none));
	usleep(500000); /* the worker has found them due, and the driver has refused */
	EXPECT(!has_pool || used_bytes(0) >= 900 << 20);
	calls = count_calls("cuMemFree_v2");
	usleep(300000);
	EXPECT(count_calls("cuMemFree_v2") == calls);
	OK(cu.cuCtxCreate_v2(&ours, 0, 0));
	OK(cu.cuMemFree_v2(allocate(900 << 20)));
	OK(cu.cuCtxDestroy_v2(other));
}

/* ---- calls in a host function ---- */

#define FREES 200
static uint64_t blocks[FREES];

static void free_them(void *unused)
{
	(void)unused;
	for (int i = 0; i < FREES; i++)
		EXPECT(cu.cuMemFree_v2(blocks[i]) == REFUSED);
}

/* The driver refuses them there; a proper free later is accepted, and all the memory comes back. */
static void freed_in_a_host_function(void)
{
	void *stream;

	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	OK(cu.cuStreamCreate(&stream, 1));
	expect_pool();
	for (int i = 0; i < FREES; i++)
		blocks[i] = allocate(1 << 20);
	OK(cu.cuLaunchHostFunc(stream, free_them, NULL));
	OK(cu.cuStreamSynchronize(stream));
	expect_pool();
	for (int i = 0; i < FREES; i++)
		OK(cu.cuMemFree_v2(blocks[i]));
}

static void destroy_here(void *unused)
{
	(void)unused;
	EXPECT(cu.cuCtxDestroy_v2(other) == REFUSED);
}

/* The driver refuses that too: work of the context may still use a block, whose free is the
 * driver's. */
static void destroyed_in_a_host_function(void)
{
	uint64_t block, frees;
	void *stream;

	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	block = allocate(BYTES);
	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	OK(cu.cuStreamCreate(&stream, 1));
	OK(cu.cuLaunchHostFunc(stream, destroy_here, NULL));
	OK(cu.cuStreamSynchronize(stream));
	OK(cu.cuCtxSetCurrent(ours));
	frees = count_calls("cuMemFree_v2");
	OK(cu.cuMemFree_v2(block));
	EXPECT(count_calls("cuMemFree_v2") == frees + 1);
}

/* An allocation that is to release an idle block, and a free, at which the driver refuses our call
 * for now: nothing is lost, and the pool goes on once it is gone. */
static void refused_for_now(void)
{
	uint64_t first, second;

	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	first = allocate(20 << 20);
	OK(cu.cuMemFree_v2(first));
	if (has_pool)
		set_failure("cuMemFreeAsync", 1, REFUSED);
	second = allocate(24 << 20); /* both are more than a quarter above the largest use */
	if (has_pool)
		set_failure("cuCtxRecordEvent", 1, REFUSED);
	OK(cu.cuMemFree_v2(second));
	EXPECT(cu.cuMemFree_v2(first) == 1);
	for (int i = 0; i < 20; i++)
		OK(cu.cuMemFree_v2(allocate(1 << 20)));
	for (int i = 0; i < 1000 && used_bytes(0) > 8 << 20; i++)
		usleep(5000);
	EXPECT(used_bytes(0) <= 8 << 20);
	expect_pool();
}

/* ---- captures that end with their streams ---- */

static void cache_some(void)
{
	uint64_t some[8];

	for (int i = 0; i < 8; i++)
		some[i] = allocate(BYTES);
	for (int i = 0; i < 8; i++)
		OK(cu.cuMemFree_v2(some[i]));
	(void)allocate(BYTES); /* closes their group, and finds them ready */
	EXPECT(!has_pool || used_bytes(0) >= 8 * BYTES);
}

static void expect_decay(void)
{
	for (int i = 0; i < 1000 && used_bytes(0) > 2 * BYTES; i++)
		usleep(5000);
	EXPECT(used_bytes(0) <= 2 * BYTES);
}

static void many_destroyed(void)
{
	void *streams[300];

	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	cache_some();
	for (int i = 0; i < 300; i++) {
		OK(cu.cuStreamCreate(&streams[i], 1));
		OK(cu.cuStreamBeginCapture_v2(streams[i], 2));
	}
	for (int i = 0; i < 300; i++)
		OK(cu.cuStreamDestroy_v2(streams[i]));
	expect_pool();
	expect_decay();
}

static void *free_elsewhere(void *unused)
{
	uint64_t some[16];

	(void)unused;
	OK(cu.cuCtxSetCurrent(ours));
	for (int i = 0; i < 16; i++)
		some[i] = allocate(BYTES);
	for (int i = 0; i < 16; i++)
		OK(cu.cuMemFree_v2(some[i]));
	return NULL;
}

/* The capture goes on where the driver refuses to destroy its stream; another thread's frees do not
 * touch it. */
static void destroy_refused(void)
{
	pthread_t thread;
	uint64_t block;
	void *stream;

	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	OK(cu.cuStreamCreate(&stream, 1));
	block = allocate(BYTES);
	OK(cu.cuStreamBeginCapture_v2(stream, 2));
	OK(cu.cuMemsetD8Async(block, NEW, BYTES, stream));
	set_failure("cuStreamDestroy_v2", 1, REFUSED);
	EXPECT(cu.cuStreamDestroy_v2(stream) == REFUSED);
	pthread_create(&thread, NULL, free_elsewhere, NULL);
	pthread_join(thread, NULL);
	OK(cu.cuStreamEndCapture(stream, &other));
	EXPECT(other != NULL);
	expect_pool();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *word;
		void (*run)(void);
	} words[] = {
		{"broken_neighbour", broken_neighbour},
		{"destroyed_neighbour", destroyed_neighbour},
		{"asked_beside_an_error", asked_beside_an_error},
		{"cached_before_an_error", cached_before_an_error},
		{"freed_in_a_host_function", freed_in_a_host_function},
		{"destroyed_in_a_host_function", destroyed_in_a_host_function},
		{"refused_for_now", refused_for_now},
		{"many_destroyed", many_destroyed},
		{"destroy_refused", destroy_refused},
	};
	void *driver;

	if (argc < 2 || cuda_client_start("local") != 0)
		return 3;
	has_pool = argc > 2 && strcmp(argv[2], "pool") == 0;
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	*(void **)&count_calls = dlsym(driver, "fakecuda_calls");
	*(void **)&used_bytes = dlsym(driver, "fakecuda_used_bytes");
	*(void **)&set_failure = dlsym(driver, "fakecuda_fail");
	OK(cu.cuInit(0));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(argv[1], words[i].word) != 0)
			continue;
		words[i].run();
		puts("fine");
		return 0;
	}
	return 2;
}
