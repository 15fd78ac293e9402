/* ctl/cmd/budget.c -- `mtctl budget`, or `mtctl fit`: estimates the GPU memory of a model, and how
 * many clients of that size a GPU can serve at a time. */
#include "ctl/cmd/budget.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ctl/channel/process_list.h"
#include "ctl/channel/target.h"
#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "gpu/nvml.h"

/* ---- the formulas ---- */

/* an exabyte: more than any machine has, and in the range of uint64_t and JSON */
#define TOTAL_MAX_BYTES 1e18
#define HEAD_USUAL      128
/* the formula ignores embeddings and other shapes: a ratio up to this is accepted */
#define PARAMS_RATIO_MAX 1.35

static const struct mt_optimizer optimizers[] = {
#define X(name, bytes, what) {name, bytes, what},
	MT_OPTIMIZERS(X)
#undef X
};

const struct mt_optimizer *mt_optimizer_find(const char *name)
{
	for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++)
		if (strcasecmp(optimizers[i].name, name) == 0)
			return &optimizers[i];
	return NULL;
}

static const char *budget_name(enum mt_budget_kind kind)
{
	static const char *const names[MT_BUDGET_KINDS] = {"weights", "gradients", "optimizer",
							   "activations", "kv_cache"};

	return kind < MT_BUDGET_KINDS ? names[kind] : "?";
}

__attribute__((format(printf, 2, 3))) static void note(struct mt_budget *budget, const char *format,
						       ...)
{
	va_list arguments;

	if (budget->notes_count == MT_BUDGET_NOTES)
		return;
	va_start(arguments, format);
	vsnprintf(budget->notes[budget->notes_count++], sizeof(budget->notes[0]), format,
		  arguments);
	va_end(arguments);
}

__attribute__((format(printf, 4, 5))) static void
set(struct mt_budget *budget, enum mt_budget_kind kind, double bytes, const char *format, ...)
{
	struct mt_budget_part *part = &budget->parts[kind];
	va_list arguments;

	*part = (struct mt_budget_part){.known = !isnan(bytes), .bytes = isnan(bytes) ? 0 : bytes};
	va_start(arguments, format);
	vsnprintf(part->formula, sizeof(part->formula), format, arguments);
	va_end(arguments);
}

static bool is_split(const struct mt_budget_options *options)
{
	return options->zero == MT_BUDGET_UNSPLIT;
}

/* The layers of the GPU that has most of them: a layer is not cut in two. */
static double layers_of_one(const struct mt_budget_options *options)
{
	return is_split(options) ? ceil(options->layers / options->gpus) : options->layers;
}

/* Of a part, all GPUs have a share, or from this stage of ZeRO on: the number by which it is
 * divided. */
static double divisor(const struct mt_budget_options *options, int stage)
{
	if (is_split(options) && options->layers)
		return options->layers / layers_of_one(options);
	return is_split(options) || options->zero >= stage ? options->gpus : 1;
}

static const char *shared(char out[48], const struct mt_budget_options *options, double by)
{
	out[0] = '\0';
	if (by > 1 && by == floor(by))
		snprintf(out, 48, " / %.0f GPUs", by);
	else if (by > 1)
		snprintf(out, 48, " x %.6g of %.6g layers", layers_of_one(options),
			 options->layers);
	return out;
}

/* What the formulas are written in; see budget.h. */
struct figures {
	double N, s, b, d, a, V;
	double layers, kv_heads;                       /* of one GPU */
	double width, master, state;                   /* bytes a parameter */
	double linear, square;                         /* Korthikanti's factors */
	double by_weights, by_gradients, by_optimizer; /* GPUs that share */
};

/* The formulas: the part of memory, when the formula holds (the first row that does is used), its
 * bytes, and its text with the figures. */
#define SHAPE    "--seq, --batch, --layers and --d-model"
#define NO_SHAPE "not known without " SHAPE
#define FORMULAS(X)                                                                                \
	X(WEIGHTS, true, f.width *f.N / f.by_weights,                                              \
	  "%.0f bytes a parameter (%.0f bit) x %.6g%s", f.width, f.width * 8, f.N,                 \
	  shared(by, o, f.by_weights))                                                             \
	X(GRADIENTS, o->inference, 0, "none: nothing is trained%s", "")                            \
	X(GRADIENTS, true, f.width *f.N / f.by_gradients, "%.0f bytes a parameter x %.6g%s",       \
	  f.width, f.N, shared(by, o, f.by_gradients))                                             \
	X(OPTIMIZER, o->inference, 0, "none: nothing is trained%s", "")                            \
	X(OPTIMIZER, true, (f.master + f.state) * f.N / f.by_optimizer,                            \
	  "%.4g bytes a parameter x %.6g%s: %s%s (%s)", f.master + f.state, f.N,                   \
	  shared(by, o, f.by_optimizer), f.master > 0 ? "a 32-bit copy of the weights, and " : "", \
	  o->optimizer->what, o->optimizer->name)                                                  \
	X(ACTIVATIONS, o->inference, 0, "none are kept: nothing is trained%s", "")                 \
	X(ACTIVATIONS, !has_shape, NAN, NO_SHAPE "%s", "")                                         \
	X(ACTIVATIONS, o->checkpoint, f.width *f.s *f.b *f.d *f.layers + 4 * f.s * f.b * f.V,      \
	  "%.0f s b d x %.6g layers: their inputs; all else is computed again%s", f.width,         \
	  f.layers, logits)                                                                        \
	X(ACTIVATIONS, o->flash, f.linear *f.s *f.b *f.d *f.layers + 4 * f.s * f.b * f.V,          \
	  "%.0f s b d x %.6g layers, attention's squares computed again%s", f.linear, f.layers,    \
	  logits)                                                                                  \
	X(ACTIVATIONS, true,                                                                       \
	  (f.linear * f.s * f.b * f.d + f.square * f.a * f.s * f.s * f.b) * f.layers +             \
		  4 * f.s * f.b * f.V,                                                             \
	  "s b d (%.0f + %.0f a s / d) x %.6g layers, a %.6g heads (Korthikanti et al. 2022)%s",   \
	  f.linear, f.square, f.layers, f.a, logits)                                               \
	X(KV_CACHE, !o->inference, 0, "none: only inference keeps one%s", "")                      \
	X(KV_CACHE, !has_shape, NAN, NO_SHAPE "%s", "")                                            \
	X(KV_CACHE, true, 2 * f.layers * f.kv_heads * (f.d / f.a) * f.s * f.b * f.width,           \
	  "2 x %.6g layers x %.6g heads of %.6g x %.6g tokens x %.6g x %.0f bytes", f.layers,      \
	  f.kv_heads, f.d / f.a, f.s, f.b, f.width)

static struct figures figures_of(const struct mt_budget_options *o)
{
	bool factored = strcmp(o->optimizer->name, "adafactor") == 0;

	return (struct figures){
		.N = o->params,
		.s = o->seq,
		.b = o->batch,
		.d = o->d_model,
		.a = o->heads,
		.V = o->vocab,
		.layers = layers_of_one(o),
		.kv_heads = o->kv_heads,
		.width = o->mixed ? 2 : 4,
		.master = o->mixed ? 4 : 0,
		.state = !factored    ? o->optimizer->state_bytes
			 : o->d_model ? 8 / o->d_model
				      : 0,
		.linear = o->mixed ? 34 : 66,
		.square = o->mixed ? 5 : 9,
		.by_weights = divisor(o, 3),
		.by_gradients = divisor(o, 2),
		.by_optimizer = divisor(o, 1),
	};
}

static void fill(struct mt_budget *budget)
{
	const struct mt_budget_options *o = &budget->options;
	const struct figures f = figures_of(o);
	bool has_shape = f.s && f.b && o->layers && f.d, is_set[MT_BUDGET_KINDS] = {false};
	char by[48], logits[64] = "";

	if (f.V)
		snprintf(logits, sizeof(logits), ", and 4 s b V for the logits (V %.6g)", f.V);
#define X(part, when, bytes, ...)                                                                  \
	if (!is_set[MT_BUDGET_##part] && (when)) {                                                 \
		set(budget, MT_BUDGET_##part, bytes, __VA_ARGS__);                                 \
		is_set[MT_BUDGET_##part] = true;                                                   \
	}
	FORMULAS(X)
#undef X
}

/* 12 d^2 a layer: four matrices of attention, and two of four times the width. */
static double params_by_shape(const struct mt_budget_options *options)
{
	return 12 * options->layers * options->d_model * options->d_model +
	       options->vocab * options->d_model;
}

static bool are_apart(double a, double b)
{
	return a > b * PARAMS_RATIO_MAX || b > a * PARAMS_RATIO_MAX;
}

static void note_shape(struct mt_budget *budget)
{
	const struct mt_budget_options *options = &budget->options;
	double shape = params_by_shape(options);

	if (!options->layers || !options->d_model)
		return;
	if (are_apart(shape, options->params)) {
		note(budget,
		     "%.6g layers of d %.6g have about %.3g parameters (12 L d^2), not %.3g: which "
		     "of them is wrong?",
		     options->layers, options->d_model, shape, options->params);
		if (is_split(options) && options->gpus > 1 &&
		    !are_apart(shape * options->gpus, options->params))
			note(budget, "if %.6g are the layers of one GPU, say --layers-per-gpu %.6g",
			     options->layers, options->layers);
	}
	if (options->heads && fmod(options->d_model, options->heads) != 0)
		note(budget, "%.6g heads do not divide d %.6g", options->heads, options->d_model);
}

static void note_split(struct mt_budget *budget)
{
	const struct mt_budget_options *options = &budget->options;

	if (!is_split(options) || !options->layers)
		return;
	if (options->layers < options->gpus)
		note(budget, "%.0f GPUs are more than %.6g layers: some would have none",
		     options->gpus, options->layers);
	else if (fmod(options->layers, options->gpus) != 0)
		note(budget,
		     "%.0f GPUs do not divide %.6g layers: these are the figures of one with %.6g",
		     options->gpus, options->layers, layers_of_one(options));
}

/* Fills in the usual values of options that were not given. */
static void complete(struct mt_budget *budget)
{
	struct mt_budget_options *options = &budget->options;

	if (!options->optimizer)
		options->optimizer = &optimizers[0];
	if (!options->gpus)
		options->gpus = 1;
	if (options->layers_per_gpu)
		options->layers = options->layers_per_gpu * options->gpus;
	if (!options->params) {
		options->params = params_by_shape(options);
		note(budget, "taken for the parameters: 12 L d^2%s = %.4g",
		     options->vocab ? " + V d" : "", options->params);
	}
	if (options->d_model && !options->heads) {
		options->heads = fmax(1, round(options->d_model / HEAD_USUAL));
		if (options->inference || !(options->checkpoint || options->flash))
			note(budget, "taken for --heads: %.6g, of %.6g each", options->heads,
			     options->d_model / options->heads);
	}
	if (!options->kv_heads)
		options->kv_heads = options->heads;
	note_split(budget);
	note_shape(budget);
}

static enum mt_err check(const struct mt_budget_options *options, struct mt_error_reason *why)
{
	bool has_layers = options->layers || options->layers_per_gpu;

	if (!options->params && !(has_layers && options->d_model))
		return mt_error_because(why, MT_ERR_INVALID,
					"--params is wanted, or --layers and --d-model");
	if (options->layers && options->layers_per_gpu)
		return mt_error_because(why, MT_ERR_INVALID,
					"--layers or --layers-per-gpu, not both");
	if (options->inference &&
	    (options->zero != MT_BUDGET_UNSPLIT || options->checkpoint || options->optimizer))
		return mt_error_because(why, MT_ERR_INVALID,
					"--inference has no --zero, --checkpoint or --optimizer");
	if (options->zero != MT_BUDGET_UNSPLIT && (options->gpus < 2 || options->layers_per_gpu))
		return mt_error_because(why, MT_ERR_INVALID,
					"--zero wants --gpus, 2 at least, and all layers");
	if (options->layers_per_gpu && !options->gpus)
		return mt_error_because(why, MT_ERR_INVALID, "--layers-per-gpu wants --gpus");
	if (options->kv_heads && options->heads && options->kv_heads > options->heads)
		return mt_error_because(why, MT_ERR_INVALID, "more --kv-heads than --heads");
	return MT_ERR_OK;
}

enum mt_err mt_budget_make(const struct mt_budget_options *options, struct mt_budget *out,
			   struct mt_error_reason *why)
{
	struct mt_budget budget = {.options = *options};
	enum mt_err error = check(options, why);

	if (error)
		return error;
	complete(&budget);
	fill(&budget);
	budget.complete = true;
	for (size_t i = 0; i < MT_BUDGET_KINDS; i++) {
		budget.complete &= budget.parts[i].known;
		budget.total_bytes += budget.parts[i].bytes;
	}
	budget.with_overhead_bytes = budget.total_bytes * (1 + MT_BUDGET_OVERHEAD);
	if (!(budget.with_overhead_bytes < TOTAL_MAX_BYTES))
		return mt_error_because(why, MT_ERR_RANGE,
					"that is %.3g bytes on each GPU: no machine has as much",
					budget.total_bytes);
	*out = budget;
	return MT_ERR_OK;
}

/* ---- budget ---- */

#define MIB 1048576.0
#define GIB 1073741824.0
/* copies of the model in a client: weights, gradients, and two moments of the optimizer */
#define COPIES      4.0
#define SHARE_USUAL 60
#define CAP_USUAL   8

struct sizing {
	struct mt_budget_options model;
	double model_mb, free_bytes; /* 0: not given */
	double device, share, cap;   /* 0 (device: MT_GPU_ANY): not given */
	double stage;                /* of ZeRO */
	bool json;
};

#define MT_GPU_ANY (-1)

#define NO_MODEL                                                                                   \
	{                                                                                          \
		.zero = MT_BUDGET_UNSPLIT                                                          \
	}

static struct sizing wanted = {.model = NO_MODEL, .device = MT_GPU_ANY, .stage = MT_BUDGET_UNSPLIT};

/* ---- gpu memory ---- */

/* How much memory of a GPU is free: from NVML, or else from the last figures of a shimmed process.
 * Device numbers are those of NVML, or of that process. Sends no request to any
 * process. */

struct mt_gpu_memory {
	uint64_t number;
	char name[64]; /* clean; "" unknown */
	uint64_t free_bytes, total_bytes;
	char source[64]; /* "NVML", "process 123" */
};

/* Takes the device if it is the wanted one, or for MT_GPU_ANY has more free memory than the one so
 * far. */
static bool consider(double number, const struct mt_gpu_memory *found, bool known,
		     struct mt_gpu_memory *out)
{
	bool better = number == MT_GPU_ANY ? !known || found->free_bytes > out->free_bytes
					   : (double)found->number == number;

	if (better)
		*out = *found;
	return known || better;
}

static bool read_nvml(double number, struct mt_gpu_memory *out)
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

static bool read_process(const struct mt_process *process, double number, bool known,
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
static bool gpu_memory_find(double number, struct mt_gpu_memory *out)
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

/* ---- values of options ---- */

/* Takes a number in the range of the option; `what` says what it is. */
static bool take(const struct mt_option *option, const char *text,
		 bool (*read)(const char *, double *), bool is_whole)
{
	double value = 0;

	if (read(text, &value) && (!is_whole || value == floor(value)) && value >= option->min &&
	    value <= option->max) {
		*(double *)option->target = value;
		return true;
	}
	mt_error_say("--%s: '%.40s' is no %s from %.5g to %.5g", option->name, text, option->what,
		     option->min, option->max);
	return false;
}

static bool take_count(const struct mt_option *option, const char *text)
{
	return take(option, text, mt_units_count, strcmp(option->name, "params") != 0);
}

static bool take_whole(const struct mt_option *option, const char *text)
{
	return take(option, text, mt_units_number, true);
}

static bool take_mb(const struct mt_option *option, const char *text)
{
	return take(option, text, mt_units_number, false);
}

static bool take_size(const struct mt_option *option, const char *text)
{
	return take(option, text, mt_units_bytes, false);
}

static bool take_optimizer(const struct mt_option *option, const char *text)
{
	const struct mt_optimizer *optimizer = mt_optimizer_find(text);

	if (!optimizer)
		mt_error_say("--optimizer: '%.40s' is not known; mtctl budget --help lists them",
			     text);
	*(const struct mt_optimizer **)option->target = optimizer;
	return optimizer != NULL;
}

/* ---- clients ---- */

struct clients {
	bool known; /* what is free */
	double free_bytes;
	char source[160];
	bool is_least; /* a client takes more: parts of it are not known */
	long count;
};

/* A client that takes more than is known may still be one that does not fit. */
static bool is_count_known(const struct clients *clients)
{
	return clients->known && !(clients->is_least && clients->count);
}

static long clients_of(double free_bytes, double client_bytes)
{
	return (long)fmin(floor(free_bytes * wanted.share / 100 / client_bytes), wanted.cap);
}

static void find(double client_bytes, struct clients *out)
{
	struct mt_gpu_memory gpu;

	out->known = wanted.free_bytes > 0;
	out->free_bytes = wanted.free_bytes;
	snprintf(out->source, sizeof(out->source), "--vram");
	if (!out->known && gpu_memory_find(wanted.device, &gpu)) {
		out->known = true;
		out->free_bytes = (double)gpu.free_bytes;
		snprintf(out->source, sizeof(out->source), "%.40s, GPU %llu%s%.60s", gpu.source,
			 (unsigned long long)gpu.number, *gpu.name ? ", " : "", gpu.name);
	}
	if (out->known)
		out->count = clients_of(out->free_bytes, client_bytes);
}

/* ---- output ---- */

static void print_line(const char *name, double bytes, bool known, const char *text)
{
	if (known)
		printf("%-12s %10.2f GiB   %s\n", name, bytes / GIB, text);
	else
		printf("%-12s %10s       %s\n", name, "?", text);
}

static void print_budget(const struct mt_budget *budget)
{
	const struct mt_budget_options *options = &budget->options;
	char where[96] = "on one GPU";

	for (size_t i = 0; i < MT_BUDGET_KINDS; i++)
		print_line(
			i == MT_BUDGET_KV_CACHE ? "KV cache" : budget_name((enum mt_budget_kind)i),
			budget->parts[i].bytes, budget->parts[i].known, budget->parts[i].formula);
	if (options->gpus > 1)
		snprintf(where, sizeof(where), "on each of %.0f GPUs", options->gpus);
	if (!budget->complete)
		strcat(where, ", and what is not known");
	print_line("total", budget->total_bytes, true, where);
	print_line("with 15 %", budget->with_overhead_bytes, true,
		   "for the context, workspaces of libraries, and what fragments");
	for (size_t i = 0; i < budget->notes_count; i++)
		printf("note: %s\n", budget->notes[i]);
}

static void set_budget(json_t *root, const struct mt_budget *budget)
{
	json_t *formulas = json_array(), *notes = json_array();
	json_t *formula;
	char name[32];

	for (size_t i = 0; i < MT_BUDGET_KINDS; i++) {
		const struct mt_budget_part *part = &budget->parts[i];

		snprintf(name, sizeof(name), "%s_bytes", budget_name((enum mt_budget_kind)i));
		mt_json_set(root, name,
			    part->known ? mt_json_u64(mt_text_round_u64(round(part->bytes)))
					: json_null());
		formula = mt_json_append_object(formulas);
		mt_json_set_text(formula, "name", budget_name((enum mt_budget_kind)i));
		mt_json_set_text(formula, "formula", part->formula);
	}
	mt_json_set_u64(root, "total_bytes", mt_text_round_u64(round(budget->total_bytes)));
	mt_json_set_u64(root, "with_overhead_bytes",
			mt_text_round_u64(round(budget->with_overhead_bytes)));
	mt_json_set_u64(root, "gpus_count", mt_text_round_u64(budget->options.gpus));
	mt_json_set_u64(root, "params_count", mt_text_round_u64(round(budget->options.params)));
	mt_json_set_text_or_null(root, "optimizer",
				 budget->options.inference ? "" : budget->options.optimizer->name);
	mt_json_set(root, "formulas", formulas);
	for (size_t i = 0; i < budget->notes_count; i++)
		mt_json_append(notes, json_string(budget->notes[i]));
	mt_json_set(root, "notes", notes);
}

static const double table_gb[] = {4, 8, 12, 16};
static const double table_mb[] = {12.3, 100, 250, 500, 1024};

#define COLUMNS_COUNT (sizeof(table_gb) / sizeof(table_gb[0]))
#define ROWS_COUNT    (sizeof(table_mb) / sizeof(table_mb[0]))

static void add_row(struct mt_table *table, double model_mb)
{
	mt_table_addf(table, "%.1f MB", model_mb);
	for (size_t i = 0; i < COLUMNS_COUNT; i++)
		mt_table_addf(table, "%ld", clients_of(table_gb[i] * GIB, COPIES * model_mb * MIB));
}

static void print_table(void)
{
	struct mt_table *table = mt_table_new(">MODEL|>4 GB|>8 GB|>12 GB|>16 GB");

	if (wanted.model_mb)
		add_row(table, wanted.model_mb);
	for (size_t i = 0; i < ROWS_COUNT; i++)
		add_row(table, table_mb[i]);
	mt_table_print(table);
}

static json_t *table_json(void)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < ROWS_COUNT; i++)
		for (size_t j = 0; j < COLUMNS_COUNT; j++) {
			json_t *row = mt_json_append_object(rows);

			mt_json_set_u64(row, "model_bytes", mt_text_round_u64(table_mb[i] * MIB));
			mt_json_set_u64(row, "vram_bytes", mt_text_round_u64(table_gb[j] * GIB));
			mt_json_set_u64(row, "clients_count",
					(uint64_t)clients_of(table_gb[j] * GIB,
							     COPIES * table_mb[i] * MIB));
		}
	return rows;
}

/* `each`: what a client is, behind "over". */
static void print_clients(const struct clients *clients, const char *each)
{
	if (clients->known && !is_count_known(clients))
		puts("How many clients fit is not known without " SHAPE);
	else if (clients->known)
		printf("%s in parallel: %.0f %% of %s free (%s) over %s, at most %.0f\n",
		       mt_text_counted((uint64_t)clients->count, "client", "clients").text,
		       wanted.share, mt_text_bytes(mt_text_round_u64(clients->free_bytes)).text,
		       clients->source, each, wanted.cap);
	else
		puts("How many clients fit is not known, since nothing tells how much of a GPU is "
		     "free; --vram 16G says it");
}

static void set_clients(json_t *root, const struct clients *clients)
{
	mt_json_set_u64_if(root, "clients_count", is_count_known(clients),
			   (uint64_t)clients->count);
	mt_json_set_u64_if(root, "free_bytes", clients->known,
			   mt_text_round_u64(clients->free_bytes));
	mt_json_set(root, "source", clients->known ? json_string(clients->source) : json_null());
	mt_json_set_u64(root, "share_pct", (uint64_t)wanted.share);
	mt_json_set_u64(root, "cap_count", (uint64_t)wanted.cap);
}

/* ---- the two forms ---- */

/* Clients of --model-mb, or without it the table alone. */
static void print_fit(const struct clients *clients)
{
	double model_bytes = wanted.model_mb * MIB;
	char each[80];

	if (wanted.json) {
		json_t *root = json_object();

		mt_json_set_u64_if(root, "model_bytes", model_bytes > 0,
				   mt_text_round_u64(model_bytes));
		set_clients(root, clients);
		mt_json_set(root, "table", table_json());
		mt_json_print(root, true);
		return;
	}
	if (model_bytes) {
		snprintf(each, sizeof(each), "4 x %s",
			 mt_text_bytes(mt_text_round_u64(model_bytes)).text);
		print_clients(clients, each);
		putchar('\n');
	}
	printf("Clients in parallel by GPU and model, with %.0f %% of all its memory, at most "
	       "%.0f:\n",
	       wanted.share, wanted.cap);
	print_table();
}

/* `clients` is NULL if they are not wanted. */
static void print_both(const struct mt_budget *budget, const struct clients *clients)
{
	json_t *root;

	if (!wanted.json) {
		print_budget(budget);
		if (clients)
			print_clients(
				clients,
				mt_text_bytes(mt_text_round_u64(budget->with_overhead_bytes)).text);
		return;
	}
	root = json_object();
	set_budget(root, budget);
	if (clients)
		set_clients(root, clients);
	mt_json_print(root, true);
}

static int size(bool has_model)
{
	bool wants_clients = !has_model || wanted.free_bytes || wanted.share || wanted.cap ||
			     wanted.device != MT_GPU_ANY;
	double client_bytes = COPIES * wanted.model_mb * MIB;
	struct clients clients = {0};
	struct mt_budget budget;
	struct mt_error_reason why;

	if (has_model && mt_budget_make(&wanted.model, &budget, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	if (has_model) {
		client_bytes = budget.with_overhead_bytes;
		clients.is_least = !budget.complete;
	}
	wanted.share = wanted.share ? wanted.share : SHARE_USUAL;
	wanted.cap = wanted.cap ? wanted.cap : CAP_USUAL;
	if (wants_clients && client_bytes > 0)
		find(client_bytes, &clients);
	if (client_bytes > 0 && wanted.device != MT_GPU_ANY && !clients.known) {
		mt_error_say("nothing is known of a GPU %.0f", wanted.device);
		return MT_EXIT_USAGE;
	}
	if (has_model)
		print_both(&budget, wants_clients ? &clients : NULL);
	else
		print_fit(&clients);
	return wants_clients && client_bytes > 0 && (!clients.count || !is_count_known(&clients))
		       ? MT_EXIT_NOTHING
		       : MT_EXIT_OK;
}

/* ---- the command line ---- */

#define NUMBER(option, member, takes, is, least, most)                                             \
	{                                                                                          \
		.name = option, .target = &wanted.member, .take = takes, .what = is, .min = least, \
		.max = most                                                                        \
	}
#define COUNT(option, member, most)                                                                \
	NUMBER(option, model.member, take_count, "whole number", 1, most)
#define SWITCH(option, member)                                                                     \
	{                                                                                          \
		.name = option, .target = &wanted.member                                           \
	}

static const struct mt_option options[] = {
	COUNT("params", params, 1e16),
	COUNT("seq", seq, 1e9),
	COUNT("batch", batch, 1e9),
	COUNT("layers", layers, 1e6),
	COUNT("d-model", d_model, 1e7),
	COUNT("heads", heads, 1e6),
	COUNT("kv-heads", kv_heads, 1e6),
	COUNT("vocab", vocab, 1e9),
	COUNT("gpus", gpus, 1e6),
	COUNT("layers-per-gpu", layers_per_gpu, 1e6),
	SWITCH("mixed", model.mixed),
	SWITCH("checkpoint", model.checkpoint),
	SWITCH("flash", model.flash),
	SWITCH("inference", model.inference),
	{.name = "optimizer", .target = &wanted.model.optimizer, .take = take_optimizer},
	NUMBER("zero", stage, take_whole, "stage", 0, 3),
	NUMBER("model-mb", model_mb, take_mb, "size in MB", 1 / MIB, 1e12),
	NUMBER("vram", free_bytes, take_size, "size as 16G, 16GiB, 4096M", 1, 1e18),
	NUMBER("device", device, take_whole, "whole number", 0, 1023),
	NUMBER("share", share, take_whole, "percentage", 1, 100),
	NUMBER("cap", cap, take_whole, "whole number", 1, 1024),
	SWITCH("json", json),
	{0}};

static int read_and_size(const char *name, int argc, char **argv)
{
	static const struct mt_budget_options none = NO_MODEL;
	const struct mt_command_line line = {name, NULL, options, 0, 0};
	bool has_model;
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	wanted.model.zero = (int)wanted.stage;
	has_model = memcmp(&wanted.model, &none, sizeof(none)) != 0;
	if (wanted.free_bytes && wanted.device != MT_GPU_ANY) {
		mt_error_say("--vram or --device, not both");
		return MT_EXIT_USAGE;
	}
	if (has_model && wanted.model_mb) {
		mt_error_say("--model-mb or a model's parameters and shape, not both");
		return MT_EXIT_USAGE;
	}
	return size(has_model);
}

int mt_command_budget(int argc, char **argv)
{
	return argc == 1 ? mt_command_misused("budget") : read_and_size("budget", argc, argv);
}

int mt_command_fit(int argc, char **argv)
{
	return read_and_size("fit", argc, argv);
}
