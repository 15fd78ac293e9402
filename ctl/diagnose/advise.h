/* ctl/diagnose/advise.h -- `mtctl advise`: settings that would suit a process, from what it has
 * shown so far: its stats file (figures, records, samples, settings), its maps and its environment.
 * Looking is mostly diagnose.h's; what is the matter over some time is its question, too. Here a
 * rule is a pure function of the facts, silent unless the evidence is there, and none speaks
 * against docs/decisions, where the measurements are. */
#ifndef MT_CTL_DIAGNOSE_ADVISE_H
#define MT_CTL_DIAGNOSE_ADVISE_H

#include "ctl/diagnose/diagnose.h"
#include "ctl/process/target.h"

#define MT_ADVICE_MOST 16

struct mt_advise_facts {
	/* process, awake, last, is_python, has_pymalloc, one sample */
	struct mt_diagnose_facts look;
	bool has_torch; /* PyTorch with CUDA is mapped */
	/* PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF of its environment, clean; "" none */
	char alloc_conf[512];
};

struct mt_advice {
	const char *topic;
	char reason[800];      /* with the figures of this very process */
	char environment[320]; /* "MT_ROUND=auto MT_GC_ROUNDS=auto", for the next start */
	/* for now: "mtctl set 42 gc_rounds=1"; "" where it needs a restart */
	char command[160];
};

/* Fills the facts from a stats file that was read before, the maps and the environment. */
void mt_advise_read(const struct mt_target *target, struct mt_advise_facts *facts);

/* All that the rules have to say, in the order of the table. Pure. */
size_t mt_advise_judge(const struct mt_advise_facts *facts, struct mt_advice out[MT_ADVICE_MOST]);

/* The tables of rules; each ends with a NULL topic. */
struct mt_advise_rule {
	const char *topic;
	bool (*is_due)(const struct mt_advise_facts *facts, struct mt_advice *out);
};
extern const struct mt_advise_rule mt_advise_heap_rules[], mt_advise_round_rules[],
	mt_advise_gpu_rules[];

/* For the rules: what the process published last, and a setting of it as a number (0 for "auto" and
 * what is none). */
const struct mt_stats_snapshot *mt_advise_figures(const struct mt_advise_facts *facts);
uint64_t mt_advise_setting(const struct mt_advise_facts *facts, const char *name);
bool mt_advise_setting_is(const struct mt_advise_facts *facts, const char *name, const char *word);
double mt_advise_seconds(const struct mt_advise_facts *facts); /* since it woke up */
/* idle bytes that are worth a purge: MT_SLACK_MB, _PCT */
uint64_t mt_advise_gate(const struct mt_advise_facts *facts);

/* Whether settings of the process, in the syntax of MALLOC_CONF, may stand in a line that people
 * paste into a shell, and are whole (the stats file has room for 71 characters). */
bool mt_advise_may_join(const char *conf);

/* Fills environment and command for one live setting. */
void mt_advise_set(const struct mt_advise_facts *facts, struct mt_advice *out, const char *name,
		   const char *value);

#endif
