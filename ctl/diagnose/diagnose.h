/* ctl/diagnose/diagnose.h -- `mtctl diagnose`: what was collected, what is found in it, and how it
 * is told.
 *
 * Four steps that know each other only by these structs: sampling.c looks (and is the only one that
 * knows a process), diagnose_findings*.c judges (pure: facts in, findings out, no clock, no file),
 * report_text.c, report_json.c tell.
 *
 * Findings are ranked by the bytes that they explain times the confidence in them. What grows is
 * counted by what it comes to in MT_DIAGNOSE_HORIZON_S at its present rate, so that a leak is not
 * outdone by a cache that lies still. */
#ifndef MT_CTL_DIAGNOSE_DIAGNOSE_H
#define MT_CTL_DIAGNOSE_DIAGNOSE_H

#include <signal.h>

#include "ctl/process/process_tree.h"
#include "ctl/process/limit.h"
#include "ctl/process/process.h"
#include "ctl/process/pymalloc.h"
#include "ctl/process/stats_file.h"
#include "ctl/diagnose/trend.h"
#include "ctl/diagnose/verdicts.def"
#include "sys/saturating.h"

struct mt_diagnose_profile;

enum mt_verdict {
#define X(name, code, word, help) MT_VERDICT_##name,
	MT_VERDICTS(X) MT_VERDICT_COUNT
#undef X
};

#define MT_DIAGNOSE_HORIZON_S  600.0
#define MT_DIAGNOSE_SAMPLES    MT_TREND_POINTS
#define MT_DIAGNOSE_SITES      5
#define MT_DIAGNOSE_PROF_READY 1 /* of prof_state */
#define MT_DIAGNOSE_FOREIGN    8
#define MT_DIAGNOSE_EVIDENCE   10
#define MT_DIAGNOSE_ADVICE     5
#define MT_MIB                 ((uint64_t)1 << 20)

/* One look: /proc/PID/status, and what the process says of itself.
 *   slack          resident in the heap, and held by nobody
 *   outside        anonymous memory outside of the heap and of Python's arenas, as far as the
 *     allocator can tell
 *   arenas         Python's own; 0 where it has none, or they may not be read
 *   held           live in the heap and in arenas: what the program holds
 *   gpu_allocated, gpu_reserved: of every kind that is counted */
/* clang-format off */
#define MT_DIAGNOSE_FIGURES(X) \
	X(rss_bytes) \
	X(anon_bytes) \
	X(file_bytes) \
	X(shmem_bytes) \
	X(swap_bytes) \
	X(live_bytes) \
	X(idle_bytes) \
	X(dirty_bytes) \
	X(slack_bytes) \
	X(outside_bytes) \
	X(arenas_bytes) \
	X(arenas_live_bytes) \
	X(held_bytes) \
	X(gpu_allocated_bytes) \
	X(gpu_reserved_bytes) \
	X(gpu_idle_bytes) \
	X(gpu_pinned_bytes) \
	X(rounds_count)
/* clang-format on */

struct mt_diagnose_sample {
	double at_s; /* since the first */
#define X(name) uint64_t name;
	MT_DIAGNOSE_FIGURES(X)
#undef X
};

/* A library that carries an allocator of its own, under names of its own. */
struct mt_diagnose_carrier {
	const char *prefix; /* of the file's name */
	const char *name, *explanation;
};

/* The carrier that a mapped file is; NULL: it is none. */
const struct mt_diagnose_carrier *mt_diagnose_carrier(const char *path);

/* Another allocator in the process than the one in line. */
struct mt_diagnose_foreign {
	char name[32];
	char file[96];
};

/* memory.stat of the group whose limit is the nearest, which may be one above the process's own,
 * under one set of names. */
struct mt_diagnose_group {
	bool known, is_v1;
	char directory[512];
	uint64_t usage_bytes, limit_bytes; /* limit 0: none */
	uint64_t anon_bytes, file_bytes, inactive_file_bytes, active_file_bytes, shmem_bytes;
	uint64_t oom_kill_count, max_count; /* kills, and times that the limit was run into */
};

/* The process and all that descend from it, see process_tree.h. */
struct mt_diagnose_tree {
	bool known;
	size_t count, forks_count;
	struct mt_process_tree_sums first, last;
};

struct mt_diagnose_trim {
	bool asked, done;
	enum mt_level level;
	struct mt_stats_cleanup record;
	/* in use on the devices some time after it: what the program has taken back */
	uint64_t gpu_later_bytes;
	char why_not[160];
};

struct mt_diagnose_site {
	char name[224];
	uint64_t grown_bytes, grown_count, sampled_count;
};

struct mt_diagnose_sites {
	bool known;
	char why_not[160];
	size_t count;
	struct mt_diagnose_site list[MT_DIAGNOSE_SITES]; /* what has grown most first */
};

struct mt_diagnose_classes {
	struct mt_stats_class list[MT_CLASSES_COUNT];
	size_t count;
};

struct mt_diagnose_facts {
	struct mt_process process;
	double asked_s;
	/* neither awake nor asleep: it does not carry the shim, or is not believed */
	bool awake, asleep, ended, interrupted;
	/* the last looks in a row at which it did not answer: it is stopped, or hangs */
	unsigned silent_count;
	char why_not[160]; /* then: why it has no figures of its own */
	bool is_python, has_pymalloc;
	bool arenas_known;                       /* they could be read */
	uint64_t arenas_read_ns, arenas_cost_ns; /* when they were last, and what that took */
	size_t samples_count;
	struct mt_diagnose_sample samples[MT_DIAGNOSE_SAMPLES];
	/* live bytes before the look, from the ring of the stats file; at_s is negative */
	size_t history_count;
	struct mt_trend_point history[MT_SAMPLES_COUNT];
	struct mt_stats_file first, last; /* the process's own word; only where awake */
	struct mt_diagnose_classes classes_first, classes_last;
	bool smaps_known;
	struct mt_smaps_sizes smaps; /* of the whole process, at the end */
	struct mt_diagnose_tree tree;
	struct mt_diagnose_group group;
	struct mt_limit limit;
	bool limit_known;
	size_t foreign_count;
	struct mt_diagnose_foreign foreign[MT_DIAGNOSE_FOREIGN];
	struct mt_diagnose_trim trim;
	struct mt_diagnose_profile *profile; /* while the look lasts */
	struct mt_diagnose_sites sites;
};

/* A line of evidence: for people `label` and `text`, for scripts `name` (its unit ends it) and
 * `value`. */
struct mt_diagnose_evidence {
	char label[40], text[200];
	char name[56];
	double value;
};

struct mt_diagnose_finding {
	enum mt_verdict verdict;
	double bytes;        /* explained; what grows is counted to the horizon */
	double confidence;   /* 0 to 1 */
	double growth_per_s; /* of the growth of RSS, what this explains */
	char title[240];     /* without the verdict's word */
	size_t evidence_count, advice_count;
	struct mt_diagnose_evidence evidence[MT_DIAGNOSE_EVIDENCE];
	char advice[MT_DIAGNOSE_ADVICE][240];
};

/* The trends that are judged, and the figure of the samples that each is of. */
#define MT_DIAGNOSE_TRENDS(X)                                                                      \
	X(rss, rss_bytes)                                                                          \
	X(anon, anon_bytes)                                                                        \
	X(live, held_bytes)                                                                        \
	X(slack, slack_bytes)                                                                      \
	X(outside, outside_bytes)                                                                  \
	X(shmem, shmem_bytes)                                                                      \
	X(file, file_bytes)                                                                        \
	X(gpu, gpu_allocated_bytes)

struct mt_diagnosis {
#define X(name, figure) struct mt_trend name;
	MT_DIAGNOSE_TRENDS(X)
#undef X
	size_t count; /* at least 1: healthy and unknown are findings too */
	struct mt_diagnose_finding list[MT_VERDICT_COUNT]; /* the first is the verdict */
};

/* Judges. Pure. */
void mt_diagnose_judge(const struct mt_diagnose_facts *facts, struct mt_diagnosis *out);

/* For the files that judge: a new finding in the list, and its lines. Too many lines are left out.
 */
struct mt_diagnose_finding *mt_diagnose_find(struct mt_diagnosis *in, enum mt_verdict verdict,
					     double bytes, double confidence);
void mt_diagnose_title(struct mt_diagnose_finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void mt_diagnose_show(struct mt_diagnose_finding *finding, const char *label, const char *name,
		      double value, const char *format, ...) __attribute__((format(printf, 5, 6)));
void mt_diagnose_bytes(struct mt_diagnose_finding *finding, const char *label, const char *name,
		       uint64_t bytes);
void mt_diagnose_advise(struct mt_diagnose_finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The smaller one. */
static inline uint64_t mt_diagnose_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A rate for people, "12.3 MB/s", and one with its interval. */
struct mt_short_text mt_diagnose_rate(double bytes_per_s);
void mt_diagnose_show_trend(struct mt_diagnose_finding *finding, const char *label,
			    const char *name, const struct mt_trend *trend);

/* The smallest value of a figure in the newest samples: `part` 2 for the newer half of them, 4 for
 * the last quarter. `offset` is of struct mt_diagnose_sample. 0: there are no samples. */
uint64_t mt_diagnose_minimum(const struct mt_diagnose_facts *facts, size_t part, size_t offset);

/* The judges; each adds what it finds. */
void mt_diagnose_judge_heap(const struct mt_diagnose_facts *facts, struct mt_diagnosis *out);
void mt_diagnose_judge_python(const struct mt_diagnose_facts *facts, struct mt_diagnosis *out);
void mt_diagnose_judge_gpu(const struct mt_diagnose_facts *facts, struct mt_diagnosis *out);
uint64_t mt_diagnose_gpu_returned(const struct mt_diagnose_facts *facts);
void mt_diagnose_judge_kernel(const struct mt_diagnose_facts *facts, struct mt_diagnosis *out);

/* Bytes times confidence of the verdict; of healthy 1, so that of several the first is told, and of
 * unknown nothing. */
double mt_diagnose_weight(const struct mt_diagnosis *diagnosis);

const char *mt_diagnose_word(enum mt_verdict verdict);
int mt_diagnose_exit_code(enum mt_verdict verdict);

/* ---- looking ---- */

struct mt_diagnose_options {
	double seconds;
	bool trim, json, tree;
	int role; /* enum mt_role, see role.h */
};

/* Looks at `count` processes at once for options->seconds, or until *stop: fills list[i], of which
 * only `process` is filled in before. What could not be had is left empty. list[0] is told of the
 * tree. */
void mt_diagnose_collect(struct mt_diagnose_facts *const *list, size_t count,
			 const struct mt_diagnose_options *options,
			 const volatile sig_atomic_t *stop);

/* One look, at_s after the first. False: the process is gone. */
bool mt_diagnose_look(struct mt_diagnose_facts *facts, double at_s);

/* Parts of it, each of which leaves its part empty where it may not look. The group is read after
 * the limit. */
void mt_diagnose_read_group(const struct mt_diagnose_facts *facts, struct mt_diagnose_group *out);
void mt_diagnose_read_maps(struct mt_diagnose_facts *facts);
void mt_diagnose_read_history(struct mt_diagnose_facts *facts); /* once, from facts->first */
void mt_diagnose_ask_trim(const struct mt_process *process, enum mt_level level,
			  struct mt_diagnose_trim *out);
/* What was allocated by whom when the look began; NULL: cannot be had, facts->sites.why_not says
 * why. The end frees it. */
struct mt_diagnose_profile *mt_diagnose_begin_profile(struct mt_diagnose_facts *facts);
void mt_diagnose_end_profile(struct mt_diagnose_facts *facts, struct mt_diagnose_profile *profile);
void mt_diagnose_ask_classes(const struct mt_process *process, struct mt_diagnose_classes *out);

#endif
