/* ctl/cmd/look.h -- how `mtctl look` prints. */
#ifndef MT_CTL_CMD_LOOK_H
#define MT_CTL_CMD_LOOK_H

#include "ctl/process/look.h"

/* What malloc_trim(3) would return, as far as it can be told from outside. */
struct mt_look_trim {
	bool is_glibc;       /* false: malloc_trim does not exist, or does nothing */
	uint64_t most_bytes; /* no more than this */
	char text[320];
};
void mt_look_judge_trim(const struct mt_look *look, struct mt_look_trim *out);

/* Why the shim would do nothing in this program; NULL: nothing speaks against it. */
const char *mt_look_obstacle(const struct mt_look *look);

void mt_look_print_json(const struct mt_look *look);

#endif
