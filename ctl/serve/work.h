/* ctl/serve/work.h -- what children do: see jobs.h. They ask the process, and wait for it. */
#ifndef MT_CTL_SERVE_WORK_H
#define MT_CTL_SERVE_WORK_H

#include "ctl/serve/jobs.h"

/* What `mtctl trim PID --json` and `mtctl snapshot PID --json --top=10000` print. 404: it has ended, or there is nothing
 * to be had; 504: no answer in time. That nothing was freed is an answer. */
unsigned mt_work_trim(const struct mt_job_order *order, char **out);
unsigned mt_work_snapshot(const struct mt_job_order *order, char **out);

#endif
