#include "gpu/device_memory.h"

#include "gpu/capture.h"
#include "gpu/wait.h"

static void update_flags(struct mt_pool_device *device)
{
	uint64_t total = mt_counter(&device->total_bytes), pct = mt_counter(&mt_pool.low_free_pct);
	uint64_t free_bytes = mt_counter(&device->free_bytes);
	bool is_known = total && mt_counter(&device->measured_ns);
	bool is_low = is_known && free_bytes < total / 100 * pct;
	bool is_scarce = is_known && free_bytes < total / MT_DEVICE_MEMORY_SCARCE;

	if (atomic_load_explicit(&device->is_scarce, memory_order_relaxed) != is_scarce)
		atomic_store_explicit(&device->is_scarce, is_scarce, memory_order_relaxed);
	if (atomic_load_explicit(&device->is_low, memory_order_relaxed) != is_low)
		atomic_store_explicit(&device->is_low, is_low, memory_order_relaxed);
}

void mt_device_memory_measure(struct mt_context *context, uint64_t now_ns)
{
	struct mt_pool_device *device = mt_context_device(context);
	uint64_t last = mt_counter(&device->measured_ns);
	size_t free_bytes = 0, total_bytes = 0;
	bool was_pushed;
	int result, cancel;

	if (!mt_pool_driver()->cuMemGetInfo_v2)
		return;
	if (last && now_ns - last < MT_DEVICE_MEMORY_MEASURE_NS)
		return;
	atomic_store_explicit(&device->measured_ns, now_ns ? now_ns : 1, memory_order_relaxed);
	if (!mt_capture_gate_enter())
		return;
	cancel = mt_wait_uncancelled();
	was_pushed = mt_context_push(context, true, &result);
	if (result == MT_CU_SUCCESS)
		result = mt_pool_driver()->cuMemGetInfo_v2(&free_bytes, &total_bytes);
	mt_context_pop(was_pushed);
	mt_capture_gate_leave();
	mt_wait_cancellable(cancel);
	if (result != MT_CU_SUCCESS) {
		atomic_store_explicit(&device->measured_ns, 0, memory_order_relaxed);
		return;
	}
	atomic_store_explicit(&device->total_bytes, total_bytes, memory_order_relaxed);
	atomic_store_explicit(&device->free_bytes, free_bytes, memory_order_relaxed);
	update_flags(device);
}

/* The context is held. */
static bool ask_context(struct mt_context *context, uint64_t *out_free_bytes,
			uint64_t *out_total_bytes)
{
	size_t free_bytes = 0, total_bytes = 0;
	int result;
	bool was_pushed = mt_context_push(context, true, &result);

	if (result == MT_CU_SUCCESS)
		result = mt_pool_driver()->cuMemGetInfo_v2(&free_bytes, &total_bytes);
	mt_context_pop(was_pushed);
	if (result != MT_CU_SUCCESS)
		return false;
	*out_free_bytes = free_bytes;
	*out_total_bytes = total_bytes;
	return true;
}

bool mt_device_memory_ask(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes)
{
	bool known = false;

	if (!mt_pool_driver()->cuMemGetInfo_v2)
		return false;
	MT_EACH_CONTEXT(context)
	{
		uint32_t init = atomic_load_explicit(&context->init, memory_order_relaxed);

		if (known ||
		    atomic_load_explicit(&context->device, memory_order_relaxed) != device ||
		    atomic_load_explicit(&context->is_dead, memory_order_relaxed) ||
		    !mt_context_hold(context, init))
			continue;
		if (!atomic_load_explicit(&context->is_ending, memory_order_seq_cst))
			known = ask_context(context, out_free_bytes, out_total_bytes);
		mt_context_drop(context);
	}
	return known;
}

bool mt_device_memory_read(int device, uint64_t *out_free_bytes, uint64_t *out_total_bytes)
{
	bool known;

	if (!atomic_load_explicit(&mt_pool.is_up, memory_order_relaxed) || !mt_capture_gate_enter())
		return false;
	known = mt_device_memory_ask(device, out_free_bytes, out_total_bytes);
	mt_capture_gate_leave();
	return known;
}

void mt_device_memory_taken(struct mt_pool_device *device, uint64_t bytes)
{
	uint64_t now = mt_counter(&device->free_bytes);

	/* An estimate until the next measurement: a lost update does no harm. */
	atomic_store_explicit(&device->free_bytes, now > bytes ? now - bytes : 0,
			      memory_order_relaxed);
	update_flags(device);
}

void mt_device_memory_freed(struct mt_pool_device *device, uint64_t bytes)
{
	mt_counter_add(&device->free_bytes, bytes);
	update_flags(device);
}

bool mt_device_memory_is_low(struct mt_context *context)
{
	return atomic_load_explicit(&mt_context_device(context)->is_low, memory_order_relaxed);
}

bool mt_device_memory_is_scarce(struct mt_context *context)
{
	return atomic_load_explicit(&mt_context_device(context)->is_scarce, memory_order_relaxed);
}

bool mt_device_memory_has_shortage(struct mt_context *context)
{
	return atomic_load_explicit(&mt_context_device(context)->shortages, memory_order_seq_cst) >
	       0;
}
