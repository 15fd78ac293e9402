/* test_thread.c -- core/thread: one of our threads is started once, and known to run for as long
 * as it does. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "sys/os.h"
#include "core/thread.h"

#define STACK_BYTES (256 * 1024)

static struct mt_thread thread;
static atomic_bool ended;
static atomic_bool holds_the_starter; /* until the thread has ended */
static atomic_bool refuses;           /* small stacks, and CPUs that are set */
static _Atomic uint32_t nobody_rings;

static void nap(void)
{
	(void)mt_os_futex_wait(&nobody_rings, 0, MT_NS_PER_MS, MT_FUTEX_PRIVATE);
}

static bool is_refused(const pthread_attr_t *attr)
{
	size_t stack_bytes = 0;
	cpu_set_t cpus;

	(void)pthread_attr_getstacksize(attr, &stack_bytes);
	/* all, if none are set */
	(void)pthread_attr_getaffinity_np(attr, sizeof(cpus), &cpus);
	return stack_bytes < (4 << 20) || !CPU_ISSET(CPU_SETSIZE - 1, &cpus);
}

/* Before libc's: a starter that the kernel lets wait, as it may, between the start of a thread and
 * what it says of it. */
int pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *argument)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	int answer;

	*(void **)(void *)&create = dlsym(RTLD_NEXT, "pthread_create");
	answer = refuses && is_refused(attr) ? EINVAL : create(out, attr, run, argument);
	while (answer == 0 && holds_the_starter && !ended)
		nap();
	return answer;
}

static void *end_at_once(void *unused)
{
	mt_thread_reset(&thread);
	ended = true;
	return unused;
}

static void *stay(void *unused)
{
	while (!ended)
		nap();
	return unused;
}

Test(thread, runs_once_however_often_it_is_started)
{
	cr_expect(mt_thread_start(&thread, stay, STACK_BYTES));
	cr_expect(mt_thread_is_running(&thread));
	cr_expect(mt_thread_start(&thread, end_at_once, STACK_BYTES));
	cr_expect_not(ended);
	ended = true;
}

Test(thread, one_that_has_ended_before_its_starter_goes_on_does_not_run)
{
	holds_the_starter = true;
	cr_expect(mt_thread_start(&thread, end_at_once, STACK_BYTES));
	cr_expect_not(
		mt_thread_is_running(&thread),
		"no thread could be started in its place, and a wait for its end would not return");
}

Test(thread, starts_if_both_its_small_stack_and_the_cpus_of_the_start_are_refused)
{
	cpu_set_t one;

	mt_thread_init();
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	refuses = true;
	cr_expect(mt_thread_start(&thread, stay, STACK_BYTES));
	ended = true;
}
