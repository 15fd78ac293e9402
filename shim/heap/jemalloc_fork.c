#include "heap/jemalloc_fork.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/interpreter.h"
#include "core/worker.h"
#include "heap/jemalloc_arena.h"
#include "heap/jemalloc_errors.h"
#include "heap/jemalloc_pages.h"
#include "heap/jemalloc_prof.h"
#include "heap/page_flags.h"
#include "sys/attr.h"
#include "sys/libc.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "sys/main_thread.h"

/* Mutexes that one thread may hold at a time: jemalloc's order has some 20 ranks. */
#define HELD_COUNT 32
#define STEP_NS    (50 * 1000ull)
/* in a raw clone, whose other threads do not exist */
#define PATIENCE_NS MT_NS_PER_S
/* a sleep that so many steps see is no short wait */
#define ALONE_STEPS 3

/* What jemalloc calls in libc's stead. */
int mt_je_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int mt_je_pthread_mutex_lock(pthread_mutex_t *mutex);

static void (*fork_prepare)(void);
static void (*fork_parent)(void);
static void (*fork_child)(void);

static pid_t forking_thread; /* inside fork_prepare, else 0 */

/* Mutexes that the forking thread held before, as they were. */
static struct {
	pthread_mutex_t *mutex;
	unsigned int count;
	int owner;
	int kind;
} held[HELD_COUNT];
static size_t held_count;

/* The heap's fork hooks call its handlers: the order of two registrations would be unknown. */
int mt_je_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	fork_prepare = prepare;
	fork_parent = parent;
	fork_child = child;
	return 0;
}

bool mt_jemalloc_fork_has_handlers(void)
{
	return fork_prepare && fork_parent && fork_child;
}

void mt_jemalloc_fork_give_up(void)
{
	fork_prepare = fork_parent = fork_child = NULL;
}

static int owner_of(pthread_mutex_t *mutex)
{
	return __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED);
}

/* Makes the mutex count, so that jemalloc's handlers may lock and unlock it once more. */
static void lock_again(pthread_mutex_t *mutex)
{
	mt_assert(held_count < HELD_COUNT);
	if (held_count < HELD_COUNT) {
		held[held_count].mutex = mutex;
		held[held_count].count = mutex->__data.__count;
		held[held_count].owner = mutex->__data.__owner;
		held[held_count++].kind = mutex->__data.__kind;
	}
	mutex->__data.__kind = PTHREAD_MUTEX_RECURSIVE;
	mutex->__data.__count = 2;
	mutex->__data.__owner = forking_thread;
}

/* Returns whether this thread is the only one, or the only one beside a worker that sleeps. */
static bool is_alone_awake(void)
{
	unsigned int count = mt_libc_threads_count();

	return count == 1 || (count == 2u + mt_interpreter_thread_runs() &&
			      mt_worker_is_running() && mt_worker_is_asleep());
}

/* Locks the mutex, or finds that it stays locked until this thread goes on. This thread holds it;
 * or the worker does, and waits for another one that this thread holds. A mutex that is locked
 * without an owner was interrupted in between, in this thread. A raw clone has only this thread.
 * Source: struct __pthread_mutex_s of glibc, whose plain mutexes note the thread that holds them.
 */
static int lock_in_fork(pthread_mutex_t *mutex)
{
	uint64_t until = mt_os_now_ns() + PATIENCE_NS;
	int alone_steps = 0;

	mt_assert(forking_thread == mt_os_gettid());
	while (pthread_mutex_trylock(mutex) != 0) {
		if (owner_of(mutex) == forking_thread || alone_steps == ALONE_STEPS ||
		    (mt_raw_clone_is_child() && mt_os_now_ns() >= until)) {
			lock_again(mutex);
			return 0;
		}
		alone_steps = is_alone_awake() ? alone_steps + 1 : 0;
		mt_os_sleep_ns(STEP_NS);
	}
	return 0;
}

/* jemalloc comes here when it has tried and spun. In a raw clone, what the worker held in that
 * moment would stay held for ever. */
int mt_je_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (mt_unlikely(forking_thread != 0) && forking_thread == mt_os_gettid())
		return lock_in_fork(mutex);
	if (mt_unlikely(mt_raw_clone_was_worker(owner_of(mutex))))
		(void)pthread_mutex_init(mutex, NULL);
	else
		mt_jemalloc_errors_check_owner(owner_of(mutex));
	return pthread_mutex_lock(mutex);
}

void mt_jemalloc_fork_prepare(void)
{
	mt_lock_check_enter(MT_RANK_prof_gate);
	mt_jemalloc_prof_close_gate();
	mt_lock_check_enter(MT_RANK_jemalloc);
	held_count = 0;
	mt_assert(forking_thread == 0);
	forking_thread = mt_os_gettid();
	if (fork_prepare)
		fork_prepare();
	forking_thread = 0;
	mt_page_flags_fork_prepare();
}

void mt_jemalloc_fork_parent(void)
{
	mt_page_flags_fork_parent();
	if (fork_parent)
		fork_parent();
	while (held_count > 0) {
		pthread_mutex_t *mutex = held[--held_count].mutex;

		mutex->__data.__kind = held[held_count].kind;
		mutex->__data.__count = held[held_count].count;
		mutex->__data.__owner = held[held_count].owner;
	}
	mt_lock_check_leave(MT_RANK_jemalloc);
	mt_jemalloc_prof_open_gate();
	mt_lock_check_leave(MT_RANK_prof_gate);
}

void mt_jemalloc_fork_child(void)
{
	mt_page_flags_fork_child();
	if (fork_child)
		fork_child();
	held_count = 0;
	mt_jemalloc_pages_fork_child();
	mt_jemalloc_arena_fork_child();
	mt_lock_check_leave(MT_RANK_jemalloc);
	mt_jemalloc_prof_open_gate_in_child();
	mt_lock_check_leave(MT_RANK_prof_gate);
}
