/* ctl/process/set_request.h -- NAME=VALUE for a running process: what `mtctl set` and `mtctl top`
 * check before they ask, and how they put a refusal into words. */
#ifndef MT_CTL_PROCESS_SET_REQUEST_H
#define MT_CTL_PROCESS_SET_REQUEST_H

#include "ctl/process/stats_file.h"

/* Fills in a MT_REQUEST_SET. INVALID: no NAME=VALUE, no such setting (with the nearest), or a value
 * that cannot be. START_ONLY: the setting is not live. */
enum mt_err mt_set_request_parse(const char *text, struct mt_request *out, struct mt_why *why);

/* Why this process cannot take it, as a sentence; NULL: it may. */
const char *mt_set_request_unavailable(const struct mt_request *request,
				       const struct mt_stats_head *head);

/* The process has refused, *why says with what: where more is known about that, it is put there. */
void mt_set_request_explain(const struct mt_request *request, struct mt_why *why);

/* The value that the process has now, "?" where it does not say. */
const char *mt_set_request_value(const struct mt_request *request,
				 const struct mt_stats_file *file);

#endif
