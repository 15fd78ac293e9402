/* heap/jemalloc_prof.h -- walks stacks for jemalloc's heap profiler, and a gate before it. While
 * the gate is closed no thread walks; fork closes it. Any thread may call. Takes no lock. */
#ifndef MT_HEAP_JEMALLOC_PROF_H
#define MT_HEAP_JEMALLOC_PROF_H

#include <stdbool.h>

#include "heap/backend.h"

/* Close the gate, and wait up to 200 ms for threads that walk; open it, also in a forked child. */
void mt_jemalloc_prof_close_gate(void);
void mt_jemalloc_prof_open_gate(void);
void mt_jemalloc_prof_open_gate_in_child(void);

/* jemalloc's heap profiler. mt_jemalloc_prof_begin runs in the constructor, and switches
 * sampling on if `conf` says so. */
extern const struct mt_heap_profiler mt_jemalloc_profiler;
void mt_jemalloc_prof_begin(const char *conf);

/* ---- its mathematics ---- */

/* Log, exp and round for jemalloc's heap profiler, in place of libm's (jemalloc.mk). Linking libm
 * would have every process open, map and relocate one more library. Pure; any thread. log accepts
 * normal positive numbers alone. */

double mt_je_log(double x);
double mt_je_exp(double x);
double mt_je_round(double x);

#endif
