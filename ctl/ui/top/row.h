/* ctl/ui/top/row.h -- one process in the list: plain values, from its published ones and from
 * earlier updates. Pure. */
#ifndef MT_CTL_UI_TOP_ROW_H
#define MT_CTL_UI_TOP_ROW_H

#include <stdbool.h>
#include <stddef.h>

#include "ctl/channel/process_list.h"
#include "ctl/figures/stats_file.h"
#include "ctl/metrics/area_chart.h"
#include "ctl/ui/top/history.h"

/* The cleanups of a process as marks on a time axis. */
struct mt_top_marks {
	struct mt_area_mark list[MT_CLEANUPS_COUNT]; /* the oldest first */
	size_t count;
	uint64_t kept_since_ns; /* the process keeps no older ones; 0: it keeps all */
};

/* Writes the marks of all cleanups that the file has. A late collection is in the mark of the
 * cleanup that asked for it, as in its story (ctl/figures/cleanup_story.h). */
void mt_top_marks_read(struct mt_top_marks *marks, const struct mt_stats_file *file);

/* Further figures of a process, as it last published them. */
struct mt_top_figures {
	uint64_t peak_bytes; /* of RSS */
	uint64_t purge_count, light_count, heavy_count;
	uint64_t limit_bytes, limit_used_bytes; /* the nearest limit; 0: none is known */
};

/* The last cleanup that was not merged into another one. */
struct mt_top_cleanup {
	uint64_t time_ns;                   /* CLOCK_REALTIME; 0: none */
	uint64_t before_bytes, after_bytes; /* RSS */
	uint32_t reason, level;
};

struct mt_top_row {
	struct mt_process process;
	/* the command as it is shown: script or program, then its arguments */
	char title[sizeof(((struct mt_process *)0)->command)];
	size_t parent; /* index in the list, MT_ANCESTRY_NONE for a root */
	enum mt_process_state state;
	struct mt_error_reason why; /* MT_PROCESS_REFUSED */
	bool uses_cuda;
	char rank[16];
	uint64_t pressure_level;
	struct mt_process_tree_sums own;
	struct mt_top_figures figures;
	struct mt_top_cleanup last;
	/* wall time of cleanups and page faults since the shim woke up, in % */
	double budget_used_pct;
	/* MT_BUDGET_PCT; 0: cleanups are not limited by it */
	uint64_t budget_pct;
	const struct mt_top_history *history; /* never NULL */
	const struct mt_top_marks *marks;     /* NULL: its file was never read */
};

/* Identifies a process, also if its pid is used again. */
struct mt_top_id {
	pid_t pid;
	uint64_t start_ticks;
};

struct mt_top_id mt_top_row_id(const struct mt_top_row *row);
bool mt_top_id_same(struct mt_top_id a, struct mt_top_id b);

/* Fills the row but for `last`, `budget_pct`, `history` and `marks`. */
void mt_top_row_fill(struct mt_top_row *row, const struct mt_process_list_entry *entry);

/* Returns the newest cleanup of a file that was not merged into another one. */
struct mt_top_cleanup mt_top_row_last_cleanup(const struct mt_stats_file *file);

/* Returns fragmented_bytes in % of resident_bytes; negative: nothing is known of the heap. */
double mt_top_sums_fragmented_percent(const struct mt_process_tree_sums *sums);

#endif
