/* ctl/process/trim_json.h -- what `mtctl trim --json` prints, and `mtctl serve` sends after a
 * cleanup. The caller owns each object. One thread may call. */
#ifndef MT_CTL_PROCESS_TRIM_JSON_H
#define MT_CTL_PROCESS_TRIM_JSON_H

#include <jansson.h>

#include "ctl/process/trim_requests.h"

/* An object with an empty array "processes". */
json_t *mt_trim_json_new(void);

/* One element of "processes": pid, comm, and the record of the cleanup, or "state": "asleep", or
 * "error" with the refusal. */
json_t *mt_trim_json_answer(const struct mt_process *process, const struct mt_trim_answer *answer);

/* Asks one process for a cleanup, waits for the answer, and prints a refusal to stderr. level: enum
 * mt_level. Waits for up to `timeout_ms` for the answer, and some seconds more for the record.
 * *out_code: the exit code (mt_trim_answer_exit). */
json_t *mt_trim_json(const struct mt_process *process, uint32_t level, uint64_t timeout_ms,
		     int *out_code);

#endif
