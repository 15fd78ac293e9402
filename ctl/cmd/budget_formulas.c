/* ctl/cmd/budget_formulas.c -- the formulas of budget.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ctl/cmd/budget.h"

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

const char *mt_budget_name(enum mt_budget_kind kind)
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

/* The number of GPUs that share a part: all of them, or from this stage of ZeRO on. */
static double divisor(const struct mt_budget_options *options, int stage)
{
	return is_split(options) || options->zero >= stage ? options->gpus : 1;
}

static const char *shared(char out[32], double by)
{
	out[0] = '\0';
	if (by > 1)
		snprintf(out, 32, " / %.0f GPUs", by);
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
#define NO_SHAPE "not known without --seq, --batch, --layers and --d-model"
#define FORMULAS(X)                                                                                \
	X(WEIGHTS, true, f.width *f.N / f.by_weights,                                              \
	  "%.0f bytes a parameter (%.0f bit) x %.6g%s", f.width, f.width * 8, f.N,                 \
	  shared(by, f.by_weights))                                                                \
	X(GRADIENTS, o->inference, 0, "none: nothing is trained%s", "")                            \
	X(GRADIENTS, true, f.width *f.N / f.by_gradients, "%.0f bytes a parameter x %.6g%s",       \
	  f.width, f.N, shared(by, f.by_gradients))                                                \
	X(OPTIMIZER, o->inference, 0, "none: nothing is trained%s", "")                            \
	X(OPTIMIZER, true, (f.master + f.state) * f.N / f.by_optimizer,                            \
	  "%.4g bytes a parameter x %.6g%s: %s%s (%s)", f.master + f.state, f.N,                   \
	  shared(by, f.by_optimizer), f.master > 0 ? "a 32-bit copy of the weights, and " : "",    \
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
		.layers = is_split(o) ? o->layers / o->gpus : o->layers,
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
	char by[32], logits[64] = "";

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
		     "of them is "
		     "wrong?",
		     options->layers, options->d_model, shape, options->params);
		if (is_split(options) && options->gpus > 1 &&
		    !are_apart(shape * options->gpus, options->params))
			note(budget, "if %.6g are the layers of one GPU, say --layers-per-gpu %.6g",
			     options->layers, options->layers);
	}
	if (options->layers < options->gpus && is_split(options))
		note(budget, "%.0f GPUs are more than %.6g layers: some would have none",
		     options->gpus, options->layers);
	if (options->heads && fmod(options->d_model, options->heads) != 0)
		note(budget, "%.6g heads do not divide d %.6g", options->heads, options->d_model);
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
	for (size_t i = 0; i < MT_BUDGET_KINDS; i++)
		budget.total_bytes += budget.parts[i].bytes;
	budget.with_overhead_bytes = budget.total_bytes * (1 + MT_BUDGET_OVERHEAD);
	if (!(budget.with_overhead_bytes < TOTAL_MAX_BYTES))
		return mt_error_because(why, MT_ERR_RANGE,
					"that is %.3g bytes on each GPU: no machine has as much",
					budget.total_bytes);
	*out = budget;
	return MT_ERR_OK;
}
