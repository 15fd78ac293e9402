#include "core/devices.h"

#include "sys/atomic.h"

/* release/acquire with the state that gpu/ set up before */
static _Atomic(const struct mt_devices_ops *) device_ops;

static const struct mt_devices_ops *get(void)
{
	return mt_load_acquire(&device_ops);
}

void mt_devices_set(const struct mt_devices_ops *ops)
{
	mt_store_release(&device_ops, ops);
}

#define X(type, name, parameters, arguments, none)                                                 \
	type mt_devices_##name parameters                                                          \
	{                                                                                          \
		return get() ? get()->name arguments : none;                                       \
	}
MT_DEVICES_FUNCTIONS(X)
#undef X
