/* heap/glibc_accounting.h -- counts live bytes over glibc's malloc: each call adds the block's
 * usable size to the counters of its thread (heap/account.h). Owns no state. Any thread may call.
 * Takes no lock but at the first call of a thread. Never allocates. About 30 instructions a pair of
 * malloc and free. */
#ifndef MT_HEAP_GLIBC_ACCOUNTING_H
#define MT_HEAP_GLIBC_ACCOUNTING_H

#include "heap/account.h"
#include "heap/glibc.h"
#include "sys/attr.h"

/* Allocated bytes of a thread between two checks. */
#define MT_GLIBC_EVENT_BYTES (1ull << 20)

/* event: checks growth; by the thread that allocated, after the allocator has returned. Called
 * once, before the heap starts to count. */
void mt_glibc_accounting_use(void (*event)(void));

/* The first allocation of a thread, and each that reaches next_event_bytes: registers the thread
 * and checks growth. Returns block. Keeps errno. */
void *mt_glibc_event(void *block);

/* Counts a block with a mapping of its own. Returns block. */
void *mt_glibc_count_mapped(void *block);

/* Counts bytes as freed, on a thread that may not be registered. */
void mt_glibc_uncount(size_t bytes);

/* Hot paths end in a jump wherever they leave the common case, so that nothing is saved across a
 * call. */
static inline void *mt_glibc_count_bytes(void *block, size_t bytes)
{
	struct mt_thread_counters *counters = &mt_thread_counters;

	if (mt_unlikely(mt_account_bump(&counters->allocated_bytes, bytes) >=
			counters->next_event_bytes))
		return mt_glibc_event(block);
	return block;
}

/* Counts a block of glibc's as allocated; NULL: nothing. Returns block. */
static inline void *mt_glibc_count(void *block)
{
	size_t header;

	if (mt_unlikely(!block))
		return NULL;
	header = mt_glibc_header(block);
	if (mt_unlikely(mt_glibc_is_mapped(header)))
		return mt_glibc_count_mapped(block);
	return mt_glibc_count_bytes(block, mt_glibc_heap_usable(header));
}

/* Functions that count, over glibc's own: for a process that stays on glibc's malloc. */
const struct mt_heap_ops *mt_glibc_accounting_ops(void);

#endif
