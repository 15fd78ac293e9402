/* ctl/diagnose/role.c -- the checks that roles share, those of a server, of a client, and those for
 * a process that is out of memory, or near it. */
#include "ctl/diagnose/role.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADROOM_MIN 0.15 /* of a limit must be free */
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

/* Adds one line in the format of printf; `advice` may be NULL. A full list stays as it is. */
static void add(struct mt_checks *to, enum mt_check_state finding, const char *name,
		const char *advice, const char *format, ...) __attribute__((format(printf, 5, 6)));

static void add(struct mt_checks *to, enum mt_check_state finding, const char *name,
		const char *advice, const char *format, ...)
{
	struct mt_check *check = &to->list[to->count];
	va_list arguments;

	if (to->count == MT_CHECKS_MAX)
		return;
	to->count++;
	check->finding = finding;
	snprintf(check->name, sizeof(check->name), "%s", name);
	snprintf(check->advice, sizeof(check->advice), "%s", advice ? advice : "");
	va_start(arguments, format);
	vsnprintf(check->text, sizeof(check->text), format, arguments);
	va_end(arguments);
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

static const struct mt_sample *last_of(const struct mt_facts *facts)
{
	return &facts->samples[facts->samples_count ? facts->samples_count - 1 : 0];
}

/* ---- server and client ---- */

static void check_preset(const struct mt_facts *facts, const char *wanted, struct mt_checks *out)
{
	const char *preset = setting(facts, "preset");
	char advice[96];

	snprintf(advice, sizeof(advice), "start it with MT_PRESET=%s, or mtctl run --preset %s",
		 wanted, wanted);
	if (is_set(preset))
		add(out, MT_CHECK_OK, "preset", NULL, "preset %s", preset);
	else
		add(out, MT_CHECK_NOTE, "preset", advice, "no preset is set");
}

static void check_rounds(const struct mt_facts *facts, bool every, struct mt_checks *out)
{
	uint64_t before = facts->first.head.snapshot.rounds_count,
		 now = facts->last.head.snapshot.rounds_count;
	const char *step = setting(facts, "gc_rounds"), *mode = setting(facts, "round");
	char words[64];

	if (strcmp(step, "1") == 0)
		snprintf(words, sizeof(words), "round");
	else if (strcmp(step, "auto") == 0)
		snprintf(words, sizeof(words), "round, or fewer (auto)");
	else
		snprintf(words, sizeof(words), "%.20s rounds", step);

	if (!now)
		add(out, MT_CHECK_WARN, "rounds_known",
		    "mark their ends: mtctl round PID, mt_round(), or MT_ROUND=auto or "
		    "timer:SECONDS",
		    "no round has ended so far (MT_ROUND=%.40s)", mode);
	else
		add(out, MT_CHECK_OK, "rounds_known", NULL,
		    "%s ended, %s of them during the diagnosis (MT_ROUND=%.40s)",
		    mt_text_counted(now, "round has", "rounds have").text,
		    mt_text_count(now > before ? now - before : 0).text, mode);
	if (!is_set(step))
		add(out, MT_CHECK_WARN, "gc_rounds",
		    every ? "mtctl set PID gc_rounds=1" : "mtctl set PID gc_rounds=5, or auto",
		    "no cleanup at the ends of rounds (MT_GC_ROUNDS=0)");
	else if (every && strcmp(step, "1") != 0)
		add(out, MT_CHECK_NOTE, "gc_rounds",
		    "a client has time between rounds: mtctl set PID gc_rounds=1",
		    "a cleanup every %s", words);
	else
		add(out, MT_CHECK_OK, "gc_rounds", NULL, "a cleanup every %s", words);
}

static void check_trend(const struct mt_diagnosis *diagnosis, struct mt_checks *out)
{
	const struct mt_trend *rss = &diagnosis->rss;

	if (rss->shape == MT_TREND_FEW)
		add(out, MT_CHECK_NOTE, "rss_flat", "diagnose for longer: --for 60",
		    "too few samples to decide whether RSS is flat");
	else if (rss->shape == MT_TREND_UNDECIDED)
		add(out, MT_CHECK_NOTE, "rss_flat", "see the verdict above",
		    "too little was seen to decide whether RSS is flat: %s",
		    mt_trend_doubt_word(rss->doubt));
	else if (rss->shape == MT_TREND_GROWS)
		add(out, MT_CHECK_WARN, "rss_flat", "see the verdict above", "RSS grows by %s%s",
		    mt_diagnose_rate(rss->slope).text,
		    rss->rounds ? ", by the lowest point of each round" : "");
	else
		add(out, MT_CHECK_OK, "rss_flat", NULL, "RSS %s over %.0f s, %s to %s",
		    mt_trend_word(rss->shape), rss->seconds,
		    mt_text_bytes(mt_text_round_u64(rss->lowest)).text,
		    mt_text_bytes(mt_text_round_u64(rss->highest)).text);
}

static void check_headroom(const struct mt_facts *facts, struct mt_checks *out)
{
	const struct mt_limit *limit = &facts->limit;
	double percent = facts->limit_known ? mt_limit_percent(limit) : 0;

	if (!facts->limit_known)
		add(out, MT_CHECK_NOTE, "headroom", NULL, "no limit could be read");
	else
		add(out, percent > 100 * (1 - HEADROOM_MIN) ? MT_CHECK_WARN : MT_CHECK_OK,
		    "headroom",
		    percent > 100 * (1 - HEADROOM_MIN) ? "raise the limit, or see the verdict above"
						       : NULL,
		    "%.1f %% of %s used (%.100s)", percent, mt_text_bytes(limit->limit_bytes).text,
		    limit->source);
}

static void check_pressure(const struct mt_facts *facts, struct mt_checks *out)
{
	const struct mt_stats_snapshot *now = &facts->last.head.snapshot;
	bool critical = now->pressure_critical_count != 0;

	if (!now->pressure_warn_count && !critical)
		add(out, MT_CHECK_OK, "pressure", NULL,
		    "memory has never been short since the start");
	else
		add(out, critical ? MT_CHECK_WARN : MT_CHECK_NOTE, "pressure",
		    "see mtctl stat PID --records for what was done",
		    "memory was short %s, critically %s; cleanups returned %s",
		    mt_text_counted(now->pressure_warn_count, "time", "times").text,
		    mt_text_counted(now->pressure_critical_count, "time", "times").text,
		    mt_text_bytes(now->pressure_returned_bytes).text);
}

/* ---- server ---- */

static void check_arenas(const struct mt_facts *facts, struct mt_checks *out)
{
	const char *arenas = setting(facts, "arena_max");
	bool embedded = strcmp(facts->last.head.mode, "jemalloc") == 0;

	if (is_set(arenas))
		add(out, MT_CHECK_OK, "arenas_bounded", NULL, "at most %.20s arenas", arenas);
	else
		add(out, embedded ? MT_CHECK_OK : MT_CHECK_WARN, "arenas_bounded",
		    embedded ? NULL
			     : "start it with MT_ARENA_MAX=4 (MALLOC_ARENA_MAX=4), or "
			       "MT_ALLOCATOR=jemalloc",
		    "%s of %s, no bound set",
		    mt_text_counted(facts->last.head.snapshot.heap_arenas_count, "arena", "arenas")
			    .text,
		    facts->last.head.allocator);
}

/* Blocks of 1 MB and more: models, updates of models, buffers of their bytes. */
static void check_large_blocks(const struct mt_facts *facts, struct mt_checks *out)
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
		add(out, MT_CHECK_NOTE, "large_blocks", NULL,
		    "this allocator does not report how many large blocks are live");
	else if (!most)
		add(out, MT_CHECK_OK, "large_blocks", NULL, "no live block of 1 MB or more");
	else
		add(out, most->live_count > 8 ? MT_CHECK_NOTE : MT_CHECK_OK, "large_blocks",
		    most->live_count > 8 ? "as many copies of one size may be models: average as "
					   "they come in, and drop each at once"
					 : NULL,
		    "%s %s; most of one size: %s of %s",
		    mt_text_counted(count, "live block of 1 MB and more holds",
				    "live blocks of 1 MB and more hold")
			    .text,
		    mt_text_bytes(bytes).text, mt_text_count(most->live_count).text,
		    mt_text_bytes(most->block_bytes).text);
}

static void check_threads(const struct mt_facts *facts, struct mt_checks *out)
{
	uint64_t threads = facts->last.head.snapshot.threads_count;

	add(out, threads > THREADS_MANY ? MT_CHECK_NOTE : MT_CHECK_OK, "threads",
	    threads > THREADS_MANY ? "bound the pools of threads: each has a cache of freed blocks"
				   : NULL,
	    "%s", mt_text_counted(threads, "thread", "threads").text);
}

static void check_server(const struct mt_facts *facts, const struct mt_diagnosis *diagnosis,
			 struct mt_checks *out)
{
	if (facts->awake) {
		check_preset(facts, "server", out);
		check_rounds(facts, false, out);
		check_arenas(facts, out);
		check_large_blocks(facts, out);
		check_threads(facts, out);
		check_pressure(facts, out);
	}
	check_trend(diagnosis, out);
	check_headroom(facts, out);
}

/* ---- client ---- */

static void check_gpu(const struct mt_facts *facts, struct mt_checks *out)
{
	const struct mt_sample *last = last_of(facts);
	uint64_t returned = mt_diagnose_gpu_returned(facts);
	const char *empties = setting(facts, "cuda_empty_cache"),
		   *heavy = setting(facts, "heavy_rounds");
	bool far;

	if (!mt_stats_file_uses_cuda(&facts->last.head)) {
		add(out, MT_CHECK_OK, "gpu", NULL, "no GPU is used");
		return;
	}
	if (is_set(empties) || is_set(heavy))
		add(out, MT_CHECK_OK, "gpu_cache_emptied", NULL,
		    "rounds empty the GPU caches (cuda_empty_cache=%.10s, heavy_rounds=%.10s)",
		    empties, heavy);
	else
		add(out, MT_CHECK_WARN, "gpu_cache_emptied",
		    "mtctl set PID cuda_empty_cache=1 (with gc_rounds=1), or heavy_rounds=1",
		    "nothing empties the GPU caches between rounds");
	far = (double)last->gpu_reserved_bytes > (double)last->gpu_allocated_bytes * GPU_FAR ||
	      returned * 2 > last->gpu_reserved_bytes;
	add(out, far ? MT_CHECK_WARN : MT_CHECK_OK, "gpu_reserved",
	    far ? "mtctl trim PID returns what is cached" : NULL,
	    "%s reserved on the device for %s allocated",
	    mt_text_bytes(last->gpu_reserved_bytes).text,
	    mt_text_bytes(last->gpu_allocated_bytes).text);
	add(out, last->gpu_pinned_bytes > last->rss_bytes / 4 ? MT_CHECK_NOTE : MT_CHECK_OK,
	    "pinned",
	    last->gpu_pinned_bytes > last->rss_bytes / 4
		    ? "fewer batches in flight (prefetch_factor), or pin_memory=False"
		    : NULL,
	    "%s of page-locked host memory", mt_text_bytes(last->gpu_pinned_bytes).text);
}

static void check_workers(const struct mt_facts *facts, struct mt_checks *out)
{
	const struct mt_diagnose_tree *tree = &facts->tree;
	uint64_t own = facts->smaps_known ? facts->smaps.pss_bytes : 0;
	uint64_t workers = tree->last.pss_bytes > own ? tree->last.pss_bytes - own : 0;
	bool most = tree->known && (double)workers > (double)tree->last.pss_bytes * WORKER_SHARE;

	if (!tree->known)
		add(out, MT_CHECK_OK, "workers", NULL, "it has no child processes");
	else
		add(out, most ? MT_CHECK_NOTE : MT_CHECK_OK, "workers",
		    most ? "fewer DataLoader workers, a smaller prefetch_factor; mtctl diagnose "
			   "PID --tree lists each"
			 : NULL,
		    "%s %s (PSS), %s of it copied from the parent",
		    mt_text_counted(tree->count - 1, "child process holds", "child processes hold")
			    .text,
		    mt_text_bytes(workers).text, mt_text_bytes(tree->last.copied_bytes).text);
}

static void check_client(const struct mt_facts *facts, const struct mt_diagnosis *diagnosis,
			 struct mt_checks *out)
{
	if (facts->awake) {
		check_preset(facts, "client", out);
		check_rounds(facts, true, out);
		check_gpu(facts, out);
		check_pressure(facts, out);
	}
	check_trend(diagnosis, out);
	check_workers(facts, out);
	check_headroom(facts, out);
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

static void add_largest(const struct mt_facts *facts, struct mt_checks *out)
{
	const struct mt_sample *last = last_of(facts);
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
		add(out, MT_CHECK_OK, name, NULL, "%zu. %-38s %10s  %3.0f %%", i + 1, list[i].what,
		    mt_text_bytes(list[i].bytes).text,
		    100 * (double)list[i].bytes / (double)(last->rss_bytes + last->swap_bytes + 1));
	}
}

static void check_limit(const struct mt_facts *facts, struct mt_checks *out)
{
	const struct mt_limit *limit = &facts->limit;
	double percent = facts->limit_known ? mt_limit_percent(limit) : 0;

	if (!facts->limit_known)
		return;
	add(out, percent >= NEAR_PERCENT ? MT_CHECK_WARN : MT_CHECK_OK, "limit",
	    percent >= NEAR_PERCENT ? "what comes next in this list says what to do first" : NULL,
	    "%s of %s used, %.1f %% (%.100s)", mt_text_bytes(limit->used_bytes).text,
	    mt_text_bytes(limit->limit_bytes).text, percent, limit->source);
}

static void check_kills(const struct mt_facts *facts, struct mt_checks *out)
{
	const struct mt_diagnose_group *group = &facts->group;

	if (!group->known) {
		add(out, MT_CHECK_NOTE, "kernel_kills", NULL,
		    "no memory cgroup of its own could be read");
		return;
	}
	add(out, group->oom_kill_count ? MT_CHECK_WARN : MT_CHECK_OK, "kernel_kills",
	    group->oom_kill_count ? "dmesg names the processes and what they held" : NULL,
	    "the kernel has killed %s of its cgroup (%s oom_kill)",
	    mt_text_counted(group->oom_kill_count, "process", "processes").text,
	    group->is_v1 ? "memory.oom_control" : "memory.events");
	add(out, group->max_count ? MT_CHECK_NOTE : MT_CHECK_OK, "limit_hits", NULL,
	    "the cgroup has run into its limit %s (%s)",
	    mt_text_counted(group->max_count, "time", "times").text,
	    group->is_v1 ? "memory.failcnt" : "memory.events max");
}

static void check_reports(const struct mt_facts *facts, struct mt_checks *out)
{
	const struct mt_stats_oom *oom =
		mt_stats_file_oom(&facts->last, facts->last.head.ooms_count);
	const struct mt_stats_limit_report *limit_report =
		mt_stats_file_limit_report(&facts->last, facts->last.head.limit_reports_count);

	if (oom)
		add(out, MT_CHECK_WARN, "gpu_out_of_memory", oom->advice,
		    "%s of a GPU; the last: %s asked for, %s",
		    mt_text_counted(facts->last.head.snapshot.gpu_num_ooms, "out-of-memory error",
				    "out-of-memory errors")
			    .text,
		    mt_text_bytes(oom->asked_bytes).text, mt_stats_word_oom_cause(oom->cause));
	else
		add(out, MT_CHECK_OK, "gpu_out_of_memory", NULL, "no out-of-memory error of a GPU");
	if (limit_report)
		add(out, MT_CHECK_WARN, "limit_reports", limit_report->advice,
		    "MT_RSS_LIMIT_MB was reached %s; the last: %s of %s, %s live in the heap",
		    mt_text_counted(facts->last.head.limit_reports_count, "time", "times").text,
		    mt_text_bytes(limit_report->rss_bytes).text,
		    mt_text_bytes(limit_report->limit_bytes).text,
		    mt_text_bytes(limit_report->heap_live_bytes).text);
	else
		add(out, MT_CHECK_OK, "limit_reports", NULL, "MT_RSS_LIMIT_MB was not reached");
}

static void check_return(const struct mt_facts *facts, struct mt_checks *out)
{
	const struct mt_sample *last = last_of(facts);
	const struct mt_stats_cleanup *record = &facts->trim.record;
	uint64_t bytes = facts->trim.done
				 ? mt_sat_sub(record->rss_before_bytes, record->rss_after_bytes)
				 : last->dirty_bytes;

	add(out, bytes >= 64 * MT_MIB ? MT_CHECK_WARN : MT_CHECK_OK, "returns_at_once",
	    bytes >= 64 * MT_MIB
		    ? "mtctl trim PID whenever you need it; MT_PRESSURE=1 does it near a limit"
		    : NULL,
	    facts->trim.done ? "a trim has just returned %s" : "a trim would return about %s",
	    mt_text_bytes(bytes).text);
}

/* Bytes in use now, and their growth in an hour, with a quarter to spare. */
static void check_larger(const struct mt_facts *facts, const struct mt_diagnosis *diagnosis,
			 struct mt_checks *out)
{
	const struct mt_trend *rss = &diagnosis->rss;
	uint64_t used = facts->limit.used_bytes;
	double hours;

	if (!facts->limit_known)
		return;
	if (rss->shape != MT_TREND_GROWS) {
		add(out, MT_CHECK_OK, "larger_limit", NULL,
		    "nothing is seen to grow: a limit of %s leaves a quarter to spare",
		    mt_text_bytes(used + used / 3).text);
		return;
	}
	hours = (double)mt_sat_sub(facts->limit.limit_bytes, used) / rss->slope / 3600;
	add(out, MT_CHECK_WARN, "larger_limit",
	    "no limit is large enough for what grows: see the verdict",
	    "it grows by %s: the limit is reached in %.1f hours; each GB more buys %.1f hours",
	    mt_diagnose_rate(rss->slope).text, hours, 1024.0 * (double)MT_MIB / rss->slope / 3600);
}

static void check_oom(const struct mt_facts *facts, const struct mt_diagnosis *diagnosis,
		      struct mt_checks *out)
{
	check_limit(facts, out);
	add_largest(facts, out);
	check_kills(facts, out);
	if (facts->awake) {
		check_reports(facts, out);
		check_return(facts, out);
	}
	check_larger(facts, diagnosis, out);
}

/* Puts the process id into commands, so that they can be copied. */
static void put_pid(char *advice, size_t advice_bytes, pid_t pid)
{
	char rest[240], *at = strstr(advice, "PID");

	if (!at)
		return;
	snprintf(rest, sizeof(rest), "%s", at + strlen("PID"));
	snprintf(at, advice_bytes - (size_t)(at - advice), "%d%s", (int)pid, rest);
}

void mt_role_check(enum mt_role role, const struct mt_facts *facts,
		   const struct mt_diagnosis *diagnosis, struct mt_checks *out)
{
	memset(out, 0, sizeof(*out));
	if (role != MT_ROLE_NONE && !facts->awake)
		add(out, MT_CHECK_NOTE, "settings_known", NULL,
		    "%s: nothing is known of its settings and of its heap",
		    facts->asleep ? "the shim is asleep" : facts->why_not);
	if (role == MT_ROLE_SERVER)
		check_server(facts, diagnosis, out);
	else if (role == MT_ROLE_CLIENT)
		check_client(facts, diagnosis, out);
	else if (role == MT_ROLE_OOM)
		check_oom(facts, diagnosis, out);
	for (size_t i = 0; i < out->count; i++)
		put_pid(out->list[i].advice, sizeof(out->list[i].advice), facts->process.pid);
}
