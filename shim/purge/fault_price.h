/* purge/fault_price.h -- measures the cost of a page fault in this process, once, within some
 * hundred microseconds. Owns no state. Any thread may call, outside the allocator. Takes no
 * lock. */
#ifndef MT_PURGE_FAULT_PRICE_H
#define MT_PURGE_FAULT_PRICE_H

#include <stddef.h>
#include <stdint.h>

/* Measures the first touch of a small page and of a huge page, in ns. *out_huge_ns: 0 where the
 * kernel gives no huge pages; computed from small pages where a huge page is too large to touch;
 * never more than the small pages in its place cost. *out_huge_bytes: size of a huge page, or 0. */
void mt_fault_price_measure(uint64_t *out_small_ns, uint64_t *out_huge_ns,
			    uint64_t *out_huge_bytes);

/* Returns the cost of a huge page fault: the measured one, up to that of small_count small ones. A
 * measurement during which the kernel had to compact memory says nothing about later faults.
 * Pure. */
uint64_t mt_fault_price_limit_huge_ns(uint64_t measured_ns, uint64_t small_ns,
				      uint64_t small_count);

/* Returns the bytes of address space that the measurement maps. Pure. */
size_t mt_fault_price_sample_bytes(uint64_t page_bytes, uint64_t huge_bytes);

#endif
