/* ctl/ui/plot/pool.h -- the blocks of a GPU pool at one moment, from `mtctl snapshot`, and how they
 * are drawn: a strip for each device in which a block is as long as it is large, and bars of held
 * bytes by size and by age of the blocks. */
#ifndef MT_CTL_UI_PLOT_POOL_H
#define MT_CTL_UI_PLOT_POOL_H

#include "ctl/channel/pool_snapshot.h"
#include "ctl/ui/plot/canvas.h"

struct mt_pool_block {
	uint64_t held_bytes; /* up to MT_BLOCKS_FILE_BYTES_MAX */
	uint32_t age_ms;
	uint8_t device, state; /* below MT_DEVICES_COUNT, MT_BLOCKS_STATES */
};

struct mt_pool_picture {
	struct mt_pool_block *list; /* by device, then by state, then the largest first */
	size_t count;
	uint64_t pid, time_ns, left_out_count; /* blocks that are not in the list */
	char comm[32], rank[16];
};

/* Reads the output of `mtctl snapshot PID --json`. INVALID: it is something else. The caller frees
 * with mt_pool_picture_free. */
enum mt_err mt_pool_picture_read(const char *path, struct mt_pool_picture *out,
				 struct mt_error_reason *why);

void mt_pool_picture_of(const struct mt_pool_snapshot *snapshot, struct mt_pool_picture *out);
void mt_pool_picture_free(struct mt_pool_picture *pool);

/* The height that the drawing needs in pixels, and the drawing. */
double mt_pool_picture_height(const struct mt_pool_picture *pool);
void mt_pool_picture_draw(struct mt_canvas *canvas, const struct mt_pool_picture *pool,
			  const struct mt_box *box);

#endif
