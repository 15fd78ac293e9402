/* ctl/cmd/trim_preview.h -- `mtctl trim --dry-run`. */
#ifndef MT_CTL_CMD_TRIM_PREVIEW_H
#define MT_CTL_CMD_TRIM_PREVIEW_H

#include <jansson.h>

#include "ctl/process/process.h"

/* Prints what each process could return, from fresh figures; no process cleans up. json: the object
 * of mt_trim_json_new, which is filled in and not printed; NULL: a table. Returns the highest exit
 * code; a process that is asleep is no error. */
int mt_trim_preview(const struct mt_process *list, size_t count, json_t *json);

#endif
