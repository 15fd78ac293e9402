/* ctl/metrics/otlp.h -- the metrics as OTLP, and its way to a collector of OpenTelemetry:
 * OTLP/HTTP with JSON, by libcurl, which is loaded when it is needed. Endpoint, headers, timeout
 * and resource come from the variables OTEL_* that every exporter reads. Sources:
 * opentelemetry.io/docs/specs/otlp, .../specs/otel/protocol/exporter. For one thread. */
#ifndef MT_CTL_METRICS_OTLP_H
#define MT_CTL_METRICS_OTLP_H

#include <stdint.h>

#include "ctl/output/error.h"

struct mt_process_list;

/* Makes the body of a request from the families of ctl/metrics/openmetrics.h: a resource for each
 * process, one for what is of none. Counters are monotonic sums, gauges and info metrics gauges.
 * Names are those of the semantic conventions if they have the figure. time_ns: since 1970. The
 * caller frees. */
char *mt_otlp_body(const struct mt_process_list *processes, uint64_t time_ns);

/* Sends a body. Returns MT_ERR_NOT_AVAILABLE if libcurl is missing, MT_ERR_INVALID for a
 * variable that is not valid or a refusal by the collector, MT_ERR_TIMEOUT if the collector
 * cannot be reached or asks for a later try, each with the reason. What the collector has left out
 * of a body that it took is said on stderr. */
enum mt_err mt_otlp_send(const char *body, struct mt_error_reason *why);

#endif
