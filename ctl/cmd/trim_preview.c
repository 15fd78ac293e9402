/* ctl/cmd/trim_preview.c -- see trim_preview.h. */
#include "ctl/cmd/trim_preview.h"

#include <stdio.h>

#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/control_file.h"

static void add_json(json_t *array, const struct mt_process *process,
		     const struct mt_stats_snapshot *now)
{
	json_t *object = json_object();

	mt_json_set_u64(object, "pid", (uint64_t)process->pid);
	mt_json_set_text(object, "comm", process->comm);
	if (now) {
		mt_json_set_u64(object, "rss_bytes", now->rss_bytes);
		mt_json_set_u64(object, "heap_live_bytes", now->heap_live_bytes);
		mt_json_set_u64(object, "heap_dirty_bytes", now->heap_dirty_bytes);
		mt_json_set_u64(object, "gpu_idle_bytes", now->gpu_idle_bytes);
	} else {
		mt_json_set_text(object, "state", "asleep");
	}
	mt_json_append(array, object);
}

/* now NULL: it is asleep. */
static void add_row(struct mt_table *table, const struct mt_process *process,
		    const struct mt_stats_snapshot *now)
{
	mt_table_addf(table, "%d", (int)process->pid);
	mt_table_add_bytes(table, true, now ? now->rss_bytes : process->rss_bytes);
	mt_table_add_bytes(table, now, now ? now->heap_live_bytes : 0);
	mt_table_add_bytes(table, now, now ? now->heap_dirty_bytes : 0);
	mt_table_add_bytes(table, now && now->gpu_idle_bytes, now ? now->gpu_idle_bytes : 0);
	mt_table_addf(table, "%s%.72s", now ? "" : "asleep: ", process->command);
}

int mt_trim_preview(const struct mt_process *list, size_t count, json_t *json)
{
	struct mt_table *table = mt_table_new(">PID|>RSS|>LIVE|>DIRTY|>GPU IDLE|<COMMAND");
	enum mt_exit worst = MT_EXIT_OK;

	if (json)
		mt_json_set_bool(json, "dry_run", true);
	for (size_t i = 0; i < count; i++) {
		struct mt_stats_head head;
		struct mt_error_reason why;
		enum mt_err error;

		(void)mt_control_file_refresh(&list[i]);
		error = mt_target_read_head(&list[i], &head, &why);
		if (error && error != MT_ERR_NOT_AVAILABLE) {
			enum mt_exit code = mt_target_fail(&list[i], error, &why);

			worst = code > worst ? code : worst;
		} else if (json) {
			add_json(json_object_get(json, "processes"), &list[i],
				 error ? NULL : &head.snapshot);
		} else {
			add_row(table, &list[i], error ? NULL : &head.snapshot);
		}
	}
	if (json) {
		mt_table_free(table);
		return worst;
	}
	mt_table_print(table);
	puts("DIRTY and GPU IDLE would be returned, and what Python's gc frees; nothing was "
	     "changed");
	return worst;
}
