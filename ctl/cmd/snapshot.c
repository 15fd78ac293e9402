/* ctl/cmd/snapshot.c -- `mtctl snapshot`: the blocks of a process's GPU pool. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/cmd/parts.h"
#include "ctl/figures/figures.h"
#include "ctl/output/outfile.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"

/* Sizes of blocks range from 512 B to many GB. */
static struct mt_short_text size(uint64_t bytes)
{
	if (bytes >= 1u << 20)
		return mt_text_bytes(bytes);
	if (bytes >= 1u << 10)
		return mt_text_format("%.1f kB", (double)bytes / 1024);
	return mt_text_format("%" PRIu64 " B", bytes);
}

static struct mt_short_text age(uint64_t ms)
{
	return mt_text_duration((double)ms / 1000);
}

/* Words for the classes of idle_ages and decay. */
static const char *const age_words[MT_POOL_SNAPSHOT_AGES] = {
	"under 1 s", "under 10 s", "under 1 min", "under 10 min", "under 1 h", "longer"};
static const char *const within_words[MT_POOL_SNAPSHOT_AGES] = {
	"within 1 s", "within 10 s", "within 1 min", "within 10 min", "within 1 h", "later"};

static void print_states(const struct mt_pool_snapshot_part *states)
{
	struct mt_table *table = mt_table_new("<STATE|>BLOCKS|>ASKED FOR|>HELD|>LARGEST|>OLDEST");

	for (unsigned state = 0; state < MT_BLOCKS_STATES; state++) {
		const struct mt_pool_snapshot_part *part = &states[state];

		mt_table_add_row(table, mt_blocks_file_state(state),
				 mt_text_count(part->count).text, NULL);
		if (part->count)
			mt_table_add_row(table, size(part->asked_bytes).text,
					 size(part->bytes).text, size(part->largest_bytes).text,
					 age(part->oldest_ms).text, NULL);
		else
			mt_table_add_row(table, "-", "-", "-", "-", NULL);
	}
	mt_table_print(table);
}

/* Kinds of memory whose blocks are not listed. */
static void print_unlisted(const struct mt_stats_device *row)
{
	for (const struct mt_figure *figure = mt_figures(MT_FIGURES_DEVICE); figure->name; figure++)
		if (mt_text_ends_with(figure->name, "_live_bytes") && mt_figure_value(figure, row))
			printf("not listed: %s, %s\n", mt_figure_text(figure, row).text,
			       figure->help);
}

static void print_device(const struct mt_pool_snapshot *snapshot, uint64_t device,
			 const struct mt_stats_device *row, void *data)
{
	struct mt_pool_snapshot_sums sums;

	(void)data;
	mt_pool_snapshot_sum(&snapshot->blocks, device, &sums);
	printf("\n%sGPU %" PRIu64 "%s: %s, mode %s", mt_table_colour(MT_COLOUR_HEAD), device,
	       mt_table_colour_end(), row && *row->name ? row->name : "?",
	       row && *row->mode ? row->mode : "?");
	if (row && row->total_bytes && row->free_bytes)
		printf(", %s free of %s", mt_text_bytes(row->free_bytes).text,
		       mt_text_bytes(row->total_bytes).text);
	if (sums.contexts_count > 1)
		printf(", %" PRIu64 " contexts", sums.contexts_count);
	putchar('\n');
	print_states(sums.states);
	if (row)
		print_unlisted(row);
}

static void print_sizes(const struct mt_pool_snapshot_sums *sums)
{
	struct mt_table *table =
		mt_table_new(">SIZE FROM|>LIVE|>EXPORTED|>PENDING|>IDLE|>BLOCKS|>HELD");

	for (size_t power = 0; power < MT_POOL_SNAPSHOT_SIZES; power++) {
		const struct mt_pool_snapshot_part *states = sums->sizes[power];
		uint64_t count = 0, bytes = 0;

		for (unsigned state = 0; state < MT_BLOCKS_STATES; state++) {
			count += states[state].count;
			bytes += states[state].bytes;
		}
		if (!count)
			continue;
		mt_table_add(table, size((uint64_t)1 << power).text);
		for (unsigned state = 0; state < MT_BLOCKS_STATES; state++)
			mt_table_add(table,
				     states[state].count ? size(states[state].bytes).text : "-");
		mt_table_add_row(table, mt_text_count(count).text, size(bytes).text, NULL);
	}
	putchar('\n');
	mt_table_print(table);
}

/* "16.0 MB within 1 min, 33.3 MB within 10 min": the times at which the sum grows. */
static void print_decay(const struct mt_pool_snapshot_sums *sums, uint64_t decay_ms)
{
	uint64_t before = UINT64_MAX;

	if (!decay_ms) {
		puts("nothing goes back by itself (MT_CUDA_DECAY_MS=0); mtctl trim PID gives the "
		     "idle blocks back");
		return;
	}
	printf("goes back by itself after %s (MT_CUDA_DECAY_MS), unless it is taken before:",
	       age(decay_ms).text);
	for (size_t i = 0; i < MT_POOL_SNAPSHOT_AGES; i++) {
		const struct mt_pool_snapshot_part *gone = &sums->decay[i];

		if (gone->bytes == before || (!gone->count && i < MT_POOL_SNAPSHOT_AGES - 1))
			continue;
		printf("%s %s %s", before == UINT64_MAX ? "" : ",", size(gone->bytes).text,
		       within_words[i]);
		before = gone->bytes;
	}
	putchar('\n');
}

/* The age of idle blocks, and when they are purged if they stay idle. */
static void print_idle(const struct mt_pool_snapshot_sums *sums, uint64_t decay_ms)
{
	struct mt_table *table;

	if (!sums->states[MT_BLOCKS_IDLE].count)
		return;
	table = mt_table_new("<IDLE FOR|>BLOCKS|>HELD");
	for (size_t i = 0; i < MT_POOL_SNAPSHOT_AGES; i++)
		if (sums->idle_ages[i].count)
			mt_table_add_row(table, age_words[i],
					 mt_text_count(sums->idle_ages[i].count).text,
					 size(sums->idle_ages[i].bytes).text, NULL);
	putchar('\n');
	mt_table_print(table);
	print_decay(sums, decay_ms);
}

/* The largest request that the pool can serve, and the cost of rounding. Blocks are never split, so
 * these two are all the fragmentation there is. */
static void print_fit(const struct mt_pool_snapshot_sums *sums)
{
	const struct mt_pool_snapshot_part *idle = &sums->states[MT_BLOCKS_IDLE];
	uint64_t asked = sums->states[MT_BLOCKS_LIVE].asked_bytes +
			 sums->states[MT_BLOCKS_EXPORTED].asked_bytes;
	uint64_t held = sums->states[MT_BLOCKS_LIVE].bytes + sums->states[MT_BLOCKS_EXPORTED].bytes;

	putchar('\n');
	if (idle->count)
		printf("largest idle block: %s of %s idle; a larger request goes to the driver\n",
		       size(idle->largest_bytes).text, size(idle->bytes).text);
	printf("held for live blocks beyond what was asked for: %s\n", size(held - asked).text);
}

static void print_largest(const struct mt_blocks_file *blocks,
			  const struct mt_pool_snapshot_view *view)
{
	struct mt_table *table = mt_table_new(">GPU|<BLOCK|<STATE|>ASKED FOR|>HELD|>AGE|>CONTEXT");
	size_t count;
	const struct mt_blocks_entry **list = mt_pool_snapshot_pick(blocks, view, true, &count);

	for (size_t i = 0; i < count; i++) {
		const struct mt_blocks_entry *entry = list[i];

		mt_table_addf(table, "%u", entry->device);
		mt_table_addf(table, "0x%" PRIx64, entry->base);
		mt_table_add_row(table, mt_blocks_file_state(entry->state),
				 size(entry->asked_bytes).text, size(entry->held_bytes).text,
				 age(entry->age_ms).text, NULL);
		mt_table_addf(table, "%u", entry->context);
	}
	putchar('\n');
	mt_table_print(table);
	free(list);
}

static void print_first_lines(const struct mt_pool_snapshot *snapshot, uint64_t count)
{
	const struct mt_blocks_head *head = &snapshot->blocks.head;
	const struct mt_stats_head *stats = &snapshot->target.file.head;

	printf("%s (%d)%s%s at %s: %s, seen in %s\n", snapshot->target.process.comm,
	       (int)snapshot->target.process.pid, *stats->rank ? ", rank " : "", stats->rank,
	       mt_text_clock(head->time_ns).text, mt_text_counted(count, "block", "blocks").text,
	       mt_text_ns(head->duration_ns).text);
	if (*stats->cuda)
		printf("CUDA: %s\n", stats->cuda);
	if (head->left_out_count)
		printf("%s left out of it\n",
		       mt_text_counted(head->left_out_count, "block more was", "blocks more were")
			       .text);
}

void mt_snapshot_print(const struct mt_pool_snapshot *snapshot,
		       const struct mt_pool_snapshot_view *view)
{
	struct mt_pool_snapshot_sums sums;

	mt_pool_snapshot_sum(&snapshot->blocks, view->device, &sums);
	print_first_lines(snapshot, sums.count);
	mt_pool_snapshot_each_device(snapshot, view->device, print_device, NULL);
	if (!sums.count)
		return;
	print_sizes(&sums);
	print_idle(&sums, snapshot->blocks.head.decay_ms);
	print_fit(&sums);
	if (view->top)
		print_largest(&snapshot->blocks, view);
}

/* ---- the command ---- */

#define TOP_DEFAULT 10

struct wanted {
	struct mt_pool_snapshot_view view;
	bool json;
	const char *path; /* NULL: standard output */
};

static int write_file(const struct mt_pool_snapshot *snapshot, const struct wanted *wanted)
{
	struct mt_error_reason why;
	FILE *file;
	enum mt_err error = mt_outfile_stream(wanted->path, 0600, &file, &why);

	if (!error) {
		mt_pool_snapshot_write_json(snapshot, &wanted->view, file);
		error = mt_outfile_finish(file, wanted->path, &why);
	}
	return error ? (int)mt_error_fail(MT_EXIT_USAGE, &why) : MT_EXIT_OK;
}

static int show(const struct mt_pool_snapshot *snapshot, const struct wanted *wanted)
{
	if (wanted->path)
		return write_file(snapshot, wanted);
	if (wanted->json)
		mt_pool_snapshot_write_json(snapshot, &wanted->view, stdout);
	else
		mt_snapshot_print(snapshot, &wanted->view);
	return MT_EXIT_OK;
}

static int take_and_show(const char *pid, const struct wanted *wanted)
{
	struct mt_pool_snapshot snapshot = {0};
	struct mt_process process;
	struct mt_error_reason why;
	int code = mt_target_find(pid, &process);
	enum mt_err error;

	if (code != MT_EXIT_OK)
		return code;
	error = mt_pool_snapshot_take(&process, &snapshot, &why);
	if (error)
		return mt_target_fail(&process, error, &why);
	code = show(&snapshot, wanted);
	mt_pool_snapshot_free(&snapshot);
	return code;
}

int mt_command_snapshot(int argc, char **argv)
{
	struct wanted wanted = {.view = {MT_POOL_SNAPSHOT_ALL, MT_POOL_SNAPSHOT_ALL}};
	const struct mt_option options[] = {
		{.name = "device",
		 .target = &wanted.view.device,
		 .take = mt_option_number,
		 .what = "the number of a device"},
		{.name = "top",
		 .target = &wanted.view.top,
		 .take = mt_option_number,
		 .what = "a number of blocks"},
		{.name = "json", .target = &wanted.json},
		{.name = "output", .target = &wanted.path, .take = mt_option_text, .letter = 'o'},
		{0}};
	const struct mt_command_line line = {"snapshot", NULL, options, 1, 1};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if (wanted.path && mt_text_ends_with(wanted.path, ".pickle")) {
		mt_error_say("snapshot: -o writes JSON; `python3 -m mtshim.snapshot FILE.json "
			     "FILE.pickle` makes a pickle of it");
		return MT_EXIT_USAGE;
	}
	if (wanted.view.top == MT_POOL_SNAPSHOT_ALL && !wanted.json && !wanted.path)
		wanted.view.top = TOP_DEFAULT;
	return take_and_show(argv[optind], &wanted);
}
