/* test_oom.c -- gpu/oom: who tells of an out-of-memory, where the worker and the end of the
 * process come together. The report's last step, its way into the stats file, is a double here: it
 * takes as long as a test wants it to. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "gpu/unpooled.h"
#include "core/config.h"
#include "sys/os.h"
#include "gpu/pool.h"
#include "core/control_file.h"
#include "python/python.h"
#include "gpu/driver.h"
#include "gpu/oom.h"
#include "core/publish.h"

#define UNUSED     __attribute__((unused))
#define A_WHILE_NS (100 * MT_NS_PER_MS)
#define STUCK_NS   (20 * MT_NS_PER_S)

static uint64_t telling_ns; /* what each report takes */
static sem_t begun;
static atomic_uint told;

/* ---- what stands around it ---- */

void mt_pool_usage(int device UNUSED, struct mt_pool_usage *out)
{
	*out = (struct mt_pool_usage){0};
}

static uint64_t ooms_count(void)
{
	return mt_load_relaxed(&mt_pool.devices[0].ooms);
}

static uint64_t retries_count(void)
{
	return mt_load_relaxed(&mt_pool.devices[0].retries);
}

void mt_unpooled_usage(int device UNUSED, struct mt_unpooled_usage *out)
{
	*out = (struct mt_unpooled_usage){0};
}

void mt_control_notify(uint32_t bits UNUSED)
{
}

uint64_t mt_framework_idle_bytes(int device UNUSED)
{
	return 0;
}

static void pause_for(uint64_t span_ns)
{
	static _Atomic uint32_t nobody_rings;
	uint64_t until = mt_os_now_ns() + span_ns;
	uint64_t now;

	while ((now = mt_os_now_ns()) < until)
		(void)mt_os_futex_wait(&nobody_rings, 0, until - now, MT_FUTEX_PRIVATE);
}

void mt_publish_add_oom(struct mt_stats_oom *oom UNUSED)
{
	uint64_t span_ns = telling_ns;

	sem_post(&begun);
	pause_for(span_ns);
	atomic_fetch_add(&told, 1);
}

/* ---- what happens ---- */

static void begin(void)
{
	const char *environment[] = {"MT_LOG=/dev/null", NULL};

	mt_config_read(environment);
	sem_init(&begun, 0, 0);
}

TestSuite(oom, .init = begin);

static void fail(uint64_t bytes)
{
	mt_oom_note("cuMemAlloc", bytes, 0, 0, 64 * MT_MIB);
}

static void let_time_pass(void)
{
	(void)mt_oom_tick(mt_os_now_ns() + MT_OOM_PATIENCE_NS);
}

static void meet_one(void)
{
	fail(100 * MT_MIB);
	let_time_pass();
}

static void *be_worker(void *unused)
{
	mt_oom_finish(false);
	return unused;
}

/* And is in the middle of it. */
static pthread_t let_worker_tell(uint64_t span_ns)
{
	pthread_t worker;

	telling_ns = span_ns;
	meet_one();
	cr_assert_eq(pthread_create(&worker, NULL, be_worker, NULL), 0);
	while (sem_wait(&begun) != 0)
		;
	return worker;
}

Test(oom, the_end_tells_what_nobody_has_told)
{
	meet_one();
	mt_oom_finish(true);
	cr_expect_eq(atomic_load(&told), 1);

	mt_oom_finish(false);
	mt_oom_finish(true);
	cr_expect_eq(atomic_load(&told), 1, "and nobody does again");
}

Test(oom, a_process_does_not_end_under_the_worker_that_is_telling)
{
	pthread_t worker = let_worker_tell(A_WHILE_NS);

	mt_oom_finish(true);

	cr_expect_eq(atomic_load(&told), 1);
	pthread_join(worker, NULL);
	cr_expect_eq(atomic_load(&told), 1, "by one of them");
}

Test(oom, a_process_ends_all_the_same_under_a_worker_that_is_stuck)
{
	pthread_t worker = let_worker_tell(STUCK_NS);
	uint64_t start = mt_os_now_ns();
	uint64_t took;

	mt_oom_finish(true);

	took = mt_os_now_ns() - start;
	cr_expect_eq(atomic_load(&told), 0);
	cr_expect(took >= MT_NS_PER_S && took < 10 * MT_NS_PER_S, "%llu ns",
		  (unsigned long long)took);
	pthread_detach(worker);
}

/* ---- the program's own second try ---- */

static void expect_reports(unsigned reports, uint64_t ooms, uint64_t retries)
{
	mt_oom_finish(false);
	cr_expect_eq(atomic_load(&told), reports, "%u reports", atomic_load(&told));
	cr_expect_eq(ooms_count(), ooms, "%llu errors", (unsigned long long)ooms_count());
	cr_expect_eq(retries_count(), retries, "%llu retries", (unsigned long long)retries_count());
}

Test(oom, what_a_framework_overcomes_with_an_empty_cache_is_no_alarm)
{
	fail(900 * MT_MIB);
	cr_expect(mt_oom_is_pending());
	fail(900 * MT_MIB); /* PyTorch gives a part of its cache back first */
	mt_oom_note_success(900 * MT_MIB, 0);

	let_time_pass();
	mt_oom_finish(true);
	cr_expect_not(mt_oom_is_pending());
	expect_reports(0, 0, 1);
}

Test(oom, what_bfc_overcomes_by_sampling_for_a_tenth_less_is_no_alarm)
{
	fail(900 * MT_MIB);
	fail(810 * MT_MIB);
	fail(729 * MT_MIB);
	mt_oom_note_success(657 * MT_MIB, 0);

	let_time_pass();
	expect_reports(0, 0, 1);
}

Test(oom, a_second_try_that_fails_too_is_one_alarm_of_both)
{
	fail(900 * MT_MIB);
	fail(900 * MT_MIB);
	expect_reports(0, 0, 0);

	let_time_pass();
	expect_reports(1, 2, 0);
}

Test(oom, a_thread_that_goes_on_with_something_smaller_has_given_up)
{
	fail(900 * MT_MIB);
	mt_oom_note_success(450 * MT_MIB, 0);
	expect_reports(1, 1, 0);
}

Test(oom, a_success_on_another_device_is_none)
{
	fail(900 * MT_MIB);
	mt_oom_note_success(900 * MT_MIB, 1);
	expect_reports(1, 1, 0);
}

Test(oom, a_program_whose_one_call_fails_is_told_when_its_time_is_up)
{
	uint64_t next_ns;

	fail(900 * MT_MIB);
	next_ns = mt_oom_tick(mt_os_now_ns());
	cr_expect_leq(next_ns, mt_os_now_ns() + MT_OOM_PATIENCE_NS);
	expect_reports(0, 0, 0);

	cr_expect_eq(mt_oom_tick(next_ns), UINT64_MAX);
	expect_reports(1, 1, 0);
}

Test(oom, a_program_that_ends_before_is_told_at_once)
{
	fail(900 * MT_MIB);
	mt_oom_finish(true);
	expect_reports(1, 1, 0);
}

static void *succeed_elsewhere(void *unused)
{
	mt_oom_note_success(900 * MT_MIB, 0);
	return unused;
}

Test(oom, another_threads_success_says_nothing_of_this_ones)
{
	pthread_t thread;

	fail(900 * MT_MIB);
	pthread_create(&thread, NULL, succeed_elsewhere, NULL);
	pthread_join(thread, NULL);
	cr_expect(mt_oom_is_pending());

	let_time_pass();
	expect_reports(1, 1, 0);
}

static void *fail_elsewhere(void *unused)
{
	fail(900 * MT_MIB);
	return unused;
}

Test(oom, more_threads_than_are_kept_push_the_oldest_out)
{
	pthread_t thread;

	for (int i = 0; i < MT_OOM_PENDING_MAX; i++) {
		pthread_create(&thread, NULL, fail_elsewhere, NULL);
		pthread_join(thread, NULL);
	}
	expect_reports(0, 0, 0);
	fail(900 * MT_MIB);
	expect_reports(1, 1, 0);
}
