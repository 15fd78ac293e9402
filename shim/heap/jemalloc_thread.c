/* heap/jemalloc_thread.c -- what jemalloc makes for a thread at its first allocation: a cache, and
 * often an arena; its caches with many threads, its events, and its locks over a fork. jemalloc
 * crashes if there is no memory for either. Here the thread allocates without a cache, or from the
 * first arena. These functions come instead of jemalloc's own if other files of it call them
 * (jemalloc.mk). Any thread, inside jemalloc. Source: src/tcache.c and src/jemalloc.c of jemalloc
 * 5.2 and 5.3; glibc's tst-malloc-thread-fail. */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/services.h"
#include "core/worker.h"
#include "heap/account.h"
#include "heap/jemalloc_internal.h"
#include "heap/page_flags.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/libc.h"
#include "sys/lock.h"
#include "sys/main_thread.h"
#include "sys/os.h"

/* The last parameter of both is the arena; until 5.2 there is one for the cache. */
#ifdef MT_JEMALLOC_CACHE_IN_ONE
#define CACHE_PARAMS void *cache
#define CACHE_ARGS   cache
#else
#define CACHE_PARAMS void *slow, void *cache
#define CACHE_ARGS   slow, cache
#endif

/* Internal to jemalloc. Weak: another version may lack them. */
extern bool je_opt_tcache __attribute__((weak));
extern void *__real_je_arena_choose_hard(void *thread, bool is_internal) __attribute__((weak));
extern bool __real_je_tsd_tcache_enabled_data_init(void *thread) __attribute__((weak));
/* 5.3.0 alone: the memory of a thread's cache, and what the thread does every 64 KiB */
extern bool __real_je_tsd_tcache_data_init(void *thread) __attribute__((weak));
extern void __real_je_tcache_gc_event_handler(void *thread, uint64_t elapsed) __attribute__((weak));
extern void __real_je_tcache_arena_associate(void *thread, CACHE_PARAMS, void *arena)
	__attribute__((weak));
extern void __real_je_tcache_arena_reassociate(void *thread, CACHE_PARAMS, void *arena)
	__attribute__((weak));

void *__wrap_je_arena_choose_hard(void *thread, bool is_internal);
bool __wrap_je_tsd_tcache_enabled_data_init(void *thread);
bool __wrap_je_tsd_tcache_data_init(void *thread);
void __wrap_je_tcache_gc_event_handler(void *thread, uint64_t elapsed);
void __wrap_je_tcache_arena_associate(void *thread, CACHE_PARAMS, void *arena);
void __wrap_je_tcache_arena_reassociate(void *thread, CACHE_PARAMS, void *arena);

static MT_TLS bool has_asked_for_arena;

/* ---- a cache that comes later ---- */

/* A cache takes 20 kB, and keeps blocks of each size that the thread has freed: with many threads
 * that wait, more than the program has. From so many on, a new thread gets its cache after some
 * events, each of 64 KiB that it has allocated or freed. Until then it is one that has disabled its
 * cache. docs/decisions/0082. */
#define LATE_THREADS       64u
#define EVENTS_UNTIL_CACHE 8u

static MT_TLS unsigned events_until_cache;
static MT_TLS bool cache_is_made; /* and jemalloc is yet to be told */

static bool begins_late(void)
{
	return &__real_je_tsd_tcache_data_init && &__real_je_tcache_gc_event_handler &&
	       mt_account_threads() >= LATE_THREADS;
}

/* An event of a thread that has no cache yet. jemalloc ignores that there is no memory for the
 * cache that mallctl requests, so the cache is made before. Without memory the thread tries again
 * at its next event. */
static MT_COLD void note_event_without_cache(void *thread)
{
	bool wanted = true;

	if (events_until_cache > 1) {
		events_until_cache--;
		return;
	}
	cache_is_made = !__real_je_tsd_tcache_data_init(thread);
	if (cache_is_made)
		(void)je_mallctl("thread.tcache.enabled", NULL, NULL, &wanted, sizeof(wanted));
}

/* mallctl, called above or by the program. */
bool __wrap_je_tsd_tcache_data_init(void *thread)
{
	bool is_made = cache_is_made;

	events_until_cache = 0;
	cache_is_made = false;
	mt_jemalloc_caches_note_begin(true);
	return is_made ? false : __real_je_tsd_tcache_data_init(thread);
}

void __wrap_je_tcache_gc_event_handler(void *thread, uint64_t elapsed)
{
	if (mt_unlikely(events_until_cache)) {
		note_event_without_cache(thread);
		return;
	}
	mt_jemalloc_caches_note(thread);
	__real_je_tcache_gc_event_handler(thread, elapsed);
}

/* ---- a thread's first allocation ---- */

/* jemalloc moves the cache to the thread's own arena once that can be made, as it does after its
 * own start. */
void *__wrap_je_arena_choose_hard(void *thread, bool is_internal)
{
	void *arena = __real_je_arena_choose_hard(thread, is_internal);

	has_asked_for_arena = true;
	return arena ? arena : mt_jemalloc_first_arena();
}

/* jemalloc asks for the arena once it has the memory for the cache, and ignores that it has none. A
 * thread that begins in the same moment goes without a cache, too. */
static MT_COLD bool begin_without(void *thread)
{
	bool has_failed;

	mt_jemalloc_caches_note_begin(false);
	je_opt_tcache = false;
	has_failed = __real_je_tsd_tcache_enabled_data_init(thread);
	je_opt_tcache = true;
	return has_failed;
}

bool __wrap_je_tsd_tcache_enabled_data_init(void *thread)
{
	bool has_failed;

	if (!mt_jemalloc_first_arena() || !je_opt_tcache)
		return __real_je_tsd_tcache_enabled_data_init(thread);
	events_until_cache = begins_late() ? EVENTS_UNTIL_CACHE : 0;
	if (events_until_cache)
		return false;
	has_asked_for_arena = false;
	has_failed = __real_je_tsd_tcache_enabled_data_init(thread);
	return has_asked_for_arena ? has_failed : begin_without(thread);
}

/* The allocation that finds no arena fails. */
void __wrap_je_tcache_arena_associate(void *thread, CACHE_PARAMS, void *arena)
{
	if (arena)
		__real_je_tcache_arena_associate(thread, CACHE_ARGS, arena);
}

void __wrap_je_tcache_arena_reassociate(void *thread, CACHE_PARAMS, void *arena)
{
	if (arena)
		__real_je_tcache_arena_reassociate(thread, CACHE_ARGS, arena);
}

/* ---- the caches of many threads ---- */

/* A thread that has allocated little takes few blocks at a time, so that threads with a few blocks
 * each share slabs: otherwise each has a page for each size.
 *
 * A thread that only frees: nothing takes blocks from the cache of a thread that waits: jemalloc
 * empties it on the thread itself, a part at every 64 KiB that the thread allocates or frees. In a
 * pool of many threads these caches hold more than the program. A thread that frees much and
 * allocates little often waits next. So one of many empties its cache at each 64 KiB of such a
 * phase. Not in every phase: a thread that goes on would fill it again.
 *
 * Comes instead of jemalloc's own function if other files of it call that (jemalloc.mk). Any
 * thread, inside jemalloc. Source: src/tcache.c of jemalloc 5.3. */

/* A phase begins if so much was freed, and up to this part of it allocated meanwhile. */
#define PHASE_BYTES (512u << 10)
#define LITTLE      4u
/* between phases in which a thread empties its cache */
#define PAUSE_NS (20 * MT_NS_PER_MS)

/* A cache is filled with up to so many blocks, and with one more for each so many bytes that the
 * thread has allocated. */
#define FIRST_FILL 2u
#define FILL_BYTES 2048u

/* Internal to jemalloc. Weak: another version may lack it. Until 5.3.0 with a second parameter. */
extern void __real_je_tcache_gc_dalloc_event_handler(void *thread, uint64_t elapsed)
	__attribute__((weak));
void __wrap_je_tcache_gc_dalloc_event_handler(void *thread, uint64_t elapsed);
/* 5.3.0 alone. fill: the number of blocks. */
extern void __real_je_arena_cache_bin_fill_small(void *thread, void *arena, void *cache, void *info,
						 unsigned size_class, unsigned fill)
	__attribute__((weak));
void __wrap_je_arena_cache_bin_fill_small(void *thread, void *arena, void *cache, void *info,
					  unsigned size_class, unsigned fill);

static MT_TLS struct {
	uint64_t allocated, freed; /* at the last event */
	uint64_t freed_bytes;      /* since the thread allocated more than a little */
	uint64_t began_ns;         /* the last phase in which it empties its cache */
	bool empties;
} phase;

static void (*on_frees)(uint64_t freed_bytes);

void mt_jemalloc_frees_use(void (*handler)(uint64_t freed_bytes))
{
	on_frees = handler;
}

void mt_jemalloc_note_frees(uint64_t freed_bytes)
{
	if (on_frees)
		on_frees(freed_bytes);
}

/* Returns whether the thread shall empty its cache. */
static bool note_free(void)
{
	uint64_t allocated = 0, freed = 0, now_ns;

	if (!mt_jemalloc_own_counters(&allocated, &freed) || !allocated)
		return false;
	if ((allocated - phase.allocated) * LITTLE <= freed - phase.freed)
		phase.freed_bytes += freed - phase.freed;
	else
		phase.freed_bytes = 0;
	phase.allocated = allocated;
	phase.freed = freed;
	if (phase.freed_bytes < PHASE_BYTES)
		return phase.empties = false;
	now_ns = phase.empties ? 0 : mt_os_now_ns();
	if (now_ns >= phase.began_ns + PAUSE_NS) {
		phase.began_ns = now_ns;
		phase.empties = true;
	}
	return phase.empties;
}

void mt_jemalloc_flush_thread(void)
{
	mt_jemalloc_caches_wait();
	(void)je_mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
}

void __wrap_je_tcache_gc_dalloc_event_handler(void *thread, uint64_t elapsed)
{
	mt_jemalloc_note_frees(MT_JEMALLOC_FREE_EVENT_BYTES);
	if (mt_unlikely(events_until_cache)) {
		note_event_without_cache(thread);
		return;
	}
	mt_jemalloc_caches_note(thread);
	if (mt_account_threads() >= MT_JEMALLOC_MANY_THREADS && note_free())
		mt_jemalloc_flush_thread();
	else
		__real_je_tcache_gc_dalloc_event_handler(thread, elapsed);
}

void __wrap_je_arena_cache_bin_fill_small(void *thread, void *arena, void *cache, void *info,
					  unsigned size_class, unsigned fill)
{
	uint64_t allocated = 0, freed = 0;

	if (mt_account_threads() >= MT_JEMALLOC_MANY_THREADS &&
	    mt_jemalloc_own_counters(&allocated, &freed) &&
	    fill > FIRST_FILL + allocated / FILL_BYTES)
		fill = (unsigned)(FIRST_FILL + allocated / FILL_BYTES);
	mt_assert(fill > 0);
	mt_jemalloc_caches_note_fill(thread, cache, size_class);
	__real_je_arena_cache_bin_fill_small(thread, arena, cache, info, size_class, fill);
}

/* ---- steps of allocation ---- */

/* Internal to jemalloc 5.3: src/stats.c, src/thread_event.c. There the event prints statistics
 * every opt.stats_interval bytes, and is there at all if that is set. With a version whose
 * functions are others it would print: jemalloc.mk checks that. 5.3.0 passes the handler a second
 * argument, 5.3.1 does not. */
extern int64_t je_opt_stats_interval __attribute__((weak));
void mt_je_stats_interval_event_handler(void *thread);
uint64_t mt_je_stats_interval_new_event_wait(void *thread);
uint64_t mt_je_stats_interval_postponed_event_wait(void *thread);

/* STATS_INTERVAL_ACCUM_LG_BATCH_SIZE: 5.3.1 takes a step of this part of the interval; it does
 * not call for the next step, as 5.3.0 does. */
#define STEPS_PER_INTERVAL 64

static uint64_t step;
static void (*on_event)(void);

void mt_jemalloc_event_use(uint64_t step_bytes, void (*handler)(void))
{
#ifdef MT_JEMALLOC_EVENTS
	if (!&je_opt_stats_interval || !handler)
		return;
	step = step_bytes;
	on_event = handler;
	je_opt_stats_interval = (int64_t)(step_bytes * STEPS_PER_INTERVAL);
#else
	(void)step_bytes;
	(void)handler;
#endif
}

uint64_t mt_je_stats_interval_new_event_wait(void *thread)
{
	(void)thread;
	return step;
}

/* The event came at a moment when it could not be handled: at the next allocation. */
uint64_t mt_je_stats_interval_postponed_event_wait(void *thread)
{
	(void)thread;
	return 1;
}

void mt_je_stats_interval_event_handler(void *thread)
{
	(void)thread;
	on_event();
}

/* ---- counters of threads ---- */

/* Where, from the address that jemalloc announces for a thread, its two byte counters lie; the same
 * for all threads, since both are in one thread-local object. Written before another thread uses
 * jemalloc. */
static bool offsets_are_known;
static ptrdiff_t allocated_offset;
static ptrdiff_t freed_offset;
static MT_TLS const char *own_counters;

void mt_jemalloc_counters_note_thread(const void *counters)
{
	own_counters = counters;
}

bool mt_jemalloc_counters_have_thread(void)
{
	return own_counters != NULL;
}

void mt_jemalloc_counters_begin(void)
{
	uint64_t *allocated = NULL;
	uint64_t *freed = NULL;
	size_t bytes = sizeof(allocated);

	if (je_mallctl("thread.allocatedp", &allocated, &bytes, NULL, 0) != 0 ||
	    je_mallctl("thread.deallocatedp", &freed, &bytes, NULL, 0) != 0)
		return;
	allocated_offset = (const char *)allocated - own_counters;
	freed_offset = (const char *)freed - own_counters;
	offsets_are_known = true;
}

static uint64_t read_counter(const char *at)
{
	uint64_t value;

	/* Written by its owner with plain 8-byte stores: on a 64-bit machine a reader sees the old
	 * or the new one. */
	__atomic_load((const uint64_t *)(const void *)at, &value, __ATOMIC_RELAXED);
	return value;
}

bool mt_jemalloc_counters(const void *counters, uint64_t *out_allocated, uint64_t *out_freed)
{
	const char *base = counters;

	if (!offsets_are_known)
		return false;
	*out_allocated = base ? read_counter(base + allocated_offset) : 0;
	*out_freed = base ? read_counter(base + freed_offset) : 0;
	return true;
}

bool mt_jemalloc_own_counters(uint64_t *out_allocated, uint64_t *out_freed)
{
	return own_counters && mt_jemalloc_counters(own_counters, out_allocated, out_freed);
}

bool mt_jemalloc_thread_has_allocated(void)
{
	uint64_t allocated, freed;

	return mt_jemalloc_own_counters(&allocated, &freed) && allocated;
}

/* ---- fork ---- */

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
	int answer;

	if (mt_unlikely(forking_thread != 0) && forking_thread == mt_os_gettid())
		return lock_in_fork(mutex);
	if (mt_unlikely(mt_raw_clone_was_worker(owner_of(mutex))))
		(void)pthread_mutex_init(mutex, NULL);
	else
		mt_jemalloc_errors_check_owner(owner_of(mutex));
	mt_add_relaxed(&mt_thread_counters.lock_waits, 1);
	answer = pthread_mutex_lock(mutex);
	mt_sub_relaxed(&mt_thread_counters.lock_waits, 1);
	return answer;
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
	mt_jemalloc_caches_fork_child();
	mt_jemalloc_pages_fork_child();
	mt_jemalloc_records_fork_child();
	mt_jemalloc_arena_fork_child();
	mt_lock_check_leave(MT_RANK_jemalloc);
	mt_jemalloc_prof_open_gate_in_child();
	mt_lock_check_leave(MT_RANK_prof_gate);
}
