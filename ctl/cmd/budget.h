/* ctl/cmd/budget.h -- the GPU memory of training or running a transformer, by the usual formulas
 * with their sources. s: tokens, b: sequences, d: the width of the model, a: heads.
 *
 * Weights, gradients, optimizer: bytes a parameter, 16 for Adam, with 16-bit weights (2 + 2 + 4 + 4
 * + 4) and without. Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion
 * Parameter Models".
 *
 * Activations: s b d (34 + 5 a s / d) bytes a layer, and 2 s b d if they are recomputed.
 * Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models". Those
 * figures are for 16 bit. In 32 bit all but the masks of dropout count double: 66 and 9.
 *
 * KV cache: 2 (keys and values) layers kv_heads head_dim s b, in the width of the weights. 15 % are
 * added to the total for the context, workspaces of libraries and fragmentation.
 *
 * Pure. */
#ifndef MT_CTL_CMD_BUDGET_H
#define MT_CTL_CMD_BUDGET_H

#include <stdbool.h>

#include "ctl/output/error.h"

#define MT_BUDGET_OVERHEAD 0.15
#define MT_BUDGET_NOTES    6
/* of `zero`: the layers of the model are split over the GPUs */
#define MT_BUDGET_UNSPLIT (-1)

/* Name, bytes of state a parameter, and what these are. The state of adafactor is one row and one
 * column of each matrix of width d: 8 / d bytes. */
#define MT_OPTIMIZERS(X)                                                                           \
	X("adam", 8, "two 32-bit moments")                                                         \
	X("adamw", 8, "two 32-bit moments")                                                        \
	X("adam8bit", 2, "two 8-bit moments")                                                      \
	X("lion", 4, "one 32-bit moment")                                                          \
	X("momentum", 4, "one 32-bit velocity (SGD with momentum)")                                \
	X("rmsprop", 4, "one 32-bit mean of squares")                                              \
	X("adagrad", 4, "one 32-bit sum of squares")                                               \
	X("adafactor", 0, "sums of rows and columns")                                              \
	X("sgd", 0, "nothing")

struct mt_optimizer {
	const char *name;
	double state_bytes;
	const char *what;
};

const struct mt_optimizer *mt_optimizer_find(const char *name); /* 0: not given. */
struct mt_budget_options {
	double params, seq, batch, layers, d_model, heads, kv_heads, vocab;
	double gpus, layers_per_gpu;
	/* stage of ZeRO, 0 to 3, if every GPU has a batch of its own; else MT_BUDGET_UNSPLIT */
	int zero;
	bool mixed, checkpoint, flash, inference;
	const struct mt_optimizer *optimizer;
};

enum mt_budget_kind {
	MT_BUDGET_WEIGHTS,
	MT_BUDGET_GRADIENTS,
	MT_BUDGET_OPTIMIZER,
	MT_BUDGET_ACTIVATIONS,
	MT_BUDGET_KV_CACHE,
	MT_BUDGET_KINDS
};

struct mt_budget_part {
	bool known;
	double bytes;      /* of one GPU */
	char formula[200]; /* with its figures */
};

struct mt_budget {
	struct mt_budget_options options; /* with defaults filled in: params, heads, kv_heads */
	struct mt_budget_part parts[MT_BUDGET_KINDS];
	bool complete; /* every part is known; else the total is the least that it takes */
	double total_bytes, with_overhead_bytes;
	size_t notes_count;
	char notes[MT_BUDGET_NOTES][240];
};

/* Computes the budget. Returns MT_ERR_INVALID if options are missing or contradict each other,
 * MT_ERR_RANGE if the result is larger than any machine. *out is written on success only. */
enum mt_err mt_budget_make(const struct mt_budget_options *options, struct mt_budget *out,
			   struct mt_error_reason *why);

#endif
