#include "pressure/unsampled.h"

#include <limits.h>
#include <stdatomic.h>

#include "sys/os.h"

/* Growth since the last sample began, growth since the sample that is under way began, and live
 * bytes at the last call. No ordering: two threads that call at once may count a MB twice or not at
 * all. */
static _Atomic int64_t growth_bytes;
static _Atomic int64_t growth_next_bytes;
static _Atomic int64_t base_bytes;

static _Atomic uint32_t samples_count; /* futex */
/* samples_count + 1 at a wait that timed out; no ordering */
static _Atomic uint32_t timed_out_sample;

void mt_unsampled_add(int64_t live_bytes, int64_t step_bytes)
{
	int64_t base = atomic_load_explicit(&base_bytes, memory_order_relaxed);

	if (live_bytes > base) {
		atomic_fetch_add_explicit(&growth_bytes, live_bytes - base, memory_order_relaxed);
		atomic_fetch_add_explicit(&growth_next_bytes, live_bytes - base,
					  memory_order_relaxed);
	} else if (live_bytes > base - step_bytes) {
		return;
	}
	atomic_store_explicit(&base_bytes, live_bytes, memory_order_relaxed);
}

int64_t mt_unsampled_bytes(void)
{
	return atomic_load_explicit(&growth_bytes, memory_order_relaxed);
}

void mt_unsampled_reset(int64_t live_bytes)
{
	atomic_store_explicit(&growth_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&growth_next_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&base_bytes, live_bytes, memory_order_relaxed);
}

bool mt_unsampled_await_sample(void (*wake)(void), uint64_t timeout_ns)
{
	uint32_t samples = atomic_load_explicit(&samples_count, memory_order_acquire);

	if (samples + 1 == atomic_load_explicit(&timed_out_sample, memory_order_relaxed))
		return false;
	wake();
	(void)mt_os_futex_wait(&samples_count, samples, timeout_ns, MT_FUTEX_PRIVATE);
	if (samples != atomic_load_explicit(&samples_count, memory_order_acquire))
		return true;
	atomic_store_explicit(&timed_out_sample, samples + 1, memory_order_relaxed);
	return false;
}

void mt_unsampled_begin_sample(void)
{
	atomic_store_explicit(&growth_next_bytes, 0, memory_order_relaxed);
}

void mt_unsampled_end_sample(void)
{
	atomic_store_explicit(&growth_bytes,
			      atomic_load_explicit(&growth_next_bytes, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_fetch_add_explicit(&samples_count, 1, memory_order_release);
	mt_os_futex_wake(&samples_count, INT_MAX, MT_FUTEX_PRIVATE);
}
