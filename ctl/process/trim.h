/* ctl/process/trim.h -- a cleanup of one process, for who has no terminal: mtctl serve. */
#ifndef MT_CTL_PROCESS_TRIM_H
#define MT_CTL_PROCESS_TRIM_H

#include <jansson.h>

#include "ctl/process/target.h"

#define MT_TRIM_TIMEOUT_MS 30000u

/* What `mtctl trim PID --json` prints, and its exit code. Blocks until the process has answered,
 * `timeout_ms` and some seconds (the record may come late) at most. What went wrong is said on
 * stderr too. The caller owns the object. */
json_t *mt_trim_json(const struct mt_process *process, uint32_t level, uint64_t timeout_ms,
		     int *out_code);

#endif
