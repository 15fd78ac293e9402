/* ctl/ui/top/list.h -- draws the list of processes: its heading and its lines. Pure. */
#ifndef MT_CTL_UI_TOP_LIST_H
#define MT_CTL_UI_TOP_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/process/limit.h"
#include "ctl/ui/top/model.h"
#include "ctl/ui/top/page.h"
#include "core/stats_layout.h"

/* The lines above the list: a title, meters (machine, limit, swap, GPUs) and the sums of all
 * processes. Pure. */

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
int mt_top_draw_header(struct mt_cells *canvas, const struct mt_top_frame *frame, int most);

/* Draws the heading at area.row, and below it the list from line *first on. *first is moved so that
 * the selected line is visible. */
void mt_top_draw_list(struct mt_cells *canvas, const struct mt_top_frame *frame,
		      struct mt_top_area area, size_t *first);

/* The smallest size of a frame. */
#define MT_TOP_COLUMNS_MIN 40
#define MT_TOP_ROWS_MIN    8

/* Draws header, heading and all lines without a selection, `columns` wide and as long as needed.
 * Returns the rows that are in use. */
int mt_top_draw_once(struct mt_cells *canvas, const struct mt_top_frame *frame, int columns);

/* ---- machine ---- */

/* Memory, swap, nearest limit, stalls and GPUs of the machine, for the
 * header. */

struct mt_top_machine {
	uint64_t used_bytes, total_bytes; /* MemTotal - MemAvailable, MemTotal */
	uint64_t swap_used_bytes, swap_total_bytes;
	bool has_limit; /* top itself runs in a container with a limit */
	struct mt_limit limit;
	bool has_stalls;  /* the kernel has pressure stall information */
	double stall_pct; /* of the last 10 s, in which tasks waited for memory ("some") */
};

/* Reads all values. `root` is put before every path: "" but in tests. What cannot be read stays 0.
 */
void mt_top_machine_read(const char *root, struct mt_top_machine *out);

struct mt_top_gpu {
	char pci[32], name[64];
	uint64_t used_bytes, total_bytes; /* by all processes, as the driver reports */
};

struct mt_top_gpus {
	struct mt_top_gpu list[MT_DEVICES_COUNT];
	size_t count;
};

/* Adds the devices of a process, each PCI address once. Devices without known memory are left out.
 */
void mt_top_gpus_add(struct mt_top_gpus *gpus, const struct mt_stats_device *devices, size_t count);

#endif
