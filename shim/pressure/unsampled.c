#include "pressure/unsampled.h"

#include <limits.h>
#include <stdatomic.h>

#include "sys/os.h"

/* Rises since the last look began, and since the one began that is under way; live bytes from where
 * the next one counts. No ordering: two threads that note at once count a rise of a MB twice, or
 * once less. */
static _Atomic int64_t rises_bytes;
static _Atomic int64_t rises_next_bytes;
static _Atomic int64_t from_bytes;

static _Atomic uint32_t looks_count; /* futex */
/* of looks, at which somebody waited without effect; no ordering */
static _Atomic uint32_t vain_count;

void mt_unsampled_note(int64_t live_bytes, int64_t step_bytes)
{
	int64_t from = atomic_load_explicit(&from_bytes, memory_order_relaxed);

	if (live_bytes > from) {
		atomic_fetch_add_explicit(&rises_bytes, live_bytes - from, memory_order_relaxed);
		atomic_fetch_add_explicit(&rises_next_bytes, live_bytes - from,
					  memory_order_relaxed);
	} else if (live_bytes > from - step_bytes) {
		return;
	}
	atomic_store_explicit(&from_bytes, live_bytes, memory_order_relaxed);
}

int64_t mt_unsampled_bytes(void)
{
	return atomic_load_explicit(&rises_bytes, memory_order_relaxed);
}

void mt_unsampled_forget(int64_t live_bytes)
{
	atomic_store_explicit(&rises_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&rises_next_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&from_bytes, live_bytes, memory_order_relaxed);
}

bool mt_unsampled_await_look(void (*wake)(void), uint64_t patience_ns)
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

void mt_unsampled_begin_look(void)
{
	atomic_store_explicit(&rises_next_bytes, 0, memory_order_relaxed);
}

void mt_unsampled_end_look(void)
{
	atomic_store_explicit(&rises_bytes,
			      atomic_load_explicit(&rises_next_bytes, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_fetch_add_explicit(&looks_count, 1, memory_order_release);
	mt_os_futex_wake(&looks_count, INT_MAX, MT_FUTEX_PRIVATE);
}
