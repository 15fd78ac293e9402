/* tests/ctl/top_rows.h -- processes for tests of the live view: made by hand, no /proc behind
 * them. */
#ifndef MT_TEST_TOP_ROWS_H
#define MT_TEST_TOP_ROWS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ui/top/top.h"

#define MB ((uint64_t)1 << 20)

static struct mt_top_history no_history;

/* parent: place in the list. */
static void make_row(struct mt_top_row *row, pid_t pid, size_t parent, uint64_t rss_mb)
{
	*row = (struct mt_top_row){
		.parent = parent, .state = MT_PROCESS_AWAKE, .history = &no_history};
	row->process.pid = pid;
	row->process.start_ticks = 1000 + (uint64_t)pid;
	row->own.rss_bytes = row->tree.rss_bytes = rss_mb * MB;
	snprintf(row->process.comm, sizeof(row->process.comm), "python3");
	snprintf(row->process.command, sizeof(row->process.command), "/usr/bin/python3 work%d.py",
		 (int)pid);
	snprintf(row->title, sizeof(row->title), "work%d.py", (int)pid);
}

/* 10 (100 MB) with 20 (300 MB) and 30 (50 MB) below it, 40 (400 MB) below 30; 50 (200 MB) alone. */
static inline struct mt_top_row *family_rows(size_t *count)
{
	struct mt_top_row *rows = calloc(5, sizeof(*rows));

	make_row(&rows[0], 10, MT_ANCESTRY_NONE, 100);
	make_row(&rows[1], 20, 0, 300);
	make_row(&rows[2], 30, 0, 50);
	make_row(&rows[3], 40, 2, 400);
	make_row(&rows[4], 50, MT_ANCESTRY_NONE, 200);
	mt_tree_sums_add(&rows[2].tree, &rows[3].own);
	for (size_t i = 1; i <= 3; i++)
		mt_tree_sums_add(&rows[0].tree, &rows[i].own);
	*count = 5;
	return rows;
}

/* "10 30 40 20 50": the pids of the lines, from top to bottom. */
static inline const char *pids_of(const struct mt_top_model *model)
{
	static char text[256];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < model->lines_count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d", i ? " " : "",
					 (int)model->rows[model->lines[i].row].process.pid);
	return text;
}

static inline void start_family(struct mt_top_model *model)
{
	size_t count;
	struct mt_top_row *rows = family_rows(&count);

	mt_top_model_start(model);
	mt_top_model_set_rows(model, rows, count);
}

static inline void select_pid(struct mt_top_model *model, pid_t pid)
{
	mt_top_model_move(model, -1000);
	while (mt_top_model_selected(model)->process.pid != pid &&
	       model->selected + 1 < model->lines_count)
		mt_top_model_move(model, 1);
}

#endif
