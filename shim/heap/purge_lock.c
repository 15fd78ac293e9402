#include "heap/purge_lock.h"

#include "sys/atomic.h"
#include "sys/rss.h"
#include "core/thread.h"
#include "sys/attr.h"
#include "sys/lock.h"
#include "sys/os.h"

#define COPY_STEP_NS (100 * 1000ull)

static struct mt_lock lock = MT_LOCK(purge);

/* 0 while a copy is made whose maker does not hold the lock; set to 0 under the lock, to the copy's
 * id by the kernel. acquire: the thread that sees it changes the heap next. */
static _Atomic pid_t copied = 1;

/* Odd while a thread of ours has the lock; changed by that thread. Counter, no ordering. */
static _Atomic uint32_t worker_holds;

static MT_TLS unsigned depth;       /* how many times the thread has entered */
static MT_TLS bool is_copying_here; /* the copy is made by this thread */

static _Atomic uint32_t allowed_at; /* a count of forks; no ordering but the lock's */

void mt_purge_allow_trim(uint32_t forks)
{
	mt_store_relaxed(&allowed_at, forks);
}

bool mt_purge_may_trim(void)
{
	return mt_rss_shared_forks() == mt_load_relaxed(&allowed_at);
}

static bool is_copying(void)
{
	return mt_load_acquire(&copied) == 0;
}

/* Under the lock. Polled, since the kernel wakes no thread at the end of a copy: some ms for each
 * GB. */
static void wait_for_copy(void)
{
	mt_assert(depth > 0);
	while (is_copying() && !is_copying_here)
		mt_os_sleep_ns(COPY_STEP_NS);
}

static void note_change(void)
{
	mt_assert(depth == 1);
	if (mt_thread_is_ours())
		mt_add_relaxed(&worker_holds, 1);
}

uint32_t mt_purge_worker_hold(void)
{
	uint32_t now = mt_load_relaxed(&worker_holds);

	return now % 2 ? now : 0;
}

/* A signal handler that interrupts the holder may fork or allocate: then the thread has the lock
 * already. */
static bool lock_within(uint64_t span_ns)
{
	if (depth == 0 && !mt_lock_lock_within(&lock, span_ns))
		return false;
	if (depth++ == 0)
		note_change();
	return true;
}

void mt_purge_enter(void)
{
	if (depth == 0)
		mt_lock_lock(&lock);
	if (depth++ == 0)
		note_change();
	wait_for_copy();
}

bool mt_purge_enter_within(uint64_t span_ns)
{
	if (depth > 0 || !lock_within(span_ns))
		return false;
	wait_for_copy();
	return true;
}

void mt_purge_leave(void)
{
	mt_assert(depth > 0);
	if (depth == 1)
		note_change();
	if (--depth == 0)
		mt_lock_unlock_and_yield(&lock);
}

bool mt_purge_hold(uint64_t span_ns)
{
	bool is_locked;

	mt_lock_check_enter(MT_RANK_fork);
	is_locked = lock_within(span_ns);
	mt_lock_check_leave(MT_RANK_fork);
	return is_locked;
}

_Atomic pid_t *mt_purge_release_when_copied(void)
{
	bool can_mark = depth == 1 && !is_copying_here;

	if (can_mark) {
		wait_for_copy();
		is_copying_here = true;
		mt_store_relaxed(&copied, 0);
	}
	mt_purge_release();
	return can_mark ? &copied : NULL;
}

void mt_purge_end_copy(bool made)
{
	is_copying_here = false;
	if (!made)
		mt_store_release(&copied, 1);
}

void mt_purge_release(void)
{
	mt_assert(depth > 0);
	if (depth == 1)
		note_change();
	if (--depth == 0)
		mt_lock_unlock(&lock);
}

void mt_purge_forget(void)
{
	is_copying_here = false;
	mt_store_relaxed(&copied, 1);
	if (depth > 0)
		depth--;
	if (depth > 0)
		return;
	mt_store_relaxed(&worker_holds, 0);
	mt_lock_reset(&lock);
}
