/* ctl/figures/memory_parts.h -- the four parts of resident memory that every view shows: `stat`,
 * `ps`, `top`, `serve`, `plot` and JSON. Together they are always exactly the RSS. Pure: any thread
 * may call.
 *
 *   live      resident memory in use by the program, as its allocator counts it
 *   reusable  free in the allocator and still resident: a cleanup returns it (heap_dirty_bytes)
 *   files     file pages and shared memory (RssFile, RssShmem): programs, libraries, /dev/shm
 *   other     the rest: stacks, mappings past the allocator, free blocks between live ones, the
 *             allocator's own memory
 *
 * An allocator counts pages that were never touched, or are swapped out: its live and free bytes
 * may exceed what is resident. The excess is then cut off the larger of the two, if these pages
 * most likely are. */
#ifndef MT_CTL_FIGURES_MEMORY_PARTS_H
#define MT_CTL_FIGURES_MEMORY_PARTS_H

#include <jansson.h>

#include "core/stats_layout.h"
#include "ctl/output/cells.h"

/* The order of every bar, from left to right or from below: identifier, word, character of the bar
 * without colours, what it is. */
#define MT_MEMORY_PARTS(X)                                                                         \
	X(LIVE, "live", '#', "in use by the program")                                              \
	X(REUSABLE, "reusable", '~',                                                               \
	  "free in the allocator, still resident: a cleanup returns it")                           \
	X(FILES, "files", '=', "pages of programs, libraries and mapped files; shared memory")     \
	X(OTHER, "other", '.', "stacks, other mappings, what lies between live blocks")

enum mt_memory_part {
#define X(id, word, glyph, meaning) MT_PART_##id,
	MT_MEMORY_PARTS(X) MT_PARTS_COUNT
#undef X
};

struct mt_memory_parts {
	uint64_t bytes[MT_PARTS_COUNT];
	/* Whether the allocator counts what is live; else live and reusable are in other. Of a sum:
	 * whether one of its allocators does. */
	bool is_known;
};

/* What the parts are computed from. anon_bytes: RssAnon, of the same moment as rss_bytes. */
struct mt_memory_figures {
	uint64_t rss_bytes, anon_bytes, live_bytes, dirty_bytes;
};

struct mt_memory_parts mt_memory_parts_of(const struct mt_memory_figures *figures);

/* The parts of what a process has published. rss_bytes: the RSS that is shown beside them, which
 * may be newer. What it has grown by since then nobody has told: it counts as other memory. It has
 * most likely shrunk by a cleanup of reusable memory. */
struct mt_memory_parts mt_memory_parts_of_snapshot(const struct mt_stats_snapshot *now,
						   uint64_t rss_bytes);
struct mt_memory_parts mt_memory_parts_of_sample(const struct mt_stats_sample *sample);

/* Of a process whose heap is not known (asleep): all of it is other memory. */
struct mt_memory_parts mt_memory_parts_unknown(uint64_t rss_bytes);

bool mt_memory_parts_are_known(const struct mt_stats_snapshot *now);

void mt_memory_parts_add(struct mt_memory_parts *to, const struct mt_memory_parts *from);

/* Returns their sum: the RSS. */
uint64_t mt_memory_parts_sum(const struct mt_memory_parts *parts);

const char *mt_memory_part_word(enum mt_memory_part part);
const char *mt_memory_part_meaning(enum mt_memory_part part);

/* Returns the glyph of one part, for a bar or a legend: a block, or without colours or block
 * characters the character of the part. */
wchar_t mt_memory_part_cell(const struct mt_cells *cells, enum mt_memory_part part);

/* Draws a bar of the parts from at.column to at.end, of which all are `full_bytes`. */
void mt_memory_parts_draw(struct mt_cells *cells, struct mt_cell_place at,
			  const struct mt_memory_parts *parts, uint64_t full_bytes);

/* Returns an object: live_bytes and reusable_bytes, null if they are not known, files_bytes,
 * other_bytes. The caller owns it. */
json_t *mt_memory_parts_json(const struct mt_memory_parts *parts);

/* The same bar as text, for tables on stdout. */

#define MT_PARTS_BAR_MAX 64 /* cells */
/* bytes of a bar: a character of three bytes for each cell, and a colour for each part */
#define MT_PARTS_BAR_BYTES (3 * MT_PARTS_BAR_MAX + 16 * MT_PARTS_COUNT)

struct mt_parts_bar {
	char text[MT_PARTS_BAR_BYTES];
};

/* Returns a bar of up to `width` cells; all of them are `full_bytes`. */
struct mt_parts_bar mt_parts_bar(const struct mt_memory_parts *parts, uint64_t full_bytes,
				 int width);

/* Returns one cell of a part, for a legend. */
struct mt_parts_bar mt_parts_bar_cell(enum mt_memory_part part);

/* ---- sums over a tree ---- */

/* Figures of a process that can be added up over a tree: for ps, trim,
 * top, serve and diagnose. The table is MT_TREE_FIGURES of core/figures.def. A figure that is not
 * known is 0. Pure: any thread may call. */

struct mt_process_tree_sums {
#define X(name, ...) uint64_t name;
#define PART(part, ...)
	MT_TREE_FIGURES(X, PART)
#undef PART
#undef X
	struct mt_memory_parts parts; /* of rss_bytes; all of it other if nothing is known */
};

/* What a process or a tree has: the columns `tree` and `cell` of the table. */
enum {
	MT_SUM_none = 0,
	MT_SUM_any = 1u << 0,
	MT_SUM_memory = 1u << 1,
	MT_SUM_fork = 1u << 2,
	MT_SUM_shm = 1u << 3,
	MT_SUM_swap = 1u << 4,
	MT_SUM_heap = 1u << 5,
	MT_SUM_gpu = 1u << 6,
	MT_SUM_awake = 1u << 7,
};

/* Where `mtctl ps` shows a figure: the column `ps` of the table. */
enum mt_ps_figure { MT_PS_no, MT_PS_key, MT_PS_wide, MT_PS_yes };

struct mt_tree_figure {
	const char *key,
		*heading;    /* heading: of a column; "" none. key NULL: the end of the list */
	unsigned tree, cell; /* MT_SUM_... */
	enum mt_ps_figure ps;
	size_t offset, from_offset; /* in the sums, and in struct mt_stats_snapshot or behind it */
};
const struct mt_tree_figure *mt_tree_figures(void);
uint64_t mt_tree_figure_value(const struct mt_tree_figure *figure,
			      const struct mt_process_tree_sums *sums);

/* Fills in what a process has published of its heap and of its device memory. */
void mt_tree_sums_read(struct mt_process_tree_sums *sums, const struct mt_stats_snapshot *now);

void mt_tree_sums_add(struct mt_process_tree_sums *to, const struct mt_process_tree_sums *from);

/* Sets a member for each figure with a key, null if neither `has` nor (MT_SUM_heap) the parts have
 * what its cell needs. listed: only those of `ps`. The parts are left out. */
void mt_tree_sums_set_json(json_t *object, const struct mt_process_tree_sums *sums, unsigned has,
			   bool listed);

#endif
