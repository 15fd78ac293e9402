/* ctl/diagnose/verdict.c -- trends, growth without a reason, and the verdict: the weightiest cause,
 * or healthy, or why nothing can be said. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

#define GROWTH_MIN_BYTES ((double)MT_MIB) /* a smaller change does not count */
#define GROWTH_MIN_PER_S 16384.0          /* 1.4 GB a day: an unexplained rest below it */
/* of the growth of RSS: a larger unexplained part is a finding */
#define UNEXPLAINED_SHARE 0.34
#define CONFIDENCE_MIN    0.1
/* marks that are closer than this many samples are of rounds too short to matter */
#define MARK_SAMPLES  4
#define PAST_BYTES    (48 * MT_MIB) /* past malloc: less is no finding */
#define UNASKED_BYTES (64 * MT_MIB) /* held by Python, and its gc was not asked: likewise */
#define PAST_SHARE    0.5           /* of the anonymous memory */
#define NEEDED_MORE   1.5           /* times what was sampled now: no less helps */
/* A program that builds up its data grows as one that leaks does. Growth is a problem once it goes
 * on for so long, or over rounds, or if live memory is more than this rate can have brought. */
#define BUILD_UP_S     300.0
#define BUILD_UP_MIN_S 30.0
#define BUILD_UP_SHARE 0.25
#define BUILD_UP_TRUST 0.4
#define WARM_S         600.0 /* an older process has warmed up */
#define MOST_SHARE     0.5   /* of the growth: one place has most of it */
#define MUCH_SHARE     0.25

/* ---- trends ---- */

/* The history and the samples of one figure. */
static size_t list_points(const struct mt_facts *facts, size_t offset, bool in_history,
			  struct mt_trend_point *out)
{
	size_t history = in_history ? facts->history_count : 0;

	for (size_t i = 0; i < history + facts->samples_count; i++) {
		const struct mt_sample *from =
			i < history ? &facts->history[i] : &facts->samples[i - history];
		uint64_t value;

		memcpy(&value, (const char *)from + offset, sizeof(value));
		out[i] = (struct mt_trend_point){from->at_s, (double)(int64_t)value};
	}
	return history + facts->samples_count;
}

/* The times at which the program's own count of rounds has risen. */
static size_t list_marks(const struct mt_facts *facts, bool in_history, double *out)
{
	size_t history = in_history ? facts->history_count : 0, count = 0;
	uint64_t before = UINT64_MAX;

	for (size_t i = 0; facts->awake && i < history + facts->samples_count; i++) {
		const struct mt_sample *from =
			i < history ? &facts->history[i] : &facts->samples[i - history];

		if (from->rounds_count > before)
			out[count++] = from->at_s;
		before = from->rounds_count;
	}
	return count * MARK_SAMPLES > history + facts->samples_count ? 0 : count;
}

static struct mt_trend trend_of(const struct mt_facts *facts, size_t offset, bool in_history,
				bool is_of_rss)
{
	size_t room = facts->history_count + facts->samples_count + 1;
	struct mt_trend_point *points = mt_error_check_memory(calloc(room, sizeof(*points)));
	double *marks = mt_error_check_memory(calloc(room, sizeof(*marks)));
	struct mt_trend_series series = {
		.points = points, .marks = marks, .least_min = GROWTH_MIN_BYTES};
	struct mt_trend trend;

	series.count = list_points(facts, offset, in_history, points);
	series.marks_count = list_marks(facts, in_history, marks);
	for (size_t i = 0; is_of_rss && i < facts->samples_count; i++) /* the mean of RSS */
		series.scale += (double)facts->samples[i].rss_bytes / (double)facts->samples_count;
	trend = mt_trend_find(&series);
	free(marks);
	free(points);
	return trend;
}

/* ---- growth without a reason; healthy and unknown ---- */

bool mt_diagnose_knows_live(const struct mt_facts *facts)
{
	return facts->awake && (mt_memory_parts_are_known(mt_facts_now(facts)) ||
				(facts->samples_count && mt_facts_last(facts)->live_bytes));
}

/* Whether `other` says what of RSS the heap does not explain. */
static bool has_other(const struct mt_facts *facts)
{
	return facts->awake && mt_facts_now(facts)->heap_resident_bytes;
}

/* Findings of the heap explain the same bytes, so that the largest counts; other findings are added
 * to it. So are pages that a purge would return, below its threshold: beyond it they are a hoard.
 * Free blocks between live ones, and in the caches of threads, explain nothing: they may grow
 * without end. */
static double explained_growth(const struct mt_facts *facts, const struct mt_diagnosis *out)
{
	double heap = 0, rest = 0;

	if (has_other(facts))
		rest = fmax(
			trend_of(facts, offsetof(struct mt_sample, dirty_bytes), true, true).slope,
			0);
	if (out->live.shape == MT_TREND_UNDECIDED) /* and that is said of live memory */
		heap = fmax(out->live.slope, 0);
	if (mt_diagnose_shmem_is_fixed(facts))
		rest += fmax(out->shmem.slope, 0);

	for (size_t i = 0; i < out->count; i++) {
		enum mt_verdict verdict = out->list[i].verdict;

		if (verdict == MT_VERDICT_SHM || verdict == MT_VERDICT_FILE_CACHE ||
		    verdict == MT_VERDICT_PRIVATE)
			rest += out->list[i].growth_per_s;
		else
			heap = fmax(heap, out->list[i].growth_per_s);
	}
	return heap + rest;
}

/* Returns anonymous bytes of a process whose shim is asleep that malloc has not allocated, unless
 * the kernel has refused its worker. */
static uint64_t uncounted_bytes(const struct mt_facts *facts)
{
	const char *min_mb = mt_facts_variable(facts, "MT_MIN_MB");
	uint64_t most_mb = MT_DIAGNOSE_ASLEEP_MB,
		 anon = mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, anon_bytes));

	if (!facts->asleep || facts->process.is_fork || !facts->samples_count ||
	    (facts->asleep_reason != MT_ASLEEP_LITTLE && facts->asleep_reason != MT_ASLEEP_THREADS))
		return 0;
	if (min_mb && (!mt_text_parse_u64(min_mb, &most_mb) || most_mb > UINT64_MAX / MT_MIB))
		return 0;
	return mt_sat_sub(anon, most_mb * MT_MIB + mt_facts_last(facts)->arenas_bytes);
}

static void show_sleep(const struct mt_facts *facts, struct mt_finding *finding)
{
	if (!facts->awake && *facts->why_not)
		mt_finding_show(finding, "the shim", "asleep", facts->asleep, "%s", facts->why_not);
}

/* Whose memory it is that malloc does not allocate, as far as that is known: the user's
 * PYTHONMALLOC, a library, a runtime. NULL: nobody is known. */
static const char *past_malloc_owner(const struct mt_facts *facts, bool *out_is_managed)
{
	const char *python = mt_facts_variable(facts, "PYTHONMALLOC");

	*out_is_managed = false;
	if (facts->is_python && python && strncmp(python, "mimalloc", 8) == 0)
		return "Python's own mimalloc (PYTHONMALLOC=mimalloc)";
	for (size_t i = 0; i < facts->foreign_count; i++) {
		*out_is_managed = facts->foreign[i].is_managed;
		if (!*out_is_managed || i + 1 == facts->foreign_count)
			return facts->foreign[i].name;
	}
	return NULL;
}

static void show_range(const char *label, const char *name, const struct mt_trend *trend,
		       struct mt_finding *finding)
{
	struct mt_short_text rate = mt_diagnose_rate(trend->slope);
	bool has_rate = trend->points > 0;

	mt_finding_show(finding, label, name, trend->slope, "%s to %s%s%s over %.0f s",
			mt_text_bytes(mt_text_round_u64(trend->lowest)).text,
			mt_text_bytes(mt_text_round_u64(trend->highest)).text, has_rate ? ", " : "",
			has_rate ? rate.text : "", trend->seconds);
}

static void show_uncounted(const struct mt_facts *facts, struct mt_finding *finding)
{
	mt_finding_show(finding, "live heap", "heap_live_known", 0,
			"not known: the allocator (%.31s) does not count it",
			facts->last.head.allocator);
}

static void show_uncounted_bytes(const struct mt_facts *facts, struct mt_finding *finding)
{
	uint64_t bytes = uncounted_bytes(facts);
	bool is_managed;
	const char *owner = past_malloc_owner(facts, &is_managed);

	if (!bytes || facts->full_pids_max)
		return;
	mt_finding_bytes(finding, "anonymous, by the kernel", "anon_bytes",
			 mt_facts_last(facts)->anon_bytes);
	mt_finding_show(finding, "of it not counted", "past_malloc_bytes", (double)bytes,
			"%s at least, %s", mt_text_bytes(bytes).text,
			owner ? owner : "by mmap or an allocator that has no name here");
}

static bool is_mostly_uncounted(const struct mt_facts *facts)
{
	uint64_t bytes = uncounted_bytes(facts);

	return bytes >= PAST_BYTES &&
	       (double)bytes >= (double)mt_facts_last(facts)->anon_bytes * PAST_SHARE;
}

/* Memory that nobody counts, and that does not grow: an allocator that is known by name, or nobody
 * knows what of it is in use. A runtime that returns memory itself is left alone. */
void mt_rule_past_malloc(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	uint64_t bytes = uncounted_bytes(facts);
	bool is_managed;
	const char *owner = past_malloc_owner(facts, &is_managed);
	struct mt_finding *finding;

	if (!is_mostly_uncounted(facts) || is_managed || out->anon.shape == MT_TREND_GROWS)
		return;
	finding =
		facts->full_pids_max
			? mt_finding_add(
				  out, MT_VERDICT_UNKNOWN, (double)bytes, 0.8,
				  "the worker thread of the library could not start: pids.max of "
				  "the cgroup (%" PRIu64 ") has refused threads",
				  facts->full_pids_max)
		: owner ? mt_finding_add(out, MT_VERDICT_PRIVATE, (double)bytes, 0.8,
					 "%s of anonymous memory pass malloc by, and the shim: %s",
					 mt_text_bytes(bytes).text, owner)
			: mt_finding_add(out, MT_VERDICT_UNKNOWN, (double)bytes, 0.8,
					 "nobody counts %s of anonymous memory: they are %s, and "
					 "only the program knows what of them is in use",
					 mt_text_bytes(bytes).text,
					 out->anon.shape == MT_TREND_FALLS ? "falling" : "flat");
	show_uncounted_bytes(facts, finding);
	show_sleep(facts, finding);
	show_range("RSS", "rss_slope_bytes_per_s", &out->rss, finding);
	if (facts->full_pids_max)
		mt_finding_advise(finding, "Raise pids.max (docker run --pids-limit, TasksMax= of "
					   "systemd), and restart it.");
	if (mt_facts_variable(facts, "PYTHONMALLOC") && facts->is_python)
		mt_finding_advise(finding, "Restart it without PYTHONMALLOC: Python's objects then "
					   "live where the shim can purge (MT_PYTHON_MALLOC).");
	mt_diagnose_advise_ways_back(facts, finding);
	mt_finding_advise(finding,
			  "See its mappings, and what of them the kernel holds: mtctl look PID.");
}

/* Whether what the allocator counts settles a growth of RSS: memory that is neither live nor free
 * in the heap does not grow, or not fast enough, so that live memory decides. Or nothing can be
 * said, since live memory has been seen in too few rounds. */
static bool is_explained(const struct mt_facts *facts, const struct mt_diagnosis *out)
{
	if (!facts->awake)
		return false;
	if (out->live.doubt == MT_TREND_FEW_ROUNDS)
		return true;
	if (!has_other(facts) || out->other.shape == MT_TREND_GROWS)
		return false;
	return out->other.doubt == MT_TREND_SURE ||
	       out->other.slope_high < out->rss.slope * UNEXPLAINED_SHARE;
}

/* The part of the growth of RSS that nothing explains; 0 if it is small, or RSS does not grow.
 */
static double unexplained_growth(const struct mt_facts *facts, const struct mt_diagnosis *out)
{
	double rest;

	if (out->rss.shape != MT_TREND_GROWS || is_explained(facts, out))
		return 0;
	rest = out->rss.slope - explained_growth(facts, out);
	return rest >= out->rss.slope * UNEXPLAINED_SHARE ? rest : 0;
}

/* For how long the growth may have gone on: that of a young process since its start, part of which
 * nobody has seen. */
static double growing_s(const struct mt_facts *facts, const struct mt_trend *trend)
{
	return facts->age_s < BUILD_UP_S ? fmax(facts->age_s, trend->decided_s) : trend->decided_s;
}

/* held: bytes at the end. Without the shim's figures nobody knows what of them is live. */
static bool may_build_up(const struct mt_facts *facts, const struct mt_trend *trend, double held)
{
	double seconds = growing_s(facts, trend),
	       built = trend->growth + trend->slope * (seconds - trend->decided_s);

	return trend->shape == MT_TREND_GROWS && !trend->rounds &&
	       trend->short_rounds < MT_TREND_ROUNDS_MIN && seconds < BUILD_UP_S &&
	       (!(facts->awake || uncounted_bytes(facts)) || built >= BUILD_UP_SHARE * held);
}

double mt_diagnose_build_up_trust(const struct mt_facts *facts, const struct mt_trend *trend,
				  double held_bytes)
{
	return may_build_up(facts, trend, held_bytes) ? BUILD_UP_TRUST : 1;
}

/* If memory grows that nothing explains, as far as that is seen. */
static void show_growth_by_part(const struct mt_facts *facts, const struct mt_diagnosis *out,
				struct mt_finding *finding)
{
	if (mt_diagnose_knows_live(facts))
		mt_finding_show(finding, "live memory", "live_slope_bytes_per_s", out->live.slope,
				"%s", mt_trend_word(out->live.shape));
	if (has_other(facts)) {
		mt_finding_show(finding, "free in the heap, not returnable",
				"slack_slope_bytes_per_s", out->slack.slope, "%s, %s",
				mt_trend_word(out->slack.shape),
				mt_diagnose_rate(out->slack.slope).text);
		mt_finding_show(finding, "neither live nor returnable", "other_slope_bytes_per_s",
				out->other.slope, "%s, %s", mt_trend_word(out->other.shape),
				mt_diagnose_rate(out->other.slope).text);
	}
	if (out->outside.highest > 0) /* 0 also if the heap counts untouched pages */
		mt_finding_show(finding, "outside of the heap", "outside_slope_bytes_per_s",
				out->outside.slope, "%s, %s", mt_trend_word(out->outside.shape),
				mt_diagnose_rate(out->outside.slope).text);
	mt_finding_show(finding, "file and shared pages", "mapped_slope_bytes_per_s",
			out->file.slope + out->shmem.slope, "%s",
			mt_diagnose_rate(out->file.slope + out->shmem.slope).text);
	if (facts->threads_last)
		mt_finding_show(finding, "threads", "threads_count", (double)facts->threads_last,
				"%s to %s", mt_text_count(facts->threads_first).text,
				mt_text_count(facts->threads_last).text);
}

/* Without a full stop behind it, which would be a part of the command. */
static const char *start_command(const struct mt_facts *facts)
{
	return *facts->start_command ? facts->start_command : "program...";
}

void mt_rule_growth(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	struct mt_finding *finding;
	double rest = unexplained_growth(facts, out), explained = explained_growth(facts, out);

	if (rest < GROWTH_MIN_PER_S || rest * out->rss.seconds < GROWTH_MIN_BYTES)
		return;
	finding = mt_finding_add(
		out, MT_VERDICT_GROWTH, rest * MT_DIAGNOSE_HORIZON_S,
		out->rss.confidence * mt_diagnose_build_up_trust(facts, &out->rss, out->anon.last),
		"resident memory grows by %s, and none of the known reasons explains %s of it",
		mt_diagnose_rate(out->rss.slope).text,
		explained > 0 ? mt_diagnose_rate(rest).text : "any");
	finding->growth_per_s = rest;
	mt_finding_trend(finding, "RSS", "rss", &out->rss);
	show_growth_by_part(facts, out, finding);
	show_sleep(facts, finding);
	show_uncounted_bytes(facts, finding);
	mt_diagnose_show_lines(facts, finding);
	if (facts->threads_last > facts->threads_first)
		mt_finding_advise(finding,
				  "It has %s more than at the first sample: a thread that never "
				  "ends keeps its stack and its caches.",
				  mt_text_counted(facts->threads_last - facts->threads_first,
						  "thread", "threads")
					  .text);
	if (!facts->process.shimmed)
		mt_finding_advise(finding,
				  "Start it under the shim, which counts what of it is live: mtctl "
				  "run -- %s",
				  start_command(facts));
	if (facts->has_pymalloc && !facts->arenas_known)
		mt_diagnose_advise_python_malloc(facts, finding,
						 "Python's own arenas hide what is live in them");
	if (out->rss.decided_s < BUILD_UP_S)
		mt_finding_advise(
			finding,
			"Run mtctl diagnose PID --for %s: growth that goes on for so long "
			"is not of a program that loads its data.",
			mt_diagnose_time(BUILD_UP_S).text);
	if (facts->awake || uncounted_bytes(facts))
		mt_finding_advise(finding, "Look for memory mapped past malloc: mmap in libraries, "
					   "thread stacks, JIT code.");
	else if (!facts->asleep && facts->process.shimmed)
		mt_finding_advise(finding, "See what mtctl doctor PID says of its files.");
}

struct mt_short_text mt_diagnose_time(double seconds)
{
	double tens = ceil(seconds / 10) * 10, minutes = ceil(seconds / 60);

	if (tens <= 90)
		return mt_text_format("%.0fs", tens);
	if (minutes <= 120)
		return mt_text_format("%.0fm", minutes);
	return mt_text_format("%.0fh", fmin(ceil(minutes / 60), 24));
}

/* The trend that a verdict waits for; NULL: none. Live memory has to be decided, and whether a rise
 * of device memory goes on. Beside it either RSS or what is neither live nor free in the heap, and
 * the second one must not grow: the allocator moves RSS, and where live memory moves fast the
 * second one is noise, since the two are not read at the same instant. */
static const struct mt_trend *doubtful(const struct mt_facts *facts, const struct mt_diagnosis *out,
				       const char **out_name)
{
	*out_name = "live memory";
	if (mt_diagnose_knows_live(facts) && out->live.shape == MT_TREND_UNDECIDED)
		return &out->live;
	*out_name = "device memory";
	if (out->gpu.shape == MT_TREND_UNDECIDED && out->gpu.doubt == MT_TREND_SLOWING)
		return &out->gpu;
	*out_name = "RSS";
	if (out->rss.shape != MT_TREND_UNDECIDED ||
	    (has_other(facts) && out->other.shape != MT_TREND_UNDECIDED &&
	     out->other.shape != MT_TREND_GROWS))
		return NULL;
	return &out->rss;
}

/* The time that a verdict waits for, and what comes within it. */
struct wait {
	double needed_s;
	bool is_over;    /* the process was sampled for so long, and that did not settle it */
	const char *why; /* behind "Run mtctl diagnose 12 --for 3m: " */
};

/* The end of a title: what to do about it. */
static struct mt_short_text remedy(const struct mt_facts *facts, const struct wait *wait)
{
	if (wait->is_over)
		return mt_text_format(", and %s did not settle it",
				      mt_text_span((uint64_t)(facts->duration_s * 1e9)).text);
	if (facts->source == MT_FACTS_LAST)
		return mt_text_format("%s", "");
	return mt_text_format(", %s %s",
			      facts->source == MT_FACTS_RECORDED ? "record for" : "use --for",
			      mt_diagnose_time(wait->needed_s).text);
}

/* What is said of a figure in doubt, before its size and behind it, and what comes within the time
 * that it needs. */
static const struct {
	const char *before, *behind, *why;
} doubts[] = {
	[MT_TREND_SURE] = {"rises by ",
			   ", which neither live memory nor free pages explain, and too little to "
			   "tell why",
			   "a rise of that size is then large enough to see where it is"},
	[MT_TREND_FEW_ROUNDS] = {"", " seen", "that is time for the rounds that a verdict takes"},
	[MT_TREND_NOISE] = {"goes up and down, and would hide a leak of up to ", "",
			    "over so long a leak of that size stands out of the ups and downs"},
	[MT_TREND_SLOWING] = {"has grown by less and less, as a cache that fills, and has not been "
			      "flat for long enough",
			      "", "a cache that is full stays flat for so long, a leak does not"},
	[MT_TREND_ONE_STEP] = {"rose once by ",
			       ", and the time since tells not whether it will again",
			       "what rises by steps rises again within that time"},
	[MT_TREND_ONSET] = {"has begun to rise, and not for long enough to tell", "",
			    "a start is over by then, a leak goes on"},
};

static struct mt_short_text size_of(const struct mt_trend *trend)
{
	switch (trend->doubt) {
	case MT_TREND_FEW_ROUNDS:
		return mt_text_counted(trend->rounds, "round", "rounds");
	case MT_TREND_NOISE:
		return mt_diagnose_rate(trend->slope_high);
	case MT_TREND_ONE_STEP:
		return mt_text_bytes(mt_text_round_u64(trend->growth));
	case MT_TREND_SURE:
		return mt_diagnose_rate(trend->slope);
	default:
		return (struct mt_short_text){""};
	}
}

static struct mt_finding *add_doubt(const struct mt_trend *trend, const char *what,
				    const char *remedy, struct mt_diagnosis *out)
{
	bool is_count = trend->doubt == MT_TREND_FEW_ROUNDS;

	return mt_finding_add(out, MT_VERDICT_UNKNOWN, 0, 0.9, "%s%s%s%s%s%s", is_count ? "" : what,
			      is_count ? "" : " ", doubts[trend->doubt].before, size_of(trend).text,
			      doubts[trend->doubt].behind, remedy);
}

/* After a look that was long enough: what tells more than another one. */
static void advise_after_wait(struct mt_finding *finding)
{
	mt_finding_advise(
		finding,
		"Mark the same point of its work each time: mtctl round PID, or mt_round(). "
		"What is held at those points decides then.");
	mt_finding_advise(finding,
			  "Record it while it works as usual, for an hour and more: mtctl record "
			  "--pid PID -o long.jsonl; mtctl report long.jsonl has the verdict.");
}

/* What was seen, and the time that a verdict takes. */
static void show_wait(const struct mt_facts *facts, const struct wait *wait,
		      struct mt_finding *finding, const struct mt_diagnosis *out)
{
	show_range("RSS", "rss_slope_bytes_per_s", &out->rss, finding);
	if (mt_diagnose_knows_live(facts))
		show_range("live memory", "live_slope_bytes_per_s", &out->live, finding);
	else if (facts->awake)
		show_uncounted(facts, finding);
	if (wait->is_over) {
		advise_after_wait(finding);
		return;
	}
	mt_finding_show(finding, "time needed", "needed_s", wait->needed_s, "%.0f s",
			wait->needed_s);
	mt_finding_advise(finding, "Run mtctl diagnose PID --for %s: %s.",
			  mt_diagnose_time(wait->needed_s).text, wait->why);
}

/* How long rounds are does not depend on the look; other times are guesses that grow with it. */
static struct wait wait_for(const struct mt_facts *facts, const struct mt_trend *trend)
{
	bool has_rounds = trend->doubt == MT_TREND_FEW_ROUNDS;

	return (struct wait){.needed_s = fmax(trend->needed_s, NEEDED_MORE * facts->duration_s),
			     .is_over = facts->duration_s >=
					(has_rounds ? trend->needed_s : MT_DIAGNOSE_LOOK_GIVEN_S),
			     .why = doubts[trend->doubt].why};
}

/* Python's live memory of which nobody knows how much is garbage: the collection that the test trim
 * asked for has not run, since the main thread did not come, nor could another one. */
static uint64_t uncollected_bytes(const struct mt_facts *facts)
{
	uint32_t state = facts->trim.record.gc_state;
	bool waits = facts->trim.done && !facts->trim.has_collected_late &&
		     (state == MT_GC_BLOCKED || state == MT_GC_LATE);

	return waits ? mt_facts_last(facts)->held_bytes : 0;
}

static void show_uncollected(const struct mt_facts *facts, struct mt_finding *finding)
{
	uint64_t bytes = uncollected_bytes(facts);

	if (!bytes)
		return;
	mt_finding_show(finding, "may be garbage", "uncollected_bytes", (double)bytes,
			"up to %s; gc could not run: the main thread %s", mt_text_bytes(bytes).text,
			facts->trim.record.gc_state == MT_GC_BLOCKED ? "is in a system call"
								     : "runs C code");
	mt_finding_advise(finding, "Let the program call gc.collect() before it waits.");
}

/* Neither healthy nor a problem: what was seen proves neither. */
static void decide_doubt(const struct mt_facts *facts, const struct mt_trend *trend,
			 const char *what, struct mt_diagnosis *out)
{
	struct wait wait = wait_for(facts, trend);
	struct mt_finding *finding = add_doubt(trend, what, remedy(facts, &wait).text, out);
	char length[40] = "";

	if (trend->period_s > 0)
		snprintf(length, sizeof(length), " of some %.0f s", trend->period_s);
	if (trend->rounds)
		mt_finding_show(finding, "rounds", "rounds_seen_count", (double)trend->rounds,
				"%zu%s, %s; a verdict takes %d", trend->rounds, length,
				trend->rounds_marked ? "marked by the program"
						     : "by the falls of memory",
				MT_TREND_ROUNDS_MIN);
	show_wait(facts, &wait, finding, out);
	show_uncollected(facts, finding);
	show_sleep(facts, finding);
	if (trend->doubt == MT_TREND_FEW_ROUNDS && !wait.is_over && facts->source == MT_FACTS_LIVE)
		mt_finding_advise(finding, "The last 15 minutes count, too: the longer it has run, "
					   "the less there is to wait for.");
}

static void show_seen(const struct mt_facts *facts, struct mt_finding *finding)
{
	mt_finding_show(finding, "samples", "samples_count", (double)facts->samples_count,
			"%zu in %.1f s", facts->samples_count, mt_facts_seconds(facts));
	if (facts->samples_count)
		mt_finding_bytes(finding, "RSS, last sample", "rss_bytes",
				 mt_facts_last(facts)->rss_bytes);
}

/* What has ended has given its memory back: what was found stands below. A guess at it is of no
 * use, and no command reaches it. */
static bool decide_ended(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	struct mt_finding *finding;
	size_t count = 0;

	if (!facts->ended)
		return false;
	while (count < out->count && out->list[count].confidence >= MT_DIAGNOSE_CONFIDENT)
		out->list[count++].advice_count = 0;
	out->count = count;
	finding = mt_finding_add(out, MT_VERDICT_UNKNOWN, 0, 0.9,
				 "the process %s during the diagnosis%s%s",
				 facts->has_exec ? "ran another program (exec)" : "ended",
				 count ? ", and until then looked like a " : "",
				 count ? mt_finding_word(&out->list[0]) : "");
	show_seen(facts, finding);
	mt_finding_advise(finding, facts->has_exec
					   ? "Diagnose what runs now: mtctl diagnose PID."
					   : "Diagnose its next run before it ends; MT_PROFILE=1 "
					     "leaves a line for each cleanup.");
	return true;
}

/* What a stopped process holds tells of no trend, for however long it is observed. */
static bool decide_stopped(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	struct mt_finding *finding;

	if (!facts->is_stopped || (out->count && out->list[0].confidence >= MT_DIAGNOSE_CONFIDENT))
		return false;
	out->count = 0;
	finding = mt_finding_add(out, MT_VERDICT_UNKNOWN, 0, 0.9, "the process is " MT_STOPPED);
	show_seen(facts, finding);
	mt_finding_advise(finding, "Let it run (kill -CONT PID), and diagnose it again.");
	return true;
}

/* Why there is no verdict if nobody could look: too few samples, no figures. */
static bool decide_unseen(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	struct mt_finding *finding;

	if (out->rss.shape != MT_TREND_FEW && (facts->awake || facts->asleep || out->count))
		return false;
	out->count = 0;
	if (!facts->awake && !facts->asleep)
		finding = mt_finding_add(out, MT_VERDICT_UNKNOWN, 0, 0.9, "%s", facts->why_not);
	else
		finding = mt_finding_add(out, MT_VERDICT_UNKNOWN, 0, 0.9,
					 "only %.1f s were seen: too short to say anything",
					 out->rss.seconds);
	show_seen(facts, finding);
	if (!facts->process.shimmed)
		mt_finding_advise(finding, "Start it under the shim: mtctl run -- %s",
				  start_command(facts));
	else if (!facts->awake && !facts->asleep)
		mt_finding_advise(finding, "See what mtctl doctor PID says of its files.");
	else
		mt_finding_advise(finding,
				  "Let mtctl diagnose PID run to its end: confidence grows up to "
				  "20 s of samples.");
	return true;
}

static double healthy_confidence(const struct mt_facts *facts, const struct mt_diagnosis *out)
{
	return mt_diagnose_knows_live(facts) ? fmin(out->rss.confidence, out->live.confidence)
					     : out->rss.confidence;
}

/* The smallest rate that a leak would have been seen at: the upper end of the interval, and no less
 * than what growth must bring in the time to count. */
static double unseen_rate(const struct mt_facts *facts, const struct mt_diagnosis *out)
{
	const struct mt_trend *trend = mt_diagnose_knows_live(facts) ? &out->live : &out->rss;
	double rate = fmax(trend->slope_high, trend->least / fmax(trend->decided_s, 1));

	if (has_other(facts) && out->other.doubt == MT_TREND_SURE)
		rate = fmax(rate, out->other.slope_high);
	return rate;
}

/* "flat at 200.0 MB" */
static void describe_level(const struct mt_facts *facts, const struct mt_trend *rss, char *out,
			   size_t out_bytes)
{
	static const char *const shapes[] = {
		"unknown",
		"flat",
		"rises by free pages that are not worth a purge yet, and is",
		"rose at first, and has been flat since",
		"rose once, and has been flat since",
		"falls",
		"goes up and down by free pages, and is"};
	/* the last sample may be of its end */
	const struct mt_sample *usual = rss->shape == MT_TREND_FLAT
						? &facts->samples[facts->samples_count / 2]
						: mt_facts_last(facts);

	if (mt_trend_is_level(rss))
		snprintf(out, out_bytes, "%s at %s", shapes[rss->shape],
			 mt_text_bytes(usual->rss_bytes).text);
	else
		snprintf(out, out_bytes, "goes up and down, %s to %s, and does not grow",
			 mt_text_bytes(mt_text_round_u64(rss->lowest)).text,
			 mt_text_bytes(mt_text_round_u64(rss->highest)).text);
}

static void show_heap(const struct mt_facts *facts, struct mt_finding *finding)
{
	const struct mt_sample *last = mt_facts_last(facts);
	struct mt_memory_parts parts = mt_memory_parts_of(&(struct mt_memory_figures){
		last->rss_bytes, last->anon_bytes, last->live_bytes, last->dirty_bytes});
	uint64_t chosen = mt_facts_chosen_slack(facts);

	if (mt_diagnose_knows_live(facts)) {
		mt_finding_bytes(finding, "live heap", "heap_live_bytes", last->live_bytes);
		mt_finding_bytes(finding, "reusable heap", "heap_reusable_bytes",
				 parts.bytes[MT_PART_REUSABLE]);
	} else if (facts->awake) {
		show_uncounted(facts, finding);
	}
	if (chosen)
		mt_finding_show(finding, "kept if free", "chosen_slack_bytes", (double)chosen,
				"up to %s, by MT_SLACK_MB and MT_SLACK_PCT",
				mt_text_bytes(chosen).text);
	if (facts->trim.done)
		mt_finding_bytes(finding, "a trim just returned", "trim_returned_bytes",
				 mt_sat_sub(facts->trim.record.rss_before_bytes,
					    facts->trim.record.rss_after_bytes));
}

/* What Python holds is most of RSS, and its gc was not asked what of that is garbage. */
static bool gc_may_find_much(const struct mt_facts *facts)
{
	const struct mt_sample *last = mt_facts_last(facts);

	return facts->is_python && facts->trim.done && facts->trim.level == MT_LEVEL_PURGE &&
	       last->held_bytes >= UNASKED_BYTES && last->held_bytes >= last->rss_bytes / 2;
}

static void decide_healthy(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	bool calm = out->rss.shape == MT_TREND_FLAT || out->rss.shape == MT_TREND_FALLS ||
		    out->rss.decided_s >= BUILD_UP_S || facts->age_s >= WARM_S;
	bool is_managed,
		passed_by = past_malloc_owner(facts, &is_managed) && is_mostly_uncounted(facts);
	struct mt_short_text garbage = {""};
	struct mt_finding *finding;
	char level[200];

	describe_level(facts, &out->rss, level, sizeof(level));
	if (uncollected_bytes(facts))
		snprintf(garbage.text, sizeof(garbage.text),
			 "; up to %.12s may be garbage: gc could not run",
			 mt_text_bytes(uncollected_bytes(facts)).text);
	finding = mt_finding_add(
		out, MT_VERDICT_HEALTHY, 0, healthy_confidence(facts, out), "RSS %s%s%s", level,
		passed_by       ? ", most of it past malloc, in a runtime with rules of its own"
		: *garbage.text ? ""
		: out->count    ? "; what one look shows stands below"
		: gc_may_find_much(facts) ? ": nothing to do, unless --gc finds garbage"
					  : ": nothing to do",
		garbage.text);

	show_range("RSS", "rss_slope_bytes_per_s", &out->rss, finding);
	show_heap(facts, finding);
	show_uncollected(facts, finding);
	show_sleep(facts, finding);
	show_uncounted_bytes(facts, finding);
	if (out->rss.rounds)
		mt_finding_show(finding, "ups and downs", "rounds_seen_count",
				(double)out->rss.rounds, "%zu", out->rss.rounds);
	mt_finding_show(finding, "a leak below this is not seen", "unseen_bytes_per_s",
			unseen_rate(facts, out), "%s",
			mt_diagnose_rate(unseen_rate(facts, out)).text);
	if (!calm)
		mt_finding_advise(finding,
				  "Diagnose it again when it has warmed up: mtctl diagnose PID.");
}

/* The trend of a guess that may be a program that builds up its data; NULL: it is no such guess. */
static const struct mt_trend *build_up_of(const struct mt_facts *facts,
					  const struct mt_finding *guess,
					  const struct mt_diagnosis *out)
{
	if (guess->verdict == MT_VERDICT_LEAK)
		return may_build_up(facts, &out->live, out->live.last) ? &out->live : NULL;
	return guess->verdict == MT_VERDICT_GROWTH && may_build_up(facts, &out->rss, out->anon.last)
		       ? &out->rss
		       : NULL;
}

/* ", most of it at app.py:21": the line of Python, the stack or the size of blocks that has most of
 * a growth; "" if none has. */
static void describe_call_site(const struct mt_facts *facts, const struct mt_trend *trend,
			       const struct mt_finding *guess, char out[200])
{
	const struct mt_diagnose_site *site = facts->sites.list;
	double seconds = mt_facts_last(facts)->at_s - facts->samples[0].at_s, share = 0;
	const char *where = "";

	if (facts->lines_count) {
		where = facts->lines[0].where;
		share = facts->lines[0].grown_bytes / facts->lines[0].seconds / trend->slope;
	} else if (facts->sites.count) {
		where = site->name;
		share = (double)site->grown_bytes / fmax(seconds, 1) / trend->slope;
	}
	out[0] = '\0';
	if (share >= MUCH_SHARE)
		snprintf(out, 200, ", %s of it at %.*s", share >= MOST_SHARE ? "most" : "much",
			 (int)strcspn(where, ","), where);
	else if (guess->block_bytes)
		snprintf(out, 200, " in blocks of %s B", mt_text_count(guess->block_bytes).text);
}

/* Growth that may be of a program that loads its data: how fast, where, and when it is decided. */
static struct mt_finding *add_growing(const struct mt_facts *facts, const struct mt_trend *trend,
				      const struct mt_finding *guess, const struct wait *wait,
				      struct mt_diagnosis *out)
{
	char place[200], when[96];
	double minutes = ceil(wait->needed_s / 60);
	struct mt_finding *finding;

	describe_call_site(facts, trend, guess, place);
	if (wait->is_over)
		snprintf(when, sizeof(when), "a longer recording decides");
	else if (wait->needed_s <= 90)
		snprintf(when, sizeof(when), "%.0f more seconds decide", wait->needed_s);
	else
		snprintf(when, sizeof(when), "%.0f more minutes decide", minutes);
	finding = mt_finding_add(out, MT_VERDICT_UNKNOWN, 0, 0.9,
				 "growing: %s%s; %s between a leak and warm-up, as of a program "
				 "that builds up its data%s",
				 mt_diagnose_rate(trend->slope).text, place, when,
				 remedy(facts, wait).text);
	finding->is_headline = true;
	return finding;
}

/* Live memory of a Python with pymalloc is not in the history: its time starts again with each
 * diagnosis. */
static void decide_build_up(const struct mt_facts *facts, const struct mt_trend *trend,
			    struct mt_diagnosis *out)
{
	bool is_live = trend == &out->live, is_remembered = !is_live || !facts->has_pymalloc;
	const struct wait wait = {
		.needed_s =
			fmax(BUILD_UP_S - (is_remembered ? trend->decided_s : 0), BUILD_UP_MIN_S),
		.why = "growth that goes on for five minutes is not of a program "
		       "that loads its data"};
	const struct mt_finding guess = out->list[0];
	struct mt_finding *finding = add_growing(facts, trend, &guess, &wait, out);

	mt_finding_show(finding, is_live ? "live memory" : "resident memory", "built_up_s",
			growing_s(facts, trend), "%s, after %.0f s of growth",
			mt_text_bytes(mt_text_round_u64(trend->last)).text,
			growing_s(facts, trend));
	show_wait(facts, &wait, finding, out);
	for (size_t i = 0; i < guess.evidence_count; i++)
		mt_finding_show(finding, guess.evidence[i].label, guess.evidence[i].name,
				guess.evidence[i].value, "%s", guess.evidence[i].text);
	if (facts->lines_count)
		mt_finding_advise(finding, "Look at %.150s: what it allocates is kept.",
				  facts->lines[0].where);
	mt_finding_advise(finding, "Where its data is complete by now, it is the %s below.",
			  mt_finding_word(&guess));
}

/* Whether a cause is on the list, and not only what one look shows. */
static bool has_cause(const struct mt_diagnosis *of)
{
	return of->count && of->list[0].verdict != MT_VERDICT_NONE;
}

/* There are only guesses, or too little for "healthy". */
static void decide_guess(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	bool any = has_cause(out);
	const struct wait wait = {.needed_s = fmax(60, 3 * facts->duration_s),
				  .is_over = facts->duration_s >= MT_DIAGNOSE_LOOK_GIVEN_S,
				  .why = any ? "what is there goes on for so long, chance does not"
					     : "confidence grows up to 20 s of samples"};
	const struct mt_trend *build_up = any ? build_up_of(facts, &out->list[0], out) : NULL;
	struct mt_finding *finding;

	if (build_up) {
		decide_build_up(facts, build_up, out);
		return;
	}
	if (any)
		finding = mt_finding_add(out, MT_VERDICT_UNKNOWN, 0, 0.9,
					 "%s is possible, and no more than that%s",
					 mt_finding_word(&out->list[0]), remedy(facts, &wait).text);
	else
		finding = mt_finding_add(out, MT_VERDICT_UNKNOWN, 0, 0.9, "only %.1f s were seen%s",
					 out->rss.decided_s, remedy(facts, &wait).text);
	show_wait(facts, &wait, finding, out);
}

/* Nothing is sure enough to be the verdict: healthy, or why not. The guesses stay below it. */
static void decide_without_cause(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const char *what;
	const struct mt_trend *trend = doubtful(facts, out, &what);

	if (!trend && !has_cause(out) && unexplained_growth(facts, out) > 0)
		trend = &out->rss;
	if (trend)
		decide_doubt(facts, trend, what, out);
	else if (has_cause(out) || healthy_confidence(facts, out) < MT_DIAGNOSE_CONFIDENT)
		decide_guess(facts, out);
	else
		decide_healthy(facts, out);
}

double mt_diagnose_weight(const struct mt_diagnosis *diagnosis)
{
	const struct mt_finding *first = &diagnosis->list[0];

	return first->verdict == MT_VERDICT_HEALTHY ? 1 : first->bytes * first->confidence;
}

static int by_weight(const void *a, const void *b)
{
	const struct mt_finding *x = a, *y = b;
	double p = x->bytes * x->confidence, q = y->bytes * y->confidence;
	bool x_sure = x->confidence >= MT_DIAGNOSE_CONFIDENT,
	     y_sure = y->confidence >= MT_DIAGNOSE_CONFIDENT;

	return x_sure == y_sure ? (p < q) - (p > q) : y_sure - x_sure;
}

/* Live memory that nobody counts has no trend. What is known of it, in Python's arenas, may still
 * prove a leak. */
static void drop_unknown_trends(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	if (!facts->awake || mt_diagnose_knows_live(facts))
		return;
	out->slack = out->outside = out->other = (struct mt_trend){0};
	if (out->live.shape != MT_TREND_GROWS)
		out->live = (struct mt_trend){0};
}

/* RSS is anonymous memory and pages of files. Its own rounds may be too small a part of it to be
 * seen: what too few rounds of anonymous memory leave open is open of RSS, too. */
static void doubt_rss(struct mt_diagnosis *out)
{
	struct mt_trend *rss = &out->rss;
	double of_files = out->file.slope + out->shmem.slope;

	if (rss->shape != MT_TREND_GROWS || out->anon.doubt != MT_TREND_FEW_ROUNDS ||
	    of_files >= rss->slope * UNEXPLAINED_SHARE)
		return;
	rss->shape = MT_TREND_UNDECIDED;
	rss->doubt = out->anon.doubt;
	rss->confidence = out->anon.confidence;
	rss->needed_s = out->anon.needed_s;
	rss->period_s = out->anon.period_s;
	rss->rounds = out->anon.rounds;
}

void mt_diagnose_find_trends(const struct mt_facts *facts, struct mt_diagnosis *out)
{
#define X(name, figure, in_history)                                                                \
	out->name = trend_of(facts, offsetof(struct mt_sample, figure), in_history,                \
			     offsetof(struct mt_sample, figure) !=                                 \
				     offsetof(struct mt_sample, gpu_allocated_bytes));
	MT_DIAGNOSE_TRENDS(X)
#undef X
	doubt_rss(out);
	drop_unknown_trends(facts, out);
}

/* Makes the finding that was added last the first one. */
static void lead_with_last(struct mt_diagnosis *out)
{
	struct mt_finding last = out->list[out->count - 1];

	memmove(&out->list[1], &out->list[0], (out->count - 1) * sizeof(last));
	out->list[0] = last;
}

void mt_diagnose_decide(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	size_t kept = 0;

	out->count = 0;
	mt_diagnose_find_trends(facts, out);
	mt_rules_run(facts, MT_SHOWN_CAUSE, out);
	for (size_t i = 0; i < out->count; i++)
		if (out->list[i].confidence >= CONFIDENCE_MIN)
			out->list[kept++] = out->list[i];
	out->count = kept;
	if (kept)
		qsort(out->list, kept, sizeof(out->list[0]), by_weight);
	if (decide_ended(facts, out) || decide_stopped(facts, out) || decide_unseen(facts, out)) {
		lead_with_last(out);
	} else {
		mt_rules_run(facts, MT_SHOWN_NOW, out);
		mt_findings_rank(out, kept);
		if (!kept || out->list[0].confidence < MT_DIAGNOSE_CONFIDENT) {
			decide_without_cause(facts, out);
			lead_with_last(out);
		}
	}
	mt_diagnose_end_advice(facts, out);
}
