/* ctl/diagnose/advise.h -- `mtctl advise`: settings that would suit a process, judged by its stats
 * file (figures, cleanups, samples, settings), its maps and its environment. A rule is a pure
 * function of these facts. It is silent where the evidence is missing, and contradicts no record of
 * docs/decisions. For one thread. */
#ifndef MT_CTL_DIAGNOSE_ADVISE_H
#define MT_CTL_DIAGNOSE_ADVISE_H

#include "ctl/diagnose/diagnose.h"
#include "ctl/process/target.h"

#define MT_ADVICE_MAX 17 /* one for each rule */

struct mt_advise_facts {
	/* process, awake, last, is_python, has_pymalloc, one sample */
	struct mt_facts base;
	bool has_torch; /* PyTorch with CUDA is mapped */
	/* PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF of its environment, printable; "": not set
	 */
	char alloc_conf[512];
};

struct mt_advice {
	const char *topic;
	char reason[800];      /* with figures of this process */
	char environment[320]; /* for the next start: "MT_ROUND=auto MT_GC_ROUNDS=auto" */
	char command[160]; /* changes it at once: "mtctl set 42 gc_rounds=1"; "": wants a restart */
};

/* Fills the facts from the target's stats file, its maps and its environment. *facts must be zeroed
 * memory. What cannot be read stays empty. */
void mt_advise_read(const struct mt_target *target, struct mt_advise_facts *facts);

/* Fills `out` with the advice of all rules that are due, one for each topic. Returns how many.
 * Pure. */
size_t mt_advise_judge(const struct mt_advise_facts *facts, struct mt_advice out[MT_ADVICE_MAX]);

/* Seconds since the shim in the process woke up. */
double mt_advise_awake_s(const struct mt_advise_facts *facts);

#endif
