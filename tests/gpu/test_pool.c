/* test_pool.c -- the pool over a scripted driver: what is reused and when, and what is never done.
 * Each test is a process of its own. */
#include <criterion/criterion.h>
#include <sys/wait.h>

#include "sys/os.h"
#include "pool_fixture.h"

static enum mt_pool_mode wanted_mode = MT_POOL_POOL;

static enum mt_pool_mode mode(bool *out_waits)
{
	*out_waits = false;
	return wanted_mode;
}

static void start(void)
{
	begin_with(mode, "5000");
}

TestSuite(pool, .init = start, .fini = finish);

static struct mt_pool_usage usage(int device)
{
	struct mt_pool_usage now;

	mt_pool_usage(device, &now);
	return now;
}

Test(pool, waits_for_work_enqueued_before_the_free)
{
	uint64_t dptr = allocate(4096);

	fake_issue(first);
	release(dptr);
	cr_expect_neq(allocate(4096), dptr);
	fake_finish(first);
	cr_expect_eq(allocate(4096), dptr);
}

/* One of the third device uses it only after a copy or by peer access. */
Test(pool, leaves_what_another_known_context_may_use_to_the_driver)
{
	struct CUctx_st *third = fake_context(2, 2);
	uint64_t dptr = allocate(4096);

	mt_context_created(third, 2);
	fake_issue(third);
	release(dptr);
	cr_expect_eq(allocate(4096), dptr);
	mt_context_join_devices();
	release(dptr);
	cr_expect_eq(fake_calls(FAKE_cuMemFree_v2), 1);
}

Test(pool, never_gives_a_block_to_another_context)
{
	uint64_t dptr = allocate(4096);

	release(dptr);
	fake_make_current(second);
	cr_expect_neq(allocate(4096), dptr);
	fake_make_current(first);
	cr_expect_eq(allocate(4096), dptr);
}

Test(pool, leaves_a_free_in_another_contexts_thread_to_the_driver)
{
	uint64_t dptr = allocate(4096);

	fake_make_current(second);
	release(dptr);
	cr_expect_eq(fake_calls(FAKE_cuMemFree_v2), 1);
	cr_expect_eq(mt_pool_cached_bytes(0), 0);
}

Test(pool, serves_a_request_of_few_pages_with_a_block_at_most_an_eighth_larger)
{
	uint64_t dptr = allocate(2 * MB);

	release(dptr);
	cr_expect_eq(allocate(2 * MB * 8 / 9 + 512), dptr);
	release(dptr);
	cr_expect_neq(allocate(2 * MB * 8 / 9 - 512), dptr);
}

Test(pool, a_block_does_not_wait_for_work_that_comes_after_its_free)
{
	uint64_t dptr[8];

	for (int i = 0; i < 8; i++)
		dptr[i] = allocate(4096);
	for (int i = 0; i < 8; i++)
		release(dptr[i]);
	fake_issue(first);
	for (int i = 0; i < 8; i++)
		(void)allocate(4096);
	cr_expect_eq(usage(0).hit_count, 8);
}

Test(pool, an_allocation_asks_about_a_thousand_pending_blocks_and_no_more)
{
	uint64_t dptr[2000], asked;

	for (int i = 0; i < 2000; i++)
		dptr[i] = allocate(4096);
	fake_issue(first);
	for (int i = 0; i < 2000; i++)
		release(dptr[i]);
	fake_finish(first);
	asked = fake_calls(FAKE_cuEventQuery);
	(void)allocate(2 * MB);
	cr_expect_leq(fake_calls(FAKE_cuEventQuery) - asked, 1024);
	(void)allocate(2 * MB);
	cr_expect_eq(usage(0).pending_bytes, 0, "the next one goes on");
}

Test(pool, reuses_its_events)
{
	uint64_t dptr[2000];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 2000; i++)
			dptr[i] = allocate(4096);
		fake_issue(first);
		for (int i = 0; i < 2000; i++)
			release(dptr[i]);
		fake_finish(first);
	}
	for (int i = 0; i < 2000; i++)
		dptr[i] = allocate(4096);
	release(dptr[0]);
	cr_expect_eq(allocate(4096), dptr[0]);
	cr_expect_leq(fake_events_alive(), 2000 + 2, "as many as were pending at one time");
}

static void begin_capture(void)
{
	mt_capture_gate_close();
	mt_capture_after_begin(&driver, (struct CUstream_st *)64, false, 0);
	atomic_store(&fake.is_capturing, true);
}

static void end_capture(void)
{
	atomic_store(&fake.is_capturing, false);
	mt_capture_after_end(&driver, (struct CUstream_st *)64, false, 0);
}

Test(pool, leaves_every_call_to_the_driver_while_a_capture_is_open_and_touches_no_event)
{
	uint64_t ready = allocate(4096), freed = allocate(8192), fresh;

	release(ready);
	cr_assert_eq(allocate(4096), ready);
	release(ready);
	begin_capture();
	release(freed);
	cr_expect_eq(mt_pool_cached_bytes(0), 4096, "what was there before, alone");
	fresh = allocate(4096);
	cr_expect_neq(fresh, ready);
	cr_expect_eq(mt_pool_trim(MT_ANY_DEVICE), 0);
	end_capture();
	cr_expect_eq(allocate(4096), ready);
}

Test(pool, fences_a_block_that_was_freed_before_a_capture_without_the_work_that_follows)
{
	uint64_t dptr = allocate(4096);

	release(dptr);
	begin_capture();
	fake_issue(first); /* the graph is launched */
	end_capture();
	cr_expect_eq(allocate(4096), dptr);
}

Test(pool, counts_a_free_in_stream_order_as_the_drivers)
{
	uint64_t dptr = allocate(4096);

	cr_expect(mt_pool_disown(dptr));
	cr_expect_eq(usage(0).free_count, 1);
	cr_expect_eq(usage(0).num_device_free, 1);
}

Test(pool, counts_what_pytorch_counts)
{
	uint64_t small = allocate(1000), large = allocate(10 * MB);
	struct mt_pool_usage now = usage(0);

	cr_expect_eq(now.requested_bytes, 1000 + 10 * MB);
	cr_expect_eq(now.allocated_bytes, 1024 + 10 * MB);
	cr_expect_eq(now.blocks_count, 2);
	release(large);
	now = usage(0);
	cr_expect_eq(now.allocated_bytes, 1024);
	cr_expect_eq(now.reserved_bytes, 1024 + 10 * MB);
	cr_expect_eq(now.idle_bytes, 10 * MB);
	cr_expect_eq(now.allocated_peak_bytes, 1024 + 10 * MB);
	cr_expect_eq(mt_pool_trim(MT_ANY_DEVICE), 10 * MB);
	now = usage(0);
	cr_expect_eq(now.reserved_bytes, 1024);
	cr_expect_eq(now.num_device_free, 1);
	cr_expect_eq(now.num_device_alloc, 2);
	mt_pool_reset_peak();
	cr_expect_eq(usage(0).reserved_peak_bytes, 1024);
	release(small);
	mt_add_relaxed(&mt_pool_device(0)->ooms, 3);
	cr_expect_eq(usage(0).num_ooms, 3);
	cr_expect_eq(usage(0).num_alloc_retries, 0);
	mt_add_relaxed(&mt_pool_device(0)->retries, 1);
	cr_expect_eq(usage(0).num_alloc_retries, 1);
	cr_expect_eq(usage(1).alloc_count, 0);
}

Test(pool, gives_back_a_few_at_a_time_oldest_first)
{
	uint64_t dptr[4], next_ms;

	for (int i = 0; i < 4; i++)
		dptr[i] = allocate((10 + (size_t)i) * MB);
	for (int i = 0; i < 4; i++)
		release(dptr[i]);
	cr_expect_eq(mt_pool_tick(mt_os_now_ns() + 6000 * MT_NS_PER_MS, 2, &next_ms), 21 * MB);
	cr_expect_leq(next_ms, 100);
	cr_expect_not(is_known(dptr[0]));
	cr_expect(is_known(dptr[3]));
}

Test(pool, gives_nothing_back_by_itself_while_held_but_makes_room_all_the_same)
{
	uint64_t next_ms;

	release(allocate(10 * MB));
	mt_store_relaxed(&mt_pool.pauses_release, true);
	cr_expect_eq(mt_pool_tick(mt_os_now_ns() + 6000 * MT_NS_PER_MS, 8, &next_ms), 0);
	cr_expect_eq(mt_pool_trim(MT_ANY_DEVICE), 0);
	cr_expect_eq(fake_make_room(-1), 10 * MB);

	release(allocate(10 * MB));
	mt_store_relaxed(&mt_pool.pauses_release, false);
	cr_expect_eq(mt_pool_trim(MT_ANY_DEVICE), 10 * MB);
}

Test(pool, the_worker_never_frees_what_is_pending)
{
	uint64_t dptr = allocate(10 * MB), next_ms;

	fake_issue(first);
	release(dptr);
	cr_expect_eq(mt_pool_tick(mt_os_now_ns() + 600000 * MT_NS_PER_MS, 8, &next_ms), 0);
	cr_expect_leq(next_ms, 100, "come again");
	cr_expect_eq(mt_pool_trim(MT_ANY_DEVICE), 0);
	cr_expect_eq(fake_calls(FAKE_cuMemFree_v2), 0);
	fake_finish(first);
	cr_expect_eq(mt_pool_trim(MT_ANY_DEVICE), 10 * MB);
}

Test(pool, changes_from_pool_to_account_when_told_to)
{
	uint64_t dptr = allocate(4096), next_ms;

	release(dptr);
	wanted_mode = MT_POOL_ACCOUNT;
	mt_pool_update_mode();
	cr_expect_eq(mt_pool_mode_of(0), MT_POOL_ACCOUNT);
	cr_expect_neq(allocate(4096), dptr);
	(void)mt_pool_tick(mt_os_now_ns() + MT_NS_PER_MS, 8, &next_ms);
	cr_expect_not(is_known(dptr));
}

Test(pool, takes_a_new_context_with_the_handle_of_a_dead_one)
{
	uint64_t dptr = allocate(4096);

	release(dptr);
	mt_context_ended(first, MT_ANY_INIT);
	fake_destroy(first);
	(void)fake_context(0, 0);
	cr_expect_neq(allocate(4096), dptr);
}

Test(pool, replaces_the_record_of_a_context_that_died_unseen)
{
	uint64_t dptr = allocate(4096);

	release(dptr);
	fake.next_base = dptr;
	fake_destroy(first);
	fake_make_current(second);
	cr_expect_eq(allocate(4096), dptr);
	cr_expect_eq(usage(0).reserved_bytes, 0);
	cr_expect_eq(usage(1).allocated_bytes, 4096);
	(void)fake_context(0, 0);
	release(dptr);
	cr_expect_eq(usage(1).allocated_bytes, 0);
}

Test(pool, counts_a_context_that_allocates_in_another_way)
{
	uint64_t dptr = allocate(4096);

	fake_make_current(second);
	mt_context_join_devices();
	fake_make_current(first);
	release(dptr);
	cr_expect_eq(fake_calls(FAKE_cuMemFree_v2), 1);
}

Test(pool,
     takes_a_context_that_is_made_for_another_one_though_it_has_the_handle_of_one_that_ended_unseen)
{
	uint64_t dptr = allocate(4096);

	release(dptr);
	cr_assert_eq(allocate(4096), dptr);
	release(dptr);
	fake_destroy(first);
	(void)fake_context(0, 0);
	mt_context_created(first, 0);
	cr_expect_neq(allocate(4096), dptr);
}

static int one_device(int *count)
{
	*count = 1;
	return 0;
}

Test(pool, asks_for_a_primary_context_only_where_none_can_be_ended_meanwhile)
{
	uint64_t dptr;

	driver.cuDeviceGetCount = one_device;
	fake.primary[0] = first;
	dptr = allocate(4096);
	cr_expect_eq(fake_calls(FAKE_cuDevicePrimaryCtxRetain), 0, "not at an allocation");
	mt_capture_gate_close();
	release(dptr);
	cr_expect_eq(fake_calls(FAKE_cuDevicePrimaryCtxRetain), 0, "nor while one may end");
	mt_capture_after_begin(&driver, NULL, false, MT_CU_INVALID_VALUE);
	release(allocate(4096));
	cr_expect_eq(fake_calls(FAKE_cuDevicePrimaryCtxRetain), 1);
}

Test(pool, stops_in_a_context_with_a_sticky_error)
{
	uint64_t dptr = allocate(4096), other = allocate(4096);

	fake.fail_of = FAKE_cuCtxRecordEvent;
	fake.fail_of_code = MT_CU_ILLEGAL_ADDRESS;
	release(dptr);
	cr_expect_neq(allocate(4096), dptr);
	release(other);
	cr_expect_geq(fake_calls(FAKE_cuMemFree_v2), 1, "the driver's answer from now on");
	cr_expect_eq(mt_pool_mode_of(0), MT_POOL_ACCOUNT);
}

/* ---- without cuCtxRecordEvent ---- */

Test(pool, tells_apart_what_is_not_ours_at_the_only_look)
{
	uint64_t dptr = allocate(4096);
	int result = -1;

	cr_expect_not(mt_pool_free(dptr + 512, &result));
	cr_expect_eq(result, -1);
	cr_expect_eq(fake_calls(FAKE_cuMemFree_v2), 0);
	cr_expect(mt_pool_free(dptr, &result));
	cr_expect_eq(result, MT_CU_SUCCESS);
	cr_expect(mt_pool_free(dptr, &result));
	cr_expect_eq(result, MT_CU_INVALID_VALUE);
}

Test(pool, peaks_are_of_all_contexts_of_a_device)
{
	uint64_t dptr;

	second->device = 0;
	fake_make_current(second);
	(void)allocate(3 * MB);
	fake_make_current(first);
	dptr = allocate(2 * MB);
	cr_expect_eq(usage(0).allocated_peak_bytes, 5 * MB);
	mt_context_ended(second, MT_ANY_INIT);
	fake_destroy(second);
	(void)allocate(4 * MB);
	cr_expect_eq(usage(0).allocated_peak_bytes, 6 * MB);
	release(dptr);
	cr_expect_eq(usage(0).reserved_peak_bytes, 6 * MB);
}
