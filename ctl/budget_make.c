/* ctl/budget_make.c -- the formulas of budget.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ctl/budget.h"

#define MOST_BYTES    1e18 /* an exabyte: no machine has it, and JSON and uint64_t still do */
#define HEAD_USUAL    128
#define PARAMS_APART  1.35 /* the formula leaves embeddings and other shapes out: so far it may be off */

static const struct mt_optimizer optimizers[] = {
#define X(name, bytes, what) {name, bytes, what},
	MT_OPTIMIZERS(X)
#undef X
};

const struct mt_optimizer *mt_optimizer_list(size_t *count)
{
	*count = sizeof(optimizers) / sizeof(optimizers[0]);
	return optimizers;
}

const struct mt_optimizer *mt_optimizer_find(const char *name)
{
	for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++)
		if (strcasecmp(optimizers[i].name, name) == 0)
			return &optimizers[i];
	return NULL;
}

const char *mt_budget_name(enum mt_budget_kind kind)
{
	static const char *const names[MT_BUDGET_KINDS] = {"weights", "gradients", "optimizer", "activations", "kv_cache"};

	return kind < MT_BUDGET_KINDS ? names[kind] : "?";
}

__attribute__((format(printf, 2, 3))) static void note(struct mt_budget *budget, const char *format, ...)
{
	va_list arguments;

	if (budget->notes_count == MT_BUDGET_NOTES)
		return;
	va_start(arguments, format);
	vsnprintf(budget->notes[budget->notes_count++], sizeof(budget->notes[0]), format, arguments);
	va_end(arguments);
}

__attribute__((format(printf, 4, 5))) static void set(struct mt_budget *budget, enum mt_budget_kind kind, double bytes,
						      const char *format, ...)
{
	struct mt_budget_part *part = &budget->parts[kind];
	va_list arguments;

	*part = (struct mt_budget_part){.known = !isnan(bytes), .bytes = isnan(bytes) ? 0 : bytes};
	va_start(arguments, format);
	vsnprintf(part->formula, sizeof(part->formula), format, arguments);
	va_end(arguments);
}

static bool is_split(const struct mt_budget_wish *wish)
{
	return wish->zero == MT_BUDGET_UNSPLIT;
}

/* By how many GPUs a thing is divided: all of the model's, or from this stage of ZeRO on. */
static double divisor(const struct mt_budget_wish *wish, int stage)
{
	return is_split(wish) || wish->zero >= stage ? wish->gpus : 1;
}

static double layers_of_one(const struct mt_budget_wish *wish)
{
	return is_split(wish) ? wish->layers / wish->gpus : wish->layers;
}

static const char *shared(char out[32], double by)
{
	out[0] = '\0';
	if (by > 1)
		snprintf(out, 32, " / %.0f GPUs", by);
	return out;
}

static double width_of(const struct mt_budget_wish *wish)
{
	return wish->mixed ? 2 : 4;
}

static void fill_states(struct mt_budget *budget)
{
	const struct mt_budget_wish *wish = &budget->wish;
	const struct mt_optimizer *optimizer = wish->optimizer;
	bool factored = strcmp(optimizer->name, "adafactor") == 0;
	double width = width_of(wish), master = wish->mixed ? 4 : 0;
	double state = factored ? (wish->d_model ? 8 / wish->d_model : 0) : optimizer->state_bytes;
	char by[32];

	set(budget, MT_BUDGET_WEIGHTS, width * wish->params / divisor(wish, 3), "%.0f bytes a parameter (%.0f bit) x %.6g%s",
	    width,
	    width * 8, wish->params, shared(by, divisor(wish, 3)));
	if (wish->inference) {
		set(budget, MT_BUDGET_GRADIENTS, 0, "none: nothing is trained");
		set(budget, MT_BUDGET_OPTIMIZER, 0, "none: nothing is trained");
		return;
	}
	set(budget, MT_BUDGET_GRADIENTS, width * wish->params / divisor(wish, 2), "%.0f bytes a parameter x %.6g%s", width,
	    wish->params, shared(by, divisor(wish, 2)));
	set(budget, MT_BUDGET_OPTIMIZER, (master + state) * wish->params / divisor(wish, 1),
	    "%.4g bytes a parameter x %.6g%s: %s%s (%s)", master + state, wish->params, shared(by, divisor(wish, 1)),
	    master > 0 ? "a 32-bit copy of the weights, and " : "", optimizer->what, optimizer->name);
}

static bool has_shape(const struct mt_budget_wish *wish)
{
	return wish->seq && wish->batch && wish->layers && wish->d_model;
}

static void fill_activations(struct mt_budget *budget)
{
	const struct mt_budget_wish *wish = &budget->wish;
	double tokens = wish->seq * wish->batch * wish->d_model, layers = layers_of_one(wish);
	double linear = wish->mixed ? 34 : 66, square = wish->flash ? 0 : wish->mixed ? 5 : 9;
	double logits = wish->vocab ? 4 * wish->seq * wish->batch * wish->vocab : 0;
	char more[64] = "";

	if (wish->inference) {
		set(budget, MT_BUDGET_ACTIVATIONS, 0, "none are kept: nothing is trained");
		return;
	}
	if (!has_shape(wish)) {
		set(budget, MT_BUDGET_ACTIVATIONS, NAN, "not known without --seq, --batch, --layers and --d-model");
		return;
	}
	if (logits > 0)
		snprintf(more, sizeof(more), ", and 4 s b V for the logits (V %.6g)", wish->vocab);
	if (wish->checkpoint)
		set(budget, MT_BUDGET_ACTIVATIONS, width_of(wish) * tokens * layers + logits,
		    "%.0f s b d x %.6g layers: their inputs; all else is computed again%s", width_of(wish), layers, more);
	else if (wish->flash)
		set(budget, MT_BUDGET_ACTIVATIONS, linear * tokens * layers + logits,
		    "%.0f s b d x %.6g layers, attention's squares computed again%s", linear, layers, more);
	else
		set(budget, MT_BUDGET_ACTIVATIONS,
		    (linear * tokens + square * wish->heads * wish->seq * wish->seq * wish->batch) * layers + logits,
		    "s b d (%.0f + %.0f a s / d) x %.6g layers, a %.6g heads (Korthikanti et al. 2022)%s", linear, square,
		    layers,
		    wish->heads, more);
}

static void fill_kv_cache(struct mt_budget *budget)
{
	const struct mt_budget_wish *wish = &budget->wish;

	if (!wish->inference) {
		set(budget, MT_BUDGET_KV_CACHE, 0, "none: only inference keeps one");
		return;
	}
	if (!has_shape(wish)) {
		set(budget, MT_BUDGET_KV_CACHE, NAN, "not known without --seq, --batch, --layers and --d-model");
		return;
	}
	set(budget, MT_BUDGET_KV_CACHE,
	    2 * layers_of_one(wish) * wish->kv_heads * (wish->d_model / wish->heads) * wish->seq * wish->batch *
	    width_of(wish),
	    "2 x %.6g layers x %.6g heads of %.6g x %.6g tokens x %.6g x %.0f bytes", layers_of_one(wish), wish->kv_heads,
	    wish->d_model / wish->heads, wish->seq, wish->batch, width_of(wish));
}

/* 12 d^2 a layer: four matrices of attention, and two of four times the width. */
static double params_by_shape(const struct mt_budget_wish *wish)
{
	return 12 * wish->layers * wish->d_model * wish->d_model + wish->vocab * wish->d_model;
}

static bool are_apart(double a, double b)
{
	return a > b * PARAMS_APART || b > a * PARAMS_APART;
}

static void note_shape(struct mt_budget *budget)
{
	const struct mt_budget_wish *wish = &budget->wish;
	double shape = params_by_shape(wish);

	if (!wish->layers || !wish->d_model)
		return;
	if (are_apart(shape, wish->params)) {
		note(budget, "%.6g layers of d %.6g have about %.3g parameters (12 L d^2), not %.3g: which of them is "
			     "wrong?", wish->layers,
		     wish->d_model, shape, wish->params);
		if (is_split(wish) && wish->gpus > 1 && !are_apart(shape * wish->gpus, wish->params))
			note(budget, "if %.6g are the layers of one GPU, say --layers-per-gpu %.6g", wish->layers,
			     wish->layers);
	}
	if (wish->layers < wish->gpus && is_split(wish))
		note(budget, "%.0f GPUs are more than %.6g layers: some would have none", wish->gpus, wish->layers);
	if (wish->heads && fmod(wish->d_model, wish->heads) != 0)
		note(budget, "%.6g heads do not divide d %.6g", wish->heads, wish->d_model);
}

/* What was not said, by what is usual. */
static void complete(struct mt_budget *budget)
{
	struct mt_budget_wish *wish = &budget->wish;
	size_t count;

	if (!wish->optimizer)
		wish->optimizer = &mt_optimizer_list(&count)[0];
	if (!wish->gpus)
		wish->gpus = 1;
	if (wish->layers_per_gpu)
		wish->layers = wish->layers_per_gpu * wish->gpus;
	if (!wish->params) {
		wish->params = params_by_shape(wish);
		note(budget, "taken for the parameters: 12 L d^2%s = %.4g", wish->vocab ? " + V d" : "", wish->params);
	}
	if (wish->d_model && !wish->heads) {
		wish->heads = fmax(1, round(wish->d_model / HEAD_USUAL));
		if (wish->inference || !(wish->checkpoint || wish->flash))
			note(budget, "taken for --heads: %.6g, of %.6g each", wish->heads, wish->d_model / wish->heads);
	}
	if (!wish->kv_heads)
		wish->kv_heads = wish->heads;
	note_shape(budget);
}

static enum mt_err check(const struct mt_budget_wish *wish, struct mt_why *why)
{
	bool has_layers = wish->layers || wish->layers_per_gpu;

	if (!wish->params && !(has_layers && wish->d_model))
		return mt_error_because(why, MT_ERR_INVALID, "--params is wanted, or --layers and --d-model");
	if (wish->layers && wish->layers_per_gpu)
		return mt_error_because(why, MT_ERR_INVALID, "--layers or --layers-per-gpu, not both");
	if (wish->inference && (wish->zero != MT_BUDGET_UNSPLIT || wish->checkpoint || wish->optimizer))
		return mt_error_because(why, MT_ERR_INVALID, "--inference has no --zero, --checkpoint or --optimizer");
	if (wish->zero != MT_BUDGET_UNSPLIT && (wish->gpus < 2 || wish->layers_per_gpu))
		return mt_error_because(why, MT_ERR_INVALID, "--zero wants --gpus, 2 at least, and all layers");
	if (wish->layers_per_gpu && !wish->gpus)
		return mt_error_because(why, MT_ERR_INVALID, "--layers-per-gpu wants --gpus");
	if (wish->kv_heads && wish->heads && wish->kv_heads > wish->heads)
		return mt_error_because(why, MT_ERR_INVALID, "more --kv-heads than --heads");
	return MT_ERR_OK;
}

enum mt_err mt_budget_make(const struct mt_budget_wish *wish, struct mt_budget *out, struct mt_why *why)
{
	struct mt_budget budget = {.wish = *wish};
	enum mt_err error = check(wish, why);

	if (error)
		return error;
	complete(&budget);
	fill_states(&budget);
	fill_activations(&budget);
	fill_kv_cache(&budget);
	for (size_t i = 0; i < MT_BUDGET_KINDS; i++)
		budget.total_bytes += budget.parts[i].bytes;
	budget.with_overhead_bytes = budget.total_bytes * (1 + MT_BUDGET_OVERHEAD);
	if (!(budget.with_overhead_bytes < MOST_BYTES))
		return mt_error_because(why, MT_ERR_RANGE, "that is %.3g bytes on each GPU: no machine has as much",
					budget.total_bytes);
	*out = budget;
	return MT_ERR_OK;
}
