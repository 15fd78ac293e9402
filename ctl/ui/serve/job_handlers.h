/* ctl/ui/serve/job_handlers.h -- what children do: see jobs.h. They ask the process, and wait for
 * it. */
#ifndef MT_CTL_UI_SERVE_JOB_HANDLERS_H
#define MT_CTL_UI_SERVE_JOB_HANDLERS_H

#include "ctl/process/process.h"
#include "ctl/ui/serve/jobs.h"

/* A shimmed process that may be asked for here. UNKNOWN: not shimmed, or another user's: whether
 * that one exists is not told. TIMEOUT: as of mt_process_find. */
enum mt_err mt_job_find(pid_t pid, struct mt_process *out, struct mt_why *why);

/* What `mtctl trim PID --json` and `mtctl snapshot PID --json --top=10000` print. 404: it has
 * ended, or there is nothing to be had; 504: no answer in time. That nothing was freed is an
 * answer. */
unsigned mt_job_trim(const struct mt_job_request *order, char **out);
unsigned mt_job_snapshot(const struct mt_job_request *order, char **out);

#endif
