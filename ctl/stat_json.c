/* ctl/stat_json.c -- `mtctl stat --json`. */
#include "ctl/json.h"
#include "ctl/stat.h"

static json_t *record_json(const struct mt_stats_record *record)
{
	json_t *object = json_object();

#define SET(name) mt_json_set_u64(object, #name, record->name)
	SET(number);
	SET(time_ns);
	SET(duration_ns);
	SET(purge_ns);
	SET(gc_ns);
	SET(gc_collected_count);
	SET(round);
	SET(request_seq);
	SET(rss_before_bytes);
	SET(rss_after_bytes);
	SET(anon_before_bytes);
	SET(anon_after_bytes);
	SET(live_before_bytes);
	SET(live_after_bytes);
	SET(longest_hold_ns);
#undef SET
	mt_json_set_text(object, "reason", mt_statsfile_reason(record->reason));
	mt_json_set_text(object, "level", mt_statsfile_level(record->level));
	mt_json_set(object, "result", record->result == MT_NULL_RESULT ? json_null() : json_integer(record->result));
	mt_json_set_text(object, "gc_state", mt_statsfile_gc_state(record->gc_state));
	mt_json_set_bool(object, "merged", record->merged == 1);
	return object;
}

/* Oldest first. */
static json_t *records_json(const struct mt_stats_file *file)
{
	json_t *array = json_array();
	uint64_t last = file->head.records_count, first = last > MT_RECORDS_COUNT ? last - MT_RECORDS_COUNT : 0;

	for (uint64_t number = first + 1; number <= last && number > first; number++) {
		const struct mt_stats_record *record = mt_statsfile_record(file, number);

		if (record)
			mt_json_append(array, record_json(record));
	}
	return array;
}

static json_t *samples_json(const struct mt_stats_file *file)
{
	json_t *array = json_array();

	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *sample =
			&file->samples[(file->head.samples_count + i) % MT_SAMPLES_COUNT];
		json_t *object;

		if (!sample->time_ns)
			continue;
		object = json_object();
		mt_json_set_u64(object, "time_ns", sample->time_ns);
		mt_json_set_u64(object, "rss_bytes", sample->rss_bytes);
		mt_json_set_u64(object, "anon_bytes", sample->anon_bytes);
		mt_json_set_u64(object, "live_bytes", sample->live_bytes);
		mt_json_set_u64(object, "idle_bytes", sample->idle_bytes);
		mt_json_set_u64(object, "dirty_bytes", sample->dirty_bytes);
		mt_json_append(array, object);
	}
	return array;
}

static json_t *settings_json(const struct mt_stats_file *file)
{
	json_t *settings = json_array();

	for (size_t i = 0; i < file->head.settings_count; i++) {
		json_t *object = json_object();

		mt_json_set_text(object, "name", file->settings[i].name);
		mt_json_set_text(object, "value", file->settings[i].value);
		mt_json_set_text(object, "origin", file->settings[i].origin);
		mt_json_append(settings, object);
	}
	return settings;
}

void mt_stat_print_json(const struct mt_target *target, bool indented)
{
	const struct mt_stats_head *head = &target->file.head;
	json_t *root = json_object();
	size_t count;
	const struct mt_statsfile_field *fields = mt_statsfile_fields(&count);

	mt_json_set_u64(root, "pid", (uint64_t)target->process.pid);
	mt_json_set_text(root, "comm", target->process.comm); /* the kernel knows its present one */
	mt_json_set_text(root, "shim_version", head->shim_version);
	mt_json_set_text(root, "allocator", head->allocator);
	mt_json_set_text(root, "evidence", head->evidence);
	mt_json_set_text(root, "mode", head->mode);
	mt_json_set_text(root, "conf", head->conf);
	mt_json_set_text(root, "python", head->python);
	mt_json_set_u64(root, "time_ns", head->time_ns);
	for (size_t i = 0; i < count; i++)
		mt_json_set_u64(root, fields[i].name, mt_statsfile_value(&head->snapshot, &fields[i]));
	mt_json_set_u64(root, "records_count", head->records_count);
	mt_json_set_u64(root, "samples_count", head->samples_count);
	mt_json_set(root, "records", records_json(&target->file));
	mt_json_set(root, "samples", samples_json(&target->file));
	mt_json_set(root, "settings", settings_json(&target->file));
	mt_json_print(root, indented);
}
