/* ctl/ui/top/header.h -- the lines above the list: a title, meters (machine, limit, swap, GPUs) and
 * the sums of all processes. Pure. */
#ifndef MT_CTL_UI_TOP_HEADER_H
#define MT_CTL_UI_TOP_HEADER_H

#include "ctl/ui/top/machine.h"
#include "ctl/ui/top/model.h"

/* All data of a frame. */
struct mt_top_frame {
	const struct mt_top_model *model;
	const struct mt_top_machine *machine;
	const struct mt_top_gpus *gpus;
	uint64_t now_ns; /* CLOCK_REALTIME of the last update */
	uint64_t interval_ms;
	bool is_paused;
};

/* Draws 1 to `most` lines, and returns how many. */
int mt_top_draw_header(struct mt_top_canvas *canvas, const struct mt_top_frame *frame, int most);

#endif
