/* ctl/cmd/stat_gpu.c -- the GPU sections of `mtctl stat`: a table for each device with present
 * values and peaks, by the names of torch.cuda.memory_stats. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/cmd/stat.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"

#define PEAK           "_peak_bytes"
#define LIVE           "_live_bytes"
#define FIELD_NAME_MAX 64
#define AGE_MIN_MS     100u

/* Figures in the lines around the table. */
static bool is_printed_elsewhere(const char *name)
{
	static const char *const names[] = {"ordinal",       "free_bytes",    "total_bytes",
					    "process_bytes", "process_known", "unattributed_bytes",
					    "others_bytes",  "others_count",  "others_known",
					    "nvml_age_ms"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static const struct mt_stats_file_field *find_field(const char *name)
{
	size_t count;
	const struct mt_stats_file_field *fields = mt_stats_file_device_fields(&count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	return NULL;
}

/* The peak of allocated_bytes is allocated_peak_bytes, that of pinned_live_bytes pinned_peak_bytes.
 * NULL: it has none. */
static const struct mt_stats_file_field *peak_of(const char *name)
{
	char peak[FIELD_NAME_MAX];
	const char *end = mt_text_ends_with(name, LIVE) ? LIVE : "_bytes";
	int stem = (int)(strlen(name) - strlen(end));

	if (!mt_text_ends_with(name, "_bytes"))
		return NULL;
	snprintf(peak, sizeof(peak), "%.*s" PEAK, stem, name);
	return find_field(peak);
}

static void add_row(struct mt_table *table, const struct mt_stats_device *device,
		    const struct mt_stats_file_field *field)
{
	const struct mt_stats_file_field *peak = peak_of(field->name);
	uint64_t now = mt_stats_file_value(device, field),
		 highest = peak ? mt_stats_file_value(device, peak) : 0;

	/* A kind of memory that was never allocated. */
	if (mt_text_ends_with(field->name, LIVE) && !now && !highest)
		return;
	mt_table_add_row(table, field->name, mt_text_field(field->name, now).text,
			 peak ? mt_text_field(peak->name, highest).text : "", field->help, NULL);
}

static void print_table(const struct mt_stats_device *device)
{
	struct mt_table *table = mt_table_new("<FIGURE|>NOW|>PEAK|<MEANING");
	size_t count;
	const struct mt_stats_file_field *fields = mt_stats_file_device_fields(&count);

	for (size_t i = 0; i < count; i++)
		if (!is_printed_elsewhere(fields[i].name) &&
		    !mt_text_ends_with(fields[i].name, PEAK))
			add_row(table, device, &fields[i]);
	mt_table_print(table);
}

/* The figures of NVML are cached for seconds, and may be older than the table above. */
static struct mt_short_text when_charged(const struct mt_stats_device *device)
{
	struct mt_short_text when = {"charges this process"};

	if (device->nvml_age_ms >= AGE_MIN_MS)
		snprintf(when.text, sizeof(when.text),
			 "charged this process %.1f s before these figures",
			 (double)device->nvml_age_ms / 1000);
	return when;
}

/* Memory that the driver charges to the process and that the program has not allocated. NVML may be
 * missing, or not know the process (a container with its own pid namespace). */
static void print_process(const struct mt_stats_device *device)
{
	if (device->process_known != 1)
		puts("not ours: unknown; NVML does not say what the driver charges this process");
	else
		printf("not ours: %s of the %s that the driver %s: context, kernels, libraries\n",
		       mt_text_bytes(device->unattributed_bytes).text,
		       mt_text_bytes(device->process_bytes).text, when_charged(device).text);
	if (device->others_known == 1)
		printf("other processes on it: %s, with %s\n",
		       mt_text_count(device->others_count).text,
		       mt_text_bytes(device->others_bytes).text);
}

static void print_device(const struct mt_stats_device *device)
{
	printf("\n%sGPU %" PRIu64 "%s: %s%s%s%s, mode %s", mt_table_colour(MT_COLOUR_HEAD),
	       device->ordinal, mt_table_colour_end(), *device->name ? device->name : "?",
	       *device->pci ? " (" : "", device->pci, *device->pci ? ")" : "",
	       *device->mode ? device->mode : "?");
	if (device->total_bytes && device->free_bytes)
		printf(", %s free of %s", mt_text_bytes(device->free_bytes).text,
		       mt_text_bytes(device->total_bytes).text);
	else if (device->total_bytes)
		printf(", %s, free: unknown", mt_text_bytes(device->total_bytes).text);
	putchar('\n');
	print_table(device);
	print_process(device);
}

void mt_stat_print_gpu(const struct mt_stats_file *file)
{
	for (size_t i = 0; i < file->head.devices_count && i < MT_DEVICES_COUNT; i++)
		print_device(&file->devices[i]);
}
