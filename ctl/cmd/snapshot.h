/* ctl/cmd/snapshot.h -- `mtctl snapshot` as text. */
#ifndef MT_CTL_CMD_SNAPSHOT_H
#define MT_CTL_CMD_SNAPSHOT_H

#include "ctl/channel/pool_snapshot.h"

/* Prints the sums of each device and the blocks that `view` asks for, to stdout. */
void mt_snapshot_print(const struct mt_pool_snapshot *snapshot,
		       const struct mt_pool_snapshot_view *view);

#endif
