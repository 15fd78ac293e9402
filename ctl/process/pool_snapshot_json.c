/* ctl/process/pool_snapshot_json.c -- `mtctl snapshot --json`. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/json.h"
#include "ctl/process/pool_snapshot.h"
#include "ctl/output/text.h"

static void set_end(json_t *object, const char *name, uint64_t end_ms)
{
	mt_json_set_u64_if(object, name, end_ms != UINT64_MAX, end_ms);
}

static json_t *part_json(const struct mt_pool_snapshot_part *part)
{
	json_t *object = json_object();

	mt_json_set_u64(object, "count", part->count);
	mt_json_set_u64(object, "bytes", part->asked_bytes);
	mt_json_set_u64(object, "held_bytes", part->bytes);
	mt_json_set_u64(object, "largest_bytes", part->largest_bytes);
	mt_json_set_u64_if(object, "oldest_ms", part->count, part->oldest_ms);
	return object;
}

static void set_states(json_t *object, const struct mt_pool_snapshot_part *states)
{
	for (unsigned state = 0; state < MT_BLOCKS_STATES; state++)
		mt_json_set(object, mt_blocks_file_state(state), part_json(&states[state]));
}

static json_t *small_part_json(const struct mt_pool_snapshot_part *part)
{
	json_t *object = json_object();

	mt_json_set_u64(object, "count", part->count);
	mt_json_set_u64(object, "held_bytes", part->bytes);
	return object;
}

/* ---- devices ---- */

/* Kinds of memory whose blocks are not listed, by their names in `mtctl stat`. */
static json_t *unlisted_json(const struct mt_stats_device *row)
{
	json_t *object = json_object();
	size_t count;
	const struct mt_stats_file_field *fields = mt_stats_file_device_fields(&count);

	for (size_t i = 0; i < count; i++)
		if (mt_text_ends_with(fields[i].name, "_live_bytes"))
			mt_json_set_u64(object, fields[i].name,
					mt_stats_file_value(row, &fields[i]));
	return object;
}

static void add_device(const struct mt_pool_snapshot *snapshot, uint64_t device,
		       const struct mt_stats_device *row, void *data)
{
	json_t *devices = data, *object = json_object();
	struct mt_pool_snapshot_sums sums;

	mt_pool_snapshot_sum(&snapshot->blocks, device, &sums);
	mt_json_set_u64(object, "device", device);
	mt_json_set_text(object, "name", row ? row->name : "");
	mt_json_set_text(object, "pci", row ? row->pci : "");
	mt_json_set_text(object, "mode", row ? row->mode : "");
	mt_json_set_u64_if(object, "total_bytes", row && row->total_bytes,
			   row ? row->total_bytes : 0);
	mt_json_set_u64_if(object, "free_bytes", row && row->free_bytes, row ? row->free_bytes : 0);
	mt_json_set_u64(object, "contexts_count", sums.contexts_count);
	mt_json_set_u64(object, "blocks_count", sums.count);
	set_states(object, sums.states);
	mt_json_set(object, "unlisted", row ? unlisted_json(row) : json_object());
	mt_json_append(devices, object);
}

static json_t *devices_json(const struct mt_pool_snapshot *snapshot,
			    const struct mt_pool_snapshot_view *view)
{
	json_t *devices = json_array();

	mt_pool_snapshot_each_device(snapshot, view->device, add_device, devices);
	return devices;
}

/* ---- sums ---- */

static json_t *sizes_json(const struct mt_pool_snapshot_sums *sums)
{
	json_t *array = json_array();

	for (size_t size = 0; size < MT_POOL_SNAPSHOT_SIZES; size++) {
		uint64_t count = 0;
		json_t *object;

		for (unsigned state = 0; state < MT_BLOCKS_STATES; state++)
			count += sums->sizes[size][state].count;
		if (!count)
			continue;
		object = json_object();
		mt_json_set_u64(object, "from_bytes", (uint64_t)1 << size);
		mt_json_set_u64(object, "below_bytes", (uint64_t)2 << size);
		for (unsigned state = 0; state < MT_BLOCKS_STATES; state++)
			mt_json_set(object, mt_blocks_file_state(state),
				    small_part_json(&sums->sizes[size][state]));
		mt_json_append(array, object);
	}
	return array;
}

static json_t *ages_json(const struct mt_pool_snapshot_sums *sums)
{
	json_t *array = json_array();

	for (size_t i = 0; i < MT_POOL_SNAPSHOT_AGES; i++) {
		json_t *object = small_part_json(&sums->idle_ages[i]);

		mt_json_set_u64(object, "from_ms", i ? mt_pool_snapshot_age_ms(i - 1) : 0);
		set_end(object, "below_ms", mt_pool_snapshot_age_ms(i));
		mt_json_append(array, object);
	}
	return array;
}

/* Empty where idle blocks are kept. */
static json_t *decay_json(const struct mt_pool_snapshot_sums *sums, uint64_t decay_ms)
{
	json_t *array = json_array();

	for (size_t i = 0; decay_ms && i < MT_POOL_SNAPSHOT_AGES; i++) {
		json_t *object = small_part_json(&sums->decay[i]);

		set_end(object, "within_ms", mt_pool_snapshot_age_ms(i));
		mt_json_append(array, object);
	}
	return array;
}

static json_t *summary_json(const struct mt_pool_snapshot_sums *sums, uint64_t decay_ms)
{
	json_t *object = json_object();

	set_states(object, sums->states);
	mt_json_set(object, "sizes", sizes_json(sums));
	mt_json_set(object, "idle_ages", ages_json(sums));
	mt_json_set(object, "decay", decay_json(sums, decay_ms));
	return object;
}

/* ---- blocks ---- */

/* Written without jansson, one block a line: a million objects would take a gigabyte. All values
 * are numbers and constant words. */
static void write_block(FILE *to, const struct mt_blocks_entry *entry)
{
	fprintf(to,
		"{\"device\":%u,\"context\":%u,\"id\":\"0x%" PRIx64 "\",\"bytes\":%" PRIu64
		",\"held_bytes\":%" PRIu64 ",\"state\":\"%s\",\"age_ms\":%" PRIu32 "}",
		entry->device, entry->context, entry->base, entry->asked_bytes, entry->held_bytes,
		mt_blocks_file_state(entry->state), entry->age_ms);
}

static json_t *root_json(const struct mt_pool_snapshot *snapshot,
			 const struct mt_pool_snapshot_view *view, size_t listed_count)
{
	const struct mt_blocks_head *head = &snapshot->blocks.head;
	const struct mt_stats_head *stats = &snapshot->target.file.head;
	json_t *root = json_object();
	struct mt_pool_snapshot_sums sums;

	mt_pool_snapshot_sum(&snapshot->blocks, view->device, &sums);
	mt_json_set_u64(root, "pid", (uint64_t)snapshot->target.process.pid);
	mt_json_set_text(root, "comm", snapshot->target.process.comm);
	mt_json_set_text_or_null(root, "rank", stats->rank);
	mt_json_set_u64(root, "time_ns", head->time_ns);
	mt_json_set_u64(root, "duration_ns", head->duration_ns);
	mt_json_set_u64(root, "longest_hold_ns", head->longest_hold_ns);
	mt_json_set_text(root, "cuda", stats->cuda);
	mt_json_set_u64(root, "decay_ms", head->decay_ms);
	mt_json_set_u64(root, "blocks_count", sums.count);
	mt_json_set_u64(root, "left_out_count", head->left_out_count);
	mt_json_set_u64(root, "listed_count", listed_count);
	mt_json_set(root, "devices", devices_json(snapshot, view));
	mt_json_set(root, "summary", summary_json(&sums, head->decay_ms));
	return root;
}

void mt_pool_snapshot_write_json(const struct mt_pool_snapshot *snapshot,
				 const struct mt_pool_snapshot_view *view, FILE *to)
{
	size_t count;
	size_t *places = mt_pool_snapshot_pick(&snapshot->blocks, view, false, &count);
	json_t *root = root_json(snapshot, view, count);
	char *text = mt_error_check_memory(json_dumps(root, JSON_COMPACT));

	json_decref(root);
	text[strlen(text) - 1] = '\0'; /* removes the brace: the blocks are one more member */
	fprintf(to, "%s,\n\"blocks\":[", text);
	for (size_t i = 0; i < count; i++) {
		fputs(i ? ",\n" : "\n", to);
		write_block(to, &snapshot->blocks.entries[places[i]]);
	}
	fputs("]}\n", to);
	free(text);
	free(places);
}
