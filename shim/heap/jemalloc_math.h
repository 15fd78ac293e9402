/* heap/jemalloc_math.h -- log, exp and round for the embedded jemalloc, which finds them under
 * these names (jemalloc.mk). Pure; any thread, anywhere. log takes normal positive numbers alone.
 * Rank 1. */
#ifndef MT_HEAP_JEMALLOC_MATH_H
#define MT_HEAP_JEMALLOC_MATH_H

double mt_je_log(double x);
double mt_je_exp(double x);
double mt_je_round(double x);

#endif
