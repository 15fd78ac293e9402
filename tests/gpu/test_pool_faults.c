/* test_pool_faults.c -- the Nth call to the driver fails, for every N and with errors of every
 * kind: the program sees the error only where the call was its own, and nothing is left in the
 * driver that the program has freed. The kernel refuses memory for the tables: the allocation goes
 * unrecorded, and no error is ours. */
#include <criterion/criterion.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/os.h"
#include "abi.h"
#include "pool_driver.h"
#include "pool_settings.h"
#include "valgrind.h"

#define MB     (1024ull * 1024)
#define BLOCKS 6

static struct mt_driver driver;
static uint64_t covered; /* calls in which a failure was tried for */

/* How a step may answer: as it should, or with the injected error. Tries once more: the second call
 * does not fail. */
static bool is_well(int result)
{
	return result == MT_CU_SUCCESS || result == fake.fail_code;
}

static int get(uint64_t *out, size_t bytes)
{
	int result = mt_pool_alloc(out, bytes);

	if (result != MT_CU_SUCCESS && is_well(result))
		result = mt_pool_alloc(out, bytes);
	return result;
}

static int put(uint64_t dptr)
{
	int result = fake_free(dptr);

	if (result != MT_CU_SUCCESS && is_well(result))
		result = fake_free(dptr);
	return result;
}

static int use_context(struct CUctx_st *context)
{
	uint64_t dptr[BLOCKS], again, next_ms;

	fake_make_current(context);
	for (int i = 0; i < BLOCKS; i++)
		if (get(&dptr[i], 4096 << (i % 3)) != 0)
			return 10;
	fake_issue(context);
	for (int i = 0; i < BLOCKS / 2; i++)
		if (put(dptr[i]) != 0)
			return 11;
	if (get(&again, 4096) != 0)
		return 12;
	fake_finish(context);
	if (put(again) != 0 || get(&again, 8192) != 0)
		return 13;
	(void)mt_pool_tick(mt_os_now_ns() + 2 * MT_NS_PER_S, 2, &next_ms);
	if (put(again) != 0)
		return 14;
	(void)fake_make_room(-1);
	for (int i = BLOCKS / 2; i < BLOCKS; i++)
		if (put(dptr[i]) != 0)
			return 15;
	return get(&again, 512) == 0 && put(again) == 0 ? 0 : 16;
}

/* Everything that the pool does, in a child of its own; 0, or what went wrong. */
static int scenario(void)
{
	struct CUctx_st *first = fake_context(0, 0), *second = fake_context(1, 1);
	uint64_t last;
	int status;

	driver = fake_driver();
	fake_make_current(first);
	pool_settings("1000", "1");
	mt_pool_start(&driver, NULL);
	mt_context_created(second, 1);
	mt_context_created(first, 0);
	status = use_context(first);
	if (status == 0)
		status = use_context(second);
	fake_finish(first);
	fake_finish(second);
	(void)mt_pool_trim(MT_ANY_DEVICE);
	covered = atomic_load(&fake.calls_all);
	fake.fail_at = 0;
	/* What could not be fenced goes when the program is out of memory, with its next free at
	 * the latest. */
	for (int i = 0; i < 4 && status == 0; i++) {
		fake_make_current(i & 1 ? second : first);
		status = get(&last, 1 * MB) == 0 && put(last) == 0 ? 0 : 20;
	}
	for (int device = 0; device < 2; device++)
		(void)fake_make_room(device);
	(void)mt_pool_trim(MT_ANY_DEVICE);
	return status ? status : atomic_load(&fake.wrongs) ? 30 : 0;
}

/* The blocks that the program has freed and the driver still has. */
static unsigned left_over(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < fake.highest_block; i++)
		count += fake.blocks[i].base != 0;
	return count;
}

static int child(uint64_t number, int code)
{
	int status;

	fake.fail_at = number;
	fake.fail_code = code;
	status = scenario();
	if (status)
		return status;
	/* A cuMemFree of ours that was refused is not tried again: that one block stays until its
	 * context goes. */
	if (left_over() > 1)
		return 40 + (int)(left_over() < 20 ? left_over() : 20);
	mt_context_ended(&fake.contexts[0], MT_ANY_INIT);
	mt_context_ended(&fake.contexts[1], MT_ANY_INIT);
	fake_destroy(&fake.contexts[0]);
	fake_destroy(&fake.contexts[1]);
	return fake.used || atomic_load(&fake.wrongs) || mt_pool_cached_bytes(0) ? 70
	       : covered < number                                                ? 99
										 : 0;
}

static void fail_each_call(int code)
{
	for (uint64_t number = 1; number < 10000; number++) {
		pid_t pid = fork();
		int status = 0;

		if (pid == 0)
			_exit(child(number, code));
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 99) {
			cr_expect_gt(number, 100, "it made calls");
			return;
		}
		cr_expect_eq(status, 0, "call %llu fails with %d: status %x (%d)",
			     (unsigned long long)number, code, (unsigned)status,
			     WEXITSTATUS(status));
	}
	cr_assert(false, "no end");
}

Test(pool_faults, any_call_out_of_memory)
{
	fail_each_call(MT_CU_OUT_OF_MEMORY);
}

Test(pool_faults, any_call_meets_an_illegal_address)
{
	fail_each_call(MT_CU_ILLEGAL_ADDRESS);
}

Test(pool_faults, any_call_fails_for_an_unknown_reason)
{
	fail_each_call(999);
}

Test(pool_faults, any_call_is_not_permitted)
{
	fail_each_call(MT_CU_STREAM_CAPTURE_UNSUPPORTED);
}

/* The address space ends here: no mapping succeeds from now on. */
static bool forbid_mappings(void)
{
	struct rlimit none = {0, 0};

	return setrlimit(RLIMIT_AS, &none) == 0;
}

static int without_tables(void)
{
	uint64_t dptr[2000];

	driver = fake_driver();
	fake_make_current(fake_context(0, 0));
	pool_settings("1000", "1");
	mt_pool_start(&driver, NULL);
	if (!forbid_mappings())
		return 1;
	for (int i = 0; i < 2000; i++)
		if (mt_pool_alloc(&dptr[i], 4096) != 0)
			return 2;
	for (int i = 0; i < 2000; i++)
		if (fake_free(dptr[i]) != 0)
			return 3;
	return left_over() ? 4 : 0;
}

Test(pool_faults, without_memory_for_tables_everything_is_the_drivers)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(without_tables());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
}

/* The tables have room for some and for no more. */
static int with_small_tables(void)
{
	static uint64_t dptr[20000];

	driver = fake_driver();
	fake_make_current(fake_context(0, 0));
	pool_settings("1000", "1");
	mt_pool_start(&driver, NULL);
	for (int i = 0; i < 20000; i++) {
		if (i == 100 && !forbid_mappings())
			return 1;
		if (mt_pool_alloc(&dptr[i], 4096) != 0)
			return 2;
	}
	if (is_known(dptr[19999]) || !is_known(dptr[0]))
		return 3;
	for (int i = 0; i < 20000; i++)
		if (fake_free(dptr[i]) != 0)
			return 4;
	(void)mt_pool_trim(MT_ANY_DEVICE);
	return left_over() ? 5 : 0;
}

Test(pool_faults, with_little_memory_for_tables_some_is_the_drivers)
{
	pid_t pid;
	int status = 0;

	/* Their runtimes themselves map memory, and end the process where there is none. */
#ifdef __SANITIZE_THREAD__
	return;
#endif
	if (is_under_valgrind())
		return;
	pid = fork();
	if (pid == 0)
		_exit(with_small_tables());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0, "%x", (unsigned)status);
}
