/* purge/fault_price.h -- what a page fault costs here, measured once in the process (some hundred
 * microseconds). */
#ifndef MT_PURGE_FAULT_PRICE_H
#define MT_PURGE_FAULT_PRICE_H

#include <stddef.h>
#include <stdint.h>

/* ns for the first touch of one small page; and of one huge page, 0 where the kernel gives none,
 * reckoned from the small ones where it is too large to be touched for that, and never more than
 * that of all the small pages in its place. */
void mt_fault_price_measure(uint64_t *out_small_ns, uint64_t *out_huge_ns,
			    uint64_t *out_huge_bytes);

/* What one huge fault is charged at, of the one that was measured: where the kernel first had to
 * make room for it (51 ms, seen in a virtual machine, where most took 0.3), it is no price for all
 * of them. */
uint64_t mt_fault_price_limit_huge_ns(uint64_t measured_ns, uint64_t small_ns,
				      uint64_t small_count);

/* How much memory is touched for it, some of it at a time, by the sizes of a page and of a huge
 * one. */
size_t mt_fault_price_sample_bytes(uint64_t page_bytes, uint64_t huge_bytes);

#endif
