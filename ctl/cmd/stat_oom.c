/* ctl/cmd/stat_oom.c -- `mtctl stat --oom` for people: what was so when a device was out of
 * memory. */
#include <inttypes.h>
#include <stdio.h>

#include "ctl/cmd/stat.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"

static void add_bytes(struct mt_table *table, const char *label, uint64_t bytes,
		      const char *meaning)
{
	mt_table_add(table, label);
	mt_table_add(table, mt_text_bytes(bytes).text);
	mt_table_add(table, meaning);
}

static void add_others(struct mt_table *table, const struct mt_stats_oom *oom)
{
	char meaning[80];

	snprintf(meaning, sizeof(meaning), "in %s", mt_text_count(oom->others_count).text);
	mt_table_add(table, "  other processes");
	mt_table_add(table, oom->others_known == 1 ? mt_text_bytes(oom->others_bytes).text : "?");
	mt_table_add(table, oom->others_known == 1 ? meaning : "NVML did not say");
}

/* The driver cannot be asked while a stream captures. */
static void add_device(struct mt_table *table, const struct mt_stats_oom *oom)
{
	if (oom->total_bytes) {
		add_bytes(table, "  free", oom->free_bytes, "on the device, as the driver says");
		add_bytes(table, "  total", oom->total_bytes, "memory of the device");
	} else {
		mt_table_add(table, "  free");
		mt_table_add(table, "?");
		mt_table_add(table, "the driver could not be asked");
	}
}

static void print_figures(const struct mt_stats_oom *oom)
{
	struct mt_table *table = mt_table_new("lrl");

	mt_table_add(table, "  WHAT");
	mt_table_add(table, "BYTES");
	mt_table_add(table, "MEANING");
	add_bytes(table, "  asked", oom->asked_bytes, "by the call that failed");
	add_device(table, oom);
	add_bytes(table, "  allocated", oom->allocated_bytes,
		  "live in this process, of every kind that is counted");
	add_bytes(table, "  reserved", oom->reserved_bytes, "held from the driver by this process");
	add_bytes(table, "  reserved peak", oom->reserved_peak_bytes, "highest of it");
	add_bytes(table, "  idle", oom->idle_bytes, "cached by the pool, pending included");
	add_bytes(table, "  largest idle", oom->largest_idle_bytes, "largest idle block");
	if (oom->framework_idle_bytes)
		add_bytes(table, "  PyTorch idle", oom->framework_idle_bytes,
			  "held unused by PyTorch's own cache when it was last looked at");
	add_others(table, oom);
	mt_table_print(table);
}

static void print_report(const struct mt_stats_oom *oom)
{
	printf("%sout of memory %" PRIu64 "%s, %s: %s asked for %s on GPU %" PRIu64 "\n",
	       mt_table_colour(MT_COLOUR_HEAD), oom->number, mt_table_colour_end(),
	       mt_text_clock(oom->time_ns).text, oom->function,
	       mt_text_bytes(oom->asked_bytes).text, oom->device);
	print_figures(oom);
	printf("  flushes and second tries (num_alloc_retries) %s, errors on this device "
	       "(num_ooms) %s\n",
	       mt_text_count(oom->num_alloc_retries).text, mt_text_count(oom->num_ooms).text);
	if (oom->unreported_count)
		printf("  errors before it that left no report: %s\n",
		       mt_text_count(oom->unreported_count).text);
	printf("  likely cause: %s\n", mt_stats_word_oom_cause(oom->cause));
	if (*oom->advice)
		printf("  -> %s\n", oom->advice);
}

void mt_stat_print_oom_text(const struct mt_target *target)
{
	const struct mt_stats_file *file = &target->file;
	uint64_t shown = 0;

	for (uint64_t back = MT_OOMS_COUNT; back-- > 0;) {
		const struct mt_stats_oom *oom =
			back < file->head.ooms_count
				? mt_stats_file_oom(file, file->head.ooms_count - back)
				: NULL;

		if (!oom)
			continue;
		if (shown++)
			putchar('\n');
		print_report(oom);
	}
	if (file->head.alarms_count) {
		if (shown)
			putchar('\n');
		mt_stat_print_alarms(file);
		return;
	}
	if (!shown && !file->head.snapshot.gpu_num_ooms)
		puts("no out-of-memory error has reached this program");
	else if (!shown)
		printf("out-of-memory errors have reached this program (%s), but their reports are "
		       "not there\n",
		       mt_text_count(file->head.snapshot.gpu_num_ooms).text);
}
