#include "reaper/thread.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/loader.h"
#include "base/log.h"
#include "base/os.h"

#define LARGE_STACK_BYTES (8 * MT_MIB)
#define ROOM_BYTES        (32 * MT_MIB) /* address space that must be left to start in */

enum state { STATE_NONE, STATE_STARTING, STATE_RUNS };

/* With hardly any address space left, the allocator's own beginnings in a new thread fail, and jemalloc does not survive
 * that: then better no thread yet. */
bool mt_thread_has_room(void)
{
	void *area = mmap(NULL, ROOM_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (area == MAP_FAILED)
		return false;
	munmap(area, ROOM_BYTES);
	return true;
}

/* libc puts the thread-local memory of all libraries that were loaded with the program on each stack. */
static size_t tls_bytes;

static int add_tls(struct dl_phdr_info *info, size_t bytes, void *sum)
{
	(void)bytes;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
	return 0;
}

void mt_thread_learn(void)
{
	size_t sum = 0;

	(void)mt_loader_iterate(add_tls, &sum);
	tls_bytes = sum;
}

/* A program that runs under a real-time policy must not hand it on to us. PTHREAD_EXPLICIT_SCHED alone would not do: with no policy
 * in the attributes glibc sets none, and the kernel hands the caller's on. All other policies are ours too: one that only runs when
 * nobody else wants to (SCHED_IDLE) means all of itself, and without privileges the kernel refuses it a thread that does more. */
static void refuse_real_time(pthread_attr_t *attr)
{
	const struct sched_param normal = {0};
	int policy = sched_getscheduler(0);

	if (policy != SCHED_FIFO && policy != SCHED_RR)
		return;
	(void)pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED);
	(void)pthread_attr_setschedpolicy(attr, SCHED_OTHER);
	(void)pthread_attr_setschedparam(attr, &normal);
}

/* 0, or the error. */
static int create(void *(*run)(void *), size_t stack_bytes)
{
	pthread_attr_t attr;
	pthread_t thread;
	int answer = pthread_attr_init(&attr);

	if (answer)
		return answer;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	refuse_real_time(&attr);
	(void)pthread_attr_setstacksize(&attr, stack_bytes);
	answer = pthread_create(&thread, &attr, run, NULL);
	if (answer == EINVAL) { /* libc wants still more there */
		(void)pthread_attr_setstacksize(&attr, LARGE_STACK_BYTES);
		answer = pthread_create(&thread, &attr, run, NULL);
	}
	pthread_attr_destroy(&attr);
	return answer;
}

static bool start(void *(*run)(void *), size_t stack_bytes)
{
	int kept = errno;
	sigset_t all;
	sigset_t before;
	int answer = ENOMEM;

	sigfillset(&all);
	if (mt_thread_has_room())
		answer = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!answer) {
		answer = create(run, stack_bytes);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (answer)
			mt_log(MT_LOG_INFO, "no thread to be had yet (error %d)", answer);
	}
	errno = kept;
	return answer == 0;
}

bool mt_thread_start(struct mt_thread *thread, void *(*run)(void *), size_t stack_bytes)
{
	int expected = STATE_NONE;
	bool started;

	if (!atomic_compare_exchange_strong_explicit(&thread->state, &expected, STATE_STARTING, memory_order_acq_rel,
						     memory_order_acquire))
		return expected == STATE_RUNS;
	started = start(run, stack_bytes + tls_bytes);
	/* One that has ended by now has said so already: it would be believed to run for ever. */
	expected = STATE_STARTING;
	(void)atomic_compare_exchange_strong_explicit(&thread->state, &expected, started ? STATE_RUNS : STATE_NONE,
						      memory_order_release, memory_order_relaxed);
	return started;
}

bool mt_thread_runs(const struct mt_thread *thread)
{
	return atomic_load_explicit(&thread->state, memory_order_acquire) == STATE_RUNS;
}

void mt_thread_forget(struct mt_thread *thread)
{
	atomic_store_explicit(&thread->state, STATE_NONE, memory_order_relaxed);
}
