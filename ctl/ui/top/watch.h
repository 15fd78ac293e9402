/* ctl/ui/top/watch.h -- reads all shimmed processes again and again, and keeps what a single
 * reading does not have: the history of each, its last cleanup, its budget. A stats file is read
 * whole only where its head has new counts: with 100 processes at rest, an update reads 100 heads.
 * No process is woken. For one thread. */
#ifndef MT_CTL_UI_TOP_WATCH_H
#define MT_CTL_UI_TOP_WATCH_H

#include "ctl/ui/top/machine.h"
#include "ctl/ui/top/row.h"

struct mt_top_tracked;

struct mt_top_watch {
	struct mt_top_tracked **tracked; /* by pid, one for each row of the last update */
	size_t tracked_count;
	struct mt_stats_file *file; /* buffer for one whole file */
	uint64_t now_ns;            /* of the last update, CLOCK_REALTIME */
	struct mt_top_gpus gpus;    /* of the last update */
};

void mt_top_watch_start(struct mt_top_watch *watch);
void mt_top_watch_end(struct mt_top_watch *watch);

/* Returns a new list by pid, which the caller frees. The histories and marks in it are valid until
 * the next call. */
struct mt_top_row *mt_top_watch_read(struct mt_top_watch *watch, uint64_t now_ns,
				     size_t *out_count);

#endif
