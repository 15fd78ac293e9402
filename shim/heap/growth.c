#include "heap/growth.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/components.h"
#include "core/config.h"
#include "core/init.h"
#include "core/object_heap.h"
#include "core/worker.h"
#include "heap/account.h"
#include "heap/allocation_event.h"
#include "heap/entries.h"
#include "sys/attr.h"
#include "sys/os.h"
#include "sys/rss.h"

/* Address space that the embedded jemalloc has mapped, and at how much of it to look at the process
 * again. Mapped bytes mislead (8 MB at first, more per arena), so they only say when to ask the
 * kernel. Counters, no ordering. */
#define LOOK_STEP_BYTES (4 * MT_MIB)
static _Atomic uint64_t mapped_bytes;
static _Atomic uint64_t look_at_bytes;

void mt_growth_mapped(size_t bytes)
{
	uint64_t mapped =
		atomic_fetch_add_explicit(&mapped_bytes, bytes, memory_order_relaxed) + bytes;
	uint64_t step = mapped / 8 > LOOK_STEP_BYTES ? mapped / 8 : LOOK_STEP_BYTES;

	if (mapped < atomic_load_explicit(&look_at_bytes, memory_order_relaxed))
		return;
	atomic_store_explicit(&look_at_bytes, mapped + step, memory_order_relaxed);
	mt_heap_note_growth();
}

/* Live bytes too: they may not have been touched yet, and nothing may be mapped again when they
 * are. */
static bool is_large(void)
{
	uint64_t least = mt_config()->min_mb * MT_MIB;
	struct mt_account_totals totals;
	struct mt_rss_quick rss;

	return least == 0 || (mt_rss_read_quick(&rss) && rss.anon_bytes >= least) ||
	       (mt_account_read(&totals) && totals.live_bytes >= least);
}

MT_COLD void mt_growth_note(void)
{
	if (!mt_state_is_on() || !mt_state_is_own_process())
		return;
	if (mt_worker_is_running())
		mt_components_grown();
	else if (is_large())
		(void)mt_init_start_worker();
}

/* Its pages are mapped once and for all, so what is taken counts as mapped. A program that works on
 * small objects alone may not call malloc for long: where a look is due, it is made here. */
static void objects_took(uint64_t bytes)
{
	uint64_t due = atomic_load_explicit(&look_at_bytes, memory_order_relaxed);
	int kept = errno;

	mt_growth_mapped(bytes);
	if (atomic_load_explicit(&look_at_bytes, memory_order_relaxed) != due)
		mt_growth_note();
	mt_allocation_event_took_objects(bytes);
	errno = kept;
}

void mt_growth_begin(void)
{
	mt_object_heap_listen(objects_took);
	if (mt_config()->min_mb == 0)
		mt_growth_mapped(LOOK_STEP_BYTES);
}

void mt_growth_fork_child(void)
{
	mt_thread_counters.look_bytes =
		mt_config()->min_mb ? mt_thread_counters.allocated_bytes + MT_GROWTH_STEP_BYTES : 0;
	atomic_store_explicit(&look_at_bytes,
			      atomic_load_explicit(&mapped_bytes, memory_order_relaxed) +
				      LOOK_STEP_BYTES,
			      memory_order_relaxed);
	mt_growth_begin();
}
