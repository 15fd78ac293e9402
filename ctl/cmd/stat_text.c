/* ctl/cmd/stat_text.c -- `mtctl stat` as text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ctl/process/clock.h"
#include "ctl/cmd/stat.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"

#define CLEANUPS_SHOWN 5u

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

static void print_rank(const struct mt_stats_head *head)
{
	char of[32] = "", text[96];

	if (!*head->rank)
		return;
	if (head->world_size)
		snprintf(of, sizeof(of), " of %" PRIu64, head->world_size);
	snprintf(text, sizeof(text), "%s%s (%s)", head->rank, of, head->rank_source);
	print_line("rank", text);
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

static void print_head(const struct mt_target *target)
{
	const struct mt_stats_head *head = &target->file.head;
	uint64_t now_ns = mt_clock_realtime_ns();
	uint64_t age_ns = now_ns > head->time_ns ? now_ns - head->time_ns : 0;

	printf("%sprocess %d (%s)%s, shim %s, figures of %s (%.1f s ago)\n",
	       mt_table_colour(MT_COLOUR_HEAD), (int)target->process.pid, target->process.comm,
	       mt_table_colour_end(), head->shim_version, mt_text_clock(head->time_ns).text,
	       (double)age_ns / 1e9);
	if (target->process.library_deleted)
		print_line("library", "an older one, deleted from disk; restart the process to get "
				      "the present one");
	printf("%-10s %s, %s (mode %s)\n", "allocator", head->allocator, head->evidence,
	       head->mode);
	print_line("conf", head->conf);
	print_line("python", head->python);
	print_cuda(head);
	print_rank(head);
	printf("%-10s %s\n", "signal",
	       mt_stats_word_disposition(head->snapshot.signal_disposition));
	print_changed_settings(&target->file);
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
			mt_table_add_row(table, fields[i].name,
					 mt_text_field(fields[i].name, value).text, fields[i].help,
					 NULL);
	}
	putchar('\n');
	mt_table_print(table);
}

static void add_number(struct mt_table *table, uint64_t number)
{
	if (number)
		mt_table_addf(table, "%" PRIu64, number);
	else
		mt_table_add(table, "-");
}

/* GPU memory in use before and after, and the caches that were emptied, or why none was. */
static void add_cleanup_gpu(struct mt_table *table, const struct mt_stats_cleanup *cleanup)
{
	char caches[64];
	const char *word;
	uint32_t bit;
	size_t used = (size_t)snprintf(caches, sizeof(caches), "%s",
				       mt_stats_word_gpu_state(cleanup->gpu_state));

	for (size_t i = 0; (word = mt_stats_word_framework(i, &bit)); i++)
		if (cleanup->frameworks & bit)
			used += (size_t)snprintf(caches + used, sizeof(caches) - used, ",%s", word);
	mt_table_add_bytes(table, cleanup->gpu_before_bytes, cleanup->gpu_before_bytes);
	mt_table_add_bytes(table, cleanup->gpu_before_bytes, cleanup->gpu_after_bytes);
	mt_table_add(table, caches);
}

static void add_cleanup(struct mt_table *table, const struct mt_stats_cleanup *cleanup)
{
	static const char *const results[] = {"nothing", "little", "-"};

	add_number(table, cleanup->number);
	mt_table_add_row(table, mt_text_clock(cleanup->time_ns).text,
			 mt_stats_word_reason(cleanup->reason), mt_stats_word_level(cleanup->level),
			 NULL);
	add_number(table, cleanup->round);
	mt_table_add(table, cleanup->merged == 1          ? "merged"
			    : mt_stats_has_freed(cleanup) ? "freed"
							  : results[cleanup->result]);
	mt_table_add_row(table, mt_text_bytes(cleanup->rss_before_bytes).text,
			 mt_text_bytes(cleanup->rss_after_bytes).text,
			 mt_text_change(cleanup->rss_before_bytes, cleanup->rss_after_bytes).text,
			 mt_text_ns(cleanup->duration_ns).text,
			 cleanup->gc_state == MT_GC_DONE
				 ? mt_text_count(cleanup->gc_collected_count).text
				 : mt_stats_word_gc_state(cleanup->gc_state),
			 NULL);
}

/* Returns whether one of the shown cleanups was made for pressure; else the column is left out. */
static bool has_pressure(const struct mt_stats_file *file, uint64_t shown)
{
	bool found = false;

	for (uint64_t i = 0; i < shown; i++) {
		const struct mt_stats_cleanup *cleanup =
			mt_stats_file_cleanup(file, file->head.cleanups_count - i);

		found |= cleanup && cleanup->pressure_sources;
	}
	return found;
}

static void print_cleanups(const struct mt_stats_file *file, bool all)
{
	uint64_t last = file->head.cleanups_count, shown = all ? MT_CLEANUPS_COUNT : CLEANUPS_SHOWN;
	bool gpu = mt_stats_file_uses_cuda(&file->head), pressed;
	struct mt_table *table;

	if (!last) {
		puts("\nno cleanup yet");
		return;
	}
	if (shown > last)
		shown = last;
	pressed = has_pressure(file, shown);
	table = mt_table_new(">CLEANUP|<TIME|<REASON|<LEVEL|>ROUND|<RESULT|>RSS BEFORE|>AFTER|"
			     ">CHANGE|>TOOK|<GC");
	if (gpu)
		mt_table_add_columns(table, ">GPU BEFORE|>AFTER|<CACHES");
	if (pressed)
		mt_table_add_columns(table, "<PRESSURE");
	for (uint64_t i = shown; i-- > 0;) {
		const struct mt_stats_cleanup *cleanup = mt_stats_file_cleanup(file, last - i);

		if (cleanup)
			add_cleanup(table, cleanup);
		if (cleanup && gpu)
			add_cleanup_gpu(table, cleanup);
		if (cleanup && pressed)
			mt_table_add(table, mt_stats_word_pressure(cleanup).text);
	}
	putchar('\n');
	mt_table_print(table);
}

static void print_samples(const struct mt_stats_file *file)
{
	bool gpu = mt_stats_file_uses_cuda(&file->head);
	struct mt_table *table = mt_table_new("<TIME|>RSS|>ANON|>LIVE|>IDLE|>DIRTY");

	if (gpu)
		mt_table_add_columns(table, ">GPU RESERVED|>ALLOCATED");
	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *sample =
			&file->samples[(file->head.samples_count + i) % MT_SAMPLES_COUNT];

		if (!sample->time_ns)
			continue;
		mt_table_add(table, mt_text_clock(sample->time_ns).text);
		mt_table_add_bytes(table, true, sample->rss_bytes);
		mt_table_add_bytes(table, true, sample->anon_bytes);
		mt_table_add_bytes(table, true, sample->live_bytes);
		mt_table_add_bytes(table, true, sample->idle_bytes);
		mt_table_add_bytes(table, true, sample->dirty_bytes);
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
	print_head(target);
	print_fields(&target->file.head);
	mt_stat_print_pressure(&target->file);
	mt_stat_print_gpu(&target->file);
	print_cleanups(&target->file, view->records);
	if (view->samples)
		print_samples(&target->file);
}
