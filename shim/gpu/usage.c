#include "gpu/pool.h"

#include <string.h>

#include "sys/atomic.h"

static void raise_peak(_Atomic uint64_t *peak, uint64_t value)
{
	uint64_t seen = mt_load_relaxed(peak);

	while (value > seen &&
	       !atomic_compare_exchange_weak_explicit(peak, &seen, value, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

struct mt_holdings mt_usage_holdings(const struct mt_pool_device *device)
{
	struct mt_holdings sum = {0};

	MT_EACH_CONTEXT(context)
	{
		if (mt_context_device(context) != device)
			continue;
		sum.allocated += mt_counter(&context->counters.allocated);
		sum.pending += mt_counter(&context->counters.pending);
		sum.idle += mt_counter(&context->counters.idle);
	}
	return sum;
}

void mt_usage_note_peaks(struct mt_context *context)
{
	struct mt_pool_device *device = mt_context_device(context);
	struct mt_holdings now = mt_usage_holdings(device);

	raise_peak(&device->allocated_peak, now.allocated);
	raise_peak(&device->active_peak, now.allocated + now.pending);
	raise_peak(&device->reserved_peak, now.allocated + now.pending + now.idle);
}

static void add(struct mt_pool_usage *out, struct mt_counters *from)
{
#define X(name, figure) out->figure += mt_counter(&from->name);
	MT_CONTEXT_HOLDINGS(X)
	MT_CONTEXT_TOTALS(X)
#undef X
}

void mt_pool_usage(int number, struct mt_pool_usage *out)
{
	struct mt_pool_device *device = mt_pool_device(number);

	memset(out, 0, sizeof(*out));
	add(out, &device->past);
	MT_EACH_CONTEXT(context)
	{
		uint64_t largest = 0;

		if (mt_context_device(context) != device)
			continue;
		add(out, &context->counters);
		mt_lock_lock(&context->lock);
		if (context->idle)
			largest = mt_bins_largest(context->idle);
		mt_lock_unlock(&context->lock);
		if (largest > out->largest_idle_bytes)
			out->largest_idle_bytes = largest;
	}
	out->active_bytes = out->allocated_bytes + out->pending_bytes;
	out->reserved_bytes = out->active_bytes + out->idle_bytes;
	out->allocated_peak_bytes = mt_counter(&device->allocated_peak);
	out->active_peak_bytes = mt_counter(&device->active_peak);
	out->reserved_peak_bytes = mt_counter(&device->reserved_peak);
	out->num_alloc_retries = mt_counter(&device->retries);
	out->num_ooms = mt_counter(&device->ooms);
}

uint64_t mt_pool_cached_bytes(int number)
{
	struct mt_holdings now = mt_usage_holdings(mt_pool_device(number));

	return now.pending + now.idle;
}

uint64_t mt_pool_withheld_bytes(int number)
{
	const struct mt_pool_device *device = mt_pool_device(number);
	uint64_t withheld = 0;

	MT_EACH_CONTEXT(context)
	{
		uint64_t small = mt_counter(&context->counters.small),
			 cached = mt_counter(&context->counters.small_cached);

		if (mt_context_device(context) == device)
			withheld += mt_counter(&context->counters.pages_cached) +
				    mt_bins_pages(small) -
				    mt_bins_pages(small > cached ? small - cached : 0);
	}
	return withheld;
}

void mt_pool_reset_peak(void)
{
	for (int number = 0; number < MT_POOL_DEVICES; number++) {
		struct mt_pool_device *device = &mt_pool.devices[number];
		struct mt_pool_usage now;

		mt_pool_usage(number, &now);
		mt_store_relaxed(&device->allocated_peak, now.allocated_bytes);
		mt_store_relaxed(&device->active_peak, now.active_bytes);
		mt_store_relaxed(&device->reserved_peak, now.reserved_bytes);
	}
}

enum mt_pool_mode mt_pool_mode_of(int number)
{
	enum mt_pool_mode most = MT_POOL_UNDECIDED;

	MT_EACH_CONTEXT(context)
	{
		enum mt_pool_mode does = mt_context_mode(context);

		if (does == MT_POOL_POOL && !mt_context_pools(context))
			does = MT_POOL_ACCOUNT;
		if (mt_context_handle(context) &&
		    mt_context_device(context) == mt_pool_device(number) && does > most)
			most = does;
	}
	return most;
}

bool mt_pool_is_used(void)
{
	for (int number = 0; number < MT_POOL_DEVICES; number++)
		if (mt_counter(&mt_pool.devices[number].past.allocs))
			return true;
	MT_EACH_CONTEXT(context)
	{
		if (mt_counter(&context->counters.allocs))
			return true;
	}
	return false;
}

void mt_pool_note_ooms(int device, uint64_t count)
{
	mt_add_relaxed(&mt_pool_device(device)->ooms, count);
}

void mt_pool_note_retry(int device)
{
	mt_add_relaxed(&mt_pool_device(device)->retries, 1);
}

/* ---- what a device has left ---- */

/* The context is held. */
static bool ask_context(struct mt_context *context, uint64_t *out_free_bytes,
			uint64_t *out_total_bytes)
{
	size_t free_bytes = 0, total_bytes = 0;
	int result;
	bool was_pushed = mt_context_push(context, &result);

	if (result == MT_CU_SUCCESS)
		result = mt_pool_driver()->cuMemGetInfo_v2(&free_bytes, &total_bytes);
	mt_context_pop(was_pushed);
	if (result != MT_CU_SUCCESS)
		return false;
	*out_free_bytes = free_bytes;
	*out_total_bytes = total_bytes;
	return true;
}

bool mt_pool_read_memory(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes)
{
	bool known = false;
	int mode;

	if (!mt_pool_is_up() || !mt_pool_driver()->cuMemGetInfo_v2)
		return false;
	mode = mt_driver_relax(mt_pool_driver());
	MT_EACH_HELD_CONTEXT(context, device)
	{
		if (!known && !mt_flag(&context->is_dead) && !mt_context_is_ending(context))
			known = ask_context(context, out_free_bytes, out_total_bytes);
	}
	mt_driver_restore(mt_pool_driver(), mode);
	return known;
}
