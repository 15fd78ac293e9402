/* ctl/diagnose/diagnose.h -- the facts about a process, the findings in them, and how they are
 * printed: one engine for `mtctl diagnose`, `stat`, `doctor` and `advise`. For one thread.
 *
 * facts.c gathers the facts. rules_*.c have the rules of rules.def: facts in,
 * findings out. Rules of CAUSE and NOW are pure; those that doctor alone shows may
 * look at the machine. findings.c selects what a command shows, verdict.c finds the verdict of
 * diagnose, report.c prints.
 *
 * Causes are ranked by explained bytes times confidence. Growth counts as the bytes that it reaches
 * in MT_DIAGNOSE_HORIZON_S at its present rate, so that a leak outranks a cache that does not grow.
 * A cause below MT_DIAGNOSE_CONFIDENT is never the verdict, nor is "healthy". */
#ifndef MT_CTL_DIAGNOSE_DIAGNOSE_H
#define MT_CTL_DIAGNOSE_DIAGNOSE_H

#include <jansson.h>
#include <signal.h>
#include <stdio.h>

#include "ctl/channel/process_tree.h"
#include "ctl/channel/target.h"
#include "ctl/diagnose/rules.def"
#include "ctl/diagnose/trend.h"
#include "ctl/figures/memory_parts.h"
#include "ctl/figures/stats_file.h"
#include "ctl/metrics/recording.h"
#include "ctl/process/limit.h"
#include "ctl/process/process.h"
#include "ctl/process/pymalloc.h"
#include "sys/saturating.h"

struct mt_diagnose_profile;

/* What diagnose can say: name, exit code (0: healthy; 10 and up: one a class), word, one line. Also
 * for docs/mtctl/diagnose.md and the test of patients. */
/* clang-format off */
#define MT_VERDICTS(X) \
	X(HEALTHY, 0, "healthy", "RSS flat: nothing to do") \
	X(HOARD, 10, "hoard", "the allocator keeps what the program has freed") \
	X(LEAK, 11, "leak", "what the program holds grows: live memory, not the allocator") \
	X(PYTHON_CYCLES, 12, "python-cycles", "garbage in cycles waits for Python's collector") \
	X(PYTHON_GC_OFF, 13, "python-gc-off", "the program has disabled Python's collector, and garbage " \
	  "in cycles stays") \
	X(PYTHON_ARENAS, 14, "python-arenas", "Python's own allocator keeps arenas") \
	X(GPU_CACHE, 15, "gpu-cache", "device memory is reserved far over what is allocated") \
	X(GPU_FRAGMENTS, 16, "gpu-fragmentation", "device memory is free in pieces too small for what is " \
	  "asked") \
	X(GPU_LIVE, 17, "gpu-live", "live tensors fill or grow on the device") \
	X(PINNED, 18, "pinned", "page-locked host memory") \
	X(COPY_ON_WRITE, 19, "copy-on-write", "workers copy the memory that they shared with their " \
	  "parent") \
	X(SHM, 20, "shm", "shared memory (/dev/shm, memfd) is what is resident") \
	X(FILE_CACHE, 21, "file-cache", "file pages are what fills the container") \
	X(PRIVATE, 22, "private-allocator", "another allocator inside the process holds memory that the " \
	  "shim cannot reach") \
	X(HUGE_PAGES, 23, "huge-pages", "transparent huge pages make resident what is not used") \
	X(GROWTH, 24, "growth", "resident memory grows, and none of the known reasons " \
	  "explains it") \
	X(UNKNOWN, 25, "unknown", "what was seen proves neither health nor a problem")
/* clang-format on */

enum mt_verdict {
#define X(name, code, word, help) MT_VERDICT_##name,
	MT_VERDICTS(X) MT_VERDICT_COUNT
#undef X
};

#define MT_DIAGNOSE_HORIZON_S 600.0
#define MT_DIAGNOSE_SAMPLES   MT_TREND_POINTS
#define MT_DIAGNOSE_CONFIDENT 0.45 /* below this it is a guess */
#define MT_DIAGNOSE_SURE      0.75 /* from here on confidence is high */
#define MT_DIAGNOSE_VARIABLES 128
/* the memory that malloc may hold in a process whose shim is asleep: MT_MIN_MB by default */
#define MT_DIAGNOSE_ASLEEP_MB 16
#define MT_DIAGNOSE_SITES     5
#define MT_DIAGNOSE_LINES     3
/* who samples for so long has been told to: no more helps */
#define MT_DIAGNOSE_LOOK_GIVEN_S 120.0
#define MT_DIAGNOSE_FOREIGN      8
#define MT_DIAGNOSE_EVIDENCE     20
#define MT_DIAGNOSE_ADVICE       5
#define MT_DIAGNOSE_TREE_POINTS  64
#define MT_MIB                   ((uint64_t)1 << 20)

/* One sample of a process: /proc/PID/status, and its own published values.
 *   slack          resident in the heap and not live
 *   outside        anonymous memory outside the heap and Python's arenas, as far as the allocator
 *                  reports it
 *   arenas         of Python's own allocator; 0: it has none, or they cannot be read
 *   held           live in the heap and in arenas: what the program holds
 *   other          resident, and neither live nor free in the heap. In two's complement: it is
 *                  negative if the heap counts pages that were never touched
 *   gpu_allocated, gpu_reserved: of every kind that is counted */
/* clang-format off */
#define MT_DIAGNOSE_FIELDS(X) \
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
	X(other_bytes) \
	X(gpu_allocated_bytes) \
	X(gpu_reserved_bytes) \
	X(gpu_idle_bytes) \
	X(gpu_pinned_bytes) \
	X(rounds_count)
/* clang-format on */

struct mt_sample {
	double at_s; /* seconds since the first sample */
#define X(name) uint64_t name;
	MT_DIAGNOSE_FIELDS(X)
#undef X
};

/* Returns other_bytes, from the figures of the sample that it is computed of. */
static inline uint64_t mt_sample_other(const struct mt_sample *of)
{
	return of->rss_bytes - (of->live_bytes + of->dirty_bytes + of->arenas_bytes);
}

/* An allocator in the process beside the one that serves malloc. */
struct mt_diagnose_foreign {
	char name[32];
	char file[96], path[160]; /* cut and cleaned */
	bool is_managed;          /* see struct mt_diagnose_carrier in facts_internal.h */
	const char *way_back;     /* the same */
	const char *explanation;  /* the same */
};

/* A variable of the process's initial environment that a setting of an allocator may be in. */
struct mt_diagnose_variable {
	char name[64], value[512]; /* cut and cleaned */
};

/* Figures of a memory cgroup: member, file and key in version 2, in version 1. total_... includes
 * the descendants, as version 2 does. */
/* clang-format off */
#define MT_GROUP_FIGURES(X) \
	X(usage_bytes, "memory.current", NULL, "memory.usage_in_bytes", NULL) \
	X(anon_bytes, "memory.stat", "anon", "memory.stat", "total_rss") \
	X(file_bytes, "memory.stat", "file", "memory.stat", "total_cache") \
	X(inactive_file_bytes, "memory.stat", "inactive_file", "memory.stat", "total_inactive_file") \
	X(active_file_bytes, "memory.stat", "active_file", "memory.stat", "total_active_file") \
	X(shmem_bytes, "memory.stat", "shmem", "memory.stat", "total_shmem") \
	X(oom_kill_count, "memory.events", "oom_kill", "memory.oom_control", "oom_kill") \
	X(max_count, "memory.events", "max", "memory.failcnt", NULL)
/* clang-format on */

/* That with the nearest limit, which may be an ancestor of the process's own. */
struct mt_diagnose_group {
	bool known, is_v1;
	char directory[512];
	uint64_t limit_bytes; /* 0: none */
#define X(name, file, key, old_file, old_key) uint64_t name;
	MT_GROUP_FIGURES(X)
#undef X
};

/* The sum of the processes of a tree at one time. */
struct mt_diagnose_tree_point {
	double at_s;
	uint64_t pss_bytes;
	size_t processes_count;
};

/* The process and its descendants, see process_tree.h. */
struct mt_diagnose_tree {
	bool known;
	size_t count, forks_count;
	struct mt_process_tree_sums first, last;
	/* only with --tree; of the whole tree, also of processes that begin meanwhile */
	size_t points_count;
	struct mt_diagnose_tree_point points[MT_DIAGNOSE_TREE_POINTS];
	/* CLOCK_MONOTONIC of the last reading, and its duration */
	uint64_t read_ns, cost_ns;
};

struct mt_diagnose_trim {
	bool requested, done;
	enum mt_level level;
	struct mt_stats_cleanup record;
	bool has_collected_late; /* Python's collection has run after the record was written */
	/* in use on the devices 1.5 s after it: what the program has allocated again */
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
	struct mt_diagnose_site list[MT_DIAGNOSE_SITES]; /* the largest growth first */
};

struct mt_diagnose_line {
	char where[160]; /* "app.py:21" */
	double grown_bytes, seconds;
};

struct mt_diagnose_classes {
	struct mt_stats_class list[MT_CLASSES_COUNT];
	size_t count;
};

/* Of a live process, from a recording, or from what a process that is gone has left: it cannot be
 * observed for longer. */
enum mt_facts_source { MT_FACTS_LIVE, MT_FACTS_RECORDED, MT_FACTS_LAST };

struct mt_facts {
	enum mt_facts_source source;
	struct mt_process process;
	double duration_s;
	double age_s; /* since the start of the process, at the end; 0: not known */
	/* neither awake nor asleep: it does not carry the shim, or its file is refused */
	bool awake, asleep, ended, interrupted;
	enum mt_asleep asleep_reason;
	bool has_exec;        /* ended, since another program runs in its place */
	bool is_file_refused; /* and not its directory */
	bool is_stopped;      /* at the last sample: by SIGSTOP, or by a debugger */
	bool has_woken;       /* since the first sample: those before are dropped */
	/* of the last samples in a row: it did not reply, since it is stopped or hangs */
	unsigned silent_count;
	char why_not[160]; /* not awake: why it has no published values */
	bool is_one_look;  /* not of diagnose: one sample, and the history */
	uint64_t old_ns;   /* of one look: age of its figures if it does not reply; 0: it does */
	/* of the kernel, at the first and at the last sample; 0: not known */
	uint64_t threads_first, threads_last;
	/* the kernel gives huge pages only to mappings that ask for them */
	bool huge_pages_on_request;
	char start_command[164]; /* of a process without the shim: what starts it, for a shell */
	bool is_python, has_pymalloc, has_torch, has_libcuda; /* torch: with CUDA */
	uint64_t locked_bytes;                                /* by mlock(2) */
	char thp_enabled; /* huge pages in this process: '0', '1', or 0: not known */
	uint64_t shm_mapped_bytes, shm_mapped_count; /* of addresses */
	bool arenas_known;                           /* false: they cannot be read */
	/* CLOCK_MONOTONIC of the last reading, and its duration */
	uint64_t arenas_read_ns, arenas_cost_ns;
	size_t samples_count;
	struct mt_sample samples[MT_DIAGNOSE_SAMPLES];
	/* before the first sample, from the ring of the stats file; at_s is negative. Only RSS,
	 * anonymous, live, held, idle, dirty and device memory and rounds_count are filled in */
	size_t history_count;
	struct mt_sample history[MT_SAMPLES_COUNT];
	size_t variables_count;
	struct mt_diagnose_variable variables[MT_DIAGNOSE_VARIABLES];
	struct mt_stats_file first, last; /* what the process has published; only if awake */
	struct mt_diagnose_classes classes_first, classes_last;
	/* where libc's malloc serves, at the end: free in its heaps, and resident. False: not
	 * known, or less than a finding takes */
	bool libc_free_known;
	uint64_t libc_free_bytes;
	bool smaps_known;
	struct mt_smaps_sizes smaps; /* of the whole process, at the end */
	struct mt_diagnose_tree tree;
	struct mt_diagnose_group group;
	struct mt_limit limit;
	bool limit_known;
	uint64_t full_pids_max; /* asleep: pids.max, if it has refused threads; 0: it has not */
	/* addresses of shared memory without a name (MAP_ANONYMOUS, System V): of a fixed size,
	 * such as PostgreSQL's buffers, which become resident as they are used */
	uint64_t shared_fixed_bytes;
	size_t foreign_count;
	struct mt_diagnose_foreign foreign[MT_DIAGNOSE_FOREIGN];
	struct mt_diagnose_trim trim;
	struct mt_diagnose_profile *profile; /* between the first and the last sample */
	struct mt_diagnose_sites sites;
	/* if a Python program grows; the largest growth first */
	size_t lines_count;
	struct mt_diagnose_line lines[MT_DIAGNOSE_LINES];
	char lines_why[224]; /* looked for, and none found: why; "" */
};

/* A line of evidence: `label` and `text` for a reader, `name` (its unit ends it) and `value` for
 * scripts. */
struct mt_diagnose_evidence {
	char label[40], text[200];
	char name[56];
	double value;
};

enum mt_state { MT_OK, MT_NOTE, MT_WARN, MT_FACT };

#define MT_VERDICT_NONE MT_VERDICT_COUNT

struct mt_finding {
	char id[24];             /* for scripts; of a cause the word of its verdict */
	enum mt_state state;     /* FACT: neither good nor bad, and `id` is its label */
	enum mt_verdict verdict; /* of a cause; else MT_VERDICT_NONE */
	unsigned shown;          /* of its rule: enum mt_shown */
	double bytes;            /* explained; growth counts up to the horizon */
	double confidence;       /* 0 to 1 */
	double growth_per_s;     /* the part of the growth of RSS that it explains */
	uint64_t block_bytes;    /* of one size are most blocks that it explains; 0: of none */
	bool is_of_tree;         /* of all processes together */
	bool is_headline;        /* its text needs no word of a verdict before it */
	char text[640];
	size_t evidence_count, advice_count;
	struct mt_diagnose_evidence evidence[MT_DIAGNOSE_EVIDENCE];
	char advice[MT_DIAGNOSE_ADVICE][320];
	/* a setting that helps: for the next start ("MT_IDLE_MS=2000"), and as a command that
	 * changes it at once, "" if it wants a restart */
	char environment[320], command[160];
};

/* The trends that are evaluated, the figure of the samples that each is of, and whether the history
 * has it. */
#define MT_DIAGNOSE_TRENDS(X)                                                                      \
	X(rss, rss_bytes, true)                                                                    \
	X(anon, anon_bytes, true)                                                                  \
	X(live, held_bytes, !facts->has_pymalloc)                                                  \
	X(other, other_bytes, !facts->has_pymalloc)                                                \
	X(slack, slack_bytes, false)                                                               \
	X(outside, outside_bytes, false)                                                           \
	X(shmem, shmem_bytes, false)                                                               \
	X(file, file_bytes, false)                                                                 \
	X(gpu, gpu_allocated_bytes, true)

struct mt_diagnosis {
#define X(name, figure, in_history) struct mt_trend name;
	MT_DIAGNOSE_TRENDS(X)
#undef X
	struct mt_trend tree; /* of the PSS of all processes; only in that of the root */
	size_t count;
	/* after mt_diagnose_decide: the verdict, other causes, and what else one look shows */
	struct mt_finding *list;
};

/* Frees the list. Zeroed memory is an empty diagnosis. */
void mt_diagnosis_free(struct mt_diagnosis *diagnosis);

/* Fills *out with the trends and findings of the facts. Pure; allocates memory while it runs. */
void mt_diagnose_decide(const struct mt_facts *facts, struct mt_diagnosis *out);

/* Diagnoses the sum of a tree: facts[0] is of the root. Adds a finding to diagnoses[0] if the sum
 * grows, or may grow, by more than the processes that were sampled do. After mt_diagnose_decide of
 * all of them. Pure; allocates memory while it runs. */
void mt_diagnose_decide_tree(struct mt_facts *const *facts, struct mt_diagnosis *const *diagnoses,
			     size_t count);

/* ---- rules ---- */

/* Who shows a finding, and what a rule needs: see rules.def. */
enum mt_shown {
	MT_SHOWN_CAUSE = 1,
	MT_SHOWN_NOW = 2,
	MT_SHOWN_PROCESS = 4,
	MT_SHOWN_START = 8,
	MT_SHOWN_MACHINE = 16
};

#define X(name, needs, shown)                                                                      \
	void mt_rule_##name(const struct mt_facts *facts, struct mt_diagnosis *out);
MT_RULES(X)
#undef X

/* Appends the findings of all rules that are `shown` (of enum mt_shown) there. */
void mt_rules_run(const struct mt_facts *facts, unsigned shown, struct mt_diagnosis *out);

/* The trends of the facts, in *out; its list stays. */
void mt_diagnose_find_trends(const struct mt_facts *facts, struct mt_diagnosis *out);

/* Drops what does not weigh from the findings behind the first `from`, and sorts the others: by
 * state, then by bytes times confidence. */
void mt_findings_rank(struct mt_diagnosis *in, size_t from);

/* Fills *out with all that one look shows and that a user would want to know of: causes that are
 * sure enough, and the rules of NOW, the weightiest first. The same facts give the same findings
 * to stat, doctor, advise and diagnose. Pure. */
void mt_findings_of_one_look(const struct mt_facts *facts, struct mt_diagnosis *out);

/* Drops the findings without a setting. */
void mt_findings_with_setting(struct mt_diagnosis *in);

/* Appends a cause of `bytes` explained bytes, with its text in the format of printf. `confidence`
 * is cut to 0.99. The pointer is valid until the next finding is added. */
struct mt_finding *mt_finding_add(struct mt_diagnosis *in, enum mt_verdict verdict, double bytes,
				  double confidence, const char *text, ...)
	__attribute__((format(printf, 5, 6)));

/* Appends any other finding. advice: NULL, or what to do if the state is not MT_OK; "PID" in it
 * stands for the process. */
struct mt_finding *mt_finding_note(struct mt_diagnosis *in, enum mt_state state, const char *id,
				   const char *advice, const char *text, ...)
	__attribute__((format(printf, 5, 6)));

/* Sets the settings that help: the environment of the next start, or a list of settings with a
 * blank between two, of which those in lower case are live: "slack_mb=8 slack_pct=0". */
void mt_finding_start_with(struct mt_finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void mt_finding_set(struct mt_finding *finding, const struct mt_facts *facts, const char *settings);

/* Returns whether a setting of the process, in the syntax of MALLOC_CONF, is whole (the stats file
 * has room for 71 characters) and may stand in a line that a user pastes into a shell. */
bool mt_finding_may_join(const char *conf);

/* Gives a cause with a setting the topic under which advise names it. */
void mt_finding_name(struct mt_finding *finding, const char *topic);

/* Returns the word of the verdict of a cause, else the id. */
const char *mt_finding_word(const struct mt_finding *finding);

/* Adds a line of evidence, or of advice. Beyond MT_DIAGNOSE_EVIDENCE and _ADVICE lines nothing is
 * added. */
void mt_finding_show(struct mt_finding *finding, const char *label, const char *name, double value,
		     const char *format, ...) __attribute__((format(printf, 5, 6)));
void mt_finding_bytes(struct mt_finding *finding, const char *label, const char *name,
		      uint64_t bytes);
void mt_finding_trend(struct mt_finding *finding, const char *label, const char *name,
		      const struct mt_trend *trend);
void mt_finding_advise(struct mt_finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The last sample; without any one of zeros. */
static inline const struct mt_sample *mt_facts_last(const struct mt_facts *facts)
{
	return &facts->samples[facts->samples_count ? facts->samples_count - 1 : 0];
}

/* Why its figures are old. */
static inline const char *mt_facts_silence(const struct mt_facts *facts)
{
	return facts->is_stopped ? "it is " MT_STOPPED : "it does not reply";
}

/* From the first sample to the last one. */
static inline double mt_facts_seconds(const struct mt_facts *facts)
{
	return mt_facts_last(facts)->at_s - facts->samples[0].at_s;
}

/* The figures that the process has published last. */
static inline const struct mt_stats_snapshot *mt_facts_now(const struct mt_facts *facts)
{
	return &facts->last.head.snapshot;
}

/* Returns whether the live bytes of malloc are known: the process is awake, and its allocator
 * counts them. */
bool mt_diagnose_knows_live(const struct mt_facts *facts);

/* Returns what the cleanup of diagnose says of Python's gc: MT_GC_DONE or MT_GC_DISABLED;
 * MT_GC_NONE: it has no answer, or there was none. An earlier one may be out of date. */
uint32_t mt_facts_gc_state(const struct mt_facts *facts);

/* Returns how many idle bytes the user has chosen to have kept; 0: by default (MT_SLACK_MB,
 * MT_SLACK_PCT). */
uint64_t mt_facts_chosen_slack(const struct mt_facts *facts);

/* Adds the advice to have Python's small objects in the heap of the library, by what this Python
 * reads; `why` ends it. */
void mt_diagnose_advise_python_malloc(const struct mt_facts *facts, struct mt_finding *finding,
				      const char *why);

/* Adds the lines of Python that grow, or why none is known; nothing if nobody looked. */
void mt_diagnose_show_lines(const struct mt_facts *facts, struct mt_finding *finding);

/* Adds for each allocator beside malloc how it returns what is free, if that is known. */
void mt_diagnose_advise_ways_back(const struct mt_facts *facts, struct mt_finding *finding);

/* Returns the value of a variable of the process's environment; NULL if it is not known. */
const char *mt_facts_variable(const struct mt_facts *facts, const char *name);

/* Returns whether all resident shared memory fits into shared memory of a fixed size. */
bool mt_diagnose_shmem_is_fixed(const struct mt_facts *facts);

/* Seconds since the shim in the process woke up. */
double mt_diagnose_awake_s(const struct mt_facts *facts);

/* Returns the factor of the confidence in growth as a problem: below 1 if much of what is held
 * can have come at this rate within a few minutes and without rounds, as in a program that builds
 * up its data. held_bytes: of the figure at the end; anonymous memory for RSS. */
double mt_diagnose_build_up_trust(const struct mt_facts *facts, const struct mt_trend *trend,
				  double held_bytes);

/* Puts the process id in the place of "PID" into each advice, and adds to one that names a setting
 * which the process's own environment sets or overrides that it does. Of a recording takes out
 * advice with "PID", since the process may have ended. */
void mt_diagnose_end_advice(const struct mt_facts *facts, struct mt_diagnosis *out);

/* Returns "high", "fair" or "low". */
const char *mt_diagnose_confidence_word(double confidence);

/* Returns how much of the time before the first sample was read: ", and read the 12 s before"; ""
 * if that is less than a second. */
struct mt_short_text mt_diagnose_history(const struct mt_facts *facts);

/* Returns a time for --for: "90s", "4m", "2h". seconds is rounded up. */
struct mt_short_text mt_diagnose_time(double seconds);

/* Returns a rate as text: "12.3 MB/s", "3.0 kB/s". */
struct mt_short_text mt_diagnose_rate(double bytes_per_s);

/* The smallest value of a figure in the newest samples: `part` 2 for the newer half of them, 4 for
 * the last quarter. `offset` is of struct mt_sample. 0: there are no samples. */
uint64_t mt_diagnose_minimum(const struct mt_facts *facts, size_t part, size_t offset);

/* Returns whether little of the devices' memory is free. */
bool mt_diagnose_has_low_devices(const struct mt_stats_snapshot *now);

/* Returns the weight of the verdict: explained bytes times confidence; 1 for healthy, 0 for
 * unknown. The process with the largest weight has the verdict of a tree. */
double mt_diagnose_weight(const struct mt_diagnosis *diagnosis);

/* The word and the exit code of a verdict, from MT_VERDICTS. */
const char *mt_diagnose_word(enum mt_verdict verdict);
int mt_diagnose_exit_code(enum mt_verdict verdict);

/* ---- sampling ---- */

struct mt_diagnose_options {
	double seconds;
	bool trim, json, tree;
	/* the cleanup runs Python's collection too, which stalls its main thread; else it purges
	 * alone if the process runs Python */
	bool gc;
	/* mtctl looks for Python's lines afterwards, in the process with the verdict of growth */
	bool python;
};

/* Fills *facts, which must be zeroed memory, with what one look shows: the published figures with
 * their history, maps, environment, one sample, limit and cgroup. is_cached: the process is not
 * woken. A process that is asleep, or whose file is refused, has only what the kernel tells.
 * Returns what its file says: MT_ERR_NOT_AVAILABLE for asleep. */
enum mt_err mt_diagnose_look(const struct mt_process *process, bool is_cached,
			     struct mt_facts *facts, struct mt_error_reason *why);

/* The variables of mtctl's own environment, for a program that is started from here. */
void mt_diagnose_look_here(struct mt_facts *facts);

/* Samples `count` processes for options->seconds, or until *stop is not 0, and fills list[i], of
 * which only `process` is set before. What cannot be read stays empty. list[0] also gets the sums
 * of its tree. Sends requests to the processes (publish, size classes, profile, trim), and waits
 * for replies. Blocks. */
void mt_diagnose_collect(struct mt_facts *const *list, size_t count,
			 const struct mt_diagnose_options *options,
			 const volatile sig_atomic_t *stop);

/* ---- reports ---- */

struct mt_diagnose_report {
	struct mt_facts *const *facts;
	struct mt_diagnosis *const *diagnoses;
	size_t count, worst;
};

void mt_diagnose_print_text(const struct mt_diagnose_report *report);
void mt_diagnose_print_json(const struct mt_diagnose_report *report);

/* Prints findings as doctor does: state and text, below it what to do. */
void mt_finding_print_check(const struct mt_finding *finding);

/* Returns an object: finding (its state), text, advice; of a fact the text alone. */
json_t *mt_finding_json(const struct mt_finding *finding);

/* Returns an array of the findings from this one on, each with its id, verdict, environment and
 * command too. */
json_t *mt_findings_json(const struct mt_diagnosis *of, size_t from);

/* Fills *out with what a recording has of its root, for mt_diagnose_decide: as many samples as fit,
 * of each part of the time the lowest and the highest. Nothing is asked of a process. */
void mt_recorded_facts(const struct mt_recording *recording, struct mt_facts *out);

/* What a process near its limit held, and what filled the limit: for
 * `mtctl last` and the page that it writes. For one thread. */

/* What may have filled the limit: a part of the process, or what else is charged to its cgroup. */
#define MT_LAST_FILLERS(X)                                                                         \
	X(LIVE, "live", "memory in use by the program")                                            \
	X(REUSABLE, "reusable", "free memory in its allocator")                                    \
	X(FILES, "files", "its mapped files and shared memory")                                    \
	X(OTHER, "other", "stacks, other mappings, or what lies between live blocks")              \
	X(PROCESSES, "processes", "other processes of the cgroup")                                 \
	X(SHMEM, "shared_memory", "files in memory (tmpfs, /dev/shm) that no process has mapped")  \
	X(KERNEL, "kernel", "memory of the kernel, charged to the cgroup")

enum mt_last_filler {
#define X(id, word, text) MT_LAST_FILLER_##id,
	MT_LAST_FILLERS(X) MT_LAST_FILLER_COUNT
#undef X
};

/* What is told of one process. */
struct mt_last_summary {
	const struct mt_last_look *look;
	struct mt_memory_parts parts, before; /* at the end, and up to a minute before */
	double seconds;                       /* between the two; 0: there is no sample before */
	enum mt_last_filler filler;
	uint64_t filler_bytes;
	struct mt_facts *facts;
	struct mt_diagnosis *diagnosis;
};

/* Fills *out. The look must outlive it. The caller frees with mt_last_summary_free. */
void mt_last_summary_find(const struct mt_last_look *look, struct mt_last_summary *out);
void mt_last_summary_free(struct mt_last_summary *summary);

/* Returns the filler's word for JSON. */
const char *mt_last_summary_filler(enum mt_last_filler filler);

/* Write text: what became of the process and what filled the limit; the lines if the heap grew,
 * the cgroup and its other processes. */
void mt_last_summary_write_head(const struct mt_last_summary *summary, FILE *to);
void mt_last_summary_write_growth(const struct mt_last_summary *summary, FILE *to);

#endif
