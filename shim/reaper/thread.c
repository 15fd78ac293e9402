#include "reaper/thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

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

static bool start(void *(*run)(void *), size_t stack_bytes)
{
	int kept = errno;
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all;
	sigset_t before;
	int answer = ENOMEM;

	if (mt_thread_has_room()) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		/* A program that runs under a real-time policy must not hand it on to us. */
		pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
		pthread_attr_setstacksize(&attr, stack_bytes);
		answer = pthread_create(&thread, &attr, run, NULL);
		if (answer == EINVAL) { /* the program's static TLS alone is larger */
			pthread_attr_setstacksize(&attr, LARGE_STACK_BYTES);
			answer = pthread_create(&thread, &attr, run, NULL);
		}
		pthread_attr_destroy(&attr);
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
	started = start(run, stack_bytes);
	atomic_store_explicit(&thread->state, started ? STATE_RUNS : STATE_NONE, memory_order_release);
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
