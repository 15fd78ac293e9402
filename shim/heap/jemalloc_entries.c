/* heap/jemalloc_entries.c -- how the heap family is served from the embedded jemalloc: by a direct
 * jump; by way of functions of ours at first, once after growth, and while a forked child is
 * watched. */
#include <stdatomic.h>
#include <stdbool.h>

#include "heap/entries.h"
#include "heap/growth.h"
#include "heap/jemalloc_names.h"
#include "heap/jemalloc_watch.h"
#include "sys/attr.h"

#define CALLS_A_LOOK 512u

static _Atomic unsigned char growth_noted;
static _Atomic unsigned char watched;  /* makers go on coming by the cold path; flag, no ordering */
static _Atomic unsigned char is_young; /* nobody has looked yet; flag, no ordering */
/* a shared one would be fought for by a child's threads at every call */
static MT_TLS uint32_t calls;
static bool may_jump;

static const struct mt_heap_ops direct_ops = {
#define X(type, name, params, args) .name = je_##name,
	MT_HEAP_MAKERS(X) MT_HEAP_KEEPERS(X)
#undef X
};

static void jump_makers(void)
{
	mt_heap_serve_makers(&direct_ops);
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
	mt_growth_note();
	return true;
}

/* The allocator has returned, so that a thread may be started. */
static MT_COLD void look_at_growth(void)
{
	if (atomic_load_explicit(&watched, memory_order_relaxed)) {
		if (++calls % CALLS_A_LOOK == 0)
			mt_jemalloc_watched();
	} else if (is_grown_up() && may_jump) {
		jump_makers();
	}
	/* Looked at before it is taken: the line is shared, and this may be every call's way. */
	if (atomic_load_explicit(&growth_noted, memory_order_relaxed) &&
	    atomic_exchange_explicit(&growth_noted, 0, memory_order_relaxed))
		mt_growth_note();
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
	if (may_jump)
		mt_heap_serve_makers(&grown_ops);
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
