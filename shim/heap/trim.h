/* heap/trim.h -- the heap's part of a cleanup: one purge at a time. Any thread outside the
 * allocator unless a comment says otherwise. Lock: cleanup, held over a purge and over the
 * allocator's own figures; fork does not take it. */
#ifndef MT_HEAP_TRIM_H
#define MT_HEAP_TRIM_H

#include <stdbool.h>

#include "core/components.h"
#include "heap/backend.h"
#include "sys/atomic.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* Hooks of struct mt_component. */
void mt_heap_prepare_trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup);
void mt_heap_trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup);
void mt_heap_trim_fork_child(void);

/* For malloc_trim: has the worker thread purge, if a purge by the calling thread may take longer
 * than some tens of ms. Returns false if that thread must purge itself: little is free, or there
 * is no worker. Waits up to 20 ms. */
bool mt_heap_trim_by_worker(void);

/* For malloc_trim over libc's malloc: calls libc's own, and returns the free pages of Python's
 * objects. Returns 1 if libc's returned it, or if such pages went back. */
int mt_heap_trim_libc(size_t pad);

/* The purge that was left to the worker. Worker thread, in each turn; bits: enum mt_control_bit. */
void mt_heap_trim_tick(uint32_t bits);

/* Returns whether a purge would copy pages that are shared with forked processes. glibc merges what
 * lies in its fast bins before it returns anything, and writes to each block; the kernel copies a
 * shared page when it is written to. The program's own next allocation of 1 kB or more merges them,
 * too: until then nothing is purged. may_ask: the kernel may be asked, which opens a file; without
 * it pages count as shared from a fork on until it has been asked. Safe inside malloc once the
 * block is made if may_ask is false. */
bool mt_heap_purge_copies(bool may_ask);

/* Returns the free pages of Python's objects, then those of the heap until no more than keep_bytes
 * are left (the backend's reclaim). Any thread of the program, also from inside malloc once the
 * block is made. patience_ns: how long to wait for the purge lock. */
enum mt_reclaimed mt_heap_reclaim(uint64_t keep_bytes, uint64_t patience_ns);

/* Charges what a thread of the program has spent on returning memory: 0.2 s, then budget_pct (not
 * 0) of the time. Until *paid_ns the budget is used up. */
static inline void mt_heap_pay(_Atomic uint64_t *paid_ns, uint64_t now_ns, uint64_t budget_pct,
			       uint64_t cost_ns)
{
	uint64_t credit_ns = 200 * MT_NS_PER_MS * 100 / budget_pct;
	uint64_t from = mt_max_u64(mt_load_relaxed(paid_ns), mt_sat_sub(now_ns, credit_ns));

	mt_store_relaxed(paid_ns, from + cost_ns * 100 / budget_pct);
}

/* Returns the free pages of Python's objects alone; likewise, with a patience of 10 ms a step. */
void mt_heap_reclaim_objects(void);

#endif
