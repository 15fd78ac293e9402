/* ctl/cmd/fit.c -- `mtctl fit`: computes how many clients a GPU can serve at a time. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/channel/process_list.h"
#include "ctl/channel/target.h"
#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "gpu/nvml.h"

/* ---- gpu memory ---- */

/* How much memory of a GPU is free: from NVML, or else from the last figures of a shimmed process.
 * Device numbers are those of NVML, or of that process. Sends no request to any
 * process. */
#define MT_GPU_ANY (-1)

struct mt_gpu_memory {
	uint64_t number;
	char name[64]; /* clean; "" unknown */
	uint64_t free_bytes, total_bytes;
	char source[64]; /* "NVML", "process 123" */
};

/* Takes the device if it is the wanted one, or for MT_GPU_ANY if it has more free memory than the
 * one so far. */
static bool consider(long wanted, const struct mt_gpu_memory *found, bool known,
		     struct mt_gpu_memory *out)
{
	bool better = wanted == MT_GPU_ANY ? !known || found->free_bytes > out->free_bytes
					   : found->number == (uint64_t)wanted;

	if (better)
		*out = *found;
	return known || better;
}

static bool read_nvml(long number, struct mt_gpu_memory *out)
{
	const unsigned count = mt_nvml_count();
	struct mt_nvml_device device;
	bool known = false;

	for (unsigned i = 0; i < count; i++) {
		struct mt_gpu_memory gpu = {.number = i, .source = "NVML"};

		if (!mt_nvml_device(i, &device))
			continue;
		snprintf(gpu.name, sizeof(gpu.name), "%s", device.name);
		mt_text_clean(gpu.name, sizeof(gpu.name));
		gpu.free_bytes = device.free_bytes;
		gpu.total_bytes = device.total_bytes;
		known = consider(number, &gpu, known, out);
	}
	return known;
}

static bool read_process(const struct mt_process *process, long number, bool known,
			 struct mt_gpu_memory *out)
{
	struct mt_stats_file *file = mt_error_check_memory(malloc(sizeof(*file)));
	struct mt_error_reason why;

	if (mt_target_read(process, file, &why) != MT_ERR_OK)
		file->head.devices_count = 0;
	for (size_t i = 0; i < file->head.devices_count; i++) {
		const struct mt_stats_device *device = &file->devices[i];
		struct mt_gpu_memory gpu = {.number = device->ordinal,
					    .free_bytes = device->free_bytes,
					    .total_bytes = device->total_bytes};

		snprintf(gpu.name, sizeof(gpu.name), "%s", device->name);
		snprintf(gpu.source, sizeof(gpu.source), "process %d", (int)process->pid);
		if (gpu.total_bytes)
			known = consider(number, &gpu, known, out);
	}
	free(file);
	return known;
}

/* Finds the device of this number, or for MT_GPU_ANY the device with the most free memory. Returns
 * false if no figures of it are known. */
static bool gpu_memory_find(long number, struct mt_gpu_memory *out)
{
	struct mt_process_list processes;
	bool known = read_nvml(number, out);

	if (known)
		return true;
	mt_process_list_read(MT_PROCESS_LIST_ALL, &processes);
	for (size_t i = 0; i < processes.count; i++)
		if (processes.list[i].uses_cuda)
			known = read_process(&processes.list[i].process, number, known, out);
	mt_process_list_free(&processes);
	return known;
}

/* copies of the model in a client: weights, gradients, and two moments of the optimizer */
#define COPIES 4.0
#define MIB    1048576.0
#define GIB    1073741824.0

static const char help[] =
	"Clients in parallel: a share of the free memory, divided by the memory of one client,\n"
	"which is 4 times its model (weights, gradients, two moments of the optimizer), and no\n"
	"more than the cap. Free is the value of NVML, or the last one that a shimmed process has\n"
	"seen. Without --model-mb the table alone: GPUs of 4 to 16 GB, all of it free. Exit code\n"
	"1: not even one fits, or neither a GPU nor --vram tells how much is free.\n\n"
	"  --model-mb=MB    size of the model file\n"
	"  --vram=SIZE      16G: the free memory; else the GPU is read\n"
	"  --device=NUMBER  of this GPU; else of the one with the most free memory\n"
	"  --share=PERCENT  1 to 100 (60)\n"
	"  --cap=NUMBER     1 to 1024 (8)\n"
	"  --json           one object\n";

struct options {
	double model_bytes, free_bytes; /* 0: not given */
	long device, share, cap;
	bool json;
};

struct fit {
	bool known;
	double free_bytes;
	char source[160];
	long clients;
};

static long clients_of(const struct options *options, double free_bytes, double model_bytes)
{
	double clients = floor(free_bytes * (double)options->share / 100 / (COPIES * model_bytes));

	return clients < (double)options->cap ? (long)clients : options->cap;
}

static void find(const struct options *options, struct fit *out)
{
	struct mt_gpu_memory gpu;

	*out = (struct fit){.known = options->free_bytes > 0,
			    .free_bytes = options->free_bytes,
			    .source = "--vram"};
	if (!out->known && gpu_memory_find(options->device, &gpu)) {
		out->known = true;
		out->free_bytes = (double)gpu.free_bytes;
		snprintf(out->source, sizeof(out->source), "%.40s, GPU %llu%s%.60s", gpu.source,
			 (unsigned long long)gpu.number, *gpu.name ? ", " : "", gpu.name);
	}
	if (out->known)
		out->clients = clients_of(options, out->free_bytes, options->model_bytes);
}

/* ---- output ---- */

static const double table_gb[] = {4, 8, 12, 16};
static const double table_mb[] = {12.3, 100, 250, 500, 1024};

#define COLUMNS_COUNT (sizeof(table_gb) / sizeof(table_gb[0]))
#define ROWS_COUNT    (sizeof(table_mb) / sizeof(table_mb[0]))

static void add_row(struct mt_table *table, const struct options *options, double model_mb)
{
	mt_table_addf(table, "%.1f MB", model_mb);
	for (size_t i = 0; i < COLUMNS_COUNT; i++)
		mt_table_addf(table, "%ld", clients_of(options, table_gb[i] * GIB, model_mb * MIB));
}

static void print_table(const struct options *options)
{
	struct mt_table *table = mt_table_new(">MODEL|>4 GB|>8 GB|>12 GB|>16 GB");
	double asked = options->model_bytes / MIB;
	bool added = asked == 0;

	for (size_t i = 0; i < ROWS_COUNT; i++) {
		if (!added && asked <= table_mb[i]) {
			if (asked < table_mb[i])
				add_row(table, options, asked);
			added = true;
		}
		add_row(table, options, table_mb[i]);
	}
	if (!added)
		add_row(table, options, asked);
	mt_table_print(table);
}

static void print_text(const struct options *options, const struct fit *fit)
{
	struct mt_short_text model = mt_text_bytes(mt_text_round_u64(options->model_bytes)),
			     clients = mt_text_counted((uint64_t)fit->clients, "client", "clients");

	if (options->model_bytes && fit->known)
		printf("%s in parallel: %ld %% of %s free (%s) over 4 x %s, at most %ld\n\n",
		       clients.text, options->share,
		       mt_text_bytes(mt_text_round_u64(fit->free_bytes)).text, fit->source,
		       model.text, options->cap);
	else if (options->model_bytes)
		puts("How many clients fit is not known, since nothing tells how much of a GPU is "
		     "free; --vram 16G says it\n");
	printf("Clients in parallel by GPU and model, with %ld %% of all its memory, at most "
	       "%ld:\n",
	       options->share, options->cap);
	print_table(options);
}

static json_t *table_json(const struct options *options)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < ROWS_COUNT; i++)
		for (size_t j = 0; j < COLUMNS_COUNT; j++) {
			json_t *row = json_object();

			mt_json_set_u64(row, "model_bytes", mt_text_round_u64(table_mb[i] * MIB));
			mt_json_set_u64(row, "vram_bytes", mt_text_round_u64(table_gb[j] * GIB));
			mt_json_set_u64(row, "clients_count",
					(uint64_t)clients_of(options, table_gb[j] * GIB,
							     table_mb[i] * MIB));
			mt_json_append(rows, row);
		}
	return rows;
}

static void print_json(const struct options *options, const struct fit *fit)
{
	json_t *root = json_object();
	bool asked = options->model_bytes > 0;

	mt_json_set_u64_if(root, "clients_count", asked && fit->known, (uint64_t)fit->clients);
	mt_json_set_u64_if(root, "model_bytes", asked, mt_text_round_u64(options->model_bytes));
	mt_json_set_u64_if(root, "free_bytes", asked && fit->known,
			   mt_text_round_u64(fit->free_bytes));
	mt_json_set(root, "source", asked && fit->known ? json_string(fit->source) : json_null());
	mt_json_set_u64(root, "share_pct", (uint64_t)options->share);
	mt_json_set_u64(root, "cap_count", (uint64_t)options->cap);
	mt_json_set(root, "table", table_json(options));
	mt_json_print(root, true);
}

/* ---- the command line ---- */

static bool take_whole(const struct mt_option *option, const char *text)
{
	uint64_t value;

	if (!mt_text_parse_u64(text, &value) || (double)value < option->min ||
	    (double)value > option->max) {
		mt_error_say("--%s: '%.40s' is no whole number from %.0f to %.0f", option->name,
			     text, option->min, option->max);
		return false;
	}
	*(long *)option->target = (long)value;
	return true;
}

static bool take_model(const struct mt_option *option, const char *text)
{
	double mb = 0;

	if (mt_units_number(text, &mb) && mb * MIB >= 1 && mb < 1e12) {
		*(double *)option->target = mb * MIB;
		return true;
	}
	mt_error_say("--model-mb: '%.40s' is no size in MB", text);
	return false;
}

static bool take_vram(const struct mt_option *option, const char *text)
{
	double bytes = 0;

	if (mt_units_bytes(text, &bytes) && bytes >= 1 && bytes < 1e18) {
		*(double *)option->target = bytes;
		return true;
	}
	mt_error_say("--vram: '%.40s' is no size as 16G, 16GiB, 4096M", text);
	return false;
}

static int fit_and_print(const struct options *options)
{
	struct fit fit = {0};

	if (options->model_bytes)
		find(options, &fit);
	if (options->model_bytes && options->device != MT_GPU_ANY && !fit.known) {
		mt_error_say("nothing is known of a GPU %ld", options->device);
		return MT_EXIT_USAGE;
	}
	(options->json ? print_json : print_text)(options, &fit);
	return options->model_bytes && !fit.clients ? MT_EXIT_NOTHING : MT_EXIT_OK;
}

int mt_command_fit(int argc, char **argv)
{
	struct options wanted = {.device = MT_GPU_ANY, .share = 60, .cap = 8};
	const struct mt_option options[] = {
		{.name = "model-mb", .target = &wanted.model_bytes, .take = take_model},
		{.name = "vram", .target = &wanted.free_bytes, .take = take_vram},
		{.name = "device", .target = &wanted.device, .take = take_whole, .max = 1023},
		{.name = "share",
		 .target = &wanted.share,
		 .take = take_whole,
		 .min = 1,
		 .max = 100},
		{.name = "cap", .target = &wanted.cap, .take = take_whole, .min = 1, .max = 1024},
		{.name = "json", .target = &wanted.json},
		{0}};
	const struct mt_command_line line = {"fit", help, NULL, options, 0, 0};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if (wanted.free_bytes && wanted.device != MT_GPU_ANY) {
		mt_error_say("--vram or --device, not both");
		return MT_EXIT_USAGE;
	}
	return fit_and_print(&wanted);
}
