#include "core/interpreter.h"

#include <stdatomic.h>
#include <stddef.h>

/* Set once, before the shim starts a thread; no ordering. */
static _Atomic(const struct mt_interpreter_ops *) interpreter_ops;

static const struct mt_interpreter_ops *get(void)
{
	return atomic_load_explicit(&interpreter_ops, memory_order_relaxed);
}

void mt_interpreter_set(const struct mt_interpreter_ops *ops)
{
	atomic_store_explicit(&interpreter_ops, ops, memory_order_relaxed);
}

bool mt_interpreter_is_running(void)
{
	return get() && get()->is_running();
}

bool mt_interpreter_thread_runs(void)
{
	return get() && get()->thread_runs();
}

bool mt_interpreter_wants_thread(void)
{
	return get() && get()->wants_thread();
}

void mt_interpreter_start_thread(void)
{
	if (get())
		get()->start_thread();
}

bool mt_interpreter_collect_soon(void (*flush_thread)(void))
{
	return get() && get()->collect_soon(flush_thread);
}

void mt_interpreter_expedite(void)
{
	if (get())
		get()->expedite();
}

uint64_t mt_interpreter_framework_idle_bytes(int device)
{
	return get() ? get()->framework_idle_bytes(device) : 0;
}

bool mt_interpreter_empty_caches(void)
{
	return get() && get()->empty_caches();
}

enum mt_caches_state mt_interpreter_emptied(uint32_t *out_frameworks)
{
	return get()->emptied(out_frameworks);
}

void mt_interpreter_prepare_lines(void)
{
	if (get())
		get()->prepare_lines();
}

size_t mt_interpreter_lines(uintptr_t *out, size_t max)
{
	return get() ? get()->lines(out, max) : 0;
}

bool mt_interpreter_write_lines(int fd, uint64_t at)
{
	return !get() || get()->write_lines(fd, at);
}

bool mt_interpreter_line_text(uintptr_t line, char *out, size_t out_bytes)
{
	return get() && get()->line_text(line, out, out_bytes);
}

/* ---- object heap ---- */

/* Each is set once; what it points to never changes. No ordering. */
static _Atomic(const struct mt_object_heap_ops *) ops;
typedef void (*grew_fn)(uint64_t bytes);
static _Atomic(grew_fn) listener;
typedef void (*exceeds_fn)(void);
static _Atomic(exceeds_fn) limit_listener;

static const struct mt_object_heap_ops *object_heap_get(void)
{
	return atomic_load_explicit(&ops, memory_order_relaxed);
}

void mt_object_heap_set(const struct mt_object_heap_ops *given)
{
	atomic_store_explicit(&ops, given, memory_order_relaxed);
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
	atomic_store_explicit(&limit_listener, exceeds, memory_order_relaxed);
	atomic_store_explicit(&listener, grew, memory_order_relaxed);
}

void mt_object_heap_grew(uint64_t bytes)
{
	grew_fn grew = atomic_load_explicit(&listener, memory_order_relaxed);

	if (grew)
		grew(bytes);
}

void mt_object_heap_exceeds(void)
{
	exceeds_fn exceeds = atomic_load_explicit(&limit_listener, memory_order_relaxed);

	if (exceeds)
		exceeds();
}
