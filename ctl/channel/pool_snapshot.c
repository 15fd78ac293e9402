/* ctl/channel/pool_snapshot.c -- asks a process for the blocks of its GPU pool. See
 * pool_snapshot.h. */
#include "ctl/channel/pool_snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/stats_layout.h"
#include "ctl/channel/control_file.h"
#include "ctl/channel/stats_dir.h"
#include "ctl/figures/figures.h"
#include "ctl/output/json.h"
#include "ctl/output/text.h"
#include "ctl/process/read_file.h"

#define TIMEOUT_MS 30000u
/* another mtctl may have read and removed the file that was requested here */
#define TRIES 3

/* Why the process lists no blocks, from its figures before the request. */
static enum mt_err refuse(const struct mt_stats_file *file, uint64_t error,
			  struct mt_error_reason *why)
{
	if (error != MT_ERR_NOT_AVAILABLE)
		return mt_error_because(why, MT_ERR_SYSTEM, "it could not write its blocks: %s",
					mt_error_text(error));
	if (mt_stats_file_is_off(file, "cuda"))
		return mt_error_because(why, MT_ERR_NOT_AVAILABLE,
					"MT_CUDA=off: device memory is not followed there");
	return mt_error_because(
		why, MT_ERR_NOT_AVAILABLE,
		"no CUDA in use there: no call of the driver's has reached the shim, or the shim "
		"was built without CUDA");
}

static enum mt_err request_blocks(const struct mt_target *target, struct mt_error_reason *why)
{
	const struct mt_request request = {.kind = MT_REQUEST_SNAPSHOT};
	struct mt_stats_head head;
	enum mt_err error =
		mt_control_file_exchange(&target->process, request, TIMEOUT_MS, &head, why);

	return head.snapshot.request_error ? refuse(&target->file, head.snapshot.request_error, why)
					   : error;
}

static enum mt_err read_blocks(const struct mt_process *process, struct mt_blocks_file *out,
			       struct mt_error_reason *why)
{
	int fd;
	enum mt_err error = mt_stats_dir_open(process, MT_STATS_DIR_BLOCKS, &fd, why);

	if (error)
		return error;
	error = mt_blocks_file_read(fd, out, why);
	close(fd);
	return error;
}

enum mt_err mt_pool_snapshot_take(const struct mt_process *process, struct mt_pool_snapshot *out,
				  struct mt_error_reason *why)
{
	enum mt_err error = MT_ERR_NOT_AVAILABLE;

	out->target.process = *process;
	for (int i = 0; i < TRIES && error == MT_ERR_NOT_AVAILABLE; i++) {
		error = mt_target_read(process, &out->target.file, why);
		if (!error)
			error = request_blocks(&out->target, why);
		if (error)
			return error;
		error = read_blocks(process, &out->blocks, why);
	}
	if (error == MT_ERR_NOT_AVAILABLE)
		return mt_error_because(why, MT_ERR_SYSTEM,
					"others have fetched its answer each time; try again");
	/* A process that has ended since keeps its figures from before. */
	if (!error)
		(void)mt_target_read(process, &out->target.file, why);
	return error;
}

void mt_pool_snapshot_free(struct mt_pool_snapshot *snapshot)
{
	mt_blocks_file_free(&snapshot->blocks);
}

/* ---- pool snapshot sum: sums over the blocks of a snapshot ---- */

static uint64_t age_end_ms(size_t index)
{
	static const uint64_t ends_ms[MT_POOL_SNAPSHOT_AGES] = {1000,   10000,   60000,
								600000, 3600000, UINT64_MAX};

	return ends_ms[index];
}

static void add(struct mt_pool_snapshot_part *part, const struct mt_blocks_entry *entry)
{
	part->count++;
	part->bytes += entry->held_bytes;
	part->asked_bytes += entry->asked_bytes;
	if (entry->held_bytes > part->largest_bytes)
		part->largest_bytes = entry->held_bytes;
	if (entry->age_ms > part->oldest_ms)
		part->oldest_ms = entry->age_ms;
}

static void add_idle(struct mt_pool_snapshot_sums *sums, const struct mt_blocks_entry *entry,
		     uint64_t decay_ms)
{
	uint64_t left_ms = decay_ms > entry->age_ms ? decay_ms - entry->age_ms : 0;
	size_t age = 0;

	while (entry->age_ms >= age_end_ms(age) && age < MT_POOL_SNAPSHOT_AGES - 1)
		age++;
	add(&sums->idle_ages[age], entry);
	for (size_t i = 0; decay_ms && i < MT_POOL_SNAPSHOT_AGES; i++)
		if (left_ms <= age_end_ms(i))
			add(&sums->decay[i], entry);
}

void mt_pool_snapshot_sum(const struct mt_blocks_file *blocks, uint64_t device,
			  struct mt_pool_snapshot_sums *out)
{
	unsigned char contexts[UINT16_MAX + 1] = {0};

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < blocks->count; i++) {
		const struct mt_blocks_entry *entry = &blocks->entries[i];
		size_t size_class =
			entry->held_bytes ? (size_t)(63 - __builtin_clzll(entry->held_bytes)) : 0;

		if (device != MT_POOL_SNAPSHOT_ALL && entry->device != device)
			continue;
		out->count++;
		out->contexts_count += !contexts[entry->context];
		contexts[entry->context] = 1;
		add(&out->states[entry->state], entry);
		add(&out->sizes[size_class][entry->state], entry);
		if (entry->state == MT_BLOCKS_IDLE)
			add_idle(out, entry, blocks->head.decay_ms);
	}
}

static const struct mt_stats_device *row_of(const struct mt_stats_file *file, uint64_t device)
{
	for (size_t i = 0; i < file->head.devices_count && i < MT_DEVICES_COUNT; i++)
		if (file->devices[i].ordinal == device)
			return &file->devices[i];
	return NULL;
}

void mt_pool_snapshot_each_device(const struct mt_pool_snapshot *snapshot, uint64_t device,
				  mt_pool_snapshot_visit *visit, void *data)
{
	bool has_blocks[MT_BLOCKS_DEVICES] = {false};

	for (size_t i = 0; i < snapshot->blocks.count; i++)
		has_blocks[snapshot->blocks.entries[i].device] = true;
	for (uint64_t number = 0; number < MT_BLOCKS_DEVICES; number++) {
		const struct mt_stats_device *row = row_of(&snapshot->target.file, number);

		if ((device == MT_POOL_SNAPSHOT_ALL || device == number) &&
		    (row || has_blocks[number]))
			visit(snapshot, number, row, data);
	}
}

typedef const struct mt_blocks_entry *entry_at;

static int by_place(const void *a, const void *b)
{
	const entry_at *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static int by_size(const void *a, const void *b)
{
	const entry_at *left = a, *right = b;

	if ((*left)->held_bytes != (*right)->held_bytes)
		return (*left)->held_bytes > (*right)->held_bytes ? -1 : 1;
	return by_place(a, b);
}

const struct mt_blocks_entry **mt_pool_snapshot_pick(const struct mt_blocks_file *blocks,
						     const struct mt_pool_snapshot_view *view,
						     bool largest_first, size_t *out_count)
{
	entry_at *list = mt_error_check_memory(calloc(blocks->count + 1, sizeof(*list)));
	size_t count = 0;

	for (size_t i = 0; i < blocks->count; i++)
		if (view->device == MT_POOL_SNAPSHOT_ALL ||
		    blocks->entries[i].device == view->device)
			list[count++] = &blocks->entries[i];
	if (largest_first || count > view->top)
		qsort(list, count, sizeof(*list), by_size);
	if (count > view->top)
		count = (size_t)view->top;
	if (!largest_first)
		qsort(list, count, sizeof(*list), by_place);
	*out_count = count;
	return list;
}

/* ---- pool snapshot json: `mtctl snapshot --json` ---- */

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

static void add_device(const struct mt_pool_snapshot *snapshot, uint64_t device,
		       const struct mt_stats_device *row, void *data)
{
	json_t *devices = data, *object = json_object(), *unlisted = json_object();
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
	/* memory whose blocks are not listed, by its names in `mtctl stat` */
	for (const struct mt_figure *figure = mt_figures(MT_FIGURES_DEVICE); row && figure->name;
	     figure++)
		if (mt_text_ends_with(figure->name, "_live_bytes"))
			mt_json_set_u64(unlisted, figure->name, mt_figure_value(figure, row));
	mt_json_set(object, "unlisted", unlisted);
	mt_json_append(devices, object);
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
		object = mt_json_append_object(array);
		mt_json_set_u64(object, "from_bytes", (uint64_t)1 << size);
		mt_json_set_u64(object, "below_bytes", (uint64_t)2 << size);
		for (unsigned state = 0; state < MT_BLOCKS_STATES; state++)
			mt_json_set(object, mt_blocks_file_state(state),
				    small_part_json(&sums->sizes[size][state]));
	}
	return array;
}

/* By the time since a block was freed, or until it decays. */
static json_t *times_json(const struct mt_pool_snapshot_part *parts, bool is_age)
{
	json_t *array = json_array();

	for (size_t i = 0; i < MT_POOL_SNAPSHOT_AGES; i++) {
		json_t *object = small_part_json(&parts[i]);

		if (is_age)
			mt_json_set_u64(object, "from_ms", i ? age_end_ms(i - 1) : 0);
		mt_json_set_u64_if(object, is_age ? "below_ms" : "within_ms",
				   age_end_ms(i) != UINT64_MAX, age_end_ms(i));
		mt_json_append(array, object);
	}
	return array;
}

static json_t *summary_json(const struct mt_pool_snapshot_sums *sums, uint64_t decay_ms)
{
	json_t *object = json_object();

	set_states(object, sums->states);
	mt_json_set(object, "sizes", sizes_json(sums));
	mt_json_set(object, "idle_ages", times_json(sums->idle_ages, true));
	/* idle blocks may be kept */
	mt_json_set(object, "decay", decay_ms ? times_json(sums->decay, false) : json_array());
	return object;
}

/* ---- blocks ---- */

static json_t *root_json(const struct mt_pool_snapshot *snapshot,
			 const struct mt_pool_snapshot_view *view, size_t listed_count)
{
	const struct mt_blocks_head *head = &snapshot->blocks.head;
	const struct mt_stats_head *stats = &snapshot->target.file.head;
	json_t *root = mt_process_json(&snapshot->target.process), *devices = json_array();
	struct mt_pool_snapshot_sums sums;

	mt_pool_snapshot_sum(&snapshot->blocks, view->device, &sums);
	mt_json_set_text_or_null(root, "rank", stats->rank);
	mt_json_set_u64(root, "time_ns", head->time_ns);
	mt_json_set_u64(root, "duration_ns", head->duration_ns);
	mt_json_set_text(root, "cuda", stats->cuda);
	mt_json_set_u64(root, "decay_ms", head->decay_ms);
	mt_json_set_u64(root, "blocks_count", sums.count);
	mt_json_set_u64(root, "left_out_count", head->left_out_count);
	mt_json_set_u64(root, "listed_count", listed_count);
	mt_pool_snapshot_each_device(snapshot, view->device, add_device, devices);
	mt_json_set(root, "devices", devices);
	mt_json_set(root, "summary", summary_json(&sums, head->decay_ms));
	return root;
}

void mt_pool_snapshot_write_json(const struct mt_pool_snapshot *snapshot,
				 const struct mt_pool_snapshot_view *view, FILE *to)
{
	size_t count;
	const struct mt_blocks_entry **list =
		mt_pool_snapshot_pick(&snapshot->blocks, view, false, &count);
	char *text = mt_json_take_text(root_json(snapshot, view, count));

	text[strlen(text) - 1] = '\0'; /* removes the brace: the blocks are one more member */
	fprintf(to, "%s,\n\"blocks\":[", text);
	/* Written without jansson, one block a line: a million objects would take a gigabyte. All
	 * values are numbers and constant words. */
	for (size_t i = 0; i < count; i++)
		fprintf(to,
			"%s{\"device\":%u,\"context\":%u,\"id\":\"0x%" PRIx64
			"\",\"bytes\":%" PRIu64 ",\"held_bytes\":%" PRIu64
			",\"state\":\"%s\",\"age_ms\":%" PRIu32 "}",
			i ? ",\n" : "\n", list[i]->device, list[i]->context, list[i]->base,
			list[i]->asked_bytes, list[i]->held_bytes,
			mt_blocks_file_state(list[i]->state), list[i]->age_ms);
	fputs("]}\n", to);
	free(text);
	free(list);
}

/* ---- the file of blocks ---- */

const char *mt_blocks_file_state(unsigned state)
{
	static const char *const names[] = {
		[MT_BLOCKS_LIVE] = "live",
		[MT_BLOCKS_EXPORTED] = "exported",
		[MT_BLOCKS_PENDING] = "pending",
		[MT_BLOCKS_IDLE] = "idle",
	};

	return state < MT_BLOCKS_STATES ? names[state] : "?";
}

static enum mt_err read_head(int fd, struct mt_blocks_head *head, struct mt_error_reason *why)
{
	struct stat seen;

	if (mt_read_file_at(fd, head, sizeof(*head), 0) != sizeof(*head) ||
	    head->magic != MT_BLOCKS_MAGIC)
		return mt_error_because(why, MT_ERR_INVALID, "refused: not a file of blocks");
	if (head->version != MT_BLOCKS_VERSION)
		return mt_error_because_version(why, "file of blocks", head->version);
	if (head->head_bytes != sizeof(*head) ||
	    head->entry_bytes != sizeof(struct mt_blocks_entry) ||
	    head->entries_count > MT_BLOCKS_MAX)
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the sizes in the file of blocks cannot be");
	if (head->checksum !=
	    mt_stats_checksum(MT_CHECKSUM_START, head, offsetof(struct mt_blocks_head, checksum)))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the checksum of the file of blocks is wrong");
	if (fstat(fd, &seen) != 0 ||
	    (uint64_t)seen.st_size !=
		    sizeof(*head) + (uint64_t)head->entries_count * sizeof(struct mt_blocks_entry))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the file of blocks is not whole");
	return MT_ERR_OK;
}

static bool is_valid(const struct mt_blocks_entry *entry)
{
	return entry->state < MT_BLOCKS_STATES && entry->base != 0 &&
	       entry->held_bytes <= MT_BLOCKS_FILE_BYTES_MAX &&
	       entry->asked_bytes <= entry->held_bytes;
}

static enum mt_err check_entries(const struct mt_blocks_file *file, struct mt_error_reason *why)
{
	if (file->head.entries_sum != mt_stats_checksum(MT_CHECKSUM_START, file->entries,
							file->count * sizeof(*file->entries)))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the checksum of the blocks is wrong");
	for (size_t i = 0; i < file->count; i++)
		if (!is_valid(&file->entries[i]))
			return mt_error_because(why, MT_ERR_INVALID, "refused: block %zu cannot be",
						i);
	return MT_ERR_OK;
}

/* An entry with its index in the file, since qsort(3) is not stable. */
struct indexed_entry {
	struct mt_blocks_entry entry;
	size_t index;
};

static int compare(const void *a, const void *b)
{
	const struct indexed_entry *left = a, *right = b;

	if (left->entry.device != right->entry.device)
		return left->entry.device < right->entry.device ? -1 : 1;
	if (left->entry.base != right->entry.base)
		return left->entry.base < right->entry.base ? -1 : 1;
	return (left->index > right->index) - (left->index < right->index);
}

/* Of two entries with one address the later one is kept: the first was freed, and its address
 * allocated again, while the process wrote the list. */
static void sort(struct mt_blocks_file *file)
{
	struct indexed_entry *list = mt_error_check_memory(calloc(file->count + 1, sizeof(*list)));
	size_t kept = 0;

	for (size_t i = 0; i < file->count; i++)
		list[i] = (struct indexed_entry){file->entries[i], i};
	qsort(list, file->count, sizeof(*list), compare);
	for (size_t i = 0; i < file->count; i++) {
		if (kept && file->entries[kept - 1].device == list[i].entry.device &&
		    file->entries[kept - 1].base == list[i].entry.base)
			kept--;
		file->entries[kept++] = list[i].entry;
	}
	file->count = kept;
	free(list);
}

enum mt_err mt_blocks_file_read(int fd, struct mt_blocks_file *out, struct mt_error_reason *why)
{
	struct mt_blocks_file file = {.entries = NULL};
	enum mt_err error = read_head(fd, &file.head, why);
	size_t bytes;

	if (error)
		return error;
	file.count = file.head.entries_count;
	bytes = file.count * sizeof(*file.entries);
	file.entries = mt_error_check_memory(calloc(file.count + 1, sizeof(*file.entries)));
	if (mt_read_file_at(fd, file.entries, bytes, sizeof(file.head)) == bytes)
		error = check_entries(&file, why);
	else
		error = mt_error_because(why, MT_ERR_INVALID,
					 "refused: the file of blocks is not whole");
	if (error) {
		mt_blocks_file_free(&file);
		return error;
	}
	sort(&file);
	*out = file;
	return MT_ERR_OK;
}

void mt_blocks_file_free(struct mt_blocks_file *file)
{
	free(file->entries);
	*file = (struct mt_blocks_file){.entries = NULL};
}
