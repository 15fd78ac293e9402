/* ctl/process/set_request.h -- a request to change a setting of a running process: what `mtctl set`
 * and `mtctl top` check before they send it, and the messages for its errors. One thread may call.
 */
#ifndef MT_CTL_PROCESS_SET_REQUEST_H
#define MT_CTL_PROCESS_SET_REQUEST_H

#include "ctl/process/stats_file.h"

/* Fills in a MT_REQUEST_SET from NAME=VALUE. Returns MT_ERR_INVALID for another form, a name that
 * is no setting (with the nearest name), or a value that is not valid. Returns MT_ERR_START_ONLY
 * for a setting that cannot change in a running process. */
enum mt_err mt_set_request_parse(const char *text, struct mt_request *out,
				 struct mt_error_reason *why);

/* Returns why this process cannot apply the request, as a sentence; NULL where it can. */
const char *mt_set_request_unavailable(const struct mt_request *request,
				       const struct mt_stats_head *head);

/* Replaces the error in *why, from the process, by a more precise one where there is one. */
void mt_set_request_explain(const struct mt_request *request, struct mt_error_reason *why);

/* Returns the present value of the setting in the process as it is set, "?" where it is not in the
 * file. prof is "on" or "off". */
const char *mt_set_request_value(const struct mt_request *request,
				 const struct mt_stats_file *file);

#endif
