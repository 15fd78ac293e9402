/* test_capture.c -- the gate: recorders in flight are waited for, nobody comes in while a capture
 * is open, and it closes as often as it was raised. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "abi.h"
#include "gpu/capture.h"

static int capturing;

static int is_capturing(struct CUstream_st *stream, int *status)
{
	(void)stream;
	*status = capturing;
	return 0;
}

static int current(struct CUctx_st **context)
{
	*context = (struct CUctx_st *)0x1000;
	return 0;
}

static const struct mt_driver driver = {.cuStreamIsCapturing = is_capturing,
					.cuCtxGetCurrent = current};

static struct CUstream_st *stream(uintptr_t number)
{
	return (struct CUstream_st *)(number * 64);
}

static void begin(struct CUstream_st *which, int result)
{
	mt_capture_gate_close();
	mt_capture_after_begin(&driver, which, false, result);
}

Test(capture, lets_recorders_in_until_one_begins)
{
	cr_assert(mt_capture_gate_enter());
	cr_assert(mt_capture_gate_enter(), "one inside another");
	mt_capture_gate_leave();
	mt_capture_gate_leave();
	begin(stream(1), 0);
	cr_expect(mt_capture_is_open());
	cr_expect_not(mt_capture_gate_enter());
	mt_capture_after_end(&driver, stream(1), false, 0);
	cr_expect_not(mt_capture_is_open());
	cr_assert(mt_capture_gate_enter());
	mt_capture_gate_leave();
}

Test(capture, a_begin_that_fails_leaves_it_open_for_recorders)
{
	begin(stream(1), MT_CU_ILLEGAL_STATE);
	cr_expect_not(mt_capture_is_open());
}

Test(capture, stays_closed_until_the_last_of_many_ends)
{
	for (uintptr_t i = 1; i <= 300; i++)
		begin(stream(i), 0);
	for (uintptr_t i = 1; i <= 300; i++) {
		cr_expect(mt_capture_is_open());
		mt_capture_after_end(&driver, stream(i), false, 0);
	}
	cr_expect_not(mt_capture_is_open());
}

Test(capture, an_end_that_is_refused_changes_nothing)
{
	begin(stream(1), 0);
	capturing = MT_CU_CAPTURE_ACTIVE;
	mt_capture_after_end(&driver, stream(1), false, MT_CU_STREAM_CAPTURE_WRONG_THREAD);
	cr_expect(mt_capture_is_open());
	capturing = MT_CU_CAPTURE_NONE;
	mt_capture_after_end(&driver, stream(1), false, MT_CU_STREAM_CAPTURE_INVALIDATED);
	cr_expect_not(mt_capture_is_open());
}

Test(capture, an_end_of_what_never_began_changes_nothing)
{
	begin(stream(1), 0);
	mt_capture_after_end(&driver, stream(2), false, 0);
	cr_expect(mt_capture_is_open());
	mt_capture_after_end(&driver, stream(1), false, 0);
	mt_capture_after_end(&driver, stream(1), false, 0);
	cr_expect_not(mt_capture_is_open());
}

Test(capture, goes_with_its_stream_or_its_context)
{
	struct mt_capture *taken;

	begin(stream(1), 0);
	taken = mt_capture_stream_destroy_begin(stream(1));
	cr_expect(mt_capture_is_open(), "the driver has not destroyed it yet");
	mt_capture_stream_destroy_end(taken, 0);
	cr_expect_not(mt_capture_is_open());
	begin(stream(1), 0);
	begin(stream(2), 0);
	mt_capture_forget_context((struct CUctx_st *)0x2000);
	cr_expect(mt_capture_is_open());
	mt_capture_forget_context((struct CUctx_st *)0x1000);
	cr_expect_not(mt_capture_is_open());
}

Test(capture, of_a_new_stream_with_the_handle_of_one_just_destroyed_stays)
{
	struct mt_capture *taken;

	begin(stream(1), 0);
	taken = mt_capture_stream_destroy_begin(stream(1));
	begin(stream(1), 0); /* another thread's, before the driver's call has returned */
	mt_capture_stream_destroy_end(taken, 0);
	cr_expect(mt_capture_is_open());
	mt_capture_after_end(&driver, stream(1), false, 0);
	cr_expect_not(mt_capture_is_open());
}

static void *end_elsewhere(void *data)
{
	(void)data;
	mt_capture_after_end(&driver, NULL, true, 0);
	return NULL;
}

Test(capture, tells_the_per_thread_streams_of_threads_apart)
{
	pthread_t thread;

	mt_capture_gate_close();
	mt_capture_after_begin(&driver, NULL, true, 0);
	pthread_create(&thread, NULL, end_elsewhere, NULL);
	pthread_join(thread, NULL);
	cr_expect(mt_capture_is_open());
	mt_capture_after_end(&driver, (struct CUstream_st *)2, false, 0);
	cr_expect_not(mt_capture_is_open(), "the same stream by its other name");
}

static _Atomic int inside, over;
static _Atomic long broken;

static void *record(void *data)
{
	(void)data;
	while (!atomic_load(&over)) {
		if (!mt_capture_gate_enter())
			continue;
		atomic_fetch_add(&inside, 1);
		atomic_fetch_sub(&inside, 1);
		mt_capture_gate_leave();
	}
	return NULL;
}

Test(capture, no_recorder_is_inside_once_a_capture_has_begun)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, record, NULL);
	for (int i = 0; i < 2000; i++) {
		mt_capture_gate_close();
		broken += atomic_load(&inside) != 0;
		mt_capture_after_begin(&driver, stream(1), false, 0);
		broken += atomic_load(&inside) != 0;
		mt_capture_after_end(&driver, stream(1), false, 0);
	}
	atomic_store(&over, 1);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	cr_expect_eq(broken, 0);
}
