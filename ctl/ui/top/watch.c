/* ctl/ui/top/watch.c -- see watch.h. */
#include "ctl/ui/top/watch.h"

#include <stdlib.h>

#include "ctl/process/target.h"

struct mt_top_tracked {
	struct mt_top_id id;
	bool was_read;                           /* the file, whole, at least once */
	uint64_t cleanups_count, requests_count; /* of the head when it was read last */
	struct mt_top_cleanup last;
	uint64_t budget_pct;
	struct mt_top_history history;
};

void mt_top_watch_start(struct mt_top_watch *watch)
{
	*watch = (struct mt_top_watch){0};
	watch->file = mt_error_check_memory(malloc(sizeof(*watch->file)));
}

static void free_pasts(struct mt_top_watch *watch)
{
	for (size_t i = 0; i < watch->pasts_count; i++)
		free(watch->pasts[i]);
	free(watch->pasts);
}

void mt_top_watch_end(struct mt_top_watch *watch)
{
	free_pasts(watch);
	free(watch->file);
	*watch = (struct mt_top_watch){0};
}

/* Taken out of the old list, where a hole stays, or new. Both lists are by pid. */
static struct mt_top_tracked *take_past(struct mt_top_watch *watch, struct mt_top_id id,
					size_t *next)
{
	struct mt_top_tracked *past;

	while (*next < watch->pasts_count && watch->pasts[*next]->id.pid < id.pid)
		++*next;
	if (*next < watch->pasts_count && mt_top_id_same(watch->pasts[*next]->id, id)) {
		past = watch->pasts[*next];
		watch->pasts[(*next)++] = NULL;
		return past;
	}
	past = mt_error_check_memory(calloc(1, sizeof(*past)));
	past->id = id;
	return past;
}

/* Settings change by requests alone. */
static bool wants_file(const struct mt_top_tracked *past, const struct mt_process_list_entry *entry)
{
	return entry->state == MT_PROCESS_AWAKE &&
	       (!past->was_read || entry->head.cleanups_count != past->cleanups_count ||
		entry->head.snapshot.requests_count != past->requests_count);
}

static void read_file(struct mt_top_watch *watch, struct mt_top_tracked *past,
		      const struct mt_process *process, uint64_t now_ns)
{
	struct mt_stats_file *file = watch->file;
	struct mt_why why;

	if (mt_target_read(process, file, &why) != MT_ERR_OK)
		return;
	if (!past->was_read)
		mt_top_history_seed(&past->history, file, now_ns);
	past->was_read = true;
	past->cleanups_count = file->head.cleanups_count;
	past->requests_count = file->head.snapshot.requests_count;
	past->last = mt_top_row_last_cleanup(file);
	past->budget_pct = mt_stats_file_number(file, "budget_pct");
}

static void look_at(struct mt_top_watch *watch, struct mt_top_tracked *past,
		    const struct mt_process_list_entry *entry, struct mt_top_row *row)
{
	struct mt_top_point point;

	mt_top_row_fill(row, entry);
	row->last = past->last;
	row->budget_pct = past->budget_pct;
	row->history = &past->history;
	point = (struct mt_top_point){.rss_bytes = row->own.rss_bytes,
				      .live_bytes = row->own.live_bytes,
				      .idle_bytes = row->own.idle_bytes};
	point.time_ns = watch->now_ns;
	mt_top_history_add(&past->history, &point);
}

struct mt_top_row *mt_top_watch_look(struct mt_top_watch *watch, uint64_t now_ns, size_t *out_count)
{
	struct mt_process_list processes;
	struct mt_top_row *rows;
	struct mt_top_tracked **pasts;
	size_t next = 0;

	mt_process_list_read(&processes);
	rows = mt_error_check_memory(calloc(processes.count + 1, sizeof(*rows)));
	pasts = mt_error_check_memory(calloc(processes.count + 1, sizeof(struct mt_top_tracked *)));
	watch->now_ns = now_ns;
	watch->gpus = (struct mt_top_gpus){0};
	for (size_t i = 0; i < processes.count; i++) {
		const struct mt_process *process = &processes.list[i].process;

		pasts[i] = take_past(watch, (struct mt_top_id){process->pid, process->start_ticks},
				     &next);
		if (wants_file(pasts[i], &processes.list[i]))
			read_file(watch, pasts[i], process, now_ns);
		look_at(watch, pasts[i], &processes.list[i], &rows[i]);
		if (processes.list[i].devices)
			mt_top_gpus_add(&watch->gpus, processes.list[i].devices,
					processes.list[i].head.devices_count);
	}
	free_pasts(watch);
	watch->pasts = pasts;
	watch->pasts_count = *out_count = processes.count;
	mt_process_list_free(&processes);
	return rows;
}
