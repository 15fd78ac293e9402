/* ctl/diagnose/rules_role.c -- the checklists of diagnose --role: for a server and a client of
 * federated learning, and for a process that is out of memory, or near it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

#define LARGE_BLOCK  MT_MIB
#define THREADS_MANY 64
#define GPU_FAR      2.0 /* reserved divided by allocated */
#define NEAR_PERCENT 85  /* of a limit */
#define LARGEST_MAX  10
#define WORKER_SHARE 0.5 /* of the tree's PSS */

enum mt_role mt_role_parse(const char *word)
{
	static const char *const words[] = {
#define X(name, text) text,
		MT_ROLES(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(word, words[i]) == 0)
			return (enum mt_role)(i + 1);
	return MT_ROLE_NONE;
}

static const char *setting(const struct mt_facts *facts, const char *name)
{
	const char *value = mt_stats_file_setting(&facts->last, name);

	return value ? value : "";
}

static bool is_set(const char *value)
{
	return *value && strcmp(value, "0") != 0 && strcmp(value, "none") != 0;
}

/* ---- server and client ---- */

void mt_rule_preset(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const char *wanted = out->role == MT_ROLE_CLIENT ? "client" : "server";
	const char *preset = setting(facts, "preset");
	char advice[96];

	snprintf(advice, sizeof(advice), "start it with MT_PRESET=%s, or mtctl run --preset %s",
		 wanted, wanted);
	if (is_set(preset))
		mt_finding_note(out, MT_OK, "preset", NULL, "preset %s", preset);
	else
		mt_finding_note(out, MT_NOTE, "preset", advice, "no preset is set");
}

void mt_rule_rounds_known(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	uint64_t before = facts->first.head.snapshot.rounds_count,
		 now = mt_facts_now(facts)->rounds_count;
	const char *mode = setting(facts, "round");

	if (!now)
		mt_finding_note(out, MT_WARN, "rounds_known",
				"mark their ends: mtctl round PID, mt_round(), or MT_ROUND=auto or "
				"timer:SECONDS",
				"no round has ended so far (MT_ROUND=%.40s)", mode);
	else
		mt_finding_note(out, MT_OK, "rounds_known", NULL,
				"%s ended, %s of them during the diagnosis (MT_ROUND=%.40s)",
				mt_text_counted(now, "round has", "rounds have").text,
				mt_text_count(mt_sat_sub(now, before)).text, mode);
}

void mt_rule_gc_rounds(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	bool every = out->role == MT_ROLE_CLIENT;
	const char *step = setting(facts, "gc_rounds");
	char words[64];

	if (strcmp(step, "1") == 0)
		snprintf(words, sizeof(words), "round");
	else if (strcmp(step, "auto") == 0)
		snprintf(words, sizeof(words), "round, or fewer (auto)");
	else
		snprintf(words, sizeof(words), "%.20s rounds", step);
	if (!is_set(step))
		mt_finding_note(out, MT_WARN, "gc_rounds",
				every ? "mtctl set PID gc_rounds=1"
				      : "mtctl set PID gc_rounds=5, or auto",
				"no cleanup at the ends of rounds (MT_GC_ROUNDS=0)");
	else if (every && strcmp(step, "1") != 0)
		mt_finding_note(out, MT_NOTE, "gc_rounds",
				"a client has time between rounds: mtctl set PID gc_rounds=1",
				"a cleanup every %s", words);
	else
		mt_finding_note(out, MT_OK, "gc_rounds", NULL, "a cleanup every %s", words);
}

void mt_rule_rss_flat(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_trend *rss = &out->rss;

	(void)facts;
	if (rss->shape == MT_TREND_FEW)
		mt_finding_note(out, MT_NOTE, "rss_flat", "diagnose for longer: --for 60",
				"too few samples to decide whether RSS is flat");
	else if (rss->shape == MT_TREND_UNDECIDED)
		mt_finding_note(out, MT_NOTE, "rss_flat", "see the verdict above",
				"too little was seen to decide whether RSS is flat: %s",
				mt_trend_doubt_word(rss->doubt));
	else if (rss->shape == MT_TREND_GROWS)
		mt_finding_note(out, MT_WARN, "rss_flat", "see the verdict above",
				"RSS grows by %s%s", mt_diagnose_rate(rss->slope).text,
				rss->rounds ? ", by the lowest point of each round" : "");
	else
		mt_finding_note(out, MT_OK, "rss_flat", NULL, "RSS %s over %.0f s, %s to %s",
				mt_trend_is_level(rss) ? mt_trend_word(rss->shape)
						       : "goes up and down without growth",
				rss->seconds, mt_text_bytes(mt_text_round_u64(rss->lowest)).text,
				mt_text_bytes(mt_text_round_u64(rss->highest)).text);
}

static void check_limit(const struct mt_facts *facts, const char *id, const char *advice,
			struct mt_diagnosis *out)
{
	double percent = mt_limit_percent(&facts->limit);

	mt_finding_note(out, percent >= NEAR_PERCENT ? MT_WARN : MT_OK, id, advice,
			"%s of %s used, %.1f %% (%.100s)",
			mt_text_bytes(facts->limit.used_bytes).text,
			mt_text_bytes(facts->limit.limit_bytes).text, percent, facts->limit.source);
}

void mt_rule_headroom(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	if (facts->limit_known)
		check_limit(facts, "headroom", "raise the limit, or see the verdict above", out);
	else
		mt_finding_note(out, MT_NOTE, "headroom", NULL, "no limit could be read");
}

void mt_rule_pressure_seen(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	bool critical = now->pressure_critical_count != 0;

	if (!now->pressure_warn_count && !critical)
		mt_finding_note(out, MT_OK, "pressure", NULL,
				"memory has never been short since the start");
	else
		mt_finding_note(out, critical ? MT_WARN : MT_NOTE, "pressure",
				"see mtctl stat PID --records for what was done",
				"memory was short %s, critically %s; cleanups returned %s",
				mt_text_counted(now->pressure_warn_count, "time", "times").text,
				mt_text_counted(now->pressure_critical_count, "time", "times").text,
				mt_text_bytes(now->pressure_returned_bytes).text);
}

/* ---- server ---- */

void mt_rule_arenas_bounded(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const char *arenas = setting(facts, "arena_max");
	bool embedded = facts->last.head.mode == MT_MODE_JEMALLOC;

	if (is_set(arenas))
		mt_finding_note(out, MT_OK, "arenas_bounded", NULL, "at most %.20s arenas", arenas);
	else
		mt_finding_note(
			out, embedded ? MT_OK : MT_WARN, "arenas_bounded",
			embedded ? NULL
				 : "start it with MT_ARENA_MAX=4 (MALLOC_ARENA_MAX=4), or "
				   "MT_ALLOCATOR=jemalloc",
			"%s of %s, no bound set",
			mt_text_counted(mt_facts_now(facts)->heap_arenas_count, "arena", "arenas")
				.text,
			facts->last.head.allocator);
}

/* Blocks of 1 MB and more: models, updates of models, buffers of their bytes. */
void mt_rule_large_blocks(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_diagnose_classes *classes = &facts->classes_last;
	const struct mt_stats_class *most = NULL;
	uint64_t bytes = 0, count = 0;

	for (size_t i = 0; i < classes->count; i++) {
		const struct mt_stats_class *class = &classes->list[i];

		if (class->block_bytes < LARGE_BLOCK || !class->live_count)
			continue;
		bytes += class->block_bytes * class->live_count;
		count += class->live_count;
		if (!most || class->live_count > most->live_count)
			most = class;
	}
	if (!classes->count)
		mt_finding_note(out, MT_NOTE, "large_blocks", NULL,
				"this allocator does not report how many large blocks are live");
	else if (!most)
		mt_finding_note(out, MT_OK, "large_blocks", NULL, "no live block of 1 MB or more");
	else
		mt_finding_note(out, most->live_count > 8 ? MT_NOTE : MT_OK, "large_blocks",
				"as many copies of one size may be models: average as "
				"they come in, and drop each at once",
				"%s %s; most of one size: %s of %s",
				mt_text_counted(count, "live block of 1 MB and more holds",
						"live blocks of 1 MB and more hold")
					.text,
				mt_text_bytes(bytes).text, mt_text_count(most->live_count).text,
				mt_text_bytes(most->block_bytes).text);
}

void mt_rule_threads(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	uint64_t threads = mt_facts_now(facts)->threads_count;

	mt_finding_note(out, threads > THREADS_MANY ? MT_NOTE : MT_OK, "threads",
			"bound the pools of threads: each has a cache of freed blocks", "%s",
			mt_text_counted(threads, "thread", "threads").text);
}

/* ---- client ---- */

void mt_rule_gpu_rounds(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	uint64_t returned = mt_diagnose_gpu_returned(facts);
	const char *empties = setting(facts, "cuda_empty_cache"),
		   *heavy = setting(facts, "heavy_rounds");
	bool far;

	if (!mt_stats_file_uses_cuda(&facts->last.head)) {
		mt_finding_note(out, MT_OK, "gpu", NULL, "no GPU is used");
		return;
	}
	if (is_set(empties) || is_set(heavy))
		mt_finding_note(
			out, MT_OK, "gpu_cache_emptied", NULL,
			"rounds empty the GPU caches (cuda_empty_cache=%.10s, heavy_rounds=%.10s)",
			empties, heavy);
	else
		mt_finding_note(
			out, MT_WARN, "gpu_cache_emptied",
			"mtctl set PID cuda_empty_cache=1 (with gc_rounds=1), or heavy_rounds=1",
			"nothing empties the GPU caches between rounds");
	far = (double)last->gpu_reserved_bytes > (double)last->gpu_allocated_bytes * GPU_FAR ||
	      returned * 2 > last->gpu_reserved_bytes;
	mt_finding_note(out, far ? MT_WARN : MT_OK, "gpu_reserved",
			"mtctl trim PID returns what is cached",
			"%s reserved on the device for %s allocated",
			mt_text_bytes(last->gpu_reserved_bytes).text,
			mt_text_bytes(last->gpu_allocated_bytes).text);
	mt_finding_note(out, last->gpu_pinned_bytes > last->rss_bytes / 4 ? MT_NOTE : MT_OK,
			"pinned", "fewer batches in flight (prefetch_factor), or pin_memory=False",
			"%s of page-locked host memory",
			mt_text_bytes(last->gpu_pinned_bytes).text);
}

void mt_rule_workers(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_diagnose_tree *tree = &facts->tree;
	uint64_t own = facts->smaps_known ? facts->smaps.pss_bytes : 0;
	uint64_t workers = tree->last.pss_bytes > own ? tree->last.pss_bytes - own : 0;
	bool most = tree->known && (double)workers > (double)tree->last.pss_bytes * WORKER_SHARE;

	if (!tree->known)
		mt_finding_note(out, MT_OK, "workers", NULL, "it has no child processes");
	else
		mt_finding_note(out, most ? MT_NOTE : MT_OK, "workers",
				"fewer DataLoader workers, a smaller prefetch_factor; mtctl "
				"diagnose PID --tree lists each",
				"%s %s (PSS), %s of it copied from the parent",
				mt_text_counted(tree->count - 1, "child process holds",
						"child processes hold")
					.text,
				mt_text_bytes(workers).text,
				mt_text_bytes(tree->last.copied_bytes).text);
}

/* ---- out of memory ---- */

struct heap_part {
	const char *what;
	uint64_t bytes;
};

static int by_size(const void *a, const void *b)
{
	const struct heap_part *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

void mt_rule_largest(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	/* blocks count from malloc on; their pages are resident once they are touched */
	bool is_untouched = last->live_bytes > last->anon_bytes + last->swap_bytes;
	char live[48] = "live blocks of the heap";
	struct heap_part list[LARGEST_MAX] = {
		{live, is_untouched ? last->anon_bytes : last->live_bytes},
		{"free heap that a purge returns",
		 last->dirty_bytes < last->slack_bytes ? last->dirty_bytes : last->slack_bytes},
		{"free heap between live blocks", mt_sat_sub(last->slack_bytes, last->dirty_bytes)},
		{"live objects in Python's arenas", last->arenas_live_bytes},
		{"free space in Python's arenas",
		 mt_sat_sub(last->arenas_bytes, last->arenas_live_bytes)},
		{facts->awake ? "anonymous memory outside of the heap" : "anonymous memory",
		 facts->awake ? last->outside_bytes : last->anon_bytes},
		{"mapped files", last->file_bytes},
		{"shared memory", mt_sat_sub(last->shmem_bytes, last->gpu_pinned_bytes)},
		{"page-locked memory of the GPU", last->gpu_pinned_bytes},
		{"swapped out", last->swap_bytes},
	};

	if (is_untouched)
		snprintf(live, sizeof(live), "live blocks, touched (of %.12s)",
			 mt_text_bytes(last->live_bytes).text);
	qsort(list, LARGEST_MAX, sizeof(list[0]), by_size);
	for (size_t i = 0; i < LARGEST_MAX && list[i].bytes >= MT_MIB; i++) {
		char name[40];

		snprintf(name, sizeof(name), "holder_%zu", i + 1);
		mt_finding_note(out, MT_OK, name, NULL, "%zu. %-38s %10s  %3.0f %%", i + 1,
				list[i].what, mt_text_bytes(list[i].bytes).text,
				100 * (double)list[i].bytes /
					(double)(last->rss_bytes + last->swap_bytes + 1));
	}
}

void mt_rule_limit(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	if (facts->limit_known)
		check_limit(facts, "limit", "what comes next in this list says what to do first",
			    out);
}

void mt_rule_kernel_kills(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_diagnose_group *group = &facts->group;

	if (!group->known) {
		mt_finding_note(out, MT_NOTE, "kernel_kills", NULL,
				"no memory cgroup of its own could be read");
		return;
	}
	mt_finding_note(out, group->oom_kill_count ? MT_WARN : MT_OK, "kernel_kills",
			"dmesg names the processes and what they held",
			"the kernel has killed %s of its cgroup (%s oom_kill)",
			mt_text_counted(group->oom_kill_count, "process", "processes").text,
			group->is_v1 ? "memory.oom_control" : "memory.events");
	mt_finding_note(out, group->max_count ? MT_NOTE : MT_OK, "limit_hits", NULL,
			"the cgroup has run into its limit %s (%s)",
			mt_text_counted(group->max_count, "time", "times").text,
			group->is_v1 ? "memory.failcnt" : "memory.events max");
}

void mt_rule_reports(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_oom *oom =
		mt_stats_file_oom(&facts->last, facts->last.head.ooms_count);
	const struct mt_stats_limit_report *limit_report =
		mt_stats_file_limit_report(&facts->last, facts->last.head.limit_reports_count);

	if (oom)
		mt_finding_note(out, MT_WARN, "gpu_out_of_memory", oom->advice,
				"%s of a GPU; the last: %s asked for, %s",
				mt_text_counted(mt_facts_now(facts)->gpu_num_ooms,
						"out-of-memory error", "out-of-memory errors")
					.text,
				mt_text_bytes(oom->asked_bytes).text,
				mt_stats_word_oom_cause(oom->cause));
	else
		mt_finding_note(out, MT_OK, "gpu_out_of_memory", NULL,
				"no out-of-memory error of a GPU");
	if (limit_report)
		mt_finding_note(
			out, MT_WARN, "limit_reports", limit_report->advice,
			"MT_RSS_LIMIT_MB was reached %s; the last: %s of %s, %s live in the heap",
			mt_text_counted(facts->last.head.limit_reports_count, "time", "times").text,
			mt_text_bytes(limit_report->rss_bytes).text,
			mt_text_bytes(limit_report->limit_bytes).text,
			mt_text_bytes(limit_report->heap_live_bytes).text);
	else
		mt_finding_note(out, MT_OK, "limit_reports", NULL,
				"MT_RSS_LIMIT_MB was not reached");
}

void mt_rule_returns_at_once(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	const struct mt_stats_cleanup *record = &facts->trim.record;
	uint64_t bytes = facts->trim.done
				 ? mt_sat_sub(record->rss_before_bytes, record->rss_after_bytes)
				 : last->dirty_bytes;

	mt_finding_note(out, bytes >= 64 * MT_MIB ? MT_WARN : MT_OK, "returns_at_once",
			"mtctl trim PID whenever you need it; MT_PRESSURE=1 does it near a limit",
			facts->trim.done ? "a trim has just returned %s"
					 : "a trim would return about %s",
			mt_text_bytes(bytes).text);
}

/* Bytes in use now, and their growth in an hour, with a quarter to spare. */
void mt_rule_larger_limit(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_trend *rss = &out->rss;
	uint64_t used = facts->limit.used_bytes;
	double hours;

	if (!facts->limit_known)
		return;
	if (rss->shape != MT_TREND_GROWS) {
		mt_finding_note(out, MT_OK, "larger_limit", NULL,
				"nothing is seen to grow: a limit of %s leaves a quarter to spare",
				mt_text_bytes(used + used / 3).text);
		return;
	}
	hours = (double)mt_sat_sub(facts->limit.limit_bytes, used) / rss->slope / 3600;
	mt_finding_note(
		out, MT_WARN, "larger_limit",
		"no limit is large enough for what grows: see the verdict",
		"it grows by %s: the limit is reached in %.1f hours; each GB more buys %.1f hours",
		mt_diagnose_rate(rss->slope).text, hours,
		1024.0 * (double)MT_MIB / rss->slope / 3600);
}

/* The other checks need figures of its own. */
void mt_rule_unknown_settings(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	if (!facts->awake)
		mt_finding_note(out, MT_NOTE, "settings_known", NULL,
				"%s: nothing is known of its settings and of its heap",
				facts->asleep ? "the shim is asleep" : facts->why_not);
}

void mt_role_check(enum mt_role role, const struct mt_facts *facts,
		   const struct mt_diagnosis *diagnosis, struct mt_diagnosis *out)
{
	static const unsigned shown[] = {0,
#define X(name, word) MT_SHOWN_##name,
					 MT_ROLES(X)
#undef X
	};

	*out = *diagnosis;
	out->list = NULL;
	out->count = 0;
	out->role = role;
	mt_rules_run(facts, shown[role], out);
	mt_diagnose_end_advice(facts, out);
}
