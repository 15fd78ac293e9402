/* ctl/diagnose/advise.c -- the rules of `mtctl advise`, and the facts that they need. Thresholds
 * that are not from the process itself are from docs/settings.md, "How to choose". */
#include "ctl/diagnose/advise.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* less is what the worker keeps by default */
#define WASTE_BYTES (64 * MT_MIB)
#define WASTE_SHARE 4 /* a quarter of RSS */
#define THREADS_MIN 4
#define AWAKE_MIN_S 20
#define PURGED_MIN  (256 * MT_MIB)
/* of the purged bytes were faulted in again: purges had no effect */
#define REFAULT_SHARE 0.7
#define FAULT_BYTES   4096.0
#define PAUSES_MIN    3
/* docs/settings.md: MT_SETTLE_MS=3000 suits such pauses */
#define PAUSE_MIN_S      3.0
#define NEAR_PERCENT     75
#define ALLOCS_PER_CPU_S 1e6 /* a program that does little else */
#define SMALL_BYTES      (100 * MT_MIB)

/* by one collection: less is normal in every program */
#define FREED_BYTES    (8 * MT_MIB)
#define LIVE_DROPS_MIN 3
/* docs/settings.md: MT_ROUND=auto suits rounds of this length */
#define ROUND_MIN_S 30.0
#define USELESS_MIN 5         /* cleanups in a row */
#define USELESS_NS  20000000u /* each */

#define CACHE_BYTES  (64 * MT_MIB)
#define CACHE_SHARE  0.40 /* of the reserved bytes, as in diagnose */
#define ALLOCS_MIN   1000
#define HITS_MIN     0.5
#define LOW_SHARE    0.10 /* of the devices' memory is free */
#define SPLIT_MIN_MB 32u  /* PyTorch and the pool ignore values up to 20 */

static const struct mt_stats_snapshot *figures(const struct mt_advise_facts *facts)
{
	return &facts->base.last.head.snapshot;
}

static uint64_t setting(const struct mt_advise_facts *facts, const char *name)
{
	return mt_stats_file_number(&facts->base.last, name);
}

static bool setting_is(const struct mt_advise_facts *facts, const char *name, const char *word)
{
	const char *text = mt_stats_file_setting(&facts->base.last, name);

	return text && strcmp(text, word) == 0;
}

double mt_advise_awake_s(const struct mt_advise_facts *facts)
{
	return (double)figures(facts)->uptime_ms / 1000;
}

/* Idle bytes that are worth a purge: MT_SLACK_MB, MT_SLACK_PCT. */
static uint64_t purge_gate(const struct mt_advise_facts *facts)
{
	uint64_t anon = figures(facts)->rss_anon_bytes;
	uint64_t fixed = setting(facts, "slack_mb") * (anon < 64 * MT_MIB ? anon / 64 : MT_MIB);
	uint64_t share = anon / 100 * setting(facts, "slack_pct");

	return fixed > share ? fixed : share;
}

/* Whether a setting of the process, in the syntax of MALLOC_CONF, is whole (the stats file has room
 * for 71 characters) and may stand in a line that people paste into a shell. */
static bool may_join(const char *conf)
{
	static const char harmless[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:,.-";

	return strlen(conf) < sizeof(((struct mt_stats_setting *)0)->value) - 1 &&
	       !conf[strspn(conf, harmless)];
}

static void give_reason(struct mt_advice *out, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void give_reason(struct mt_advice *out, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(out->reason, sizeof(out->reason), format, arguments);
	va_end(arguments);
}

static void at_start(struct mt_advice *out, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void at_start(struct mt_advice *out, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(out->environment, sizeof(out->environment), format, arguments);
	va_end(arguments);
}

/* Fills environment and command for one live setting. */
static void suggest_setting(const struct mt_advise_facts *facts, struct mt_advice *out,
			    const char *name, const char *value)
{
	at_start(out, "MT_%.40s=%.40s", name, value);
	for (char *letter = out->environment; *letter != '='; letter++)
		if (*letter >= 'a' && *letter <= 'z')
			*letter = (char)(*letter - 'a' + 'A');
	snprintf(out->command, sizeof(out->command), "mtctl set %d %.40s=%.40s",
		 (int)facts->base.process.pid, name, value);
}

/* ---- the heap ---- */

static bool is_waste(uint64_t bytes, uint64_t rss)
{
	return bytes >= WASTE_BYTES && bytes >= rss / WASTE_SHARE;
}

/* Heap bytes that were resident and not live when RSS had its peak. */
static uint64_t unused_at_peak(const struct mt_advise_facts *facts)
{
	const struct mt_stats_snapshot *now = figures(facts);
	uint64_t others =
		now->rss_file_bytes + now->rss_shmem_bytes + facts->base.samples[0].outside_bytes;

	return mt_sat_sub(now->rss_peak_bytes, now->heap_live_peak_bytes + others);
}

/* Not for programs with rounds: with fewer arenas their RSS at the ends of rounds was higher. */
static bool has_spread_over_arenas(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = figures(facts);
	const char *conf = mt_stats_file_setting(&facts->base.last, "malloc_conf");
	bool embedded = strcmp(facts->base.last.head.mode, "jemalloc") == 0;
	bool glibc = !embedded && strcmp(facts->base.last.head.allocator, "glibc") == 0;
	uint64_t unused = unused_at_peak(facts);

	if ((!embedded && !glibc) || now->threads_count < THREADS_MIN ||
	    now->heap_arenas_count < 3 || now->rounds_count || setting(facts, "arena_max") ||
	    !conf || strstr(conf, "narenas") || !may_join(conf) ||
	    !is_waste(unused, now->rss_peak_bytes))
		return false;
	give_reason(out,
		    "%s threads have spread over %s arenas, each of which keeps free pages of its "
		    "own: at the peak of %s in RSS %s were live, and %s of heap lay unused",
		    mt_text_count(now->threads_count).text,
		    mt_text_count(now->heap_arenas_count).text,
		    mt_text_bytes(now->rss_peak_bytes).text,
		    mt_text_bytes(now->heap_live_peak_bytes).text, mt_text_bytes(unused).text);
	if (glibc)
		at_start(out, "MALLOC_ARENA_MAX=2");
	else
		at_start(out, "MT_MALLOC_CONF=%.80s%s%s", conf, *conf ? "," : "",
			 now->cpus_count > 4 ? "narenas_ratio:0.5" : "narenas:1");
	return true;
}

static const struct mt_stats_cleanup *last_cleanup(const struct mt_stats_file *file)
{
	for (uint64_t number = file->head.cleanups_count; number; number--) {
		const struct mt_stats_cleanup *record = mt_stats_file_cleanup(file, number);

		if (!record)
			return NULL;
		if (record->level != MT_LEVEL_PURGE && !record->merged &&
		    record->result != MT_NULL_RESULT)
			return record;
	}
	return NULL;
}

/* Free memory between live blocks, which malloc_trim cannot return. */
static bool is_left_between_live_blocks(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_head *head = &facts->base.last.head;
	const struct mt_stats_cleanup *record = last_cleanup(&facts->base.last);
	uint64_t outside =
		facts->base.samples[0].outside_bytes + facts->base.samples[0].arenas_bytes;
	uint64_t left =
		record ? mt_sat_sub(record->anon_after_bytes, record->live_after_bytes + outside)
		       : 0;

	if (strcmp(head->mode, "system") != 0 || facts->base.has_pymalloc || !record ||
	    !is_waste(left, record->rss_after_bytes))
		return false;
	give_reason(
		out,
		"after the last cleanup %s stayed resident where %s were live: %.20s cannot return "
		"what lies between live blocks, and the embedded jemalloc mixes lifetimes less",
		mt_text_bytes(record->anon_after_bytes).text,
		mt_text_bytes(record->live_after_bytes).text, head->allocator);
	at_start(out, "MT_ALLOCATOR=jemalloc");
	return true;
}

static bool is_kept_without_budget(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = figures(facts);
	uint64_t budget = setting(facts, "budget_pct");

	if (now->heap_idle_bytes < purge_gate(facts) || budget >= 5 ||
	    (budget && now->budget_balance_ns) || mt_advise_awake_s(facts) < AWAKE_MIN_S)
		return false;
	give_reason(
		out,
		budget ? "%s are reusable, and the budget of %s %% is spent"
		       : "%s are reusable, and with a budget of %s %% nothing is purged unless it "
			 "is asked for or memory is short",
		mt_text_bytes(now->heap_idle_bytes).text, mt_text_count(budget).text);
	suggest_setting(facts, out, "budget_pct", budget ? "5" : "3");
	return true;
}

static bool is_refaulted_after_purges(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = figures(facts);
	double back = (double)now->refault_count * FAULT_BYTES,
	       cost_ns = (double)now->purge_cost_ns + (double)now->refault_cost_ns;

	if (now->purged_bytes < PURGED_MIN || back < (double)now->purged_bytes * REFAULT_SHARE ||
	    cost_ns < mt_advise_awake_s(facts) * 1e9 / 200 || setting(facts, "idle_ms") >= 2000)
		return false;
	give_reason(out,
		    "of %s that %s returned about %s were taken back, which cost %s in all: what "
		    "is reused so soon is better left alone",
		    mt_text_bytes(now->purged_bytes).text,
		    mt_text_counted(now->purge_count, "purge", "purges").text,
		    mt_text_bytes(mt_min_u64(mt_text_round_u64(back), now->purged_bytes)).text,
		    mt_text_ns(mt_text_round_u64(cost_ns)).text);
	suggest_setting(facts, out, "idle_ms", "2000");
	return true;
}

struct pauses {
	size_t count;
	double longest_s;
	uint64_t min_bytes;
};

static void end_pause(struct pauses *pauses, double seconds, double settle_s, uint64_t idle_bytes)
{
	if (seconds < PAUSE_MIN_S || seconds >= settle_s || idle_bytes < WASTE_BYTES)
		return;
	pauses->min_bytes =
		!pauses->count || idle_bytes < pauses->min_bytes ? idle_bytes : pauses->min_bytes;
	pauses->longest_s = seconds > pauses->longest_s ? seconds : pauses->longest_s;
	pauses->count++;
}

/* Stretches in which live bytes do not change, and which end before MT_SETTLE_MS is over. */
static struct pauses find_pauses(const struct mt_stats_file *file, double settle_s)
{
	const struct mt_stats_sample *begin = NULL, *before = NULL;
	struct pauses pauses = {0};

	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *now =
			&file->samples[(file->head.samples_count + i) % MT_SAMPLES_COUNT];
		bool rests;

		if (!now->time_ns || (before && now->time_ns <= before->time_ns))
			continue;
		rests = before && mt_sat_sub(now->live_bytes, before->live_bytes) < MT_MIB &&
			mt_sat_sub(before->live_bytes, now->live_bytes) < MT_MIB;
		if (!rests && begin)
			end_pause(&pauses, (double)(before->time_ns - begin->time_ns) / 1e9,
				  settle_s, before->idle_bytes);
		begin = !rests ? NULL : begin ? begin : before;
		before = now;
	}
	return pauses;
}

static bool has_short_pauses(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	uint64_t settle_ms = setting(facts, "settle_ms");
	struct pauses pauses;

	if (settle_ms <= 3000 || figures(facts)->rounds_count)
		return false;
	pauses = find_pauses(&facts->base.last, (double)settle_ms / 1000);
	if (pauses.count < PAUSES_MIN)
		return false;
	give_reason(out,
		    "%zu pauses of %.0f to %.1f s, at the end of each of which %s or more were "
		    "reusable: they are over before the %.0f s after which all is purged",
		    pauses.count, PAUSE_MIN_S, pauses.longest_s,
		    mt_text_bytes(pauses.min_bytes).text, (double)settle_ms / 1000);
	suggest_setting(facts, out, "settle_ms", "3000");
	return true;
}

/* Idle bytes below the gate are not worth a purge, except near the limit. */
static bool is_idle_near_the_limit(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = figures(facts);
	double percent = mt_stats_percent(now->pressure_used_bytes, now->pressure_limit_bytes);
	uint64_t gate = purge_gate(facts);

	if (percent < NEAR_PERCENT || now->heap_idle_bytes < 16 * MT_MIB ||
	    now->heap_idle_bytes >= gate)
		return false;
	give_reason(out,
		    "%.0f %% of the limit of %s are used, and %s are reusable that count as too "
		    "little to purge (below %s)",
		    percent, mt_text_bytes(now->pressure_limit_bytes).text,
		    mt_text_bytes(now->heap_idle_bytes).text, mt_text_bytes(gate).text);
	at_start(out, "MT_SLACK_MB=8 MT_SLACK_PCT=0");
	snprintf(out->command, sizeof(out->command),
		 "mtctl set %d slack_mb=8; mtctl set %d slack_pct=0", (int)facts->base.process.pid,
		 (int)facts->base.process.pid);
	return true;
}

static bool keeps_python_arenas(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_sample *sample = &facts->base.samples[0];
	uint64_t unused = mt_sat_sub(sample->arenas_bytes, sample->arenas_live_bytes);

	if (!facts->base.has_pymalloc || !facts->base.arenas_known || !facts->base.samples_count ||
	    !is_waste(unused, sample->rss_bytes))
		return false;
	give_reason(out,
		    "%s lie free in Python's own arenas, %s of which are in use: the shim's heap "
		    "for objects can be purged",
		    mt_text_bytes(unused).text, mt_text_bytes(sample->arenas_live_bytes).text);
	at_start(out, "MT_PYTHON_MALLOC=on");
	return true;
}

/* Small objects in malloc cost time. It is not worth it where purges return little. */
static bool computes_on_small_objects(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = figures(facts);
	double cpu_s = (double)now->cpu_ns / 1e9,
	       a_second = cpu_s > 0 ? (double)now->heap_alloc_count / cpu_s : 0;

	if (!facts->base.is_python || !strstr(facts->base.last.head.python, "is answered") ||
	    cpu_s < AWAKE_MIN_S || a_second < ALLOCS_PER_CPU_S ||
	    now->rss_peak_bytes > SMALL_BYTES ||
	    now->purged_bytes > now->rss_peak_bytes / WASTE_SHARE)
		return false;
	give_reason(out,
		    "%.1f million allocations a second of CPU time in no more than %s, of which "
		    "purges have returned %s in %.0f s: Python's own allocator is probably faster",
		    a_second / 1e6, mt_text_bytes(now->rss_peak_bytes).text,
		    mt_text_bytes(now->purged_bytes).text, mt_advise_awake_s(facts));
	at_start(out, "MT_PYTHON_MALLOC=off");
	return true;
}

/* ---- rounds ---- */

static uint64_t freed_bytes(const struct mt_stats_cleanup *record)
{
	uint64_t live = mt_sat_sub(record->live_before_bytes, record->live_after_bytes);
	uint64_t anon = mt_sat_sub(record->anon_before_bytes, record->anon_after_bytes);

	return live > anon ? live : anon;
}

static int compare_gaps(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Counts the cleanups for a drop of live bytes. *out_gap_s: the median time between two. */
static size_t count_live_drops(const struct mt_stats_file *file, double *out_gap_s)
{
	double gaps[MT_CLEANUPS_COUNT];
	uint64_t before_ns = 0, last = file->head.cleanups_count;
	uint64_t back = last < MT_CLEANUPS_COUNT ? last : MT_CLEANUPS_COUNT;
	size_t count = 0;

	while (back-- > 0) { /* counts down: a forged `last` may be UINT64_MAX */
		const struct mt_stats_cleanup *record = mt_stats_file_cleanup(file, last - back);

		if (!record || record->reason != MT_REASON_LIVE_DROP)
			continue;
		if (before_ns && record->time_ns > before_ns)
			gaps[count++] = (double)(record->time_ns - before_ns) / 1e9;
		before_ns = record->time_ns;
	}
	if (!count)
		return before_ns != 0;
	qsort(gaps, count, sizeof(gaps[0]), compare_gaps);
	*out_gap_s = gaps[count / 2];
	return count + 1;
}

static bool has_unmarked_rounds(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	double gap_s = 0;
	size_t live_drops = count_live_drops(&facts->base.last, &gap_s);

	if (!facts->base.is_python || !setting_is(facts, "gc_rounds", "0") ||
	    figures(facts)->rounds_count || live_drops < LIVE_DROPS_MIN || gap_s < ROUND_MIN_S)
		return false;
	give_reason(out,
		    "live memory fell and stayed down %zu times, %.0f s apart on the median, as at "
		    "the ends of rounds; Python's collector was never run there",
		    live_drops, gap_s);
	at_start(out, "MT_ROUND=auto MT_GC_ROUNDS=auto");
	snprintf(out->command, sizeof(out->command),
		 "mtctl set %d round=auto; mtctl set %d gc_rounds=auto",
		 (int)facts->base.process.pid, (int)facts->base.process.pid);
	return true;
}

/* Live bytes that requested collections have freed (by mtctl, a signal or pressure). */
static uint64_t freed_by_collections(const struct mt_stats_file *file, uint64_t *out_objects,
				     size_t *out_count)
{
	uint64_t bytes = 0;

	*out_objects = *out_count = 0;
	for (size_t i = 0; i < MT_CLEANUPS_COUNT; i++) {
		const struct mt_stats_cleanup *record = &file->cleanups[i];

		if (!record->number || record->merged || record->gc_state != MT_GC_DONE ||
		    !record->gc_collected_count)
			continue;
		bytes += mt_sat_sub(record->live_before_bytes, record->live_after_bytes);
		*out_objects += record->gc_collected_count;
		(*out_count)++;
	}
	return bytes;
}

static bool leaves_garbage_in_rounds(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = figures(facts);
	uint64_t objects, bytes;
	size_t count;

	if (!setting_is(facts, "gc_rounds", "0"))
		return false;
	bytes = freed_by_collections(&facts->base.last, &objects, &count);
	if (!count || bytes / count < FREED_BYTES)
		return false;
	give_reason(out, "%s freed %s in cycles and %s; %s marked, and none ended with one%s",
		    mt_text_counted(count, "collection that was asked for",
				    "collections that were asked for")
			    .text,
		    mt_text_counted(objects, "object", "objects").text, mt_text_bytes(bytes).text,
		    mt_text_counted(now->rounds_count, "round was", "rounds were").text,
		    now->rounds_count ? "" : " (mark them: mtctl round, or mt_round())");
	suggest_setting(facts, out, "gc_rounds", "1");
	return true;
}

/* The last cleanups at ends of rounds, back to the first that freed something. */
static bool collects_without_effect(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_file *file = &facts->base.last;
	uint64_t spent_ns = 0;
	size_t count = 0;

	if (setting_is(facts, "gc_rounds", "auto") || !setting(facts, "gc_rounds"))
		return false;
	for (uint64_t number = file->head.cleanups_count; number; number--) {
		const struct mt_stats_cleanup *record = mt_stats_file_cleanup(file, number);

		if (!record)
			break;
		if (record->reason != MT_REASON_ROUND)
			continue;
		if (freed_bytes(record) >= MT_MIB)
			break;
		spent_ns += record->duration_ns;
		count++;
	}
	if (count < USELESS_MIN || spent_ns / count < USELESS_NS)
		return false;
	give_reason(out,
		    "the last %zu cleanups at ends of rounds took %s each and freed less than 1 MB "
		    "each",
		    count, mt_text_ns(spent_ns / count).text);
	suggest_setting(facts, out, "gc_rounds", "auto");
	return true;
}

/* ---- device memory ---- */

static const struct mt_stats_oom *last_fragmented(const struct mt_stats_file *file)
{
	for (uint64_t number = file->head.ooms_count; number; number--) {
		const struct mt_stats_oom *oom = mt_stats_file_oom(file, number);

		if (!oom || oom->cause == MT_OOM_CACHE)
			return oom;
	}
	return NULL;
}

/* max_split_size_mb below the refused size, so that blocks of that size are not split. */
static unsigned split_mb(uint64_t bytes)
{
	unsigned split = SPLIT_MIN_MB;

	while (split < 1024 && (uint64_t)split * 4 * MT_MIB <= bytes)
		split *= 2;
	return split;
}

static void give_fragments(const struct mt_stats_oom *oom, uint64_t idle_bytes, const char *whose,
			   struct mt_advice *out)
{
	give_reason(out, "%s were refused on GPU %llu while %s lay unused in pieces in %s",
		    mt_text_bytes(oom->asked_bytes).text, (unsigned long long)oom->device,
		    mt_text_bytes(idle_bytes).text, whose);
}

static bool has_fragments_in_torch(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_oom *oom = last_fragmented(&facts->base.last);
	const char *conf = facts->alloc_conf;

	if (!oom || oom->framework_idle_bytes < oom->asked_bytes || !may_join(conf) ||
	    strstr(conf, "max_split_size_mb") || strstr(conf, "expandable_segments:True") ||
	    strstr(conf, "cudaMallocAsync"))
		return false;
	give_fragments(oom, oom->framework_idle_bytes, "PyTorch's cache", out);
	if (strstr(conf, "expandable_segments")) /* expandable_segments:False: chosen */
		at_start(out,
			 "PYTORCH_CUDA_ALLOC_CONF=%.80s,max_split_size_mb:%u,garbage_collection_"
			 "threshold:0.8",
			 conf, split_mb(oom->asked_bytes));
	else
		at_start(out, "PYTORCH_CUDA_ALLOC_CONF=%.80s%sexpandable_segments:True", conf,
			 *conf ? "," : "");
	return true;
}

static bool has_fragments_in_the_pool(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_oom *oom = last_fragmented(&facts->base.last);
	const char *conf = mt_stats_file_setting(&facts->base.last, "cuda_conf");

	if (!oom || oom->idle_bytes < oom->asked_bytes ||
	    oom->framework_idle_bytes >= oom->asked_bytes || !conf ||
	    strstr(conf, "garbage_collection_threshold") || strstr(conf, "max_split_size_mb") ||
	    !may_join(conf))
		return false;
	give_fragments(oom, oom->idle_bytes, "the pool", out);
	at_start(out, "MT_CUDA_CONF=%.80s%sgarbage_collection_threshold:0.8,max_split_size_mb:%u",
		 conf, *conf ? "," : "", split_mb(oom->asked_bytes));
	return true;
}

static bool keeps_torch_cache(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = figures(facts);
	uint64_t unused = mt_sat_sub(now->framework_reserved_bytes, now->framework_allocated_bytes);

	if (unused < CACHE_BYTES ||
	    (double)unused < (double)now->framework_reserved_bytes * CACHE_SHARE ||
	    setting(facts, "framework_decay_ms"))
		return false;
	give_reason(out,
		    "when a cleanup last came to Python, PyTorch's cache held %s, of which tensors "
		    "used %s",
		    mt_text_bytes(now->framework_reserved_bytes).text,
		    mt_text_bytes(now->framework_allocated_bytes).text);
	suggest_setting(facts, out, "framework_decay_ms", "5000");
	return true;
}

static bool has_low_devices(const struct mt_stats_snapshot *now)
{
	return now->gpu_total_bytes &&
	       (double)now->gpu_free_bytes < (double)now->gpu_total_bytes * LOW_SHARE;
}

/* Idle blocks serve the next allocation. They are too many only where the device has little free.
 */
static bool keeps_too_much_in_pool(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = figures(facts);
	uint64_t decay_ms = setting(facts, "cuda_decay_ms");

	if (now->gpu_idle_bytes < CACHE_BYTES ||
	    (double)now->gpu_idle_bytes < (double)now->gpu_reserved_bytes * CACHE_SHARE ||
	    (decay_ms && decay_ms <= 5000) || !has_low_devices(now))
		return false;
	give_reason(
		out, "%s of %s lie idle in the pool, where %s of the devices' %s are free, and %s",
		mt_text_bytes(now->gpu_idle_bytes).text,
		mt_text_bytes(now->gpu_reserved_bytes).text,
		mt_text_bytes(now->gpu_free_bytes).text, mt_text_bytes(now->gpu_total_bytes).text,
		decay_ms ? "they stay for longer than 5 s" : "they never go back by themselves");
	suggest_setting(facts, out, "cuda_decay_ms", "5000");
	return true;
}

/* The program allocates again what the pool has released, and the device has room to keep it. */
static bool decays_too_soon(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = figures(facts);
	double hits = now->gpu_alloc_count
			      ? (double)now->gpu_hit_count / (double)now->gpu_alloc_count
			      : 1;
	uint64_t decay_ms = setting(facts, "cuda_decay_ms");

	if (now->gpu_alloc_count < ALLOCS_MIN || hits >= HITS_MIN || !decay_ms ||
	    decay_ms >= 30000 || now->gpu_decayed_bytes < 4 * now->gpu_reserved_peak_bytes ||
	    !now->gpu_reserved_peak_bytes || has_low_devices(now))
		return false;
	give_reason(out,
		    "only %.0f %% of %s allocations came from the pool, and %s went back after %s "
		    "ms: several times the %s that it ever held",
		    100 * hits, mt_text_count(now->gpu_alloc_count).text,
		    mt_text_bytes(now->gpu_decayed_bytes).text, mt_text_count(decay_ms).text,
		    mt_text_bytes(now->gpu_reserved_peak_bytes).text);
	suggest_setting(facts, out, "cuda_decay_ms", "30000");
	return true;
}

/* Somebody chose MT_CUDA=account, and no framework keeps a cache of its own. */
static bool does_without_the_pool(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = figures(facts);

	if (!setting_is(facts, "cuda", "account") || facts->has_torch ||
	    now->gpu_num_device_alloc < ALLOCS_MIN || now->framework_reserved_bytes ||
	    has_low_devices(now))
		return false;
	give_reason(out,
		    "%s of %s allocations of device memory went to the driver, which may wait for "
		    "the device each time; no framework keeps a cache here",
		    mt_text_count(now->gpu_num_device_alloc).text,
		    mt_text_count(now->gpu_alloc_count).text);
	at_start(out, "MT_CUDA=auto");
	return true;
}

/* ---- all rules ---- */

static const struct rule {
	const char *topic;
	bool (*is_due)(const struct mt_advise_facts *facts, struct mt_advice *out);
	bool needs_cuda;
} rules[] = {
	{"allocator", is_left_between_live_blocks, false},
	{"arenas", has_spread_over_arenas, false},
	{"python-malloc", keeps_python_arenas, false},
	{"python-malloc", computes_on_small_objects, false},
	{"budget", is_kept_without_budget, false},
	{"idle", is_refaulted_after_purges, false},
	{"settle", has_short_pauses, false},
	{"slack", is_idle_near_the_limit, false},
	{"rounds", has_unmarked_rounds, false},
	{"rounds", leaves_garbage_in_rounds, false},
	{"rounds", collects_without_effect, false},
	{"cuda", does_without_the_pool, true},
	{"split", has_fragments_in_torch, true},
	{"split", has_fragments_in_the_pool, true},
	{"framework-cache", keeps_torch_cache, true},
	{"cuda-decay", keeps_too_much_in_pool, true},
	{"cuda-decay", decays_too_soon, true},
};

_Static_assert(sizeof(rules) / sizeof(rules[0]) <= MT_ADVICE_MAX, "each rule may be due");

size_t mt_advise_judge(const struct mt_advise_facts *facts, struct mt_advice out[MT_ADVICE_MAX])
{
	bool uses_cuda = mt_stats_file_uses_cuda(&facts->base.last.head);
	const char *last_topic = "";
	size_t count = 0;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		out[count] = (struct mt_advice){.topic = rules[i].topic};
		if (strcmp(rules[i].topic, last_topic) == 0 ||
		    (rules[i].needs_cuda && !uses_cuda) || !rules[i].is_due(facts, &out[count]))
			continue;
		last_topic = rules[i].topic;
		count++;
	}
	return count;
}

/* ---- the facts ---- */

static void read_torch(struct mt_advise_facts *facts)
{
	static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
	pid_t pid = facts->base.process.pid;
	char *maps = mt_process_maps(pid);

	facts->has_torch =
		maps && (strstr(maps, "/libc10_cuda.so") || strstr(maps, "/libtorch_cuda.so"));
	free(maps);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !*facts->alloc_conf; i++)
		if (!mt_process_environ(pid, names[i], facts->alloc_conf,
					sizeof(facts->alloc_conf)))
			facts->alloc_conf[0] = '\0';
	mt_text_clean(facts->alloc_conf, sizeof(facts->alloc_conf));
}

void mt_advise_read(const struct mt_target *target, struct mt_advise_facts *facts)
{
	facts->base.process = target->process;
	facts->base.last = target->file;
	facts->base.awake = true;
	mt_diagnose_read_maps(&facts->base);
	(void)mt_diagnose_sample_now(&facts->base, 0);
	read_torch(facts);
}
