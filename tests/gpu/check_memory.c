/* check_memory.c -- out of memory, and giving back: measured by the driver's own cuMemGetInfo, past
 * the shim, which answers a program's question as if nothing were cached. */
#include "checks.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { MIB = 1 << 20, MANY = 64 };

/* Blocks of an eighth of what is free, six of them; freed again, so that a pool holds three
 * quarters of it. */
static size_t leave_most_cached(void)
{
	uint64_t blocks[6];
	size_t bytes = gpu_free_bytes() / 8 / (2 * MIB) * (2 * MIB);

	for (int i = 0; i < 6; i++)
		blocks[i] = gpu_alloc(bytes);
	for (int i = 0; i < 6; i++)
		gpu_ok(cu.cuMemFree_v2(blocks[i]));
	gpu_ok(cu.cuCtxSynchronize());
	return bytes;
}

/* Half of the free memory by cuMemCreate: impossible as long as three quarters are cached. */
void check_oom_vmm(void)
{
	struct mt_cu_allocation_prop prop = {.type = 1, .location = {1, 0}};
	unsigned long long handle;
	size_t granularity = 2 * MIB;
	uint64_t before;
	size_t bytes;

	gpu_start();
	if (!gpu_has(cuMemCreate))
		gpu_skip("no cuMemCreate in this driver");
	gpu_ok(cu.cuMemGetAllocationGranularity(&granularity, &prop, 0));
	before = gpu_free_bytes();
	bytes = leave_most_cached();
	printf("of %llu free bytes %llu were left when 6 blocks of %zu were freed\n",
	       (unsigned long long)before, (unsigned long long)gpu_free_bytes(), bytes);
	gpu_ok(cu.cuMemCreate(&handle, before / 2 / granularity * granularity, &prop, 0));
	gpu_ok(cu.cuMemRelease(handle));
}

/* The same by cuMemAlloc, in a size that no cached block serves, while work is pending on what was
 * freed. */
void check_oom_blocks(void)
{
	struct CUstream_st *stream;
	uint64_t before;
	uint64_t block;

	gpu_start();
	before = gpu_free_bytes();
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	gpu_spin(stream, 100);
	leave_most_cached();
	gpu_spin(stream, 100);
	block = gpu_alloc(before / 2);
	gpu_ok(cu.cuMemFree_v2(block));
}

void check_oom_error(void)
{
	size_t free_bytes;
	size_t total_bytes;
	uint64_t block;
	int code;

	gpu_start();
	gpu_ok(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
	code = cu.cuMemAlloc_v2(&block, total_bytes * 2);
	gpu_expect(code == MT_CU_OUT_OF_MEMORY, "twice the device's memory: %d", code);
	block = gpu_alloc(MIB);
	gpu_ok(cu.cuMemFree_v2(block));
}

/* What the program sees stays what it would see without a pool. */
void check_info(void)
{
	size_t before;
	size_t with;
	size_t after;
	size_t total;
	uint64_t block;
	size_t bytes = 64 * MIB;
	int (*bare)(size_t *, size_t *);
	void *found;

	gpu_start();
	found = gpu_unwrapped("cuMemGetInfo_v2");
	gpu_expect(found, "cuMemGetInfo_v2 is not in libcuda's symbol table");
	gpu_ok(cu.cuMemGetInfo_v2(&before, &total));
	block = gpu_alloc(bytes);
	gpu_ok(cu.cuMemGetInfo_v2(&with, &total));
	gpu_ok(cu.cuMemFree_v2(block));
	gpu_ok(cu.cuCtxSynchronize());
	gpu_ok(cu.cuMemGetInfo_v2(&after, &total));
	gpu_expect(before - with >= bytes, "a live block of %zu takes %zu from free", bytes,
		   before - with);
	gpu_expect(after + 4 * MIB >= before, "free was %zu and is %zu after everything was freed",
		   before, after);
	/* A NULL output is answered as the driver answers it. */
	memcpy(&bare, &found, sizeof bare);
	gpu_expect(bare(NULL, &total) == cu.cuMemGetInfo_v2(NULL, &total),
		   "NULL for free is not the driver's answer");
	gpu_expect(bare(&before, NULL) == cu.cuMemGetInfo_v2(&before, NULL),
		   "NULL for total is not the driver's answer");
}

/* ---- the pool ---- */

static uint64_t blocks[MANY];

/* Sizes so far apart that no block serves another size. */
static size_t many_bytes(int i)
{
	return (size_t)(2 + i % 3) * MIB;
}

/* MANY blocks, freed again; what the driver had free before. */
static uint64_t cache_many(void)
{
	uint64_t before = gpu_free_bytes();

	for (int i = 0; i < MANY; i++)
		blocks[i] = gpu_alloc(many_bytes(i));
	for (int i = 0; i < MANY; i++)
		gpu_ok(cu.cuMemFree_v2(blocks[i]));
	gpu_ok(cu.cuCtxSynchronize());
	return before;
}

static void expect_given_back(uint64_t before, uint64_t most_ms)
{
	uint64_t begin = gpu_now_ns();

	/* The driver may keep a little for small blocks of its own. */
	while (gpu_free_bytes() + 4 * MIB < before) {
		gpu_expect(gpu_now_ns() - begin < most_ms * 1000000,
			   "%llu bytes were not given back in %llu ms",
			   (unsigned long long)(before - gpu_free_bytes()),
			   (unsigned long long)most_ms);
		gpu_sleep_ms(10);
	}
	printf("everything idle was given back after %.0f ms\n",
	       (double)(gpu_now_ns() - begin) / 1e6);
}

static uint64_t expect_cached(void)
{
	uint64_t before;

	gpu_start();
	before = cache_many();
	gpu_expect(before - gpu_free_bytes() > 64 * MIB,
		   "nothing is cached: the driver has only %llu bytes less",
		   (unsigned long long)(before - gpu_free_bytes()));
	return before;
}

void check_pool_hit(void)
{
	uint64_t without;
	int hits = 0;

	expect_cached();
	without = gpu_free_bytes();
	for (int i = 0; i < MANY; i++) {
		uint64_t block = gpu_alloc(many_bytes(i));

		for (int j = 0; j < MANY; j++)
			hits += blocks[j] == block;
	}
	gpu_expect(hits == MANY, "%d of %d blocks came out of the pool", hits, MANY);
	gpu_expect(gpu_free_bytes() == without, "the driver was asked for more");
}

void check_decay(void)
{
	expect_given_back(expect_cached(), 5000);
}

void check_signal(void)
{
	uint64_t before = expect_cached();

	raise(SIGUSR1);
	expect_given_back(before, 3000);
}

void check_trim(void)
{
	uint64_t before = expect_cached();

	/* The shim's thread has begun with the first CUDA call; mtctl knows of it from its first
	 * tick on. */
	gpu_sleep_ms(500);
	ask_mtctl("trim");
	expect_given_back(before, 3000);
}
