/* test_advise.c -- each rule of mtctl advise: due where the evidence is there, silent where any
 * part of it is not. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

#define S 1000000000ull

static void put_setting(struct mt_facts *facts, const char *name, const char *value)
{
	struct mt_stats_file *file = &facts->last;
	size_t place = 0;

	while (place < file->head.settings_count && strcmp(file->settings[place].name, name) != 0)
		place++;
	snprintf(file->settings[place].name, sizeof(file->settings[place].name), "%s", name);
	snprintf(file->settings[place].value, sizeof(file->settings[place].value), "%s", value);
	if (place == file->head.settings_count)
		file->head.settings_count++;
}

/* An awake process of 1 GB on the embedded jemalloc with the default settings, of which there is
 * nothing to say. */
static struct mt_facts *plain(void)
{
	static const char *const settings[][2] = {
		{"malloc_conf", ""},       {"arena_max", "0"},          {"slack_mb", "64"},
		{"slack_pct", "10"},       {"budget_pct", "3"},         {"idle_ms", "500"},
		{"settle_ms", "10000"},    {"gc_rounds", "0"},          {"cuda", "auto"},
		{"cuda_decay_ms", "5000"}, {"framework_decay_ms", "0"},
	};
	struct mt_facts *facts = calloc(1, sizeof(*facts));
	struct mt_stats_head *head = &facts->last.head;

	facts->process.pid = 42;
	facts->awake = true;
	facts->samples_count = 1;
	facts->samples[0].rss_bytes = 1024 * MT_MIB;
	facts->samples[0].slack_bytes = 100 * MT_MIB;
	head->mode = MT_MODE_JEMALLOC;
	strcpy(head->allocator, "jemalloc");
	head->snapshot = (struct mt_stats_snapshot){
		.uptime_ms = 600000,
		.rss_bytes = 1024 * MT_MIB,
		.rss_anon_bytes = 1000 * MT_MIB,
		.rss_peak_bytes = 1024 * MT_MIB,
		.heap_live_bytes = 900 * MT_MIB,
		.heap_live_peak_bytes = 950 * MT_MIB,
		.heap_arenas_count = 8,
		.threads_count = 12,
		.cpus_count = 4,
		.budget_balance_ns = S,
	};
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		put_setting(facts, settings[i][0], settings[i][1]);
	return facts;
}

static struct mt_stats_snapshot *figures(struct mt_facts *facts)
{
	return &facts->last.head.snapshot;
}

static struct mt_stats_cleanup *put_record(struct mt_facts *facts, enum mt_reason reason,
					   enum mt_level level, double at_s)
{
	struct mt_stats_file *file = &facts->last;
	uint64_t number = ++file->head.cleanups_count;
	struct mt_stats_cleanup *record = &file->cleanups[(number - 1) % MT_CLEANUPS_COUNT];

	*record = (struct mt_stats_cleanup){.number = number,
					    .time_ns = 1000 * S + (uint64_t)(at_s * 1e9),
					    .reason = reason,
					    .level = level,
					    .result = 1};
	return record;
}

static struct mt_finding only;

/* The environment line of the one piece of advice there is; "" for none, "several" for more. Frees.
 */
static const char *advice(struct mt_facts *facts)
{
	struct mt_diagnosis found = {.count = 0};
	size_t count;

	mt_findings_of_one_look(facts, &found);
	mt_findings_with_setting(&found);
	count = found.count;
	only = count ? found.list[0] : (struct mt_finding){.command = "?"};
	mt_diagnosis_free(&found);
	free(facts);
	return count == 0 ? "" : count == 1 ? only.environment : "several";
}

static const char *command(struct mt_facts *facts)
{
	return strcmp(advice(facts), "several") ? only.command : "?";
}

/* Builds a case, changes one thing of it, and expects silence. */
#define EXPECT_SILENT(build, change)                                                               \
	do {                                                                                       \
		struct mt_facts *facts = build();                                                  \
		change;                                                                            \
		cr_expect_str_eq(advice(facts), "", "%s", #change);                                \
	} while (0)

Test(advise, has_nothing_to_say_of_a_process_that_is_well)
{
	cr_expect_str_eq(advice(plain()), "");
}

static struct mt_facts *spread(void)
{
	struct mt_facts *facts = plain();

	figures(facts)->heap_live_peak_bytes = 400 * MT_MIB;
	return facts;
}

Test(advise, fewer_arenas_for_threads_that_have_spread_over_many)
{
	struct mt_facts *changed = spread();

	cr_expect_str_eq(advice(spread()), "MT_MALLOC_CONF=narenas:1");
	put_setting(changed, "malloc_conf", "tcache:false");
	figures(changed)->cpus_count = 16;
	cr_expect_str_eq(advice(changed), "MT_MALLOC_CONF=tcache:false,narenas_ratio:0.5");
	changed = spread();
	changed->last.head.mode = MT_MODE_SYSTEM;
	strcpy(changed->last.head.allocator, "glibc");
	cr_expect_str_eq(advice(changed), "MALLOC_ARENA_MAX=2");
	EXPECT_SILENT(spread, figures(facts)->threads_count = 2);
	EXPECT_SILENT(spread, figures(facts)->heap_arenas_count = 2);
	EXPECT_SILENT(spread, figures(facts)->rounds_count = 3);
	EXPECT_SILENT(spread, put_setting(facts, "arena_max", "4"));
	EXPECT_SILENT(spread, put_setting(facts, "malloc_conf", "narenas:2"));
	EXPECT_SILENT(spread, figures(facts)->rss_file_bytes = 500 * MT_MIB);
	EXPECT_SILENT(spread, facts->samples[0].outside_bytes = 500 * MT_MIB);
	EXPECT_SILENT(spread, facts->last.head.mode = MT_MODE_SHADOWED);
}

Test(advise, joins_nothing_to_a_line_for_the_shell_that_the_shell_would_run)
{
	EXPECT_SILENT(spread, put_setting(facts, "malloc_conf", "a:1;rm -rf ~"));
	EXPECT_SILENT(spread, put_setting(facts, "malloc_conf", "$(id)"));
	EXPECT_SILENT(spread, put_setting(facts, "malloc_conf",
					  "a:1,b:2,c:3,d:4,e:5,f:6,g:7,h:8,i:9,j:10,k:11,l:12,m:13,"
					  "n:14,o:15,p:16,q:17,r:18,s:19"));
}

static struct mt_facts *pinned(void)
{
	struct mt_facts *facts = plain();
	struct mt_stats_cleanup *record = put_record(facts, MT_REASON_REQUEST, MT_LEVEL_LIGHT, 0);

	facts->last.head.mode = MT_MODE_SYSTEM;
	strcpy(facts->last.head.allocator, "glibc");
	record->anon_after_bytes = 800 * MT_MIB;
	record->rss_after_bytes = 820 * MT_MIB;
	record->live_after_bytes = 300 * MT_MIB;
	return facts;
}

Test(advise, the_embedded_allocator_where_a_trim_leaves_much_that_nobody_holds)
{
	cr_expect_str_eq(advice(pinned()), "MT_ALLOCATOR=jemalloc");
	EXPECT_SILENT(pinned, facts->last.head.mode = MT_MODE_JEMALLOC);
	EXPECT_SILENT(pinned, facts->last.cleanups[0].live_after_bytes = 700 * MT_MIB);
	EXPECT_SILENT(pinned, facts->last.cleanups[0].level = MT_LEVEL_PURGE);
	EXPECT_SILENT(pinned, facts->samples[0].outside_bytes = 400 * MT_MIB);
	/* the rest of anonymous memory is not libc's, whose heaps have gone back to the kernel */
	EXPECT_SILENT(pinned, facts->libc_free_known = true; facts->libc_free_bytes = 100 * MT_MIB);
}

static struct mt_facts *unpaid(void)
{
	struct mt_facts *facts = plain();

	figures(facts)->heap_idle_bytes = 200 * MT_MIB;
	facts->samples[0].slack_bytes = 200 * MT_MIB;
	figures(facts)->budget_balance_ns = 0;
	return facts;
}

Test(advise, more_budget_where_idle_bytes_wait_for_it)
{
	struct mt_facts *changed = unpaid();

	cr_expect_str_eq(advice(unpaid()), "MT_BUDGET_PCT=5");
	cr_expect_str_eq(command(unpaid()), "mtctl set 42 budget_pct=5");
	put_setting(changed, "budget_pct", "0");
	figures(changed)->budget_balance_ns = S;
	cr_expect_str_eq(advice(changed), "MT_BUDGET_PCT=3");
	EXPECT_SILENT(unpaid, figures(facts)->budget_balance_ns = 1);
	EXPECT_SILENT(unpaid, figures(facts)->heap_idle_bytes = 90 * MT_MIB);
	/* idle by address, and never touched */
	EXPECT_SILENT(unpaid, facts->samples[0].slack_bytes = 5 * MT_MIB);
	EXPECT_SILENT(unpaid, put_setting(facts, "budget_pct", "5"));
	EXPECT_SILENT(unpaid, figures(facts)->uptime_ms = 5000);
}

static struct mt_facts *in_vain(void)
{
	struct mt_facts *facts = plain();

	figures(facts)->purge_count = 300;
	figures(facts)->purged_bytes = 30000 * MT_MIB;
	figures(facts)->refault_count = 30000ull * 256 * 9 / 10;
	figures(facts)->purge_cost_ns = figures(facts)->refault_cost_ns = 15 * S;
	return facts;
}

Test(advise, a_longer_wait_where_what_was_purged_is_taken_back)
{
	cr_expect_str_eq(advice(in_vain()), "MT_IDLE_MS=2000");
	EXPECT_SILENT(in_vain, figures(facts)->refault_count /= 2);
	EXPECT_SILENT(in_vain, figures(facts)->purged_bytes = 100 * MT_MIB);
	EXPECT_SILENT(in_vain,
		      figures(facts)->refault_cost_ns = figures(facts)->purge_cost_ns = S / 10);
	EXPECT_SILENT(in_vain, put_setting(facts, "idle_ms", "3000"));
	EXPECT_SILENT(in_vain, put_setting(facts, "budget_pct", "5"));
}

Test(advise, names_the_first_balance_where_a_cost_above_the_budget_is_within_it)
{
	struct mt_diagnosis found = {.count = 0};
	struct mt_facts *facts = in_vain();

	figures(facts)->uptime_ms = 100000;
	figures(facts)->purge_cost_ns = figures(facts)->refault_cost_ns = 16 * S / 10;
	mt_rule_refaulted(facts, &found);
	cr_assert_eq(found.count, 1);
	cr_expect(strstr(found.list[0].text, "cost 3.2 % of the time with the page faults, "
					     "within MT_BUDGET_PCT=3 and its first 0.3 s: "),
		  "%s", found.list[0].text);
	mt_diagnosis_free(&found);
	free(facts);
}

static struct mt_facts *in_vain_after_drops(void)
{
	struct mt_facts *facts = in_vain();

	facts->last.head.cleanups_by_reason[MT_REASON_LIVE_DROP] = 290;
	facts->last.head.cleanups_by_reason[MT_REASON_IDLE] = 10;
	return facts;
}

Test(advise, a_larger_slack_where_what_fell_is_taken_back)
{
	cr_expect_str_eq(advice(in_vain_after_drops()), "MT_SLACK_MB=128");
	EXPECT_SILENT(in_vain_after_drops, put_setting(facts, "slack_mb", "128"));
}

/* What one look shows first; "" for nothing. Frees. */
static const char *first_id(struct mt_facts *facts)
{
	struct mt_diagnosis found = {.count = 0};

	mt_findings_of_one_look(facts, &found);
	only = found.count ? found.list[0] : (struct mt_finding){.id = ""};
	mt_diagnosis_free(&found);
	free(facts);
	return only.id;
}

Test(advise, a_cost_within_the_budget_is_told_and_no_setting_is_advised)
{
	struct mt_facts *facts = in_vain_after_drops();

	put_setting(facts, "budget_pct", "5");

	cr_expect_str_eq(first_id(facts), "idle");
	cr_expect(strstr(only.text,
			 "5.0 % of the time with the page faults, within MT_BUDGET_PCT=5: "
			 "slack_mb=128 would keep up to 128 MB resident instead"),
		  "%s", only.text);
	cr_expect_str_empty(only.environment);
}

/* 200 MB idle throughout, below a slack of 208 MB of this origin. */
static struct mt_facts *keeping(const char *origin)
{
	struct mt_facts *facts = in_vain();

	facts->samples[0].idle_bytes = facts->samples[0].slack_bytes = 200 * MT_MIB;
	facts->samples[0].live_bytes = 700 * MT_MIB;
	put_setting(facts, "slack_mb", "208");
	for (size_t i = 0; i < facts->last.head.settings_count; i++)
		strcpy(facts->last.settings[i].origin, origin);
	return facts;
}

Test(advise, what_the_user_has_chosen_to_keep_is_neither_a_hoard_nor_advised_against)
{
	cr_expect_str_eq(first_id(keeping("default")), "hoard");
	cr_expect_str_empty(first_id(keeping("mtctl set")));
}

Test(advise, one_look_says_that_cleaning_takes_many_times_its_budget)
{
	struct mt_facts *facts = plain();

	figures(facts)->budget_ratio_thousandths = 30;
	figures(facts)->purge_cost_ns = 430 * S;
	cr_expect_str_eq(first_id(facts), "cost");
	cr_expect(strstr(only.text, "71.7 % of the time, where the budget is 3 %") != NULL, "%s",
		  only.text);
	facts = plain();
	figures(facts)->budget_ratio_thousandths = 30;
	figures(facts)->purge_cost_ns = 20 * S;
	cr_expect_str_eq(first_id(facts), "");
}

static struct mt_facts *pauses(void)
{
	struct mt_facts *facts = plain();
	struct mt_stats_file *file = &facts->last;

	/* Six seconds of rest after each of two in which live memory moves. */
	for (unsigned i = 0; i < 64; i++)
		file->samples[file->head.samples_count++] = (struct mt_stats_sample){
			.time_ns = (1000 + i) * S,
			.live_bytes = (i % 8 < 2 ? 300 + i % 8 * 50 : 400) * MT_MIB,
			.idle_bytes = 100 * MT_MIB};
	return facts;
}

Test(advise, an_earlier_settling_where_pauses_are_short)
{
	cr_expect_str_eq(advice(pauses()), "MT_SETTLE_MS=3000");
	EXPECT_SILENT(pauses, put_setting(facts, "settle_ms", "3000"));
	EXPECT_SILENT(pauses, put_setting(facts, "settle_ms", "4000"));
	EXPECT_SILENT(pauses, figures(facts)->rounds_count = 1);
	EXPECT_SILENT(pauses, for (size_t i = 0; i < 64; i++) facts->last.samples[i].idle_bytes =
				      10 * MT_MIB);
	EXPECT_SILENT(pauses,
		      for (size_t i = 0; i < 64; i++) facts->last.samples[i].live_bytes = 0);
}

static struct mt_facts *near_limit(void)
{
	struct mt_facts *facts = plain();

	figures(facts)->pressure_used_bytes = 1600 * MT_MIB;
	figures(facts)->pressure_limit_bytes = 2000 * MT_MIB;
	figures(facts)->heap_idle_bytes = 80 * MT_MIB;
	return facts;
}

Test(advise, a_lower_gate_where_the_limit_is_near)
{
	cr_expect_str_eq(advice(near_limit()), "MT_SLACK_MB=8 MT_SLACK_PCT=0");
	EXPECT_SILENT(near_limit, figures(facts)->pressure_used_bytes = 1000 * MT_MIB);
	EXPECT_SILENT(near_limit, figures(facts)->heap_idle_bytes = 4 * MT_MIB);
	EXPECT_SILENT(near_limit, figures(facts)->heap_idle_bytes = 200 * MT_MIB);
}

static struct mt_facts *arenas(void)
{
	struct mt_facts *facts = plain();

	facts->is_python = facts->has_pymalloc = facts->arenas_known = true;
	facts->samples[0].arenas_bytes = 600 * MT_MIB;
	facts->samples[0].arenas_live_bytes = 100 * MT_MIB;
	return facts;
}

static struct mt_facts *computing(void)
{
	struct mt_facts *facts = plain();

	facts->is_python = true;
	facts->last.head.python = MT_PYTHON_USES_MALLOC;
	figures(facts)->cpu_ns = 500 * S;
	figures(facts)->heap_alloc_count = 2000000000;
	figures(facts)->rss_peak_bytes = 60 * MT_MIB;
	return facts;
}

Test(advise, where_python_keeps_its_small_objects)
{
	struct mt_facts *limited = arenas();

	cr_expect_str_eq(advice(arenas()), "MT_PYTHON_MALLOC=on");
	limited->last.head.mode = MT_MODE_LIBC;
	strcpy(limited->last.head.evidence,
	       "libc's malloc for good: RLIMIT_AS or RLIMIT_DATA is 4 GB or less");
	cr_expect_str_eq(advice(limited), "MT_PYTHON_MALLOC=malloc");
	EXPECT_SILENT(arenas, facts->has_pymalloc = false);
	EXPECT_SILENT(arenas, facts->arenas_known = false);
	EXPECT_SILENT(arenas, facts->samples[0].arenas_live_bytes = 580 * MT_MIB);
	cr_expect_str_eq(advice(computing()), "MT_PYTHON_MALLOC=off");
	EXPECT_SILENT(computing, figures(facts)->heap_alloc_count = 20000000);
	EXPECT_SILENT(computing, figures(facts)->rss_peak_bytes = 900 * MT_MIB);
	EXPECT_SILENT(computing, figures(facts)->purged_bytes = 40 * MT_MIB);
	EXPECT_SILENT(computing, facts->is_python = false);
}

/* ---- rounds ---- */

static struct mt_facts *live_drops(void)
{
	struct mt_facts *facts = plain();

	facts->is_python = true;
	for (unsigned i = 0; i < 5; i++)
		put_record(facts, MT_REASON_LIVE_DROP, MT_LEVEL_PURGE, 40.0 * i);
	return facts;
}

Test(advise, rounds_by_themselves_where_live_drops_show_them)
{
	cr_expect_str_eq(advice(live_drops()), "MT_ROUND=auto MT_GC_ROUNDS=auto");
	cr_expect_str_eq(command(live_drops()),
			 "mtctl set 42 round=auto; mtctl set 42 gc_rounds=auto");
	EXPECT_SILENT(live_drops, facts->is_python = false);
	EXPECT_SILENT(live_drops, put_setting(facts, "gc_rounds", "5"));
	EXPECT_SILENT(live_drops, figures(facts)->rounds_count = 1);
	EXPECT_SILENT(live_drops, facts->last.head.cleanups_count = 2);
	EXPECT_SILENT(live_drops, facts->last.head.cleanups_count = UINT64_MAX);
	EXPECT_SILENT(live_drops, for (unsigned i = 0; i < 5; i++) facts->last.cleanups[i].time_ns =
					  (1000 + i) * S);
}

static struct mt_facts *garbage(void)
{
	struct mt_facts *facts = plain();
	struct mt_stats_cleanup *record = put_record(facts, MT_REASON_REQUEST, MT_LEVEL_LIGHT, 0);

	record->gc_state = MT_GC_DONE;
	record->gc_collected_count = 100000;
	record->live_before_bytes = 300 * MT_MIB;
	record->live_after_bytes = 250 * MT_MIB;
	figures(facts)->rounds_count = 7;
	return facts;
}

Test(advise, a_collection_each_round_where_collections_free_much)
{
	cr_expect_str_eq(advice(garbage()), "MT_GC_ROUNDS=1");
	EXPECT_SILENT(garbage, put_setting(facts, "gc_rounds", "auto"));
	EXPECT_SILENT(garbage, facts->last.cleanups[0].gc_collected_count = 0);
	EXPECT_SILENT(garbage, facts->last.cleanups[0].live_after_bytes = 299 * MT_MIB);
	EXPECT_SILENT(garbage, facts->last.cleanups[0].gc_state = MT_GC_DISABLED);
}

static struct mt_facts *too_often(void)
{
	struct mt_facts *facts = plain();

	put_setting(facts, "gc_rounds", "1");
	for (unsigned i = 0; i < 8; i++)
		put_record(facts, MT_REASON_ROUND, MT_LEVEL_LIGHT, i)->duration_ns = S / 10;
	return facts;
}

Test(advise, fewer_collections_where_they_free_nothing)
{
	cr_expect_str_eq(command(too_often()), "mtctl set 42 gc_rounds=auto");
	EXPECT_SILENT(too_often, put_setting(facts, "gc_rounds", "auto"));
	EXPECT_SILENT(too_often, facts->last.cleanups[6].live_before_bytes = 50 * MT_MIB);
	EXPECT_SILENT(too_often,
		      for (unsigned i = 0; i < 8; i++) facts->last.cleanups[i].duration_ns =
			      S / 1000);
}

/* ---- devices ---- */

static void put_conf(struct mt_facts *facts, const char *value)
{
	facts->variables_count = 1;
	strcpy(facts->variables[0].name, "PYTORCH_CUDA_ALLOC_CONF");
	strcpy(facts->variables[0].value, value);
}

static struct mt_facts *on_gpu(void)
{
	struct mt_facts *facts = plain();

	strcpy(facts->last.head.cuda, "pool");
	facts->last.head.devices_count = 1;
	figures(facts)->gpu_devices_count = 1;
	figures(facts)->gpu_alloc_count = 10;
	figures(facts)->gpu_total_bytes = 16384 * MT_MIB;
	figures(facts)->gpu_free_bytes = 8192 * MT_MIB;
	return facts;
}

static struct mt_facts *fragmented(void)
{
	struct mt_facts *facts = on_gpu();

	facts->has_torch = true;
	facts->last.head.ooms_count = 1;
	facts->last.ooms[0] = (struct mt_stats_oom){
		.number = 1, .asked_bytes = 512 * MT_MIB, .framework_idle_bytes = 2048 * MT_MIB};
	return facts;
}

/* Live tensors are the cause then. */
static void fill_device(struct mt_stats_oom *oom)
{
	oom->total_bytes = oom->allocated_bytes = 8192 * MT_MIB;
	oom->framework_idle_bytes = 1024 * MT_MIB;
}

Test(advise, split_settings_where_memory_was_refused_that_lay_unused)
{
	struct mt_facts *changed = fragmented();

	cr_expect_str_eq(advice(on_gpu()), "");
	cr_expect_str_eq(advice(fragmented()), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
	put_conf(changed, "expandable_segments:False");
	cr_expect_str_eq(advice(changed), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False,max_"
					  "split_size_mb:256,garbage_collection_threshold:0.8");
	changed = fragmented();
	changed->last.ooms[0].framework_idle_bytes = 0;
	changed->last.ooms[0].idle_bytes = 2048 * MT_MIB;
	cr_expect_str_eq(advice(changed), "");
	EXPECT_SILENT(fragmented, fill_device(&facts->last.ooms[0]));
	EXPECT_SILENT(fragmented, facts->last.ooms[0].framework_idle_bytes = 100 * MT_MIB);
	EXPECT_SILENT(fragmented, put_conf(facts, "expandable_segments:True"));
	EXPECT_SILENT(fragmented, put_conf(facts, "a:1 && reboot"));
	EXPECT_SILENT(fragmented, put_conf(facts, "backend:cudaMallocAsync"));
}

static struct mt_facts *cached(void)
{
	struct mt_facts *facts = on_gpu();

	figures(facts)->framework_reserved_bytes = 4096 * MT_MIB;
	figures(facts)->framework_allocated_bytes = 1024 * MT_MIB;
	return facts;
}

static struct mt_facts *kept(void)
{
	struct mt_facts *facts = on_gpu();

	put_setting(facts, "cuda_decay_ms", "0");
	figures(facts)->gpu_free_bytes = 100 * MT_MIB;
	figures(facts)->gpu_reserved_bytes = 8192 * MT_MIB;
	figures(facts)->gpu_idle_bytes = 6000 * MT_MIB;
	facts->samples[0].gpu_reserved_bytes = 8192 * MT_MIB;
	facts->samples[0].gpu_idle_bytes = 6000 * MT_MIB;
	return facts;
}

static struct mt_facts *decayed(void)
{
	struct mt_facts *facts = on_gpu();

	figures(facts)->gpu_alloc_count = 100000;
	figures(facts)->gpu_hit_count = 20000;
	figures(facts)->gpu_reserved_peak_bytes = 2048 * MT_MIB;
	figures(facts)->gpu_decayed_bytes = 90000 * MT_MIB;
	return facts;
}

static struct mt_facts *unpooled(void)
{
	struct mt_facts *facts = on_gpu();

	put_setting(facts, "cuda", "account");
	figures(facts)->gpu_alloc_count = figures(facts)->gpu_num_device_alloc = 50000;
	return facts;
}

Test(advise, caches_of_device_memory)
{
	cr_expect_str_eq(command(cached()), "mtctl set 42 framework_decay_ms=5000");
	EXPECT_SILENT(cached, put_setting(facts, "framework_decay_ms", "1000"));
	EXPECT_SILENT(cached, figures(facts)->framework_allocated_bytes = 4000 * MT_MIB);
	cr_expect_str_eq(command(kept()), "mtctl set 42 cuda_decay_ms=5000");
	EXPECT_SILENT(kept, figures(facts)->gpu_free_bytes = 8192 * MT_MIB);
	EXPECT_SILENT(kept, facts->samples[0].gpu_idle_bytes = 1000 * MT_MIB);
	EXPECT_SILENT(kept, put_setting(facts, "cuda_decay_ms", "5000"));
	cr_expect_str_eq(command(decayed()), "mtctl set 42 cuda_decay_ms=30000");
	EXPECT_SILENT(decayed, figures(facts)->gpu_hit_count = 90000);
	EXPECT_SILENT(decayed, figures(facts)->gpu_decayed_bytes = 100 * MT_MIB);
	EXPECT_SILENT(decayed, figures(facts)->gpu_free_bytes = 100 * MT_MIB);
	cr_expect_str_eq(advice(unpooled()), "MT_CUDA=auto");
	EXPECT_SILENT(unpooled, facts->has_torch = true);
	EXPECT_SILENT(unpooled, put_setting(facts, "cuda", "auto"));
	EXPECT_SILENT(unpooled, figures(facts)->gpu_num_device_alloc = 10);
}
