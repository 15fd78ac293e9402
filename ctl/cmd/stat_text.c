/* ctl/cmd/stat_text.c -- `mtctl stat --all`: every figure; and the samples. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/cmd/stat.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/memory_parts.h"

static void print_line(const char *name, const char *text)
{
	if (*text)
		printf("%-10s %s\n", name, text);
}

static void print_cuda(const struct mt_stats_head *head)
{
	char text[192];

	if (!mt_stats_file_uses_cuda(head))
		return;
	snprintf(text, sizeof(text), "%s, driver %s%s", *head->cuda ? head->cuda : "?",
		 mt_stats_word_driver(head).text,
		 head->snapshot.gpu_capturing ? ", a stream captures into a graph" : "");
	print_line("cuda", text);
}

static void print_changed_settings(const struct mt_stats_file *file)
{
	const char *separator = "settings   ";

	for (size_t i = 0; i < file->head.settings_count; i++) {
		const struct mt_stats_setting *setting = &file->settings[i];

		if (strcmp(setting->origin, "default") == 0)
			continue;
		printf("%s%s=%s (%s)", separator, setting->name, setting->value, setting->origin);
		separator = ", ";
	}
	puts(*separator == 's' ? "settings   all at their defaults" : "");
}

static void print_facts(const struct mt_stats_file *file)
{
	const struct mt_stats_head *head = &file->head;

	printf("\n%-10s %s, %s (mode %s), shim %s\n", "allocator", head->allocator, head->evidence,
	       head->mode, head->shim_version);
	print_line("conf", head->conf);
	print_line("python", head->python);
	print_cuda(head);
	printf("%-10s %s\n", "signal",
	       mt_stats_word_disposition(head->snapshot.signal_disposition));
	print_changed_settings(file);
}

/* GPU figures are shown only for a process that uses CUDA. */
static bool is_shown(const struct mt_stats_head *head, const struct mt_stats_file_field *field)
{
	return strncmp(field->name, "gpu_", 4) != 0 || mt_stats_file_uses_cuda(head);
}

static void print_fields(const struct mt_stats_head *head)
{
	struct mt_table *table = mt_table_new("<FIGURE|>VALUE|<MEANING");
	size_t count;
	const struct mt_stats_file_field *fields = mt_stats_file_fields(&count);

	for (size_t i = 0; i < count; i++) {
		uint64_t value = mt_stats_file_value(&head->snapshot, &fields[i]);

		if (is_shown(head, &fields[i]))
			mt_table_add_row(table, mt_text_field_name(fields[i].name).text,
					 mt_text_field(fields[i].name, value).text, fields[i].help,
					 NULL);
	}
	putchar('\n');
	mt_table_print(table);
}

static void print_samples(const struct mt_stats_file *file)
{
	bool gpu = mt_stats_file_uses_cuda(&file->head);
	struct mt_memory_parts parts;
	struct mt_table *table = mt_table_new("<TIME|>RSS|>LIVE|>REUSABLE|>FILES|>OTHER");

	if (gpu)
		mt_table_add_columns(table, ">GPU RESERVED|>ALLOCATED");
	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *sample =
			&file->samples[(file->head.samples_count + i) % MT_SAMPLES_COUNT];

		if (!sample->time_ns)
			continue;
		mt_table_add(table, mt_text_clock(sample->time_ns).text);
		mt_table_add_bytes(table, true, sample->rss_bytes);
		parts = mt_memory_parts_of_sample(sample);
		for (int part = 0; part < MT_PARTS_COUNT; part++)
			mt_table_add_bytes(table, true, parts.bytes[part]);
		if (gpu) {
			mt_table_add_bytes(table, true, sample->gpu_reserved_bytes);
			mt_table_add_bytes(table, true, sample->gpu_allocated_bytes);
		}
	}
	putchar('\n');
	mt_table_print(table);
}

void mt_stat_print_text(const struct mt_target *target, const struct mt_stat_view *view)
{
	mt_stat_print_summary(target, view);
	if (view->all) {
		print_facts(&target->file);
		print_fields(&target->file.head);
		mt_stat_print_pressure(&target->file);
		mt_stat_print_gpu(&target->file);
	}
	if (view->all || view->records)
		mt_stat_print_cleanups(&target->file, view->records);
	if (view->samples)
		print_samples(&target->file);
}
