/* test_account.c -- account: sums over threads that live, hand over, die, and are left behind by
 * fork. Each test is a process of its own, and so begins with no key taken and nothing counted. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/worker.h"
#include "heap/account.h"

#define THREADS 64

static void count_in(uint64_t bytes)
{
	(void)mt_account_bump(&mt_thread_counters.allocated_bytes, bytes);
}

/* As the heap entries do: the thread is counted with its first use, be it a free. */
static void count_out(uint64_t bytes)
{
	if (!mt_account_bump_known(&mt_thread_counters.freed_bytes, bytes))
		mt_account_thread_born(NULL);
}

static struct mt_account_totals totals(void)
{
	struct mt_account_totals now = {1, 2, 3, 4};

	cr_assert(mt_account_read(&now));
	return now;
}

static void expect_totals(uint64_t allocated, uint64_t freed, uint64_t threads)
{
	struct mt_account_totals now = totals();

	cr_expect_eq(now.allocated_bytes, allocated, "allocated %llu",
		     (unsigned long long)now.allocated_bytes);
	cr_expect_eq(now.freed_bytes, freed, "freed %llu", (unsigned long long)now.freed_bytes);
	cr_expect_eq(now.live_bytes, allocated > freed ? allocated - freed : 0);
	cr_expect_eq(now.threads_count, threads, "%llu threads",
		     (unsigned long long)now.threads_count);
}

Test(account, knows_nothing_before_it_is_started)
{
	struct mt_account_totals out = {1, 2, 3, 4};

	mt_account_thread_born(NULL);
	cr_expect_not(mt_account_read(&out));
	cr_expect_eq(out.allocated_bytes, 1, "left as it was");
}

static bool read_of_who_never_began(const void *counters, uint64_t *out_allocated,
				    uint64_t *out_freed)
{
	(void)counters;
	(void)out_allocated;
	(void)out_freed;
	cr_assert_fail("an allocator that could not begin is asked nothing");
	return false;
}

static void nobody_hears(void)
{
}

Test(account, an_allocator_that_could_not_begin_leaves_nothing_known)
{
	struct mt_account_totals out = {1, 2, 3, 4};

	mt_account_start(read_of_who_never_began, nobody_hears);
	mt_account_thread_born(&out);
	mt_account_watch_main(nobody_hears);
	cr_expect_not(mt_account_read(&out), "nothing was counted, which is not 0 bytes");
}

Test(account, counts_one_thread)
{
	mt_account_start(NULL, NULL);
	expect_totals(0, 0, 0);
	mt_account_thread_born(NULL);
	count_in(1000);
	count_out(300);
	expect_totals(1000, 300, 1);
	mt_account_thread_born(NULL);
	expect_totals(1000, 300, 1);
}

Test(account, a_first_free_makes_a_thread_known)
{
	mt_account_start(NULL, NULL);
	count_out(40);
	count_in(100);
	count_out(2);
	expect_totals(100, 42, 1);
}

Test(account, answers_zero_while_a_free_is_seen_before_its_allocation)
{
	mt_account_start(NULL, NULL);
	count_out(500);
	expect_totals(0, 500, 1);
}

Test(account, keeps_errno)
{
	mt_account_start(NULL, NULL);
	errno = ERANGE;
	mt_account_thread_born(NULL);
	cr_expect_eq(errno, ERANGE);
}

static pthread_barrier_t barrier;

/* Counts in, waits to be looked at, counts out half, waits again. */
static void *live_and_die(void *number)
{
	uint64_t bytes = (uint64_t)(uintptr_t)number * 16;

	mt_account_thread_born(NULL);
	count_in(bytes);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	count_out(bytes / 2);
	return NULL;
}

static void start_threads(pthread_t *threads, void *(*body)(void *))
{
	for (uintptr_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, body, (void *)(i + 1)), 0);
}

static void join_threads(pthread_t *threads)
{
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

Test(account, sums_up_the_living_and_the_dead)
{
	const uint64_t all = THREADS * (THREADS + 1) / 2 * 16;
	pthread_t threads[THREADS];

	mt_account_start(NULL, NULL);
	count_out(0);
	for (uint64_t round = 0; round < 3; round++) {
		pthread_barrier_init(&barrier, NULL, THREADS + 1);
		start_threads(threads, live_and_die);
		pthread_barrier_wait(&barrier);
		expect_totals(all * (round + 1), all / 2 * round, THREADS + 1);
		pthread_barrier_wait(&barrier);
		join_threads(threads);
		expect_totals(all * (round + 1), all / 2 * (round + 1), 1);
		pthread_barrier_destroy(&barrier);
	}
}

static void *only_free(void *bytes)
{
	count_out((uint64_t)(uintptr_t)bytes);
	return NULL;
}

Test(account, a_block_may_be_freed_by_another_thread)
{
	pthread_t threads[THREADS];

	mt_account_start(NULL, NULL);
	mt_account_thread_born(NULL);
	count_in(THREADS * (THREADS + 1) / 2);
	start_threads(threads, only_free);
	join_threads(threads);
	expect_totals(THREADS * (THREADS + 1) / 2, THREADS * (THREADS + 1) / 2, 1);
}

static pthread_key_t late_key;

#ifndef __SANITIZE_THREAD__ /* it has the last round to itself: see account.c */
static _Atomic uint32_t late_rounds;

/* Another key's destructor that uses the heap in every round there is. */
static void use_heap_late(void *value)
{
	count_in(1000);
	count_out(10);
	atomic_fetch_add(&late_rounds, 1);
	(void)pthread_setspecific(late_key, value);
}

static void *die_slowly(void *unused)
{
	(void)unused;
	(void)pthread_setspecific(late_key, &late_key);
	mt_account_thread_born(NULL);
	count_in(1);
	return NULL;
}

static void die_slowly_and_look(void)
{
	pthread_t threads[THREADS];

	count_out(0);
	start_threads(threads, die_slowly);
	join_threads(threads);
	cr_expect_geq(late_rounds, THREADS * 4, "glibc runs 4 rounds");
	expect_totals(THREADS + 1000 * (uint64_t)late_rounds, 10 * (uint64_t)late_rounds, 1);
}

Test(account, counts_what_destructors_of_a_key_made_before_it_do)
{
	cr_assert_eq(pthread_key_create(&late_key, use_heap_late), 0);
	mt_account_start(NULL, NULL);
	die_slowly_and_look();
}

Test(account, counts_what_destructors_of_a_key_made_after_it_do)
{
	mt_account_start(NULL, NULL);
	cr_assert_eq(pthread_key_create(&late_key, use_heap_late), 0);
	die_slowly_and_look();
}
#endif

/* The heap is used for the first time by the destructor itself. */
static void *die_unknown(void *unused)
{
	(void)unused;
	(void)pthread_setspecific(late_key, &late_key);
	return NULL;
}

static void use_heap_first(void *unused)
{
	(void)unused;
	count_out(7);
}

Test(account, counts_a_thread_that_is_born_while_it_dies)
{
	pthread_t threads[THREADS];

	mt_account_start(NULL, NULL);
	cr_assert_eq(pthread_key_create(&late_key, use_heap_first), 0);
	start_threads(threads, die_unknown);
	join_threads(threads);
	expect_totals(0, 7 * THREADS, 0);
}

/* How many keys of the first 32 are to be had; none is kept. */
static unsigned low_keys(void)
{
	pthread_key_t keys[64];
	unsigned low = 0;

	for (int i = 0; i < 64; i++) {
		cr_assert_eq(pthread_key_create(&keys[i], NULL), 0);
		low += keys[i] < 32;
	}
	for (int i = 0; i < 64; i++)
		pthread_key_delete(keys[i]);
	return low;
}

Test(account, leaves_the_keys_that_it_tried_to_others)
{
	unsigned before = low_keys();

	mt_account_start(NULL, NULL);
	cr_expect_eq(low_keys(), before - 1);
}

/* ---- an allocator that counts by itself ---- */

static const uint64_t own_counters[2] = {5000, 1200};
static bool can_read = true;

static bool read_own(const void *counters, uint64_t *out_allocated, uint64_t *out_freed)
{
	const uint64_t *from = counters;

	*out_allocated = from ? from[0] : 0;
	*out_freed = from ? from[1] : 0;
	return can_read;
}

Test(account, adds_the_allocators_own_counters_to_what_the_thread_has_counted)
{
	struct mt_account_totals out;

	mt_account_start(read_own, NULL);
	mt_account_thread_born(own_counters);
	count_in(77);
	expect_totals(5077, 1200, 1);
	can_read = false;
	cr_expect_not(mt_account_read(&out));
}

static void *born_with_own(void *unused)
{
	(void)unused;
	mt_account_thread_born(own_counters);
	return NULL;
}

Test(account, folds_the_allocators_own_counters_when_a_thread_dies)
{
	pthread_t threads[THREADS];

	mt_account_start(read_own, NULL);
	start_threads(threads, born_with_own);
	join_threads(threads);
	expect_totals(5000 * THREADS, 1200 * THREADS, 0);
}

/* ---- fork ---- */

/* What the child finds wrong, as its exit code. */
static int look_in_child(uint64_t allocated, uint64_t freed)
{
	pthread_t thread;
	struct mt_account_totals now;

	if (!mt_account_read(&now) || now.allocated_bytes != allocated || now.freed_bytes != freed)
		return 1;
	if (now.threads_count != 1)
		return 2;
#ifdef __SANITIZE_THREAD__
	return 0; /* it lets no child of threads start another */
#endif
	count_in(50);
	if (pthread_create(&thread, NULL, only_free, (void *)(uintptr_t)20) != 0)
		return 3;
	pthread_join(thread, NULL);
	if (!mt_account_read(&now) || now.allocated_bytes != allocated + 50 ||
	    now.freed_bytes != freed + 20)
		return 4;
	return now.threads_count == 1 ? 0 : 5;
}

Test(account, a_forked_child_keeps_the_sums_and_none_of_the_threads)
{
	const uint64_t all = THREADS * (THREADS + 1) / 2 * 16;
	pthread_t threads[THREADS];
	int status = -1;
	pid_t child;

	mt_account_start(NULL, NULL);
	count_out(5);
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	start_threads(threads, live_and_die);
	pthread_barrier_wait(&barrier);
	mt_account_fork_prepare();
	child = fork();
	if (child == 0) {
		mt_account_fork_child();
		_exit(look_in_child(all, 5));
	}
	mt_account_fork_parent();
	waitpid(child, &status, 0);
	cr_expect(WIFEXITED(status));
	cr_expect_eq(WEXITSTATUS(status), 0, "see look_in_child: %d", WEXITSTATUS(status));
	expect_totals(all, 5, THREADS + 1);
	pthread_barrier_wait(&barrier);
	join_threads(threads);
	expect_totals(all, 5 + all / 2, 1);
}

/* ---- reading while others count ---- */

/* ThreadSanitizer rightly says that the owner's plain addition is no atomic store: account.h says
 * why. */
#ifndef __SANITIZE_THREAD__
static _Atomic bool done;

static void *count_much(void *unused)
{
	(void)unused;
	count_out(0);
	for (int i = 0; i < 200000; i++) {
		count_in(3);
		count_out(3);
	}
	return NULL;
}

static void *read_always(void *unused)
{
	uint64_t seen = 0;

	(void)unused;
	while (!atomic_load(&done)) {
		struct mt_account_totals now = totals();

		cr_expect_geq(now.allocated_bytes, seen,
			      "what was counted is never lost, also while threads die");
		seen = now.allocated_bytes;
	}
	return NULL;
}

Test(account, may_be_read_at_any_moment)
{
	pthread_t threads[THREADS];
	pthread_t reader;

	mt_account_start(NULL, NULL);
	cr_assert_eq(pthread_create(&reader, NULL, read_always, NULL), 0);
	start_threads(threads, count_much);
	join_threads(threads);
	atomic_store(&done, true);
	pthread_join(reader, NULL);
	expect_totals(THREADS * 600000ull, THREADS * 600000ull, 0);
}
#endif

/* ---- partial sum: only those that usually move are looked at ---- */

static _Atomic int turn; /* whose it is to count one in; 0: nobody's, -1: all end */

static void *wait_for_turns(void *number)
{
	mt_account_thread_born(NULL);
	pthread_barrier_wait(&barrier);
	while (atomic_load(&turn) >= 0) {
		if (atomic_load(&turn) == (int)(uintptr_t)number) {
			count_in(10);
			atomic_store(&turn, 0);
		}
		sched_yield();
	}
	return NULL;
}

static void let_move(int number)
{
	atomic_store(&turn, number);
	while (atomic_load(&turn) != 0)
		sched_yield();
}

static uint64_t partial_sum(void)
{
	struct mt_account_totals now = {0};

	cr_assert(mt_account_partial_sum(&now));
	return now.allocated_bytes;
}

Test(account, a_partial_sum_sees_who_has_moved_before)
{
	pthread_t threads[THREADS];
	struct mt_account_totals out;

	mt_account_start(NULL, NULL);
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	start_threads(threads, wait_for_turns);
	pthread_barrier_wait(&barrier);
	cr_expect_not(mt_account_partial_sum(&out), "nobody has been added up yet");
	expect_totals(0, 0, THREADS);
	let_move(7);
	expect_totals(10, 0, THREADS);
	let_move(7);
	cr_expect_eq(partial_sum(), 20);
	let_move(8);
	cr_expect_eq(partial_sum(), 20, "it had not moved when all were looked at");
	expect_totals(30, 0, THREADS);
	let_move(7);
	let_move(8);
	cr_expect_eq(partial_sum(), 50, "both had moved, be it that the one was only glanced at");
	expect_totals(50, 0, THREADS);
	expect_totals(50, 0, THREADS);
	let_move(7);
	cr_expect_eq(partial_sum(), 50, "nobody has moved between the last two");
	atomic_store(&turn, -1);
	join_threads(threads);
	cr_expect_eq(partial_sum(), 60, "who dies is counted in full");
	expect_totals(60, 0, 0);
}

Test(account, no_partial_sum_where_threads_are_born_or_too_many_move)
{
	pthread_t threads[THREADS];
	struct mt_account_totals out;

	mt_account_start(NULL, NULL);
	expect_totals(0, 0, 0);
	cr_expect(mt_account_partial_sum(&out));
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	start_threads(threads, wait_for_turns);
	pthread_barrier_wait(&barrier);
	cr_expect_not(mt_account_partial_sum(&out));
	expect_totals(0, 0, THREADS);
	for (int i = 1; i <= 17; i++)
		let_move(i);
	expect_totals(170, 0, THREADS);
	cr_expect_not(mt_account_partial_sum(&out));
	expect_totals(170, 0, THREADS);
	cr_expect(mt_account_partial_sum(&out), "all are at rest again");
	atomic_store(&turn, -1);
	join_threads(threads);
	expect_totals(170, 0, 0);
}

/* ---- the key ---- */

static void *count_ten(void *unused)
{
	mt_account_thread_born(NULL);
	count_in(10);
	return unused;
}

Test(account, takes_an_inner_key_where_somebody_has_the_last_of_them)
{
	pthread_key_t keys[40], next;
	pthread_t threads[THREADS];

	for (int i = 0; i < 40; i++)
		cr_assert_eq(pthread_key_create(&keys[i], NULL), 0);
	cr_assert_eq(pthread_key_delete(keys[5]), 0);
	mt_account_start(NULL, NULL);
	start_threads(threads, count_ten);
	join_threads(threads);
	expect_totals(10 * THREADS, 0, 0);
	cr_assert_eq(pthread_key_create(&next, NULL), 0);
	cr_expect_eq(next, keys[39] + 1, "those beyond were given back");
}

Test(account, counts_nothing_where_there_is_no_inner_key)
{
	pthread_key_t key;
	struct mt_account_totals out;

	do
		cr_assert_eq(pthread_key_create(&key, NULL), 0);
	while (key < 31);
	mt_account_start(NULL, NULL);
	mt_account_thread_born(NULL);
	cr_expect_not(mt_account_read(&out));
	cr_expect_not(mt_worker_is_main_watched());
}

static void say_seven(void)
{
	_exit(7);
}

Test(account, hears_of_the_main_threads_end_where_nobody_counts)
{
	struct mt_account_totals out;
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		mt_account_watch_main(say_seven);
		if (mt_account_read(&out) || !mt_worker_is_main_watched())
			_exit(1);
		pthread_exit(NULL);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %x", (unsigned)status);
}
