/* ctl/metrics/chrome_trace.h -- writes a recording in the Trace Event Format of Chrome (JSON object
 * form), which Perfetto and chrome://tracing open. Counters are the four parts of resident memory
 * and device memory, complete events are cleanups, instant events are rounds and changes of
 * pressure. Pure, but for the file. */
#ifndef MT_CTL_METRICS_CHROME_TRACE_H
#define MT_CTL_METRICS_CHROME_TRACE_H

#include <stdio.h>

#include "ctl/metrics/recording.h"

/* Writes the trace. Times are microseconds since the first event, so that a double holds their
 * fraction. The caller checks `to` for errors (ferror(3)). */
void mt_chrome_trace_write(const struct mt_recording *recording, FILE *to);

#endif
