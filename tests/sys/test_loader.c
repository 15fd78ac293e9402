/* test_loader.c -- sys/loader: fork and who goes through the loaded objects keep out of each
 * other's way, and neither for ever. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "sys/loader.h"
#include "sys/os.h"

static atomic_bool inside, may_leave;

static void *be_inside(void *unused)
{
	mt_loader_enter();
	atomic_store(&inside, true);
	while (!atomic_load(&may_leave))
		usleep(1000);
	atomic_store(&inside, false);
	mt_loader_leave();
	return unused;
}

static pthread_t start_inside(void)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, be_inside, NULL), 0);
	while (!atomic_load(&inside))
		usleep(1000);
	return thread;
}

static void *let_out_soon(void *unused)
{
	usleep(30000);
	atomic_store(&may_leave, true);
	return unused;
}

static bool fork_has_waited(void)
{
	pthread_t thread, other;
	bool waited;

	atomic_store(&may_leave, false);
	thread = start_inside();
	cr_assert_eq(pthread_create(&other, NULL, let_out_soon, NULL), 0);
	mt_loader_fork_prepare();
	waited = !atomic_load(&inside);
	mt_loader_fork_parent();
	pthread_join(thread, NULL);
	pthread_join(other, NULL);
	return waited;
}

/* It waits for 200 ms, in which two threads have to run: on a busy machine they may not, but not
 * time after time. */
Test(loader, a_fork_waits_until_nobody_is_inside)
{
	bool waited = false;

	for (int i = 0; i < 10 && !waited; i++)
		waited = fork_has_waited();
	cr_expect(waited);
}

/* The fastest of some: on a busy machine one alone says nothing. */
static uint64_t fork_ns(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t began = mt_os_now_ns(), took;

		mt_loader_fork_prepare();
		mt_loader_fork_parent();
		took = mt_os_now_ns() - began;
		least = took < least ? took : least;
	}
	return least;
}

Test(loader, a_fork_does_not_wait_for_ever)
{
	pthread_t thread = start_inside();
	uint64_t began = mt_os_now_ns();

	mt_loader_fork_prepare();
	cr_expect(atomic_load(&inside));
	cr_expect_lt(mt_os_now_ns() - began, 10 * MT_NS_PER_S);
	/* In the child nobody is inside, and the next fork waits for nobody. */
	mt_loader_fork_child();
	cr_expect_lt(fork_ns(), 150 * MT_NS_PER_MS);
	/* the count is 0 again, so that the thread's leaving takes it nowhere else */
	mt_loader_enter();
	atomic_store(&may_leave, true);
	pthread_join(thread, NULL);
}

Test(loader, who_comes_during_a_fork_waits_for_its_end)
{
	pthread_t thread;

	mt_loader_fork_prepare();
	cr_assert_eq(pthread_create(&thread, NULL, be_inside, NULL), 0);
	usleep(50000);
	cr_expect_not(atomic_load(&inside));
	mt_loader_fork_parent();
	while (!atomic_load(&inside))
		usleep(1000);
	atomic_store(&may_leave, true);
	pthread_join(thread, NULL);
}

Test(loader, what_is_loaded_may_come_again_and_may_fork)
{
	mt_loader_enter();
	mt_loader_enter();
	cr_expect_lt(fork_ns(), 150 * MT_NS_PER_MS, "not for itself");
	mt_loader_leave();
	mt_loader_leave();
}
