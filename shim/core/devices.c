#include "core/devices.h"

#include <stdatomic.h>
#include <stddef.h>

/* release/acquire with the state that gpu/ set up before */
static _Atomic(const struct mt_devices_ops *) device_ops;

static const struct mt_devices_ops *get(void)
{
	return atomic_load_explicit(&device_ops, memory_order_acquire);
}

void mt_devices_set(const struct mt_devices_ops *ops)
{
	atomic_store_explicit(&device_ops, ops, memory_order_release);
}

bool mt_devices_are_used(void)
{
	return get() && get()->are_used();
}

bool mt_devices_are_capturing(void)
{
	return get() && get()->are_capturing();
}

bool mt_devices_have_context(void)
{
	return get() && get()->have_context();
}

bool mt_devices_thread_runs(void)
{
	return get() && get()->thread_runs();
}

uint64_t mt_devices_used_bytes(bool here)
{
	return get() ? get()->used_bytes(here) : 0;
}

uint64_t mt_devices_live_bytes(void)
{
	return get() ? get()->live_bytes() : 0;
}

uint32_t mt_devices_rows(const struct mt_stats_device **out)
{
	*out = NULL;
	return get() ? get()->rows(out) : 0;
}
