/* ctl/ui/top/row.h -- one process as the view shows it: plain values, made from what it last said
 * of itself and what is known from earlier looks. Pure. */
#ifndef MT_CTL_UI_TOP_ROW_H
#define MT_CTL_UI_TOP_ROW_H

#include "ctl/process/process_list.h"
#include "ctl/ui/top/history.h"

/* Figures that may be added up over a subtree. RSS counts pages that processes share in each of
 * them. */
struct mt_top_sums {
	uint64_t rss_bytes, live_bytes, idle_bytes;
	uint64_t dirty_bytes;
	uint64_t resident_bytes; /* of the heap */
	/* of these: free, but in pages that hold live blocks too: no purge returns them */
	uint64_t stuck_bytes;
	uint64_t gpu_allocated_bytes, gpu_reserved_bytes, gpu_idle_bytes;
};

/* The last cleanup that did its work itself. */
struct mt_top_cleanup {
	uint64_t time_ns;                   /* CLOCK_REALTIME; 0: there was none */
	uint64_t before_bytes, after_bytes; /* RSS */
	uint32_t reason, level;
};

struct mt_top_row {
	struct mt_process process;
	size_t parent; /* place in the list, MT_ANCESTRY_NONE for a root */
	enum mt_process_state state;
	struct mt_why why; /* MT_PROCESS_REFUSED */
	bool uses_cuda;
	char rank[16];
	uint64_t pressure_level;
	struct mt_top_sums own;
	struct mt_top_cleanup last;
	/* wall time that cleaning has cost since the shim woke up, in % */
	double budget_used_pct;
	/* MT_BUDGET_PCT; 0: cleanings are not limited by it */
	uint64_t budget_pct;
	const struct mt_top_history *history; /* never NULL */
};

/* Which process it is, whatever its pid is used for next. */
struct mt_top_id {
	pid_t pid;
	uint64_t start_ticks;
};

struct mt_top_id mt_top_row_id(const struct mt_top_row *row);
bool mt_top_id_same(struct mt_top_id a, struct mt_top_id b);

/* All but `last`, `budget_pct` and `history`. */
void mt_top_row_fill(struct mt_top_row *row, const struct mt_process_list_entry *entry);

/* Of the records of a file the newest that was not merged into another one. */
struct mt_top_cleanup mt_top_row_last_cleanup(const struct mt_stats_file *file);

void mt_top_sums_add(struct mt_top_sums *to, const struct mt_top_sums *from);

/* stuck_bytes as % of resident_bytes, negative where nothing is known of the heap. */
double mt_top_sums_stuck_percent(const struct mt_top_sums *sums);

#endif
