/* test_pool_waits.c -- who waits for whom: ends of contexts, captures that begin, calls into the
 * driver that do not return, threads that are cancelled. Each test is a process of its own; one
 * that hangs is ended by the time limit of tests/run. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/os.h"
#include "pool_fixture.h"

static int count_devices(int *count)
{
	*count = 2;
	return 0;
}

static void start(void)
{
	begin_with(NULL, "1000");
	driver.cuDeviceGetCount = count_devices;
}

TestSuite(pool_waits, .init = start, .fini = finish);

static void wait_for(_Atomic bool *flag)
{
	while (!atomic_load(flag))
		usleep(100);
}

/* The thread of ours that stands in the driver's `held_call` until it is let go. */
static enum fake_call held_call;
static _Atomic bool is_held, is_let_go;
static __thread bool is_ours;

static void hold(enum fake_call call)
{
	if (!is_ours || call != held_call || atomic_exchange(&is_held, true))
		return;
	wait_for(&is_let_go);
}

static void *tick(void *unused)
{
	uint64_t next_ms;

	is_ours = true;
	(void)mt_pool_tick(mt_os_now_ns() + 60 * MT_NS_PER_S, 64, &next_ms);
	return unused;
}

static void *free_in_first(void *dptr)
{
	is_ours = true;
	fake_make_current(first);
	release(*(uint64_t *)dptr);
	return NULL;
}

static void *end_first(void *unused)
{
	mt_context_ended(first, MT_ANY_INIT);
	return unused;
}

Test(pool_waits, a_context_that_ends_waits_for_a_fence_that_meets_a_new_context)
{
	pthread_t worker, ender;
	uint64_t dptr = allocate(4096);

	fake_issue(first);
	fake.primary[0] = second;
	second->device = 0;
	held_call = FAKE_cuDevicePrimaryCtxRetain;
	fake.on_call = hold;
	pthread_create(&worker, NULL, free_in_first, &dptr);
	wait_for(&is_held);
	pthread_create(&ender, NULL, end_first, NULL);
	usleep(20000);
	atomic_store(&is_let_go, true);
	pthread_join(worker, NULL);
	pthread_join(ender, NULL);
	cr_expect_eq(mt_pool_cached_bytes(0), 0);
}

/* ---- captures that begin while we are in the driver ---- */

static pthread_t tick_in(enum fake_call call)
{
	pthread_t worker;

	held_call = call;
	fake.on_call = hold;
	pthread_create(&worker, NULL, tick, NULL);
	wait_for(&is_held);
	return worker;
}

static void let_go(pthread_t thread)
{
	atomic_store(&is_let_go, true);
	pthread_join(thread, NULL);
}

static void begin_capture(void)
{
	mt_capture_gate_close();
	mt_capture_after_begin(&driver, (struct CUstream_st *)64, false, MT_CU_SUCCESS);
}

Test(pool_waits, a_capture_begins_while_a_decay_waits_for_the_device)
{
	pthread_t worker;

	release(allocate(4096));
	worker = tick_in(FAKE_cuMemFree_v2);
	begin_capture();
	cr_expect(mt_capture_is_open());
	let_go(worker);
	cr_expect_eq(fake_calls(FAKE_cuMemFree_v2), 1);
}

static _Atomic int mode_in_free = -1;

static void note_mode(enum fake_call call)
{
	int mode = MT_CU_CAPTURE_RELAXED;

	if (call != FAKE_cuMemFree_v2)
		return;
	(void)driver.cuThreadExchangeStreamCaptureMode(&mode);
	atomic_store(&mode_in_free, mode);
	(void)driver.cuThreadExchangeStreamCaptureMode(&mode);
}

Test(pool_waits, gives_back_in_relaxed_mode_in_a_programs_thread_too)
{
	release(allocate(4096));
	fake.on_call = note_mode;
	cr_expect_eq(fake_make_room(-1), 4096);
	cr_expect_eq(atomic_load(&mode_in_free), MT_CU_CAPTURE_RELAXED);
}

static _Atomic bool is_closed;
static struct CUctx_st *ended_context;

static void *close_gate(void *unused)
{
	mt_capture_gate_close();
	mt_context_pause(ended_context);
	atomic_store(&is_closed, true);
	mt_capture_gate_open();
	return unused;
}

Test(pool_waits, the_end_of_a_primary_context_waits_for_a_decay)
{
	pthread_t worker, ender;

	release(allocate(4096));
	(void)fake_cuCtxGetCurrent(&ended_context);
	worker = tick_in(FAKE_cuMemFree_v2);
	pthread_create(&ender, NULL, close_gate, NULL);
	usleep(20000);
	cr_expect_not(atomic_load(&is_closed));
	let_go(worker);
	pthread_join(ender, NULL);
	cr_expect_not(mt_capture_is_open());
}

Test(pool_waits, an_ended_context_in_which_a_call_never_returns_holds_up_nobody)
{
	struct mt_context *context;
	uint64_t next_ms, began_ns;

	release(allocate(4096));
	context = mt_context_current();
	cr_assert(mt_context_hold(context)); /* as a thread whose call does not return */
	began_ns = mt_os_now_ns();
	mt_context_ended(first, MT_ANY_INIT);
	cr_expect_lt(mt_os_now_ns() - began_ns, 10 * MT_NS_PER_S);
	cr_expect_not(mt_context_pools(context), "another context may have the handle now");
	fake.on_call = note_mode;
	atomic_store(&mode_in_free, -1);
	(void)mt_pool_tick(0, 64, &next_ms);
	cr_expect_eq(mt_pool_cached_bytes(0), 0);
	cr_expect_eq(atomic_load(&mode_in_free), -1,
		     "no block of it is freed: its address may be another's");
	mt_context_drop(context);
}

Test(pool_waits, the_end_of_an_unknown_context_leaves_the_next_one_with_its_handle)
{
	struct CUctx_st *context = NULL;
	uint32_t init;

	(void)fake_cuCtxGetCurrent(&context);
	init = mt_context_pause(context);
	release(allocate(4096));
	mt_context_ended(context, init);
	cr_expect_eq(fake_make_room(-1), 4096, "the pool still knows its block");
}

Test(pool_waits, gives_back_idle_blocks_in_a_capture_to_an_allocation_that_the_driver_would_serve)
{
	uint64_t next_ms, dptr = 0;

	fake.capacity = 64 * MB;
	release(allocate(40 * MB));
	(void)mt_pool_tick(0, 64, &next_ms);
	begin_capture();
	fake.on_call = note_mode;
	cr_expect_eq(mt_pool_alloc(&dptr, 50 * MB), MT_CU_SUCCESS);
	cr_expect_eq(atomic_load(&mode_in_free), MT_CU_CAPTURE_RELAXED,
		     "no capture that another thread begins minds it");
}

Test(pool_waits, gives_nothing_back_to_a_context_that_may_end_now)
{
	struct CUctx_st *context = NULL;
	uint64_t next_ms, dptr = 0;

	fake.capacity = 64 * MB;
	release(allocate(40 * MB));
	(void)mt_pool_tick(0, 64, &next_ms);
	(void)fake_cuCtxGetCurrent(&context);
	begin_capture();
	mt_context_pause(context);
	cr_expect_eq(mt_pool_alloc(&dptr, 50 * MB), MT_CU_OUT_OF_MEMORY);
	mt_context_resume(context);
	cr_expect_eq(mt_pool_alloc(&dptr, 50 * MB), MT_CU_SUCCESS);
}

/* ---- what another thread does at any moment of a shortage. All that is live has room, so that the
 * driver alone is never out of memory ---- */

static uint64_t calls_left; /* of the thread that is short, before the other one goes on */
static _Atomic bool is_short, is_turn;

static void *ask_for_little(void *unused)
{
	is_ours = true;
	fake_make_current(first);
	(void)allocate(1 * MB);
	return unused;
}

/* Holds the other thread in its question, which is over at one call of this one. */
static void end_question(enum fake_call call)
{
	struct mt_pool_usage usage;

	if (is_ours)
		hold(call);
	else if (atomic_load(&is_held) && calls_left-- == 0)
		for (atomic_store(&is_let_go, true); mt_pool_usage(0, &usage), !usage.idle_bytes;)
			usleep(100);
}

static int meet_question(void)
{
	uint64_t dptr = allocate(40 * MB);
	pthread_t thread;
	int result;

	fake_issue(first);
	release(dptr);
	fake_finish(first);
	held_call = FAKE_cuEventQuery;
	fake.on_call = end_question;
	pthread_create(&thread, NULL, ask_for_little, NULL);
	wait_for(&is_held);
	result = mt_pool_alloc(&dptr, 50 * MB);
	atomic_store(&is_let_go, true);
	pthread_join(thread, NULL);
	return result;
}

static void *decay(void *unused)
{
	wait_for(&is_turn);
	fake_finish(first);
	(void)tick(unused);
	atomic_store(&is_held, true); /* or there was none to free */
	return unused;
}

/* The device is done at one call of this thread, and the other one begins to free the block, which
 * takes a while. */
static void begin_free(enum fake_call call)
{
	if (is_ours && call == FAKE_cuMemFree_v2) {
		atomic_store(&is_held, true);
		usleep(20000);
	} else if (!is_ours && call == FAKE_cuMemAlloc_v2) {
		atomic_store(&is_short, true);
	}
	if (!is_ours && atomic_load(&is_short) && calls_left-- == 0)
		for (atomic_store(&is_turn, true); !atomic_load(&is_held);)
			usleep(100);
}

static int meet_free(void)
{
	uint64_t dptr = allocate(40 * MB);
	pthread_t thread;
	int result;

	fake_issue(first);
	release(dptr);
	fake.on_call = begin_free;
	pthread_create(&thread, NULL, decay, NULL);
	result = mt_pool_alloc(&dptr, 50 * MB);
	atomic_store(&is_turn, true);
	pthread_join(thread, NULL);
	return result;
}

static void meet_at_any_call(int (*meet)(void))
{
	fake.capacity = 64 * MB;
	for (calls_left = 0; calls_left < 40; calls_left++) {
		int status;
		pid_t pid = fork();

		if (pid == 0)
			_exit(meet());
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_expect_eq(status, 0, "at call %d: %x", (int)calls_left, (unsigned)status);
	}
}

Test(pool_waits, a_block_that_another_thread_finds_idle_at_any_moment_of_a_shortage_is_released)
{
	meet_at_any_call(meet_question);
}

Test(pool_waits, a_block_that_another_thread_releases_at_any_moment_of_a_shortage_is_waited_for)
{
	meet_at_any_call(meet_free);
}

/* ---- out of memory for events ---- */

static void fail(enum fake_call call, int code)
{
	fake.fail_of = call;
	fake.fail_of_code = code;
}

Test(pool_waits, a_full_device_without_memory_for_an_event_gives_what_is_cached_back)
{
	uint64_t dptr;

	fake.capacity = 64 * MB;
	dptr = allocate(40 * MB);
	fake_issue(first);
	fail(FAKE_cuEventCreate, MT_CU_OUT_OF_MEMORY);
	release(dptr);
	cr_expect_neq(allocate(50 * MB), 0);
	cr_expect_eq(mt_pool_cached_bytes(0), 0);
}

Test(pool_waits, the_driver_frees_a_block_for_which_it_has_no_event)
{
	uint64_t dptr = allocate(4096);

	fail(FAKE_cuEventCreate, MT_CU_OUT_OF_MEMORY);
	release(dptr);
	cr_expect_eq(fake_calls(FAKE_cuMemFree_v2), 1);
	cr_expect_eq(mt_pool_cached_bytes(0), 0);
	fail(FAKE_cuEventCreate, 0);
	dptr = allocate(4096);
	release(dptr);
	cr_expect_eq(allocate(4096), dptr, "a later one is cached");
}

/* ---- cancelled threads ---- */

static enum fake_call cancelling_call;

static void be_cancelled(enum fake_call call)
{
	if (!is_ours || call != cancelling_call)
		return;
	pthread_cancel(pthread_self());
	pthread_testcancel(); /* as a poll in the driver */
}

static void *use_pool(void *unused)
{
	uint64_t dptr = 0;

	is_ours = true;
	fake_make_current(first);
	for (int i = 0; i < 3; i++)
		if (mt_pool_alloc(&dptr, 4096) == 0)
			(void)fake_free(dptr);
	(void)fake_make_room(-1);
	pthread_testcancel();
	return unused;
}

static void expect_no_trace_of_a_thread_cancelled_in(enum fake_call call)
{
	void *result = NULL;
	pthread_t thread;

	cancelling_call = call;
	fake.on_call = be_cancelled;
	pthread_create(&thread, NULL, use_pool, NULL);
	pthread_join(thread, &result);
	cr_expect_eq(result, PTHREAD_CANCELED);
	fake.on_call = NULL;
	mt_capture_gate_close();
	mt_context_ended(first, MT_ANY_INIT);
	mt_capture_gate_open();
	cr_expect_eq(mt_pool_cached_bytes(0), 0);
}

Test(pool_waits, a_thread_cancelled_at_an_events_record_leaves_no_trace)
{
	expect_no_trace_of_a_thread_cancelled_in(FAKE_cuCtxRecordEvent);
}

Test(pool_waits, a_thread_cancelled_at_an_events_query_leaves_no_trace)
{
	expect_no_trace_of_a_thread_cancelled_in(FAKE_cuEventQuery);
}

Test(pool_waits, a_thread_cancelled_at_a_free_of_ours_leaves_no_trace)
{
	expect_no_trace_of_a_thread_cancelled_in(FAKE_cuMemFree_v2);
}

static void *fill_up(void *unused)
{
	uint64_t dptr;

	fake_make_current(first);
	(void)mt_pool_alloc(&dptr, 50 * MB);
	pthread_testcancel();
	return unused;
}

Test(pool_waits, a_thread_cancelled_while_it_waits_for_memory_leaves_no_trace)
{
	uint64_t dptr;
	pthread_t thread;

	fake.capacity = 64 * MB;
	dptr = allocate(40 * MB);
	fake_issue(first);
	release(dptr);
	pthread_create(&thread, NULL, fill_up, NULL);
	usleep(50000);
	pthread_cancel(thread);
	usleep(20000);
	fake_finish(first);
	pthread_join(thread, NULL);
	mt_context_ended(first, MT_ANY_INIT);
	cr_expect_eq(mt_pool_cached_bytes(0), 0);
}
