#include "ctl/diagnose/diagnose.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/output/text.h"

#define MINUTE_NS   ((uint64_t)60 * 1000000000u)
#define SITES_SHOWN 5u
#define STACK_MAX   10u
/* Growth of less than this share of the limit tells nothing of what filled it. */
#define GROWTH_SHARE 10

static const struct {
	const char *word, *text;
} fillers[MT_LAST_FILLER_COUNT] = {
#define X(id, word, text) {word, text},
	MT_LAST_FILLERS(X)
#undef X
};

/* ---- what is told ---- */

/* The oldest sample of the last minute. */
static const struct mt_stats_sample *minute_before(const struct mt_last_file *file)
{
	const struct mt_stats_sample *best = NULL;

	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *sample = &file->stats.samples[i];

		if (!sample->time_ns || sample->time_ns >= file->head.time_ns ||
		    file->head.time_ns - sample->time_ns > MINUTE_NS)
			continue;
		if (!best || sample->time_ns < best->time_ns)
			best = sample;
	}
	return best;
}

static struct mt_memory_parts parts_at_end(const struct mt_last_file *file)
{
	const struct mt_stats_snapshot *now = &file->stats.head.snapshot;
	const struct mt_memory_figures figures = {
		.rss_bytes = file->head.rss_bytes,
		.anon_bytes = file->head.anon_bytes,
		.live_bytes = now->heap_live_bytes,
		.dirty_bytes = now->heap_dirty_bytes,
	};

	return mt_memory_parts_of(&figures);
}

static uint64_t grown(const struct mt_last_summary *summary, enum mt_memory_part part)
{
	return mt_sat_sub(summary->parts.bytes[part], summary->before.bytes[part]);
}

/* The part that has grown most in the last minute; if nothing has, the largest. */
static void find_filler(struct mt_last_summary *summary)
{
	const struct mt_last_head *head = &summary->look->file.head;
	uint64_t held[MT_LAST_FILLER_COUNT] = {
		[MT_LAST_FILLER_PROCESSES] = mt_sat_sub(head->group_anon_bytes, head->anon_bytes),
		[MT_LAST_FILLER_SHMEM] = mt_sat_sub(head->group_shmem_bytes, head->shmem_bytes),
		[MT_LAST_FILLER_KERNEL] = head->group_kernel_bytes,
	};
	uint64_t most = 0;
	bool by_growth = false;

	_Static_assert(MT_LAST_FILLER_OTHER == (enum mt_last_filler)MT_PART_OTHER,
		       "the parts come first");
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		by_growth |= summary->seconds > 0 &&
			     grown(summary, i) > head->limit_bytes / GROWTH_SHARE;
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		held[i] = by_growth ? grown(summary, i) : summary->parts.bytes[i];
	for (int i = 0; i < (by_growth ? MT_PARTS_COUNT : MT_LAST_FILLER_COUNT); i++)
		if (held[i] > most) {
			most = held[i];
			summary->filler = i;
		}
	summary->filler_bytes = summary->filler < (enum mt_last_filler)MT_PARTS_COUNT
					? summary->parts.bytes[summary->filler]
					: most;
}

void mt_last_summary_find(const struct mt_last_look *look, struct mt_last_summary *out)
{
	const struct mt_stats_sample *before = minute_before(&look->file);
	struct mt_recording recording;

	*out = (struct mt_last_summary){.look = look, .parts = parts_at_end(&look->file)};
	if (before) {
		out->before = mt_memory_parts_of_sample(before);
		out->seconds = (double)(look->file.head.time_ns - before->time_ns) / 1e9;
	}
	find_filler(out);
	out->facts = mt_error_check_memory(calloc(1, sizeof(*out->facts)));
	out->diagnosis = mt_error_check_memory(calloc(1, sizeof(*out->diagnosis)));
	mt_recording_of_last_look(look, &recording);
	mt_recorded_facts(&recording, out->facts);
	out->facts->last = look->file.stats;
	out->facts->source = MT_FACTS_LAST;
	mt_diagnose_decide(out->facts, out->diagnosis);
	mt_recording_free(&recording);
}

void mt_last_summary_free(struct mt_last_summary *summary)
{
	free(summary->facts);
	free(summary->diagnosis);
}

/* ---- text ---- */

static void write_head(const struct mt_last_look *look, FILE *to)
{
	static const char *const fates[] = {
#define X(name, word, text) text,
		MT_LAST_FATES(X)
#undef X
	};
	const struct mt_last_head *head = &look->file.head;
	char title[200];

	mt_process_title(head->command, title, sizeof(title));
	fprintf(to, "%s (PID %llu) %s%s%s%s\n", title,
		(unsigned long long)look->file.stats.head.pid, fates[look->fate],
		*look->evidence ? " (" : "", look->evidence, *look->evidence ? ")" : "");
	fprintf(to, "  seen last at %s: %s of %s used (%s)", mt_text_clock(head->time_ns).text,
		mt_text_bytes(head->used_bytes).text, mt_text_bytes(head->limit_bytes).text,
		*head->limit_path ? head->limit_path : "the machine");
	if (head->growth_bytes)
		fprintf(to, ", growing by %s/s", mt_text_bytes(head->growth_bytes).text);
	putc('\n', to);
}

/* Copies the lines of a site, without the code below those of Python, and without repeats. Returns
 * how many. */
static size_t split_site(const struct mt_last_site *site, char *copy, size_t copy_bytes,
			 const char **out)
{
	size_t count = 0, lines_count = 0;
	char *rest = copy, *line;

	snprintf(copy, copy_bytes, "%s", site->text);
	while ((line = strsep(&rest, "\n")) && count < STACK_MAX) {
		bool is_python = !strstr(line, "+0x");

		if ((!is_python && lines_count) || (count && strcmp(out[count - 1], line) == 0))
			continue;
		lines_count += is_python;
		out[count++] = line;
	}
	return count;
}

static void write_filler(const struct mt_last_summary *summary, FILE *to)
{
	const struct mt_last_file *file = &summary->look->file;
	char copy[sizeof(file->sites[0].text)];
	const char *stack[STACK_MAX];

	fprintf(to, "  filled by: %s, %s", fillers[summary->filler].text,
		mt_text_bytes(summary->filler_bytes).text);
	if (summary->filler == MT_LAST_FILLER_OTHER &&
	    !mt_memory_parts_are_known(&file->stats.head.snapshot))
		fputs("; what the program uses is in it, since the allocator does not count it",
		      to);
	if (summary->filler == MT_LAST_FILLER_LIVE && file->head.sites_count &&
	    split_site(&file->sites[0], copy, sizeof(copy), stack))
		fprintf(to, ", most of it at %s", stack[0]);
	putc('\n', to);
}

static void write_sites(const struct mt_last_file *file, FILE *to)
{
	char copy[sizeof(file->sites[0].text)];
	const char *stack[STACK_MAX];

	if (file->head.sites_count)
		fputs("\nwhere the heap grew, from half of the limit on\n", to);
	for (size_t i = 0; i < file->head.sites_count && i < SITES_SHOWN; i++) {
		const struct mt_last_site *site = &file->sites[i];
		size_t count = split_site(site, copy, sizeof(copy), stack);

		for (size_t k = 0; k < count; k++)
			fprintf(to, "  %10s  %s%s\n", k ? "" : mt_text_bytes(site->bytes).text,
				k ? "  called at " : "", stack[k]);
	}
}

static void write_group(const struct mt_last_head *head, FILE *to)
{
	if (head->group_anon_bytes || head->group_file_bytes)
		fprintf(to,
			"\nthe cgroup: %s anonymous, %s files and page cache, of that %s shared "
			"memory",
			mt_text_bytes(head->group_anon_bytes).text,
			mt_text_bytes(head->group_file_bytes).text,
			mt_text_bytes(head->group_shmem_bytes).text);
	if (head->group_kernel_bytes)
		fprintf(to, ", %s of the kernel", mt_text_bytes(head->group_kernel_bytes).text);
	if (head->group_anon_bytes || head->group_file_bytes)
		putc('\n', to);
}

static void write_others(const struct mt_last_file *file, FILE *to)
{
	const struct mt_last_head *head = &file->head;

	if (!head->processes_count)
		return;
	fprintf(to, "\nothers in it, of %s%s\n",
		mt_text_counted(head->processes_total, "process", "processes").text,
		head->processes_total < MT_LAST_PROCESSES_MAX ? "" : " or more");
	for (size_t i = 0; i < head->processes_count && i < SITES_SHOWN; i++)
		fprintf(to, "  %-10s %s (PID %llu)\n",
			mt_text_bytes(file->processes[i].rss_bytes).text, file->processes[i].comm,
			(unsigned long long)file->processes[i].pid);
}

const char *mt_last_summary_filler(enum mt_last_filler filler)
{
	return fillers[filler].word;
}

void mt_last_summary_write_head(const struct mt_last_summary *summary, FILE *to)
{
	write_head(summary->look, to);
	write_filler(summary, to);
}

void mt_last_summary_write_growth(const struct mt_last_summary *summary, FILE *to)
{
	const struct mt_last_file *file = &summary->look->file;

	write_sites(file, to);
	write_group(&file->head, to);
	write_others(file, to);
}
