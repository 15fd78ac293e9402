/* ctl/diagnose/findings.c -- trends, the judges one after another, growth without a reason, and
 * ranks. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

#define GROWTH_MIN_BYTES ((double)MT_MIB) /* a smaller change does not count */
#define GROWTH_MIN_SHARE 0.001            /* of the value */
#define GROWTH_MIN_PER_S 16384.0          /* 1.4 GB a day */
/* of the growth of RSS: a larger unexplained part is a finding */
#define UNEXPLAINED_SHARE 0.34
#define CONFIDENCE_MIN    0.1

const char *mt_diagnose_word(enum mt_verdict verdict)
{
	static const char *const words[] = {
#define X(name, code, word, help) word,
		MT_VERDICTS(X)
#undef X
	};

	return words[verdict];
}

int mt_diagnose_exit_code(enum mt_verdict verdict)
{
	static const int codes[] = {
#define X(name, code, word, help) code,
		MT_VERDICTS(X)
#undef X
	};

	return codes[verdict];
}

/* ---- findings ---- */

struct mt_finding *mt_finding_add(struct mt_diagnosis *in, enum mt_verdict verdict, double bytes,
				  double confidence, const char *title, ...)
{
	struct mt_finding *finding =
		&in->list[in->count < MT_VERDICT_COUNT ? in->count++ : MT_VERDICT_COUNT - 1];
	va_list arguments;

	*finding = (struct mt_finding){
		.verdict = verdict, .bytes = bytes, .confidence = fmin(confidence, 0.99)};
	va_start(arguments, title);
	vsnprintf(finding->title, sizeof(finding->title), title, arguments);
	va_end(arguments);
	return finding;
}

void mt_finding_show(struct mt_finding *finding, const char *label, const char *name, double value,
		     const char *format, ...)
{
	struct mt_diagnose_evidence *line = &finding->evidence[finding->evidence_count];
	va_list arguments;

	if (finding->evidence_count == MT_DIAGNOSE_EVIDENCE)
		return;
	finding->evidence_count++;
	line->value = value;
	snprintf(line->label, sizeof(line->label), "%s", label);
	snprintf(line->name, sizeof(line->name), "%s", name);
	va_start(arguments, format);
	vsnprintf(line->text, sizeof(line->text), format, arguments);
	va_end(arguments);
}

void mt_finding_bytes(struct mt_finding *finding, const char *label, const char *name,
		      uint64_t bytes)
{
	mt_finding_show(finding, label, name, (double)bytes, "%s", mt_text_bytes(bytes).text);
}

void mt_finding_advise(struct mt_finding *finding, const char *format, ...)
{
	va_list arguments;

	if (finding->advice_count == MT_DIAGNOSE_ADVICE)
		return;
	va_start(arguments, format);
	vsnprintf(finding->advice[finding->advice_count], sizeof(finding->advice[0]), format,
		  arguments);
	va_end(arguments);
	finding->advice_count++;
}

struct mt_short_text mt_diagnose_rate(double bytes_per_s)
{
	struct mt_short_text figure;
	double size = fabs(bytes_per_s);

	if (size < 0.095 * (double)MT_MIB)
		snprintf(figure.text, sizeof(figure.text), "%.1f kB/s", bytes_per_s / 1024);
	else
		snprintf(figure.text, sizeof(figure.text), "%.1f MB/s",
			 bytes_per_s / (double)MT_MIB);
	return figure;
}

void mt_finding_trend(struct mt_finding *finding, const char *label, const char *name,
		      const struct mt_trend *trend)
{
	char key[56];

	snprintf(key, sizeof(key), "%.32s_slope_bytes_per_s", name);
	mt_finding_show(finding, label, key, trend->slope,
			"%s (95 %%: %s to %s), R2 %.2f, up in %zu of %zu parts of %.0f s%s",
			mt_diagnose_rate(trend->slope).text,
			mt_diagnose_rate(trend->slope_low).text,
			mt_diagnose_rate(trend->slope_high).text, trend->r_squared,
			trend->grown_parts, trend->parts, trend->seconds,
			trend->rounds ? ", by the lowest point of each round" : "");
}

uint64_t mt_diagnose_minimum(const struct mt_facts *facts, size_t part, size_t offset)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = facts->samples_count - (facts->samples_count + part - 1) / part;
	     i < facts->samples_count; i++) {
		uint64_t value;

		memcpy(&value, (const char *)&facts->samples[i] + offset, sizeof(value));
		least = value < least ? value : least;
	}
	return least == UINT64_MAX ? 0 : least;
}

/* ---- trends ---- */

static struct mt_trend trend_of(const struct mt_facts *facts, size_t offset)
{
	struct mt_trend_point *points =
		mt_error_check_memory(calloc(facts->samples_count + 1, sizeof(*points)));
	struct mt_trend trend;
	double least = GROWTH_MIN_BYTES, seconds = 0;

	for (size_t i = 0; i < facts->samples_count; i++) {
		uint64_t value;

		memcpy(&value, (const char *)&facts->samples[i] + offset, sizeof(value));
		points[i] = (struct mt_trend_point){facts->samples[i].at_s, (double)value};
		least = fmax(least, points[i].value * GROWTH_MIN_SHARE);
		seconds = points[i].at_s - points[0].at_s;
	}
	trend = mt_trend_of(points, facts->samples_count, fmax(least, GROWTH_MIN_PER_S * seconds));
	free(points);
	return trend;
}

static void find_trends(const struct mt_facts *facts, struct mt_diagnosis *out)
{
#define X(name, figure) out->name = trend_of(facts, offsetof(struct mt_sample, figure));
	MT_DIAGNOSE_TRENDS(X)
#undef X
}

/* ---- growth without a reason; healthy and unknown ---- */

/* Findings of the heap explain the same bytes, so that the largest counts; other findings are added
 * to it. Free pages that gather below the purge gate are explained, too: beyond it they are a
 * hoard. */
static double explained_growth(const struct mt_facts *facts, const struct mt_diagnosis *out)
{
	bool is_embedded = facts->last.head.snapshot.heap_resident_bytes != 0;
	double heap = 0, rest = is_embedded ? fmax(out->slack.slope, 0) : 0;

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

/* The shim sleeps while malloc has allocated little: other memory comes from elsewhere, such as
 * V8's heap. */
static void show_sleep(const struct mt_facts *facts, struct mt_finding *finding)
{
	if (facts->asleep)
		mt_finding_show(finding, "the shim", "asleep", 1,
				"asleep: malloc has allocated little (MT_MIN_MB)");
}

static void judge_rest(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	struct mt_finding *finding;
	double explained = explained_growth(facts, out), rest = out->rss.slope - explained;

	if (out->rss.shape != MT_TREND_GROWS)
		return;
	if (rest < out->rss.slope * UNEXPLAINED_SHARE || rest < GROWTH_MIN_PER_S ||
	    rest * out->rss.seconds < GROWTH_MIN_BYTES)
		return;
	finding = mt_finding_add(
		out, MT_VERDICT_GROWTH, rest * MT_DIAGNOSE_HORIZON_S, out->rss.confidence * 0.7,
		"resident memory grows by %s, and none of the known reasons explains %s of it",
		mt_diagnose_rate(out->rss.slope).text,
		explained > 0 ? mt_diagnose_rate(rest).text : "any");
	finding->growth_per_s = rest;
	mt_finding_trend(finding, "RSS", "rss", &out->rss);
	if (facts->awake) {
		mt_finding_show(finding, "live heap", "live_slope_bytes_per_s", out->live.slope,
				"%s", mt_trend_word(out->live.shape));
		mt_finding_show(finding, "outside of the heap", "outside_slope_bytes_per_s",
				out->outside.slope, "%s, %s", mt_trend_word(out->outside.shape),
				mt_diagnose_rate(out->outside.slope).text);
	}
	mt_finding_show(finding, "file and shared pages", "mapped_slope_bytes_per_s",
			out->file.slope + out->shmem.slope, "%s",
			mt_diagnose_rate(out->file.slope + out->shmem.slope).text);
	show_sleep(facts, finding);
	if (!facts->process.shimmed)
		mt_finding_advise(finding,
				  "Start it under the shim, which counts what of it is live: mtctl "
				  "run -- %.160s.",
				  facts->process.command);
	if (facts->has_pymalloc && !facts->arenas_known)
		mt_finding_advise(finding, "Restart it with MT_PYTHON_MALLOC=on: Python's own "
					   "arenas hide what is live in them.");
	mt_finding_advise(finding, "Diagnose for longer: mtctl diagnose %d --for 5m.",
			  (int)facts->process.pid);
	mt_finding_advise(
		finding,
		"Look for memory mapped past malloc: mmap in libraries, thread stacks, JIT code.");
}

static bool judge_unknown(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	struct mt_finding *finding;

	bool enough = out->rss.shape != MT_TREND_FEW && (!facts->ended || out->count);

	if (enough && (facts->awake || facts->asleep || out->count))
		return false;
	out->count = 0;
	if (facts->ended)
		finding = mt_finding_add(out, MT_VERDICT_UNKNOWN, 0, 0.9,
					 "the process ended during the diagnosis");
	else if (!facts->awake && !facts->asleep)
		finding = mt_finding_add(out, MT_VERDICT_UNKNOWN, 0, 0.9, "%s", facts->why_not);
	else
		finding = mt_finding_add(out, MT_VERDICT_UNKNOWN, 0, 0.9,
					 "only %.1f s were seen: too short to say anything",
					 out->rss.seconds);
	mt_finding_show(finding, "samples", "samples_count", (double)facts->samples_count,
			"%zu in %.1f s", facts->samples_count, out->rss.seconds);
	if (facts->samples_count)
		mt_finding_bytes(finding, "RSS at the end", "rss_bytes",
				 facts->samples[facts->samples_count - 1].rss_bytes);
	if (facts->ended)
		mt_finding_advise(finding, "Diagnose its next run before it ends; MT_PROFILE=1 "
					   "leaves a line for each cleanup.");
	else if (!facts->process.shimmed)
		mt_finding_advise(finding, "Start it under the shim: mtctl run -- %.160s.",
				  facts->process.command);
	else if (!facts->awake && !facts->asleep)
		mt_finding_advise(finding, "See what mtctl doctor %d says of its files.",
				  (int)facts->process.pid);
	else
		mt_finding_advise(finding, "Diagnose for longer: mtctl diagnose %d --for 60.",
				  (int)facts->process.pid);
	return true;
}

static void judge_healthy(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	static const char *const shapes[] = {
		"unknown",
		"flat",
		"rises by free pages that are not worth a purge yet, and is",
		"rose at first, and has been flat since",
		"rose once, and has been flat since",
		"falls"};
	const struct mt_sample *last = &facts->samples[facts->samples_count - 1];
	bool calm = out->rss.shape == MT_TREND_FLAT || out->rss.shape == MT_TREND_FALLS;
	struct mt_finding *finding =
		mt_finding_add(out, MT_VERDICT_HEALTHY, 0, out->rss.confidence * (calm ? 1 : 0.7),
			       "RSS %s at %s: nothing to do", shapes[out->rss.shape],
			       mt_text_bytes(last->rss_bytes).text);

	mt_finding_show(finding, "RSS", "rss_slope_bytes_per_s", out->rss.slope,
			"%s to %s, %s over %.0f s",
			mt_text_bytes(mt_text_round_u64(out->rss.lowest)).text,
			mt_text_bytes(mt_text_round_u64(out->rss.highest)).text,
			mt_diagnose_rate(out->rss.slope).text, out->rss.seconds);
	if (facts->awake) {
		mt_finding_bytes(finding, "live heap", "heap_live_bytes", last->live_bytes);
		mt_finding_bytes(finding, "idle heap", "heap_idle_bytes", last->idle_bytes);
	}
	show_sleep(facts, finding);
	if (out->rss.rounds)
		mt_finding_show(finding, "ups and downs", "rounds_seen_count",
				(double)out->rss.rounds, "%zu", out->rss.rounds);
	if (!calm)
		mt_finding_advise(finding,
				  "Diagnose it again when it has warmed up: mtctl diagnose %d.",
				  (int)facts->process.pid);
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

	return (p < q) - (p > q);
}

/* A process that has ended may have grown before. It is never called healthy. */
void mt_diagnose_judge(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	size_t kept = 0;

	memset(out, 0, sizeof(*out));
	find_trends(facts, out);
	if (facts->awake && facts->samples_count) {
		mt_diagnose_judge_heap(facts, out);
		mt_diagnose_judge_python(facts, out);
		mt_diagnose_judge_gpu(facts, out);
	}
	if (facts->samples_count) { /* /proc is enough for these */
		mt_diagnose_judge_kernel(facts, out);
		judge_rest(facts, out);
	}
	for (size_t i = 0; i < out->count; i++)
		if (out->list[i].confidence >= CONFIDENCE_MIN)
			out->list[kept++] = out->list[i];
	out->count = kept;
	qsort(out->list, out->count, sizeof(out->list[0]), by_weight);
	if (!judge_unknown(facts, out) && !out->count)
		judge_healthy(facts, out);
}
