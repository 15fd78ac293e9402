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

#define X(type, name, parameters, arguments, none)                                                 \
	type mt_devices_##name parameters                                                          \
	{                                                                                          \
		return get() ? get()->name arguments : none;                                       \
	}
MT_DEVICES_FUNCTIONS(X)
#undef X
