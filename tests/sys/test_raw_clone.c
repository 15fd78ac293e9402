/* test_raw_clone.c -- sys/main_thread: what a bare copy of a process finds held by a thread that it
 * does not have. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/lock.h"
#include "sys/os.h"
#include "sys/main_thread.h"
#include "valgrind.h"

static struct mt_lock lock = MT_LOCK(account);
static atomic_bool holds;
static _Atomic pid_t holder;

/* A bare copy that answers `question` as its exit status; -1: it did not end by itself. */
static int ask_copy(int (*question)(void))
{
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	int status = 0;

	if (child == 0) {
		alarm(20);
		_exit(question());
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int is_raw_clone(void)
{
	return mt_raw_clone_is_child();
}

Test(raw_clone, nobody_is_one_before_the_mark)
{
	cr_expect_not(mt_raw_clone_is_child());
	cr_expect_eq(ask_copy(is_raw_clone), 0);
}

Test(raw_clone, a_bare_copy_knows_itself)
{
	mt_raw_clone_mark();

	cr_expect_not(mt_raw_clone_is_child());
	cr_expect_eq(ask_copy(is_raw_clone), 1);
}

static int copied_once_more(void)
{
	mt_raw_clone_fork_child();
	return mt_raw_clone_is_child() || ask_copy(is_raw_clone);
}

static int marked_anew(void)
{
	mt_raw_clone_fork_child();
	mt_raw_clone_mark();
	return mt_raw_clone_is_child() ? 2 : ask_copy(is_raw_clone);
}

Test(raw_clone, a_child_with_handlers_is_none_until_it_is_copied_in_its_turn)
{
	mt_raw_clone_mark();

	cr_expect_eq(ask_copy(copied_once_more), 0);
	cr_expect_eq(ask_copy(marked_anew), 1);
}

static int is_raw_clone_there(void *unused)
{
	(void)unused;
	return mt_raw_clone_is_child();
}

Test(raw_clone, a_child_that_shares_our_memory_is_none)
{
	static char stack[65536] __attribute__((aligned(64)));
	int status = -1;
	pid_t child;

	if (is_under_valgrind())
		return;
	mt_raw_clone_mark();
	child = clone(is_raw_clone_there, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
		      NULL);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
}

static int knows_who_stayed(void)
{
	return mt_raw_clone_was_worker(atomic_load(&holder)) &&
	       !mt_raw_clone_was_worker(atomic_load(&holder) + 1);
}

Test(raw_clone, a_copy_knows_who_stayed_behind)
{
	atomic_store(&holder, mt_os_gettid());
	mt_raw_clone_mark();

	cr_expect_not(mt_raw_clone_was_worker(mt_os_gettid()));
	cr_expect_eq(ask_copy(knows_who_stayed), 1);
}

static void *hold(void *unused)
{
	mt_raw_clone_mark();
	mt_lock_lock(&lock);
	atomic_store(&holds, true);
	usleep(300000);
	mt_lock_unlock(&lock);
	return unused;
}

static int take_and_drop(void)
{
	mt_lock_lock(&lock);
	mt_lock_unlock(&lock);
	mt_lock_lock(&lock);
	return 7;
}

Test(raw_clone, a_lock_that_was_held_in_the_copied_process_is_had_in_the_end)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, hold, NULL), 0);
	while (!atomic_load(&holds))
		usleep(100);
	cr_expect_eq(ask_copy(take_and_drop), 7);
	pthread_join(thread, NULL);
	mt_lock_lock(&lock);
	mt_lock_unlock(&lock);
}
