#include "sys/lock.h"

#include <errno.h>

#include "sys/atomic.h"
#include "sys/main_thread.h"
#include "sys/os.h"

/* A wake-up is lost only if the kernel starts to refuse futexes: in a sandbox that the process
 * enters while a thread sleeps. */
#define LOST_WAKE_NS (100 * MT_NS_PER_MS)
/* no lock of the shim is held for so many waits in a live process */
#define RAW_CLONE_WAITS 10

static int try_once(struct mt_lock *lock)
{
	uint32_t expected = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1,
						       memory_order_acquire, memory_order_relaxed);
}

void mt_lock_lock_slow(struct mt_lock *lock)
{
	int waits = 0;

	for (int spin = 0; spin < 100; spin++) {
		if (try_once(lock))
			return;
		mt_os_relax();
	}
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0) {
		int answer = mt_os_futex_wait(&lock->word, 2, LOST_WAKE_NS, MT_FUTEX_PRIVATE);

		/* The holder does not exist in this raw clone of its process: the caller has the
		 * lock, which is marked as taken. */
		if (answer == ETIMEDOUT && ++waits >= RAW_CLONE_WAITS && mt_raw_clone_is_child())
			return;
	}
}

bool mt_lock_lock_within(struct mt_lock *lock, uint64_t span_ns)
{
	uint64_t until = mt_os_now_ns() + span_ns;
	uint64_t now;

	/* 2, since other threads may sleep too; at worst the unlock then wakes no thread */
	while (!try_once(lock) &&
	       atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0) {
		now = mt_os_now_ns();
		if (now >= until)
			return false;
		(void)mt_os_futex_wait(&lock->word, 2, until - now, MT_FUTEX_PRIVATE);
	}
	mt_lock_check_lock(lock, lock->rank);
	mt_lock_check_locked(lock);
	return true;
}

void mt_lock_wake(struct mt_lock *lock)
{
	mt_os_futex_wake(&lock->word, 1, MT_FUTEX_PRIVATE);
}

#define YIELD_SLEEPS 20
#define YIELD_NS     (50 * 1000ull)

void mt_lock_unlock_and_yield(struct mt_lock *lock)
{
	/* A hint, no ordering: 2 means that a thread sleeps. */
	int is_awaited = mt_load_relaxed(&lock->word) == 2;

	mt_assert(mt_lock_is_locked(lock));
	mt_lock_unlock(lock);
	for (int sleeps = 0; is_awaited && sleeps < YIELD_SLEEPS; sleeps++) {
		mt_os_sleep_ns(YIELD_NS);
		if (mt_load_relaxed(&lock->word) != 0)
			break;
	}
}

/* ---- lock check ---- */

#ifdef MT_DEBUG

#include <stdlib.h>
#include <unistd.h>

#include "sys/attr.h"
#include "sys/format.h"

/* Helgrind does not know futexes. If its header is installed it is told of each lock and unlock,
 * and checks their order with the locks of jemalloc and libc (make check-helgrind). */
#ifdef __has_include
#if __has_include(<valgrind/helgrind.h>)
#include <valgrind/helgrind.h>
#define TELL_LOCKED(lock)    VALGRIND_HG_MUTEX_LOCK_POST((void *)(uintptr_t)(lock))
#define TELL_UNLOCKING(lock) VALGRIND_HG_MUTEX_UNLOCK_PRE((void *)(uintptr_t)(lock))
#endif
#endif
#ifndef TELL_LOCKED
#define TELL_LOCKED(lock)    ((void)(lock))
#define TELL_UNLOCKING(lock) ((void)(lock))
#endif

#define DEPTH 16 /* locks of one thread; the longest nesting has 5 */

enum held { HELD_OURS, HELD_NOTED, HELD_OUTSIDE, HELD_SHARED };

static const struct {
	const char *name;
	enum held held;
} rows[MT_RANK_COUNT] = {
	[MT_RANK_NONE] = {"a lock without a rank", HELD_OURS},
#define X(name, held, protects) [MT_RANK_##name] = {#name, HELD_##held},
	MT_LOCK_RANKS(X)
#undef X
		[MT_RANK_fork] = {"a fork", HELD_SHARED},
};

/* The locks that this thread holds. A signal handler may run between any two steps, and must find
 * and leave a consistent list. So an entry is added in three steps (count, lock, rank) and removed
 * in three (HOLE, free, count). An entry of rank 0 below the count is being added or removed, and
 * other code leaves it alone. Holes are closed from the top by any caller. */
#define HOLE UINT32_MAX

struct stack {
	_Atomic uint32_t count;
	struct {
		const void *lock; /* NULL: a gate */
		_Atomic uint32_t rank;
	} at[DEPTH];
};
static MT_TLS struct stack stack;

static MT_COLD _Noreturn void die(const char *action, const char *first, const char *then,
				  const char *second)
{
	char line[200];
	size_t length = mt_format(line, sizeof(line), "mtshim: locks: %s %s%s%s\n", action, first,
				  then, second);

	(void)!mt_raw_syscall(SYS_write, STDERR_FILENO, line, length);
	abort();
}

/* Returns the rank of an entry; NONE for a hole or an incomplete entry. */
static uint32_t rank_at(uint32_t at)
{
	uint32_t rank = atomic_load(&stack.at[at].rank);

	return rank == HOLE ? MT_RANK_NONE : rank;
}

static void push(const void *lock, uint32_t rank)
{
	uint32_t at = atomic_load(&stack.count);

	if (at == DEPTH)
		die("takes", rows[rank].name, " and holds too many already", "");
	atomic_store(&stack.count, at + 1);
	stack.at[at].lock = lock;
	atomic_store(&stack.at[at].rank, rank);
}

static void remove_at(uint32_t at)
{
	uint32_t count;

	atomic_store(&stack.at[at].rank, HOLE);
	while ((count = atomic_load(&stack.count)) > 0 &&
	       atomic_load(&stack.at[count - 1].rank) == HOLE) {
		atomic_store(&stack.at[count - 1].rank, MT_RANK_NONE);
		/* On failure a signal handler has closed this hole and others. */
		(void)atomic_compare_exchange_strong(&stack.count, &count, count - 1);
	}
}

/* Removes the newest entry of this lock and rank. Returns false if there is none. */
static bool remove_last(const void *lock, uint32_t rank)
{
	for (uint32_t at = stack.count; at-- > 0;)
		if (rank_at(at) == rank && stack.at[at].lock == lock) {
			remove_at(at);
			return true;
		}
	return false;
}

/* Returns the index of the first entry that this thread has added since it forks; 0 if it does
 * not. */
static uint32_t first_of_fork(void)
{
	uint32_t at = atomic_load(&stack.count);

	while (at > 0 && rank_at(at - 1) != MT_RANK_fork)
		at--;
	return at;
}

/* Checks that the new lock stands below all held ones in the table. */
static void check_order(const void *lock, uint32_t rank)
{
	uint32_t first = first_of_fork();

	if (rank == MT_RANK_NONE || rank >= MT_RANK_COUNT)
		die("takes", rows[MT_RANK_NONE].name, "", " (sys/lock_ranks.def)");
	for (uint32_t at = 0; at < stack.count; at++) {
		uint32_t other = rank_at(at);

		if (other != MT_RANK_NONE && lock && lock == stack.at[at].lock)
			die("takes", rows[rank].name, ", which it holds already", "");
		if (at < first)
			continue;
		if (other > rank)
			die("takes", rows[rank].name, " while it holds ", rows[other].name);
		if (other < rank || rows[rank].held == HELD_SHARED)
			continue;
		die("takes", rows[rank].name, " while it holds another ", rows[other].name);
	}
}

void mt_lock_check_lock(const void *lock, uint32_t rank)
{
	check_order(lock, rank);
	push(lock, rank);
}

void mt_lock_check_locked(const void *lock)
{
	TELL_LOCKED(lock);
}

void mt_lock_check_unlock(const void *lock, uint32_t rank)
{
	if (!remove_last(lock, rank))
		die("drops", rows[rank < MT_RANK_COUNT ? rank : MT_RANK_NONE].name,
		    ", which this thread does not hold", "");
	TELL_UNLOCKING(lock);
}

void mt_lock_check_reset(const void *lock)
{
	for (uint32_t at = stack.count; at-- > 0;)
		if (rank_at(at) != MT_RANK_NONE && stack.at[at].lock == lock) {
			remove_at(at);
			TELL_UNLOCKING(lock);
			return;
		}
}

void mt_lock_check_enter(enum mt_lock_rank rank)
{
	mt_lock_check_lock(NULL, rank);
}

void mt_lock_check_leave(enum mt_lock_rank rank)
{
	if (!remove_last(NULL, rank))
		die("leaves", rows[rank].name, ", which this thread has not entered", "");
}

static void check_held(enum held most, const char *what)
{
	for (uint32_t at = 0; at < stack.count; at++)
		if (rank_at(at) != MT_RANK_NONE && rows[rank_at(at)].held <= most)
			die("holds", rows[rank_at(at)].name, " over ", what);
}

void mt_lock_check_foreign_call(const char *what)
{
	check_held(HELD_NOTED, what);
}

void mt_lock_check_entry(const char *what)
{
	check_held(HELD_OURS, what);
}

void mt_lock_check_wait(const char *what)
{
	for (uint32_t at = 0; at < stack.count; at++)
		if (rank_at(at) != MT_RANK_NONE)
			die("holds", rows[rank_at(at)].name, " while it waits for ", what);
}

bool mt_lock_is_held(enum mt_lock_rank rank)
{
	for (uint32_t at = 0; at < stack.count; at++)
		if (rank_at(at) == (uint32_t)rank)
			return true;
	return false;
}

#endif
