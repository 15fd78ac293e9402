/* probe.h -- the driver probe: what a real driver does where its documentation is silent or the
 * design relies on it. Each item runs in a process of its own, so that none can spoil or end
 * another, and says lines `key TAB JSON value`, which tests/gpu/kit/truth.py puts together; what
 * was said before a crash stands. */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu.h"

struct probe_item {
	const char *name;
	void (*run)(const char *argument);
	const char *argument;
	int limit_s;
};

void say_number(double value, const char *key, ...) __attribute__((format(printf, 2, 3)));
void say_bool(bool value, const char *key, ...) __attribute__((format(printf, 2, 3)));
void say_text(const char *value, const char *key, ...) __attribute__((format(printf, 2, 3)));
/* A driver result: its number. */
void say_code(int value, const char *key, ...) __attribute__((format(printf, 2, 3)));
/* Median and 95th percentile of samples in ns, under KEY_ns and KEY_p95_ns; sorts them. Nothing
 * where there are none. */
void say_samples(double *samples, size_t count, const char *key, ...)
	__attribute__((format(printf, 3, 4)));

/* probe_costs.c */
void probe_machine(const char *argument);
void probe_call_costs(const char *argument);
void probe_event_costs(const char *streams);
void probe_thread_costs(const char *threads);
/* probe_waits.c */
void probe_free_waits(const char *stream_kind);
void probe_record_sees(const char *work_kind);
/* probe_captures.c: argument is "MODE THREAD EXCHANGE", such as "global other plain". */
void probe_capture(const char *argument);
/* probe_memory.c */
void probe_lookup(const char *argument);
void probe_ranges(const char *argument);
void probe_granularity(const char *argument);
void probe_freed_in_stream(const char *argument);
/* probe_errors.c */
void probe_odd_free(const char *kind);
void probe_sticky(const char *argument);
void probe_free_of_broken(const char *argument);
void probe_fork(const char *argument);
void probe_exit(const char *argument);

#endif
