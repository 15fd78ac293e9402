#include "ctl/ui/top/watch.h"

#include <stdlib.h>

#include "ctl/process/target.h"

struct mt_top_tracked {
	struct mt_top_id id;
	bool was_read; /* the whole file was read at least once */
	/* of the head at the last reading of the whole file */
	uint64_t cleanups_count, requests_count;
	struct mt_top_cleanup last;
	uint64_t budget_pct;
	struct mt_top_history history;
	struct mt_top_marks marks;
};

void mt_top_watch_start(struct mt_top_watch *watch)
{
	*watch = (struct mt_top_watch){0};
	watch->file = mt_error_check_memory(malloc(sizeof(*watch->file)));
}

static void free_tracked(struct mt_top_watch *watch)
{
	for (size_t i = 0; i < watch->tracked_count; i++)
		free(watch->tracked[i]);
	free(watch->tracked);
}

void mt_top_watch_end(struct mt_top_watch *watch)
{
	free_tracked(watch);
	free(watch->file);
	*watch = (struct mt_top_watch){0};
}

/* Takes an entry out of the old list, where NULL stays, or makes one. Both lists are sorted by pid.
 */
static struct mt_top_tracked *take_tracked(struct mt_top_watch *watch, struct mt_top_id id,
					   size_t *next)
{
	struct mt_top_tracked *tracked;

	while (*next < watch->tracked_count && watch->tracked[*next]->id.pid < id.pid)
		++*next;
	if (*next < watch->tracked_count && mt_top_id_same(watch->tracked[*next]->id, id)) {
		tracked = watch->tracked[*next];
		watch->tracked[(*next)++] = NULL;
		return tracked;
	}
	tracked = mt_error_check_memory(calloc(1, sizeof(*tracked)));
	tracked->id = id;
	return tracked;
}

/* Settings change only by requests. */
static bool wants_file(const struct mt_top_tracked *tracked,
		       const struct mt_process_list_entry *entry)
{
	return entry->state == MT_PROCESS_AWAKE &&
	       (!tracked->was_read || entry->head.cleanups_count != tracked->cleanups_count ||
		entry->head.snapshot.requests_count != tracked->requests_count);
}

static void read_file(struct mt_top_watch *watch, struct mt_top_tracked *tracked,
		      const struct mt_process *process, uint64_t now_ns)
{
	struct mt_stats_file *file = watch->file;
	struct mt_error_reason why;

	if (mt_target_read(process, file, &why) != MT_ERR_OK)
		return;
	if (!tracked->was_read)
		mt_top_history_seed(&tracked->history, file, now_ns);
	tracked->was_read = true;
	tracked->cleanups_count = file->head.cleanups_count;
	tracked->requests_count = file->head.snapshot.requests_count;
	tracked->last = mt_top_row_last_cleanup(file);
	mt_top_marks_read(&tracked->marks, file);
	tracked->budget_pct = mt_stats_file_number(file, "budget_pct");
}

static void fill_row(struct mt_top_watch *watch, struct mt_top_tracked *tracked,
		     const struct mt_process_list_entry *entry, struct mt_top_row *row)
{
	struct mt_top_point point;

	mt_top_row_fill(row, entry);
	row->last = tracked->last;
	row->budget_pct = tracked->budget_pct;
	row->history = &tracked->history;
	row->marks = tracked->was_read ? &tracked->marks : NULL;
	point = (struct mt_top_point){watch->now_ns, row->own.rss_bytes, row->own.parts};
	mt_top_history_add(&tracked->history, &point);
}

struct mt_top_row *mt_top_watch_read(struct mt_top_watch *watch, uint64_t now_ns, size_t *out_count)
{
	struct mt_process_list processes;
	struct mt_top_row *rows;
	struct mt_top_tracked **tracked;
	size_t next = 0;

	mt_process_list_read(MT_PROCESS_LIST_SHOWN, &processes);
	rows = mt_error_check_memory(calloc(processes.count + 1, sizeof(*rows)));
	tracked =
		mt_error_check_memory(calloc(processes.count + 1, sizeof(struct mt_top_tracked *)));
	watch->now_ns = now_ns;
	watch->gpus = (struct mt_top_gpus){0};
	for (size_t i = 0; i < processes.count; i++) {
		const struct mt_process *process = &processes.list[i].process;

		tracked[i] = take_tracked(
			watch, (struct mt_top_id){process->pid, process->start_ticks}, &next);
		if (wants_file(tracked[i], &processes.list[i]))
			read_file(watch, tracked[i], process, now_ns);
		fill_row(watch, tracked[i], &processes.list[i], &rows[i]);
		if (processes.list[i].devices)
			mt_top_gpus_add(&watch->gpus, processes.list[i].devices,
					processes.list[i].head.devices_count);
	}
	free_tracked(watch);
	watch->tracked = tracked;
	watch->tracked_count = *out_count = processes.count;
	mt_process_list_free(&processes);
	return rows;
}
