/* sys/lazy_symbols.h -- a table of another library's functions that threads search for until it is
 * found, since a program may load Python late. Owns the flag that tells whether the caller's table
 * is complete. Any thread may call. Takes its own lock, only while it writes the table; the search
 * itself runs under no lock, since it calls the loader. Never allocates. */
#ifndef MT_SYS_LAZY_SYMBOLS_H
#define MT_SYS_LAZY_SYMBOLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "sys/lock.h"

struct mt_lazy_symbols {
	struct mt_lock lock;   /* protects writes of the table */
	_Atomic bool is_there; /* release after the table is written; readers acquire */
};

/* Initializer. rank: a name of sys/lock_ranks.def. */
#define MT_LAZY_SYMBOLS(rank)                                                                      \
	{                                                                                          \
		.lock = MT_LOCK(rank)                                                              \
	}

/* Returns whether the table may be read. */
static inline bool mt_lazy_symbols_are_ready(const struct mt_lazy_symbols *found)
{
	return atomic_load_explicit(&found->is_there, memory_order_acquire);
}

/* Copies `bytes` bytes of fresh to table, once: later calls change nothing. */
static inline void mt_lazy_symbols_store(struct mt_lazy_symbols *found, void *table,
					 const void *fresh, size_t bytes)
{
	mt_lock_lock(&found->lock);
	if (!atomic_load_explicit(&found->is_there, memory_order_relaxed))
		memcpy(table, fresh, bytes);
	atomic_store_explicit(&found->is_there, true, memory_order_release);
	mt_lock_unlock(&found->lock);
}

/* Resets the lock in a forked child: the thread that held it does not exist there. */
static inline void mt_lazy_symbols_fork_child(struct mt_lazy_symbols *found)
{
	mt_lock_reset(&found->lock);
}

#endif
