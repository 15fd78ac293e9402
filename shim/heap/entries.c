/* heap/entries.c -- the exported heap family. Each function is one jump through a table in our own
 * memory, predicted like any other: one instruction, where a branch on a flag and a direct jump are
 * three. No state of the heap, no policy. */
#include "heap/entries.h"

#include <stdatomic.h>

#include "heap/jemalloc.h"
#include "sys/lock_check.h"
#include "heap/allocation_event.h"
#include "core/init.h"

/* ---- the very first call ---- */

#define X(type, name, params, args) static type first_##name params;
MT_HEAP_MAKERS(X)
MT_HEAP_KEEPERS(X)
#undef X

/* Read plainly, since an atomic load costs a second instruction on each call; written by atomic
 * stores of one pointer each. A call that still sees the old pointer is served as well by the old
 * way. */
static struct mt_heap_ops serving = {
#define X(type, name, params, args) .name = first_##name,
	MT_HEAP_MAKERS(X) MT_HEAP_KEEPERS(X)
#undef X
};

#define X(type, name, params, args)                                                                \
	MT_EXPORT type name params;                                                                \
	MT_EXPORT type name params                                                                 \
	{                                                                                          \
		mt_lock_check_outside(#name);                                                      \
		return serving.name args;                                                          \
	}
MT_HEAP_MAKERS(X)
MT_HEAP_KEEPERS(X)
#undef X

#define X(type, name, params, args)                                                                \
	static type first_##name params                                                            \
	{                                                                                          \
		mt_init_start_heap();                                                              \
		return (serving.name == first_##name ? mt_bootstrap_ops.name : serving.name) args; \
	}
MT_HEAP_MAKERS(X)
MT_HEAP_KEEPERS(X)
#undef X

/* ---- the embedded jemalloc by way of us: at first, once after growth, and always where the
 * bootstrap arena was used ---- */

#ifndef MT_NO_JEMALLOC
#define CALLS_A_LOOK 512u

static _Atomic unsigned char growth_noted;
static _Atomic unsigned char watched;  /* makers go on coming by the cold path; flag, no ordering */
static _Atomic unsigned char is_young; /* nobody has looked yet; flag, no ordering */
/* a shared one would be fought for by a child's threads at every call */
static MT_TLS uint32_t calls;
static bool may_jump;

/* relaxed: the functions are code, there is nothing behind the pointer to order */
#define SERVE(name, function) __atomic_store_n(&serving.name, function, __ATOMIC_RELAXED)

static void jump_makers(void)
{
#define X(type, name, params, args) SERVE(name, je_##name);
	MT_HEAP_MAKERS(X)
#undef X
}

/* Memory that is not the heap's makes a process large as well, and the heap may never grow after
 * its beginning. So the process is looked at once when it has made some calls: later than at its
 * birth, when its arrays are not touched yet, and not at all where it is as short as most are. */
static bool is_grown_up(void)
{
	if (!atomic_load_explicit(&is_young, memory_order_relaxed))
		return true;
	if (++calls % CALLS_A_LOOK != 0)
		return false;
	atomic_store_explicit(&is_young, 0, memory_order_relaxed);
	mt_init_note_growth();
	return true;
}

/* The allocator has returned, so that a thread may be started. */
static MT_COLD void look_at_growth(void)
{
	if (atomic_load_explicit(&watched, memory_order_relaxed)) {
		if (++calls % CALLS_A_LOOK == 0)
			mt_allocation_event_watched();
	} else if (is_grown_up() && may_jump) {
		jump_makers();
	}
	/* Looked at before it is taken: the line is shared, and this may be every call's way. */
	if (atomic_load_explicit(&growth_noted, memory_order_relaxed) &&
	    atomic_exchange_explicit(&growth_noted, 0, memory_order_relaxed))
		mt_init_note_growth();
}

#define X(type, name, params, args)                                                                \
	static MT_COLD type grown_##name params                                                    \
	{                                                                                          \
		type answer = je_##name args;                                                      \
                                                                                                   \
		look_at_growth();                                                                  \
		return answer;                                                                     \
	}
MT_HEAP_MAKERS(X)
#undef X

static const struct mt_heap_ops grown_ops = {
#define X(type, name, params, args) .name = grown_##name,
	MT_HEAP_MAKERS(X)
#undef X
#define X(type, name, params, args) .name = je_##name,
		MT_HEAP_KEEPERS(X)
#undef X
};

void mt_heap_serve_jemalloc(void)
{
	may_jump = !mt_bootstrap_used();
	/* What it has mapped at its birth says nothing of the process. */
	atomic_store_explicit(&growth_noted, 0, memory_order_relaxed);
	atomic_store_explicit(&is_young, 1, memory_order_relaxed);
	mt_heap_serve(&grown_ops);
}

static void come_by_us(void)
{
	if (!may_jump)
		return;
#define X(type, name, params, args) SERVE(name, grown_##name);
	MT_HEAP_MAKERS(X)
#undef X
}

void mt_heap_note_growth(void)
{
	atomic_store_explicit(&growth_noted, 1, memory_order_relaxed);
	come_by_us();
}

void mt_heap_watch(bool on)
{
	atomic_store_explicit(&watched, on, memory_order_relaxed);
	if (on)
		come_by_us();
}
#endif

void mt_heap_serve(const struct mt_heap_ops *given)
{
	if (mt_bootstrap_used())
		given = mt_late_free_ops(given);
		/* release: what the functions rely on has been set up before */
#define X(type, name, params, args) __atomic_store_n(&serving.name, given->name, __ATOMIC_RELEASE);
	MT_HEAP_MAKERS(X)
	MT_HEAP_KEEPERS(X)
#undef X
}

#define X(type, name, params, args) MT_HEAP_OWN(name)
MT_HEAP_MAKERS(X)
MT_HEAP_KEEPERS(X)
#undef X
