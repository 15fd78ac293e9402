/* sys/lazy_symbols.h -- a table of other people's functions that is looked for again and again
 * until it is there (a program may load Python late), by whichever thread needs it; written once,
 * whole, by one of those who have found it. The look-up itself is made under no lock: it calls the
 * loader. */
#ifndef MT_SYS_LAZY_SYMBOLS_H
#define MT_SYS_LAZY_SYMBOLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "sys/lock.h"

struct mt_lazy_symbols {
	struct mt_lock lock;   /* over the writing of the table alone */
	_Atomic bool is_there; /* release with the table, acquire by who reads it */
};

#define MT_LAZY_SYMBOLS(rank)                                                                      \
	{                                                                                          \
		.lock = MT_LOCK(rank)                                                              \
	}

/* Whether the table may be read. */
static inline bool mt_lazy_symbols_are_ready(const struct mt_lazy_symbols *found)
{
	return atomic_load_explicit(&found->is_there, memory_order_acquire);
}

static inline void mt_lazy_symbols_store(struct mt_lazy_symbols *found, void *table,
					 const void *fresh, size_t bytes)
{
	mt_lock_lock(&found->lock);
	if (!atomic_load_explicit(&found->is_there, memory_order_relaxed))
		memcpy(table, fresh, bytes);
	atomic_store_explicit(&found->is_there, true, memory_order_release);
	mt_lock_unlock(&found->lock);
}

/* In a forked child: who was writing is not there any more; the table is written again then. */
static inline void mt_lazy_symbols_fork_child(struct mt_lazy_symbols *found)
{
	mt_lock_reset(&found->lock);
}

#endif
