/* heap/jemalloc_math.h -- log, exp and round for jemalloc's heap profiler, in place of libm's
 * (jemalloc.mk). Linking libm would have every process open, map and relocate one more library.
 * Pure; any thread. log accepts normal positive numbers alone. */
#ifndef MT_HEAP_JEMALLOC_MATH_H
#define MT_HEAP_JEMALLOC_MATH_H

double mt_je_log(double x);
double mt_je_exp(double x);
double mt_je_round(double x);

#endif
