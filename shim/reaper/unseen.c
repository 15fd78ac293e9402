#include "reaper/unseen.h"

#include <limits.h>
#include <stdatomic.h>

#include "base/os.h"

/* Lowest live bytes since the last look began, and since the one began that is under way. No ordering: two threads that note at once
 * are a MB apart. */
static _Atomic int64_t lowest = INT64_MAX;
static _Atomic int64_t lowest_next = INT64_MAX;

static _Atomic uint32_t looks_count; /* futex */
static _Atomic uint32_t vain_count;  /* of looks, at which somebody waited in vain; no ordering */

static void lower(_Atomic int64_t *bytes, int64_t to)
{
	if (to < atomic_load_explicit(bytes, memory_order_relaxed))
		atomic_store_explicit(bytes, to, memory_order_relaxed);
}

void mt_unseen_note(int64_t live_bytes, int64_t allocated_bytes)
{
	lower(&lowest, live_bytes - allocated_bytes);
	lower(&lowest_next, live_bytes - allocated_bytes);
}

int64_t mt_unseen_bytes(int64_t live_bytes)
{
	int64_t from = atomic_load_explicit(&lowest, memory_order_relaxed);

	return live_bytes > from ? live_bytes - from : 0;
}

void mt_unseen_forget(int64_t live_bytes)
{
	atomic_store_explicit(&lowest, live_bytes, memory_order_relaxed);
	atomic_store_explicit(&lowest_next, live_bytes, memory_order_relaxed);
}

bool mt_unseen_await_look(void (*wake)(void), uint64_t patience_ns)
{
	uint32_t looks = atomic_load_explicit(&looks_count, memory_order_acquire);

	if (looks + 1 == atomic_load_explicit(&vain_count, memory_order_relaxed))
		return false;
	wake();
	(void)mt_os_futex_wait(&looks_count, looks, patience_ns, MT_FUTEX_PRIVATE);
	if (looks != atomic_load_explicit(&looks_count, memory_order_acquire))
		return true;
	atomic_store_explicit(&vain_count, looks + 1, memory_order_relaxed);
	return false;
}

void mt_unseen_begin_look(void)
{
	atomic_store_explicit(&lowest_next, INT64_MAX, memory_order_relaxed);
}

void mt_unseen_end_look(void)
{
	atomic_store_explicit(&lowest, atomic_load_explicit(&lowest_next, memory_order_relaxed), memory_order_relaxed);
	atomic_fetch_add_explicit(&looks_count, 1, memory_order_release);
	mt_os_futex_wake(&looks_count, INT_MAX, MT_FUTEX_PRIVATE);
}
