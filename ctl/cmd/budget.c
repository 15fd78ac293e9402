/* ctl/cmd/budget.c -- `mtctl budget`: estimates the GPU memory of a model. */
#include "ctl/cmd/budget.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/output/text.h"

#define GIB 1073741824.0

static const char help[] =
	"Estimates the memory of one GPU that training or running a transformer takes, each\n"
	"part with its formula. GiB are 2^30 bytes. Numbers may be written as 7e9, 7B, 7000M.\n"
	"Measure with `mtctl stat` once the program runs.\n\n"
	"  --params=N         parameters; without it 12 L d^2 (+ V d) of the shape\n"
	"  --seq=N --batch=N  tokens in a sequence, and sequences at a time on one GPU\n"
	"  --layers=N --d-model=N [--heads=N] [--kv-heads=N] [--vocab=N]   the model's shape\n"
	"                     (heads: d / 128)\n"
	"  --mixed            16-bit weights and gradients with a 32-bit copy of the weights;\n"
	"                     else all is 32 bit\n"
	"  --checkpoint       activations are recomputed, except the inputs of each layer\n"
	"  --flash            attention keeps nothing of seq x seq (FlashAttention, selective\n"
	"                     recomputation)\n"
	"  --optimizer=NAME   adam, adamw, adam8bit, lion, momentum, rmsprop, adagrad,\n"
	"                     adafactor, sgd (adam)\n"
	"  --gpus=N           the layers of the model are split over N GPUs;\n"
	"                     --layers-per-gpu=N are the layers of one\n"
	"  --zero=STAGE       --gpus train on batches of their own: 1 shards the optimizer,\n"
	"                     2 gradients too, 3 weights too, 0 nothing\n"
	"  --inference        weights and the KV cache\n"
	"  --json             one object, in bytes\n\n"
	"For example LLaMA-7B, and a part of GPT-3 on each of 8 GPUs:\n"
	"  mtctl budget --params 7e9 --seq 2048 --batch 4 --layers 32 --d-model 4096 \\\n"
	"    --mixed --checkpoint\n"
	"  mtctl budget --params 175e9 --seq 2048 --batch 1 --layers 96 --d-model 12288 \\\n"
	"    --mixed --checkpoint --gpus 8\n";

/* Reads a count, up to the maximum of the option. */
static bool take_count(const struct mt_option *option, const char *text)
{
	double value;

	if (!mt_units_count(text, &value) || value < 1 || value > option->max ||
	    (value != floor(value) && strcmp(option->name, "params") != 0)) {
		mt_error_say("--%s: '%.40s' is no whole number from 1 to %.0e", option->name, text,
			     option->max);
		return false;
	}
	*(double *)option->target = value;
	return true;
}

static bool take_stage(const struct mt_option *option, const char *text)
{
	if (text[0] < '0' || text[0] > '3' || text[1]) {
		mt_error_say("--zero: '%.40s' is no stage from 0 to 3", text);
		return false;
	}
	*(int *)option->target = text[0] - '0';
	return true;
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

/* ---- output ---- */

static void print_line(const char *name, double bytes, bool known, const char *text)
{
	if (known)
		printf("%-12s %10.2f GiB   %s\n", name, bytes / GIB, text);
	else
		printf("%-12s %10s       %s\n", name, "?", text);
}

static void print_text(const struct mt_budget *budget)
{
	const struct mt_budget_options *options = &budget->options;
	char where[96] = "on one GPU";

	for (size_t i = 0; i < MT_BUDGET_KINDS; i++)
		print_line(i == MT_BUDGET_KV_CACHE ? "KV cache"
						   : mt_budget_name((enum mt_budget_kind)i),
			   budget->parts[i].bytes, budget->parts[i].known,
			   budget->parts[i].formula);
	if (options->gpus > 1)
		snprintf(where, sizeof(where), "on each of %.0f GPUs", options->gpus);
	print_line("total", budget->total_bytes, true, where);
	print_line("with 15 %", budget->with_overhead_bytes, true,
		   "for the context, workspaces of libraries, and what "
		   "fragments");
	for (size_t i = 0; i < budget->notes_count; i++)
		printf("note: %s\n", budget->notes[i]);
}

static void print_json(const struct mt_budget *budget)
{
	json_t *root = json_object(), *formulas = json_array(), *notes = json_array();
	json_t *formula;
	char name[32];

	for (size_t i = 0; i < MT_BUDGET_KINDS; i++) {
		const struct mt_budget_part *part = &budget->parts[i];

		snprintf(name, sizeof(name), "%s_bytes", mt_budget_name((enum mt_budget_kind)i));
		mt_json_set(root, name,
			    part->known ? mt_json_u64(mt_text_round_u64(round(part->bytes)))
					: json_null());
		formula = json_object();
		mt_json_set_text(formula, "name", mt_budget_name((enum mt_budget_kind)i));
		mt_json_set_text(formula, "formula", part->formula);
		mt_json_append(formulas, formula);
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
	mt_json_print(root, true);
}

int mt_command_budget(int argc, char **argv)
{
	struct mt_budget_options model = {.zero = MT_BUDGET_UNSPLIT};
	bool json = false;
#define COUNT(option, member, most)                                                                \
	{                                                                                          \
		.name = option, .target = &model.member, .take = take_count, .max = most           \
	}
	const struct mt_option options[] = {
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
		{.name = "mixed", .target = &model.mixed},
		{.name = "checkpoint", .target = &model.checkpoint},
		{.name = "flash", .target = &model.flash},
		{.name = "inference", .target = &model.inference},
		{.name = "optimizer", .target = &model.optimizer, .take = take_optimizer},
		{.name = "zero", .target = &model.zero, .take = take_stage},
		{.name = "json", .target = &json},
		{0}};
#undef COUNT
	const struct mt_command_line line = {"budget", help, NULL, options, 0, 0};
	struct mt_budget budget;
	struct mt_error_reason why;
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if (argc == 1)
		return mt_command_misused("budget");
	if (mt_budget_make(&model, &budget, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	(json ? print_json : print_text)(&budget);
	return MT_EXIT_OK;
}
