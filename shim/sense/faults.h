/* sense/faults.h -- what a page fault costs here, measured once in the process (some hundred microseconds). */
#ifndef MT_FAULTS_H
#define MT_FAULTS_H

#include <stdint.h>

/* ns for the first touch of one small page; and of one huge page, 0 where the kernel gives none. */
void mt_faults_measure(uint64_t *out_small_ns, uint64_t *out_huge_ns, uint64_t *out_huge_bytes);

#endif
