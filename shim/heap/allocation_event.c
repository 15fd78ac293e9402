#include "heap/allocation_event.h"

#include <stdatomic.h>
#include <stddef.h>

#include "heap/account.h"
#include "sys/attr.h"

static _Atomic(const struct mt_allocation_listener *) given; /* set once; no ordering */

static const struct mt_allocation_listener *listener(void)
{
	return atomic_load_explicit(&given, memory_order_relaxed);
}

void mt_allocation_event_listen(const struct mt_allocation_listener *wanted)
{
	atomic_store_explicit(&given, wanted, memory_order_relaxed);
}

uint64_t mt_allocation_event_note(uint64_t allocated_bytes)
{
	uint64_t fresh = allocated_bytes - mt_thread_counters.event_allocated_bytes;

	mt_thread_counters.event_allocated_bytes = allocated_bytes;
	if (listener() && mt_unlikely(listener()->note(fresh)))
		listener()->run(fresh);
	return fresh;
}

void mt_allocation_event_objects(uint64_t bytes)
{
	if (listener() && mt_unlikely(listener()->note(bytes)))
		listener()->run(bytes);
}

/* ---- who allocates ---- */

static _Atomic bool callers_wanted;       /* no ordering */
static _Atomic(void (*)(void)) on_change; /* set once; no ordering */

MT_TLS struct mt_allocation_caller mt_allocation_caller;

void mt_allocation_event_offer_callers(void (*changed)(void))
{
	atomic_store_explicit(&on_change, changed, memory_order_relaxed);
}

bool mt_allocation_event_wants_callers(void)
{
	return atomic_load_explicit(&callers_wanted, memory_order_relaxed);
}

void mt_allocation_event_note_callers(bool wanted)
{
	void (*changed)(void) = atomic_load_explicit(&on_change, memory_order_relaxed);

	if (atomic_exchange_explicit(&callers_wanted, wanted, memory_order_relaxed) != wanted &&
	    changed)
		changed();
}

void mt_allocation_event_freed_large(void)
{
	if (listener())
		listener()->freed_large();
}

void mt_allocation_event_purged(void)
{
	if (listener())
		listener()->purged();
}
