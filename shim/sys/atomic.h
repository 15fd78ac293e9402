/* sys/atomic.h -- atomic accesses whose name ends with their order; one without it (atomic_load) is
 * sequentially consistent. Macros, since no function takes every atomic type. The variable says
 * what an access pairs with. */
#ifndef MT_SYS_ATOMIC_H
#define MT_SYS_ATOMIC_H

#include <stdatomic.h>

#define mt_load_relaxed(at)         atomic_load_explicit(at, memory_order_relaxed)
#define mt_load_acquire(at)         atomic_load_explicit(at, memory_order_acquire)
#define mt_store_relaxed(at, value) atomic_store_explicit(at, value, memory_order_relaxed)
#define mt_load_seq(at)             atomic_load_explicit(at, memory_order_seq_cst)
#define mt_store_seq(at, value)     atomic_store_explicit(at, value, memory_order_seq_cst)
#define mt_store_release(at, value) atomic_store_explicit(at, value, memory_order_release)

/* They return the value before. */
#define mt_add_relaxed(at, count)      atomic_fetch_add_explicit(at, count, memory_order_relaxed)
#define mt_sub_relaxed(at, count)      atomic_fetch_sub_explicit(at, count, memory_order_relaxed)
#define mt_exchange_relaxed(at, value) atomic_exchange_explicit(at, value, memory_order_relaxed)

#endif
