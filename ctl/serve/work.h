/* ctl/serve/work.h -- what children do: see jobs.h. They ask the process, and wait for it. */
#ifndef MT_CTL_SERVE_WORK_H
#define MT_CTL_SERVE_WORK_H

#include "ctl/process.h"
#include "ctl/serve/jobs.h"

#define MT_WORK_NOT_SHIMMED "no process of this id carries the shim here"

/* A shimmed process that may be asked for here. Whether a process of another user exists is not told either. */
bool mt_work_find(pid_t pid, struct mt_process *out);

/* What `mtctl trim PID --json` and `mtctl snapshot PID --json --top=10000` print. 404: it has ended, or there is nothing
 * to be had; 504: no answer in time. That nothing was freed is an answer. */
unsigned mt_work_trim(const struct mt_job_order *order, char **out);
unsigned mt_work_snapshot(const struct mt_job_order *order, char **out);

#endif
