/* ctl/process/process_list_json.h -- the process list as JSON, as `mtctl ps --json` prints it and
 * `mtctl serve` sends it for /api/processes. */
#ifndef MT_CTL_PROCESS_PROCESS_LIST_JSON_H
#define MT_CTL_PROCESS_PROCESS_LIST_JSON_H

#include <jansson.h>

#include "ctl/process/process_list.h"

/* One object: the processes, their total, and the memory limit that is nearest to being reached,
 * which it reads from the kernel. The caller owns it. One thread may call. */
json_t *mt_process_list_json(const struct mt_process_list *processes);

#endif
