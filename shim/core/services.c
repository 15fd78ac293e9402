#include "core/services.h"

#include "sys/atomic.h"

/* Set once, before the shim starts a thread; no ordering. */
static _Atomic(const struct mt_interpreter_ops *) interpreter_ops;

static const struct mt_interpreter_ops *interpreter_get(void)
{
	return mt_load_relaxed(&interpreter_ops);
}

void mt_services_set_interpreter(const struct mt_interpreter_ops *ops)
{
	mt_store_relaxed(&interpreter_ops, ops);
}

#define X(type, name, parameters, arguments, none)                                                 \
	type mt_interpreter_##name parameters                                                      \
	{                                                                                          \
		return interpreter_get() ? interpreter_get()->name arguments : none;               \
	}
MT_INTERPRETER_FUNCTIONS(X)
#undef X
#define X(name)                                                                                    \
	void mt_interpreter_##name(void)                                                           \
	{                                                                                          \
		if (interpreter_get())                                                             \
			interpreter_get()->name();                                                 \
	}
MT_INTERPRETER_CALLS(X)
#undef X

/* ---- object heap ---- */

/* Each is set once; what it points to never changes. No ordering. */
static _Atomic(const struct mt_object_heap_ops *) object_heap_ops;
typedef void (*grew_fn)(uint64_t bytes);
static _Atomic(grew_fn) listener;
typedef void (*exceeds_fn)(void);
static _Atomic(exceeds_fn) limit_listener;

static const struct mt_object_heap_ops *object_heap_get(void)
{
	return mt_load_relaxed(&object_heap_ops);
}

void mt_services_set_object_heap(const struct mt_object_heap_ops *ops)
{
	mt_store_relaxed(&object_heap_ops, ops);
}

bool mt_object_heap_is_there(void)
{
	return object_heap_get() != NULL;
}

void mt_object_heap_read(struct mt_object_heap_figures *out, bool exact)
{
	*out = (struct mt_object_heap_figures){0};
	if (object_heap_get())
		object_heap_get()->read(out, exact);
}

uint64_t mt_object_heap_purge(uint64_t keep_bytes, bool (*enter)(void), void (*leave)(void))
{
	return object_heap_get() ? object_heap_get()->purge(keep_bytes, enter, leave) : 0;
}

void mt_object_heap_limit(uint64_t address_bytes, uint64_t data_bytes)
{
	if (object_heap_get())
		object_heap_get()->limit(address_bytes, data_bytes);
}

void mt_object_heap_listen(void (*grew)(uint64_t bytes), void (*exceeds)(void))
{
	mt_store_relaxed(&limit_listener, exceeds);
	mt_store_relaxed(&listener, grew);
}

void mt_object_heap_grew(uint64_t bytes)
{
	grew_fn grew = mt_load_relaxed(&listener);

	if (grew)
		grew(bytes);
}

void mt_object_heap_exceeds(void)
{
	exceeds_fn exceeds = mt_load_relaxed(&limit_listener);

	if (exceeds)
		exceeds();
}

/* ---- devices ---- */

/* release/acquire with the state that gpu/ set up before */
static _Atomic(const struct mt_devices_ops *) device_ops;

static const struct mt_devices_ops *devices_get(void)
{
	return mt_load_acquire(&device_ops);
}

void mt_services_set_devices(const struct mt_devices_ops *ops)
{
	mt_store_release(&device_ops, ops);
}

#define X(type, name, parameters, arguments, none)                                                 \
	type mt_devices_##name parameters                                                          \
	{                                                                                          \
		return devices_get() ? devices_get()->name arguments : none;                       \
	}
MT_DEVICES_FUNCTIONS(X)
#undef X
