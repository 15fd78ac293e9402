#include "ctl/channel/target.h"

#include <stdlib.h>

#include "ctl/figures/figures.h"
#include "ctl/figures/memory_parts.h"
#include "ctl/output/json.h"

static json_t *frameworks_json(uint32_t frameworks)
{
	json_t *array = json_array();
	const char *word;
	uint32_t bit;

	for (size_t i = 0; (word = mt_stats_word_framework(i, &bit)); i++)
		if (frameworks & bit)
			mt_json_append(array, json_string(word));
	return array;
}

/* null for a cleanup without pressure. */
static json_t *pressure_json(const struct mt_stats_cleanup *cleanup)
{
	bool known = cleanup->pressure_limit_bytes != 0;
	json_t *object, *sources;
	const char *word;

	if (!cleanup->pressure_sources)
		return json_null();
	object = json_object();
	sources = json_array();
	for (size_t bit = 0; (word = mt_stats_word_pressure_source(bit)); bit++)
		if (cleanup->pressure_sources & (1u << bit))
			mt_json_append(sources, json_string(word));
	mt_json_set_text(object, "level", mt_stats_word_pressure_level(cleanup->pressure_level));
	mt_json_set(object, "sources", sources);
	mt_json_set_u64_if(object, "used_bytes", known, cleanup->pressure_used_bytes);
	mt_json_set_u64_if(object, "limit_bytes", known, cleanup->pressure_limit_bytes);
	mt_json_set(object, "used_pct",
		    known ? json_real(mt_stats_percent(cleanup->pressure_used_bytes,
						       cleanup->pressure_limit_bytes))
			  : json_null());
	return object;
}

static json_t *cleanup_json(const struct mt_cleanup_entry *entry)
{
	const struct mt_stats_cleanup *cleanup = entry->cleanup;
	json_t *object = json_object();

	mt_figures_set_json(object, MT_FIGURES_CLEANUP, cleanup);
	mt_json_set_text(object, "reason", mt_stats_word_reason(cleanup->reason));
	mt_json_set_text(object, "level", mt_stats_word_level(cleanup->level));
	mt_json_set(object, "result",
		    cleanup->result == MT_NULL_RESULT ? json_null()
						      : json_integer(cleanup->result));
	mt_json_set_text(object, "gc_state", mt_stats_word_gc_state(cleanup->gc_state));
	mt_json_set_text(object, "gpu_state", mt_stats_word_gpu_state(cleanup->gpu_state));
	mt_json_set(object, "frameworks", frameworks_json(cleanup->frameworks));
	mt_json_set_bool(object, "merged", cleanup->merged == 1);
	mt_json_set(object, "pressure", pressure_json(cleanup));
	mt_json_set_u64(object, "cost_ns", mt_cleanup_cost_ns(cleanup));
	mt_json_set(object, "gc_text",
		    cleanup->gc_state == MT_GC_NONE ? json_null()
						    : json_string(mt_cleanup_gc_text(entry).text));
	mt_json_set(object, "late_of", json_null());
	return object;
}

json_t *mt_process_json(const struct mt_process *process)
{
	json_t *object = json_object();

	mt_json_set_u64(object, "pid", (uint64_t)process->pid);
	mt_json_set_text(object, "comm", process->comm);
	return object;
}

json_t *mt_stats_json_cleanup(const struct mt_stats_cleanup *cleanup)
{
	return cleanup_json(&(struct mt_cleanup_entry){.cleanup = cleanup});
}

/* The entry of a cleanup, by its slot; its `cleanup` is NULL if it has none. */
static struct mt_cleanup_entry *index_entries(const struct mt_stats_file *file)
{
	struct mt_cleanup_entry *entries =
		mt_error_check_memory(calloc(2 * MT_CLEANUPS_COUNT, sizeof(*entries)));
	struct mt_cleanup_entry *list = entries + MT_CLEANUPS_COUNT;
	size_t count = mt_cleanup_history(file, list);

	for (size_t i = 0; i < count; i++)
		entries[(list[i].cleanup->number - 1) % MT_CLEANUPS_COUNT] = list[i];
	return entries;
}

/* The number of the cleanup that asked for the collection before this one; null: none. */
static json_t *late_of_json(const struct mt_cleanup_entry *entries,
			    const struct mt_stats_cleanup *late)
{
	for (size_t i = 0; i < MT_CLEANUPS_COUNT; i++)
		if (entries[i].late == late && !entries[i].has_joined)
			return mt_json_u64(entries[i].cleanup->number);
	return json_null();
}

/* Oldest first. */
static json_t *cleanups_json(const struct mt_stats_file *file)
{
	struct mt_cleanup_entry *entries = index_entries(file);
	json_t *array = json_array();
	uint64_t last = file->head.cleanups_count,
		 first = last > MT_CLEANUPS_COUNT ? last - MT_CLEANUPS_COUNT : 0;

	for (uint64_t number = first + 1; number <= last && number > first; number++) {
		const struct mt_stats_cleanup *cleanup = mt_stats_file_cleanup(file, number);
		const struct mt_cleanup_entry *entry = &entries[(number - 1) % MT_CLEANUPS_COUNT];
		json_t *object;

		if (!cleanup)
			continue;
		object = entry->cleanup ? cleanup_json(entry) : mt_stats_json_cleanup(cleanup);
		if (cleanup->reason == MT_REASON_LATE_GC)
			mt_json_set(object, "late_of", late_of_json(entries, cleanup));
		mt_json_append(array, object);
	}
	free(entries);
	return array;
}

static json_t *samples_json(const struct mt_stats_file *file)
{
	json_t *array = json_array();

	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *sample = mt_stats_file_sample(file, i);
		struct mt_memory_parts parts;
		json_t *object;

		if (!sample->time_ns)
			continue;
		object = mt_json_append_object(array);
		mt_figures_set_json(object, MT_FIGURES_SAMPLE, sample);
		parts = mt_memory_parts_of_sample(sample);
		mt_json_set(object, "parts", mt_memory_parts_json(&parts));
	}
	return array;
}

json_t *mt_stats_json_settings(const struct mt_stats_file *file)
{
	json_t *settings = json_array();

	for (size_t i = 0; i < file->head.settings_count; i++) {
		json_t *object = mt_json_append_object(settings);

		mt_json_set_text(object, "name", file->settings[i].name);
		mt_json_set_text(object, "value", file->settings[i].value);
		mt_json_set_text(object, "origin", file->settings[i].origin);
	}
	return settings;
}

static json_t *devices_json(const struct mt_stats_file *file)
{
	json_t *array = json_array();

	for (size_t i = 0; i < file->head.devices_count; i++) {
		const struct mt_stats_device *device = &file->devices[i];
		json_t *object = mt_json_append_object(array);

		mt_json_set_text(object, "name", device->name);
		mt_json_set_text(object, "pci", device->pci);
		mt_json_set_text(object, "mode", device->mode);
		mt_figures_set_json(object, MT_FIGURES_DEVICE, device);
	}
	return array;
}

/* Oldest first. */
static json_t *ooms_json(const struct mt_stats_file *file)
{
	json_t *array = json_array();

	for (uint64_t back = MT_OOMS_COUNT; back-- > 0;) {
		const struct mt_stats_oom *oom =
			mt_stats_file_oom(file, file->head.ooms_count - back);
		enum mt_oom_cause cause;
		json_t *object;

		if (!oom)
			continue;
		cause = mt_stats_oom_cause(oom);
		object = mt_json_append_object(array);
		mt_json_set_text(object, "function", oom->function);
		mt_figures_set_json(object, MT_FIGURES_OOM, oom);
		mt_json_set_text(object, "cause", mt_stats_word_oom_cause(cause));
		mt_json_set_text(object, "advice", mt_stats_word_oom_advice(cause));
	}
	return array;
}

/* Oldest first. */
static json_t *limit_reports_json(const struct mt_stats_file *file)
{
	json_t *array = json_array();

	for (uint64_t back = MT_LIMIT_REPORTS_COUNT; back-- > 0;) {
		const struct mt_stats_limit_report *limit_report =
			mt_stats_file_limit_report(file, file->head.limit_reports_count - back);
		json_t *object = limit_report ? mt_json_append_object(array) : NULL;

		if (!limit_report)
			continue;
		mt_figures_set_json(object, MT_FIGURES_LIMIT_REPORT, limit_report);
		mt_json_set_text(object, "advice", limit_report->advice);
	}
	return array;
}

void mt_stats_json_print_oom(const struct mt_target *target, bool indented)
{
	json_t *root = mt_process_json(&target->process);

	mt_json_set_u64(root, "time_ns", target->file.head.time_ns);
	mt_json_set_u64(root, "ooms_count", target->file.head.ooms_count);
	mt_json_set_u64(root, "num_ooms", target->file.head.snapshot.gpu_num_ooms);
	mt_json_set(root, "ooms", ooms_json(&target->file));
	mt_json_set_u64(root, "limit_reports_count", target->file.head.limit_reports_count);
	mt_json_set(root, "limit_reports", limit_reports_json(&target->file));
	mt_json_print(root, indented);
}

/* Cleanups by reason, also of reasons with none. "other" are reasons that only a newer mtctl knows.
 */
static json_t *counts_json(const struct mt_stats_head *head)
{
	json_t *object = json_object();

	for (uint32_t reason = 0; reason < MT_REASON_COUNT; reason++)
		mt_json_set_u64(object, mt_stats_word_reason(reason),
				head->cleanups_by_reason[reason]);
	if (mt_stats_file_other_cleanups(head))
		mt_json_set_u64(object, "other", mt_stats_file_other_cleanups(head));
	return object;
}

json_t *mt_stats_json(const struct mt_target *target)
{
	const struct mt_stats_head *head = &target->file.head;
	const struct mt_memory_parts parts =
		mt_memory_parts_of_snapshot(&head->snapshot, head->snapshot.rss_bytes);
	json_t *root = mt_process_json(&target->process);

	mt_json_set_text(root, "shim_version", head->shim_version);
	mt_json_set_bool(root, "library_deleted", target->process.library_deleted);
	mt_json_set_text(root, "allocator", head->allocator);
	mt_json_set_text(root, "evidence", head->evidence);
	mt_json_set_text(root, "mode", mt_stats_word_mode(head->mode));
	mt_json_set_text(root, "conf", head->conf);
	mt_json_set_text(root, "python", mt_stats_word_python(head->python));
	mt_json_set_text(root, "cuda", head->cuda);
	mt_json_set_u64_if(root, "driver_version", head->driver_version, head->driver_version);
	mt_json_set_text(root, "limit_source", head->limit_source);
	mt_json_set_text_or_null(root, "rank", head->rank);
	mt_json_set_text(root, "rank_source", head->rank_source);
	mt_json_set_u64_if(root, "world_size", head->world_size, head->world_size);
	mt_json_set_u64(root, "time_ns", head->time_ns);
	mt_figures_set_json(root, MT_FIGURES_PROCESS, &head->snapshot);
	mt_json_set(root, "parts", mt_memory_parts_json(&parts));
	mt_json_set(root, "cleanups", counts_json(head));
	mt_json_set_u64(root, "records_count", head->cleanups_count);
	mt_json_set_u64_if(root, "records_since_ns", mt_cleanup_kept_since_ns(&target->file) != 0,
			   mt_cleanup_kept_since_ns(&target->file));
	mt_json_set_u64(root, "samples_count", head->samples_count);
	mt_json_set_u64(root, "ooms_count", head->ooms_count);
	mt_json_set(root, "devices", devices_json(&target->file));
	mt_json_set(root, "ooms", ooms_json(&target->file));
	mt_json_set(root, "limit_reports", limit_reports_json(&target->file));
	mt_json_set(root, "records", cleanups_json(&target->file));
	mt_json_set(root, "samples", samples_json(&target->file));
	mt_json_set(root, "settings", mt_stats_json_settings(&target->file));
	return root;
}
