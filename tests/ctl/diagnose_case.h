/* diagnose_case.h -- facts for the judges without a process: a look of some seconds at a figure
 * that goes as a shape says. */
#ifndef MT_DIAGNOSE_CASE_H
#define MT_DIAGNOSE_CASE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

#define MB ((double)MT_MIB)

enum shape {
	SHAPE_FLAT,
	SHAPE_RAMP,       /* `size` a second */
	SHAPE_SAWTOOTH,   /* rises by `size` in `period` seconds, and falls back */
	SHAPE_SAW_RAMP,   /* the same, and each low is 10 MB above the last */
	SHAPE_WARM_UP,    /* rises by `size`, with a time constant of a tenth of the look */
	SHAPE_STEP,       /* rises by `size` in the middle, once */
	SHAPE_EARLY_STEP, /* the same in the first fifth */
	SHAPE_STAIRS,     /* rises by `size` each `period` seconds */
	SHAPE_SPIKES      /* `size` more for an instant, each `period` seconds */
};

struct series {
	enum shape shape;
	double base, size, period; /* bytes, bytes, seconds */
	double noise;              /* bytes to either side */
};

/* The same numbers each time. */
static inline double case_noise(unsigned *state)
{
	*state = *state * 1103515245u + 12345u;
	return (double)(*state >> 16 & 0x7fff) / 16383.5 - 1;
}

static inline double case_value(const struct series *of, double at_s, double seconds)
{
	double phase = of->period > 0 ? fmod(at_s, of->period) / of->period : 0;
	double periods = of->period > 0 ? floor(at_s / of->period) : 0;

	switch (of->shape) {
	case SHAPE_RAMP:
		return of->base + of->size * at_s;
	case SHAPE_SAWTOOTH:
		return of->base + of->size * phase;
	case SHAPE_SAW_RAMP:
		return of->base + of->size * phase + 10 * MB * periods;
	case SHAPE_WARM_UP:
		return of->base + of->size * (1 - exp(-10 * at_s / seconds));
	case SHAPE_STEP:
		return of->base + (at_s > seconds / 2 ? of->size : 0);
	case SHAPE_EARLY_STEP:
		return of->base + (at_s > seconds / 5 ? of->size : 0);
	case SHAPE_STAIRS:
		return of->base + of->size * periods;
	case SHAPE_SPIKES:
		return of->base + (phase < 0.1 ? of->size : 0);
	case SHAPE_FLAT:
		break;
	}
	return of->base;
}

/* An awake process on the embedded jemalloc with `live` as given, and 20 MB of RSS that are none of
 * the heap. */
static inline struct mt_facts *case_facts(const struct series *live, double seconds, size_t looks)
{
	struct mt_facts *facts = calloc(1, sizeof(*facts));
	unsigned state = 1;

	facts->awake = true;
	facts->duration_s = seconds;
	facts->process.pid = 42;
	facts->last.head.mode = MT_MODE_JEMALLOC;
	strcpy(facts->last.head.allocator, "jemalloc");
	facts->last.head.snapshot.heap_resident_bytes = 1;
	for (size_t i = 0; i < looks; i++) {
		struct mt_sample *to = &facts->samples[facts->samples_count++];
		double at_s = seconds * (double)i / (double)(looks - 1);
		uint64_t bytes = (uint64_t)(case_value(live, at_s, seconds) +
					    live->noise * case_noise(&state));

		*to = (struct mt_sample){.at_s = at_s,
					 .live_bytes = bytes,
					 .held_bytes = bytes,
					 .anon_bytes = bytes + (15 << 20)};
		to->file_bytes = 5 << 20;
		to->rss_bytes = to->anon_bytes + to->file_bytes;
	}
	return facts;
}

/* Adds to a figure of every look, and to RSS and anonymous memory with it. */
#define case_add(facts, figure, bytes)                                                             \
	do {                                                                                       \
		for (size_t at = 0; at < (facts)->samples_count; at++) {                           \
			uint64_t more = (uint64_t)(bytes);                                         \
			(facts)->samples[at].figure += more;                                       \
			(facts)->samples[at].rss_bytes += more;                                    \
			(facts)->samples[at].anon_bytes += more;                                   \
		}                                                                                  \
	} while (0)

/* As sampling counts it. */
static inline void case_fill_other(struct mt_facts *facts)
{
	for (size_t i = 0; i < facts->samples_count; i++) {
		struct mt_sample *at = &facts->samples[i];

		at->other_bytes = mt_sample_other(at);
	}
}

/* A test trim after which anonymous memory has fallen by `anon` bytes, and live memory by `live` of
 * them. */
static inline void case_trim(struct mt_facts *facts, double anon, double live, uint64_t collected)
{
	const struct mt_sample *last = &facts->samples[facts->samples_count - 1];
	struct mt_stats_cleanup *record = &facts->trim.record;

	facts->trim.requested = facts->trim.done = true;
	facts->trim.level = MT_LEVEL_LIGHT;
	record->rss_before_bytes = last->rss_bytes;
	record->rss_after_bytes = last->rss_bytes - (uint64_t)anon;
	record->anon_before_bytes = last->anon_bytes;
	record->anon_after_bytes = last->anon_bytes - (uint64_t)anon;
	record->live_before_bytes = last->live_bytes;
	record->live_after_bytes = last->live_bytes - (uint64_t)live;
	record->gc_state = facts->is_python ? MT_GC_DONE : MT_GC_NONE;
	record->gc_collected_count = collected;
}

#endif
