/* ctl/ui/top/watch.h -- looks at all shimmed processes again and again, and remembers what one look
 * cannot tell: the history of each, its last cleanup, its budget. A stats file is read whole only
 * where its head says that something is new in it: with 100 processes at rest a look reads 100
 * heads. Nobody is woken. */
#ifndef MT_CTL_UI_TOP_WATCH_H
#define MT_CTL_UI_TOP_WATCH_H

#include "ctl/ui/top/machine.h"
#include "ctl/ui/top/row.h"

struct mt_top_tracked;

struct mt_top_watch {
	struct mt_top_tracked **pasts; /* by pid, one for each row of the last look */
	size_t pasts_count;
	struct mt_stats_file *file; /* what is read whole, one at a time */
	uint64_t now_ns;            /* of the last look, CLOCK_REALTIME */
	struct mt_top_gpus gpus;    /* of the last look */
};

void mt_top_watch_start(struct mt_top_watch *watch);
void mt_top_watch_end(struct mt_top_watch *watch);

/* Answers a new list by pid, which the caller frees; the histories in it live until the next look.
 */
struct mt_top_row *mt_top_watch_look(struct mt_top_watch *watch, uint64_t now_ns,
				     size_t *out_count);

#endif
