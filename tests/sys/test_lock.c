/* test_lock.c -- sys/lock and its checker in debug builds: what breaks the order of
 * sys/lock_ranks.def ends the process with one line that names both locks. A death test plays in a
 * child, whose last words and whose end are looked at. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/lock.h"
#include "sys/os.h"

static struct mt_lock outer = MT_LOCK(publish);
static struct mt_lock inner = MT_LOCK(account);
static struct mt_lock one = MT_LOCK(context);
static struct mt_lock other = MT_LOCK(context);
static struct mt_lock nameless;

static void expect_death(void (*play)(void), const char *line)
{
	const struct rlimit no_core = {0, 0};
	char text[512] = "";
	size_t length = 0;
	ssize_t got;
	int words[2];
	int status = 0;
	pid_t child;

	cr_assert_eq(pipe(words), 0);
	child = fork();
	if (child == 0) {
		(void)setrlimit(RLIMIT_CORE, &no_core);
		(void)signal(SIGABRT, SIG_DFL);
		(void)dup2(words[1], STDERR_FILENO);
		close(words[0]);
		close(words[1]);
		play();
		_exit(0);
	}
	close(words[1]);
	while (length < sizeof(text) - 1 &&
	       (got = read(words[0], text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = 0;
	close(words[0]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %x",
		  (unsigned)status);
	cr_expect_str_eq(text, line, "%s", text);
}

/* ---- what is allowed ---- */

Test(lock, may_be_taken_from_the_top_of_the_table_down)
{
	mt_lock_lock(&one);
	mt_lock_lock(&outer);
	mt_lock_lock(&inner);
	mt_lock_unlock(&outer); /* in whatever order they go */
	mt_lock_unlock(&inner);
	mt_lock_lock(&outer);
	mt_lock_unlock(&outer);
	mt_lock_unlock(&one);
	mt_lock_check_wait("the end");
}

Test(lock, of_the_gate_may_be_held_twice_and_over_a_driver_call)
{
	mt_lock_check_enter(MT_RANK_gate);
	mt_lock_check_enter(MT_RANK_gate);
	mt_lock_check_foreign_call("a driver call");
	mt_lock_check_leave(MT_RANK_gate);
	mt_lock_check_leave(MT_RANK_gate);
	mt_lock_check_wait("the end");
}

/* ---- what is not ---- */

static void take_upwards(void)
{
	mt_lock_lock(&inner);
	mt_lock_lock(&outer);
}

Test(lock, taken_against_the_order_ends_the_process)
{
	expect_death(take_upwards, "mtshim: locks: takes publish while it holds account\n");
}

static void take_two(void)
{
	mt_lock_lock(&one);
	mt_lock_lock(&other);
}

Test(lock, of_the_same_rank_taken_twice_ends_the_process)
{
	expect_death(take_two, "mtshim: locks: takes context while it holds another context\n");
}

static void take_again(void)
{
	mt_lock_lock(&one);
	mt_lock_lock(&one);
}

Test(lock, taken_twice_ends_the_process_instead_of_hanging_it)
{
	expect_death(take_again, "mtshim: locks: takes context, which it holds already\n");
}

static void *drop_it(void *lock)
{
	mt_lock_unlock(lock);
	return NULL;
}

static void drop_by_another(void)
{
	pthread_t thread;

	mt_lock_lock(&outer);
	pthread_create(&thread, NULL, drop_it, &outer);
	pthread_join(thread, NULL);
}

Test(lock, dropped_by_another_thread_ends_the_process)
{
	expect_death(drop_by_another,
		     "mtshim: locks: drops publish, which this thread does not hold\n");
}

static void drop_twice(void)
{
	mt_lock_lock(&outer);
	mt_lock_unlock(&outer);
	mt_lock_unlock(&outer);
}

Test(lock, dropped_twice_ends_the_process)
{
	expect_death(drop_twice, "mtshim: locks: drops publish, which this thread does not hold\n");
}

static void take_nameless(void)
{
	mt_lock_lock(&nameless);
}

Test(lock, without_a_rank_is_refused)
{
	expect_death(take_nameless,
		     "mtshim: locks: takes a lock without a rank (sys/lock_ranks.def)\n");
}

Test(lock, that_is_noted_lets_a_handler_that_interrupts_the_holder_allocate)
{
	mt_lock_lock(&outer);
	mt_lock_check_entry("malloc");
	mt_lock_unlock(&outer);
}

static void hold_over_an_entry(void)
{
	mt_lock_lock(&one);
	mt_lock_check_entry("malloc");
}

Test(lock, held_over_an_entry_ends_the_process)
{
	expect_death(hold_over_an_entry, "mtshim: locks: holds context over malloc\n");
}

static void hold_over_a_call(void)
{
	mt_lock_check_enter(MT_RANK_gate);
	mt_lock_lock(&one);
	mt_lock_check_foreign_call("a driver call");
}

Test(lock, held_over_a_driver_call_ends_the_process)
{
	expect_death(hold_over_a_call, "mtshim: locks: holds context over a driver call\n");
}

static void hold_while_waiting(void)
{
	mt_lock_check_enter(MT_RANK_gate);
	mt_lock_check_wait("others");
}

Test(lock, even_the_gate_held_while_others_are_waited_for_ends_the_process)
{
	expect_death(hold_while_waiting, "mtshim: locks: holds gate while it waits for others\n");
}

static void enter_the_gate_late(void)
{
	mt_lock_lock(&one);
	mt_lock_check_enter(MT_RANK_gate);
}

Test(lock, taken_before_the_gate_is_entered_ends_the_process)
{
	expect_death(enter_the_gate_late, "mtshim: locks: takes gate while it holds context\n");
}

/* ---- forked children, signal handlers, threads ---- */

Test(lock, reset_in_a_forked_child_is_held_by_nobody_there)
{
	int status = 0;
	pid_t child;

	mt_lock_lock(&outer);
	child = fork();
	if (child == 0) {
		mt_lock_reset(&outer);
		mt_lock_check_wait("the parent");
		mt_lock_lock(&outer);
		mt_lock_unlock(&outer);
		_exit(7);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %x", (unsigned)status);
	mt_lock_unlock(&outer);
}

static struct mt_lock flags = MT_LOCK(page_flags);

/* As fork's handlers do, in a signal handler that has interrupted the holder of `flags`. */
static void fork_takes_locks(int sig)
{
	(void)sig;
	mt_lock_check_enter(MT_RANK_fork);
	mt_lock_lock(&outer);
	mt_lock_lock(&inner);
	mt_lock_unlock(&inner);
	mt_lock_unlock(&outer);
	mt_lock_check_leave(MT_RANK_fork);
}

Test(lock, held_by_interrupted_code_does_not_order_what_a_fork_takes)
{
	bool is_ours;

	(void)signal(SIGUSR1, fork_takes_locks);
	mt_lock_lock_noted(&flags, &is_ours);
	(void)raise(SIGUSR1);
	mt_lock_unlock_noted(&flags, &is_ours);
	mt_lock_check_wait("the end");
}

static void fork_against_the_order(void)
{
	mt_lock_check_enter(MT_RANK_fork);
	take_upwards();
}

Test(lock, taken_by_a_fork_is_in_order_too)
{
	expect_death(fork_against_the_order,
		     "mtshim: locks: takes publish while it holds account\n");
}

static void fork_takes_again(void)
{
	mt_lock_lock(&outer);
	mt_lock_check_enter(MT_RANK_fork);
	mt_lock_lock(&outer);
}

Test(lock, of_interrupted_code_that_a_fork_waits_for_ends_the_process)
{
	expect_death(fork_takes_again, "mtshim: locks: takes publish, which it holds already\n");
}

Test(lock, of_interrupted_code_is_unlocked_by_that_code_in_a_forked_child)
{
	bool is_ours;
	int status = 0;
	pid_t child;

	mt_lock_lock_noted(&flags, &is_ours);
	child = fork();
	if (child == 0) {
		mt_lock_fork_child(&flags, is_ours);
		mt_lock_unlock_noted(&flags, &is_ours);
		mt_lock_check_wait("the parent");
		_exit(7);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %x", (unsigned)status);
	mt_lock_unlock_noted(&flags, &is_ours);
}

static atomic_ulong handled;

static void take_in_handler(int sig)
{
	(void)sig;
	mt_lock_check_enter(MT_RANK_page_flags);
	mt_lock_check_leave(MT_RANK_page_flags);
	atomic_fetch_add(&handled, 1);
}

static void *interrupt(void *thread)
{
	for (int i = 0; i < 20000; i++) {
		pthread_kill(*(pthread_t *)thread, SIGUSR1);
		if (i % 64 == 0)
			sched_yield();
	}
	return NULL;
}

Test(lock, is_known_whatever_a_handler_takes_in_between)
{
	pthread_t self = pthread_self();
	pthread_t thread;

	(void)signal(SIGUSR1, take_in_handler);
	cr_assert_eq(pthread_create(&thread, NULL, interrupt, &self), 0);
	for (int i = 0; i < 300000; i++) {
		mt_lock_lock(&outer);
		mt_lock_lock(&inner);
		mt_lock_unlock(&outer);
		mt_lock_unlock(&inner);
	}
	pthread_join(thread, NULL);
	mt_lock_check_wait("the end");
	cr_expect_gt(atomic_load(&handled), 0);
}

#define THREADS 8
#define TURNS   20000

static unsigned long protected_count;

static void *count_up(void *unused)
{
	for (int i = 0; i < TURNS; i++) {
		mt_lock_lock(&outer);
		protected_count++;
		mt_lock_unlock(&outer);
	}
	return unused;
}

Test(lock, lets_one_thread_in_at_a_time)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, count_up, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	cr_expect_eq(protected_count, (unsigned long)THREADS * TURNS);
}

/* ---- who takes it again and again ---- */

#define HOLDS   40
#define HOLD_NS (5 * MT_NS_PER_MS)

static atomic_int holds;
static int holds_when_got;

static void *want_it(void *unused)
{
	while (atomic_load(&holds) < 2)
		sched_yield();
	mt_lock_lock(&outer);
	holds_when_got = atomic_load(&holds);
	mt_lock_unlock(&outer);
	return unused;
}

Test(lock, handed_over_goes_to_who_waits_before_it_is_taken_again)
{
	_Atomic uint32_t nobody = 0;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, want_it, NULL), 0);
	for (int i = 0; i < HOLDS; i++) {
		mt_lock_lock(&outer);
		atomic_fetch_add(&holds, 1);
		(void)mt_os_futex_wait(&nobody, 0, HOLD_NS, MT_FUTEX_PRIVATE);
		mt_lock_unlock_and_yield(&outer);
	}
	pthread_join(thread, NULL);
	cr_expect_leq(holds_when_got, HOLDS / 2, "after %d holds", holds_when_got);
}
