#include "heap/allocation_event.h"

#include "heap/account.h"
#include "sys/atomic.h"
#include "sys/attr.h"

static _Atomic(const struct mt_allocation_listener *) given; /* set once; no ordering */

static const struct mt_allocation_listener *listener(void)
{
	return mt_load_relaxed(&given);
}

void mt_allocation_event_listen(const struct mt_allocation_listener *wanted)
{
	mt_store_relaxed(&given, wanted);
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
	mt_store_relaxed(&on_change, changed);
}

bool mt_allocation_event_wants_callers(void)
{
	return mt_load_relaxed(&callers_wanted);
}

void mt_allocation_event_note_callers(bool wanted)
{
	void (*changed)(void) = mt_load_relaxed(&on_change);

	if (mt_exchange_relaxed(&callers_wanted, wanted) != wanted && changed)
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
