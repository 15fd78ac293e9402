/* ctl/ui/plot/pool.h -- the blocks of a GPU pool at one moment, as `mtctl snapshot` tells of them,
 * and how they are drawn: a strip for each device, every block as long as it is large; and how much
 * is held in blocks of which size, and of which age. */
#ifndef MT_CTL_UI_PLOT_POOL_H
#define MT_CTL_UI_PLOT_POOL_H

#include "ctl/ui/plot/palette.h"
#include "ctl/process/pool_snapshot.h"

struct mt_pool_block {
	uint64_t held_bytes; /* up to MT_BLOCKS_FILE_BYTES_MAX */
	uint32_t age_ms;
	uint8_t device, state; /* below MT_DEVICES_COUNT, MT_BLOCKS_STATES */
};

struct mt_pool {
	struct mt_pool_block *list; /* by device, then by state, then the largest first */
	size_t count;
	uint64_t pid, time_ns, left_out_count; /* blocks that are not in the list */
	char comm[32], rank[16];
};

/* What `mtctl snapshot PID --json` has printed. INVALID: it is not that. The caller frees. */
enum mt_err mt_pool_read(const char *path, struct mt_pool *out, struct mt_why *why);

void mt_pool_of(const struct mt_pool_snapshot *snapshot, struct mt_pool *out);
void mt_pool_free(struct mt_pool *pool);

/* How high the drawing wants to be, and the drawing. */
double mt_pool_height(const struct mt_pool *pool);
void mt_pool_draw(struct mt_canvas *canvas, const struct mt_pool *pool, const struct mt_box *box);

#endif
