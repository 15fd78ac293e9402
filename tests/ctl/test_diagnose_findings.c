/* tests/ctl/test_diagnose_findings.c -- facts in, verdict out: the heap, Python, and what is left
 * when nothing is found. */
#include <criterion/criterion.h>

#include "diagnose_case.h"

static struct mt_diagnosis diagnosis;
static struct mt_facts *facts;

static void forget(void)
{
	free(facts);
	facts = NULL;
}

TestSuite(findings, .fini = forget);

static void look_at(struct series live)
{
	facts = case_facts(&live, 60, 120);
}

static enum mt_verdict judge(void)
{
	case_fill_other(facts);
	mt_diagnose_decide(facts, &diagnosis);
	return diagnosis.list[0].verdict;
}

static const struct mt_finding *finding(enum mt_verdict verdict)
{
	for (size_t i = 0; i < diagnosis.count; i++)
		if (diagnosis.list[i].verdict == verdict)
			return &diagnosis.list[i];
	return NULL;
}

static double figure(const char *name)
{
	const struct mt_finding *first = &diagnosis.list[0];

	for (size_t i = 0; i < first->evidence_count; i++)
		if (strcmp(first->evidence[i].name, name) == 0)
			return first->evidence[i].value;
	return -1;
}

/* The last sample of a recording is of the program's end. */
Test(findings, name_the_memory_of_most_of_the_time)
{
	look_at((struct series){SHAPE_FLAT, 200 * MB, 0, 0, 0});
	facts->samples[facts->samples_count - 1].rss_bytes /= 4;

	cr_expect_eq(judge(), MT_VERDICT_HEALTHY);
	cr_expect(strstr(diagnosis.list[0].text, mt_text_bytes(facts->samples[0].rss_bytes).text),
		  "%s", diagnosis.list[0].text);
}

Test(findings, do_not_call_flat_what_goes_up_and_down)
{
	look_at((struct series){SHAPE_SAWTOOTH, 100 * MB, 200 * MB, 10, 0});

	cr_expect_eq(judge(), MT_VERDICT_HEALTHY);
	cr_expect(strstr(diagnosis.list[0].text, "RSS goes up and down, ") &&
			  !strstr(diagnosis.list[0].text, "flat"),
		  "%s", diagnosis.list[0].text);
}

/* node at work: RSS rose in parts, while anonymous memory, which is what moves, had two rounds. */
Test(findings, do_not_claim_growth_of_rss_that_its_own_parts_leave_open)
{
	look_at((struct series){SHAPE_FLAT, 2 * MB, 0, 0, 0});
	for (size_t i = 0; i < facts->samples_count; i++) {
		struct mt_sample *at = &facts->samples[i];

		double worked = 56 + 0.1 * at->at_s + 14 * fmod(at->at_s, 16) / 16;

		at->anon_bytes = (uint64_t)((at->at_s < 2 ? 23 : worked) * MB);
		at->file_bytes = (uint64_t)((at->at_s < 2 ? 32 : 40) * MB);
		at->rss_bytes = at->anon_bytes + at->file_bytes;
	}

	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN, "%s", diagnosis.list[0].text);
	cr_expect_eq(diagnosis.rss.shape, MT_TREND_UNDECIDED);
	cr_expect_eq(diagnosis.anon.doubt, MT_TREND_FEW_ROUNDS);
}

/* Each row is a process as a doctor would be told of it. */
Test(findings, name_the_problem_of_the_heap)
{
	static const struct {
		const char *name;
		struct series live;
		double slack_mb, idle_mb; /* all the time */
		double returned_mb;       /* by a trim; -1: none was asked for */
		enum mt_verdict verdict;
	} rows[] = {
		{"flat", {SHAPE_FLAT, 200 * MB, 0, 0, 0}, 0, 0, 0, MT_VERDICT_HEALTHY},
		{"noisy flat", {SHAPE_FLAT, 200 * MB, 0, 0, 10 * MB}, 0, 0, 0, MT_VERDICT_HEALTHY},
		{"rounds",
		 {SHAPE_SAWTOOTH, 100 * MB, 200 * MB, 10, 0},
		 0,
		 0,
		 0,
		 MT_VERDICT_HEALTHY},
		{"warm-up", {SHAPE_WARM_UP, 100 * MB, 300 * MB, 0, 0}, 0, 0, 0, MT_VERDICT_HEALTHY},
		{"one step",
		 {SHAPE_EARLY_STEP, 100 * MB, 100 * MB, 0, 0},
		 0,
		 0,
		 0,
		 MT_VERDICT_HEALTHY},
		{"one step a short while ago",
		 {SHAPE_STEP, 100 * MB, 100 * MB, 0, 0},
		 0,
		 0,
		 0,
		 MT_VERDICT_UNKNOWN},
		{"falling", {SHAPE_RAMP, 900 * MB, -5 * MB, 0, 0}, 0, 0, 0, MT_VERDICT_HEALTHY},
		{"spikes", {SHAPE_SPIKES, 100 * MB, 300 * MB, 10, 0}, 0, 0, 0, MT_VERDICT_HEALTHY},
		{"leak", {SHAPE_RAMP, 1200 * MB, 5 * MB, 0, 0}, 0, 0, 0, MT_VERDICT_LEAK},
		{"leak, not trimmed",
		 {SHAPE_RAMP, 1200 * MB, 5 * MB, 0, 0},
		 0,
		 0,
		 -1,
		 MT_VERDICT_LEAK},
		{"slow leak in 4 GB",
		 {SHAPE_RAMP, 4096 * MB, 1 * MB, 0, 0},
		 0,
		 0,
		 0,
		 MT_VERDICT_LEAK},
		{"slow leak under noise",
		 {SHAPE_RAMP, 4096 * MB, 1 * MB, 0, 10 * MB},
		 0,
		 0,
		 0,
		 MT_VERDICT_LEAK},
		{"leak beneath rounds",
		 {SHAPE_SAW_RAMP, 100 * MB, 200 * MB, 5, 0},
		 0,
		 0,
		 0,
		 MT_VERDICT_LEAK},
		{"leak in steps",
		 {SHAPE_STAIRS, 400 * MB, 10 * MB, 5, 0},
		 0,
		 0,
		 0,
		 MT_VERDICT_LEAK},
		{"leak beside a hoard",
		 {SHAPE_RAMP, 1200 * MB, 5 * MB, 0, 0},
		 300,
		 300,
		 300,
		 MT_VERDICT_LEAK},
		{"hoard", {SHAPE_FLAT, 100 * MB, 0, 0, 0}, 300, 300, 300, MT_VERDICT_HOARD},
		{"hoard, not trimmed",
		 {SHAPE_FLAT, 100 * MB, 0, 0, 0},
		 300,
		 300,
		 -1,
		 MT_VERDICT_HOARD},
		{"hoard beside the slowest leak",
		 {SHAPE_RAMP, 100 * MB, 0.05 * MB, 0, 0},
		 300,
		 300,
		 300,
		 MT_VERDICT_HOARD},
		{"what the worker leaves alone",
		 {SHAPE_FLAT, 300 * MB, 0, 0, 0},
		 60,
		 60,
		 60,
		 MT_VERDICT_HEALTHY},
		{"a tenth of a large one",
		 {SHAPE_FLAT, 4000 * MB, 0, 0, 0},
		 400,
		 400,
		 400,
		 MT_VERDICT_HEALTHY},
		{"more than that",
		 {SHAPE_FLAT, 4000 * MB, 0, 0, 0},
		 600,
		 600,
		 600,
		 MT_VERDICT_HOARD},
		{"free between live blocks",
		 {SHAPE_FLAT, 200 * MB, 0, 0, 0},
		 300,
		 0,
		 10,
		 MT_VERDICT_HOARD},
		{"a little free between them",
		 {SHAPE_FLAT, 200 * MB, 0, 0, 0},
		 50,
		 0,
		 5,
		 MT_VERDICT_HEALTHY},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		look_at(rows[i].live);
		case_add(facts, slack_bytes, rows[i].slack_mb * MB);
		for (size_t at = 0; at < facts->samples_count; at++)
			facts->samples[at].idle_bytes = (uint64_t)(rows[i].idle_mb * MB);
		if (rows[i].returned_mb >= 0)
			case_trim(facts, rows[i].returned_mb * MB, 0, 0);
		cr_expect_eq(judge(), rows[i].verdict, "%s: %s instead of %s (%s)", rows[i].name,
			     mt_diagnose_word(diagnosis.list[0].verdict),
			     mt_diagnose_word(rows[i].verdict), diagnosis.list[0].text);
		cr_expect(diagnosis.list[0].evidence_count > 0, "%s: no evidence", rows[i].name);
		cr_expect(diagnosis.list[0].advice_count > 0 ||
				  rows[i].verdict == MT_VERDICT_HEALTHY,
			  "%s: no advice", rows[i].name);
		forget();
	}
}

Test(findings, a_trim_that_returns_something_is_not_said_to_be_of_no_help)
{
	look_at((struct series){SHAPE_RAMP, 1200 * MB, 5 * MB, 0, 0});
	case_trim(facts, 28 * MB, 0, 0);

	cr_expect_eq(judge(), MT_VERDICT_LEAK);
	for (size_t i = 0; i < diagnosis.list[0].evidence_count; i++)
		cr_expect(!strstr(diagnosis.list[0].evidence[i].label, "not help"), "%s: %s",
			  diagnosis.list[0].evidence[i].label, diagnosis.list[0].evidence[i].text);
	cr_expect_eq(figure("trim_returned_bytes"), 28 * MB);
}

Test(findings, a_buffer_that_is_in_use_now_and_then_is_no_hoard)
{
	look_at((struct series){SHAPE_SAWTOOTH, 100 * MB, 400 * MB, 10, 0});
	/* What the program does not hold stays resident: 500 MB all the time. */
	for (size_t i = 0; i < facts->samples_count; i++) {
		struct mt_sample *at = &facts->samples[i];

		at->anon_bytes = (uint64_t)(515 * MB);
		at->rss_bytes = (uint64_t)(520 * MB);
		at->slack_bytes = (uint64_t)(500 * MB) - at->live_bytes;
	}
	case_trim(facts, 350 * MB, 0, 0);

	cr_expect_eq(judge(), MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
}

Test(findings, growth_outside_of_the_heap_is_growth)
{
	look_at((struct series){SHAPE_FLAT, 1200 * MB, 0, 0, 0});
	for (size_t i = 0; i < facts->samples_count; i++) {
		struct mt_sample *at = &facts->samples[i];
		uint64_t grown = (uint64_t)(at->at_s * 5 * MB);

		at->outside_bytes += grown;
		at->anon_bytes += grown;
		at->rss_bytes += grown;
	}
	case_trim(facts, 0, 0, 0);

	cr_expect_eq(judge(), MT_VERDICT_GROWTH);
	cr_expect(fabs(figure("rss_slope_bytes_per_s") - 5 * MB) < 0.1 * MB);
}

static void map_past_malloc(double mb_per_s)
{
	for (size_t i = 0; i < facts->samples_count; i++) {
		uint64_t grown = (uint64_t)(facts->samples[i].at_s * mb_per_s * MB);

		facts->samples[i].anon_bytes += grown;
		facts->samples[i].rss_bytes += grown;
	}
}

/* 500 MB from malloc that were never touched, or the ends of large blocks: the heap counts more
 * than is resident. */
Test(findings, growth_past_malloc_shows_beside_live_pages_that_were_never_touched)
{
	static const double untouched_mb[] = {20, 500};

	for (size_t i = 0; i < 2; i++) {
		look_at((struct series){SHAPE_FLAT, 80 * MB, 0, 0, 0});
		for (size_t at = 0; at < facts->samples_count; at++) {
			facts->samples[at].live_bytes += (uint64_t)(untouched_mb[i] * MB);
			facts->samples[at].held_bytes = facts->samples[at].live_bytes;
		}
		map_past_malloc(0.25);
		cr_expect_eq(judge(), MT_VERDICT_GROWTH, "%.0f MB: %s", untouched_mb[i],
			     diagnosis.list[0].text);
		forget();
	}
}

/* Each thread that never ends keeps a stack, and free blocks in its cache. */
Test(findings, threads_that_never_end_are_growth)
{
	facts = case_facts(&(struct series){SHAPE_FLAT, 54 * MB, 0, 0, 0}, 60, 120);
	facts->threads_first = 240;
	facts->threads_last = 300;
	for (size_t i = 0; i < facts->samples_count; i++)
		facts->samples[i].slack_bytes += (uint64_t)(facts->samples[i].at_s * 60 * 1024);
	map_past_malloc(0.078);

	cr_assert_eq(judge(), MT_VERDICT_GROWTH, "%s", diagnosis.list[0].text);
	cr_expect_eq(figure("threads_count"), 300);
	cr_expect(strstr(diagnosis.list[0].advice[0], "60 threads more") != NULL, "%s",
		  diagnosis.list[0].advice[0]);
}

Test(findings, a_rise_too_small_for_growth_is_not_called_healthy)
{
	facts = case_facts(&(struct series){SHAPE_FLAT, 54 * MB, 0, 0, 0}, 600, 120);
	map_past_malloc(8.0 / 1024);
	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN, "%s", diagnosis.list[0].text);
	forget();
	look_at((struct series){SHAPE_FLAT, 54 * MB, 0, 0, 0});
	map_past_malloc(0.5);
	for (size_t i = 0; i < facts->samples_count; i++)
		facts->samples[i].dirty_bytes = (uint64_t)(facts->samples[i].at_s * 0.5 * MB);
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY, "free pages below the gate: %s",
		     diagnosis.list[0].text);
}

/* As libmimalloc in LD_PRELOAD: all of its figures are 0. */
Test(findings, nothing_is_derived_from_live_memory_that_nobody_counts)
{
	look_at((struct series){SHAPE_FLAT, 0, 0, 0, 0});
	facts->last.head.snapshot.heap_resident_bytes = 0;
	strcpy(facts->last.head.allocator, "mimalloc");
	map_past_malloc(0);
	for (size_t i = 0; i < facts->samples_count; i++) {
		facts->samples[i].anon_bytes = (uint64_t)(205 * MB);
		facts->samples[i].rss_bytes = (uint64_t)(210 * MB);
	}
	case_trim(facts, 0, 0, 0);
	facts->smaps_known = true;
	facts->smaps.huge_bytes = (uint64_t)(200 * MB);

	cr_expect_eq(judge(), MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
	cr_expect_eq(diagnosis.count, 1);
	cr_expect_eq(figure("heap_live_bytes"), -1);
	cr_expect_eq(figure("heap_live_known"), 0);
	cr_expect_eq(diagnosis.live.shape, MT_TREND_FEW);
	facts->arenas_known = facts->has_pymalloc = facts->is_python = true;
	for (size_t i = 0; i < facts->samples_count; i++)
		facts->samples[i].held_bytes = (uint64_t)(7 * MB);
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
	cr_expect_eq(diagnosis.live.shape, MT_TREND_FEW, "of the arenas alone");
	facts->arenas_known = facts->has_pymalloc = facts->is_python = false;
	case_trim(facts, 150 * MB, 0, 0);
	cr_expect_eq(judge(), MT_VERDICT_HOARD, "a trim has returned it: %s",
		     diagnosis.list[0].text);
}

Test(findings, a_leak_and_other_growth_are_both_named)
{
	look_at((struct series){SHAPE_RAMP, 5000 * MB, 5 * MB, 0, 0});
	for (size_t i = 0; i < facts->samples_count; i++) {
		struct mt_sample *at = &facts->samples[i];
		uint64_t grown = (uint64_t)(at->at_s * 20 * MB);

		at->outside_bytes += grown;
		at->anon_bytes += grown;
		at->rss_bytes += grown;
	}
	case_trim(facts, 0, 0, 0);

	cr_expect_eq(judge(), MT_VERDICT_GROWTH);
	cr_expect_not_null(finding(MT_VERDICT_LEAK));
}

Test(findings, the_class_that_grew_is_in_the_title)
{
	look_at((struct series){SHAPE_RAMP, 1200 * MB, 5 * MB, 0, 0});
	facts->classes_first =
		(struct mt_diagnose_classes){.list = {{1024, 1000}, {4096, 500}}, .count = 2};
	facts->classes_last = (struct mt_diagnose_classes){
		.list = {{1024, 301000}, {4096, 600}, {8192, 10}}, .count = 3};

	cr_expect_eq(judge(), MT_VERDICT_LEAK);
	cr_expect(strstr(diagnosis.list[0].text, "in blocks of 1,024 B") != NULL, "%s",
		  diagnosis.list[0].text);
	cr_expect_eq((uint64_t)figure("grown_class_bytes"), 300000 * 1024);
}

/* 67 MB of 126 MB, in a program of one thread. */
Test(findings, what_lies_between_live_blocks_is_a_hoard_without_a_trim_too)
{
	look_at((struct series){SHAPE_FLAT, 50 * MB, 0, 0, 0});
	case_add(facts, slack_bytes, 67 * MB);
	facts->last.head.snapshot = (struct mt_stats_snapshot){.heap_resident_bytes = 117 << 20,
							       .heap_live_bytes = 50 << 20,
							       .heap_active_bytes = 117 << 20,
							       .heap_live_peak_bytes = 100 << 20,
							       .heap_allocated_bytes = 400 << 20,
							       .heap_alloc_count = 900000,
							       .heap_free_count = 875000,
							       .threads_count = 1};

	cr_expect_eq(judge(), MT_VERDICT_HOARD, "%s", diagnosis.list[0].text);
	cr_expect_eq((uint64_t)figure("between_blocks_bytes"), 67 << 20);
	cr_expect_str_eq(diagnosis.list[0].environment, "MT_ALLOCATOR=system");
	for (size_t i = 0; i < diagnosis.list[0].advice_count; i++)
		cr_expect_null(strstr(diagnosis.list[0].advice[i], "ARENA"));

	/* one large free: libc's malloc keeps as much */
	facts->last.head.snapshot.heap_live_peak_bytes = 400 << 20;
	cr_expect_eq(judge(), MT_VERDICT_HOARD);
	cr_expect_str_eq(diagnosis.list[0].environment, "");
}

Test(findings, growth_has_a_headline_its_rate_its_place_and_the_time_that_decides)
{
	static const char headline[] =
		"growing: 0.4 MB/s, most of it at app.py:21; 4 more minutes decide between a leak "
		"and warm-up";

	look_at((struct series){SHAPE_RAMP, 16 * MB, 0.4 * MB, 0, 0});
	facts->is_python = true;
	facts->lines_count = 1;
	facts->lines[0] = (struct mt_diagnose_line){"app.py:21", 20 * MB, 60};

	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN);
	cr_expect(diagnosis.list[0].is_headline);
	cr_expect_eq(strncmp(diagnosis.list[0].text, headline, strlen(headline)), 0, "%s",
		     diagnosis.list[0].text);
	cr_expect_eq((uint64_t)figure("python_line_1_grown_bytes"), 20 << 20);
	cr_expect(strstr(diagnosis.list[0].advice[1], "Look at app.py:21") != NULL);
	facts->lines[0].grown_bytes = 1 * MB;
	judge();
	cr_expect_null(strstr(diagnosis.list[0].text, "app.py"), "%s", diagnosis.list[0].text);
}

Test(findings, who_has_been_flat_for_ten_minutes_has_warmed_up)
{
	facts = case_facts(&(struct series){SHAPE_EARLY_STEP, 100 * MB, 50 * MB, 0, 0}, 780, 200);

	cr_expect_eq(judge(), MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
	cr_expect_neq(diagnosis.rss.shape, MT_TREND_FLAT);
	cr_expect_eq(diagnosis.list[0].advice_count, 0, "%s", diagnosis.list[0].advice[0]);
	cr_expect(figure("unseen_bytes_per_s") > 0, "no leak at all would hide");
}

/* Python's objects are live bytes of no class. */
Test(findings, a_class_that_grew_by_little_of_it_is_not)
{
	look_at((struct series){SHAPE_RAMP, 1200 * MB, 5 * MB, 0, 0});
	facts->classes_first = (struct mt_diagnose_classes){.list = {{2560, 1000}}, .count = 1};
	facts->classes_last = (struct mt_diagnose_classes){.list = {{2560, 1232}}, .count = 1};

	cr_expect_eq(judge(), MT_VERDICT_LEAK);
	cr_expect_null(strstr(diagnosis.list[0].text, "in blocks of"), "%s",
		       diagnosis.list[0].text);
	cr_expect_eq(figure("grown_class_bytes"), -1, "2 %% of the growth are no evidence");
}

Test(findings, the_site_that_grew_most_is_in_the_advice)
{
	look_at((struct series){SHAPE_RAMP, 1200 * MB, 5 * MB, 0, 0});
	facts->sites = (struct mt_diagnose_sites){
		.known = true, .count = 1, .list = {{"leaky at leak.c:12", 1 << 28, 9, 9}}};

	cr_expect_eq(judge(), MT_VERDICT_LEAK);
	cr_expect(strstr(diagnosis.list[0].advice[0], "leaky at leak.c:12") != NULL, "%s",
		  diagnosis.list[0].advice[0]);
}

/* A level for the seconds from `from` on, at the end of the history. */
static void remember(double from, double mb)
{
	for (double at = from; at < 0; at++) {
		uint64_t bytes = (uint64_t)(mb * MB);

		if (facts->history_count && at <= facts->history[facts->history_count - 1].at_s)
			continue;
		facts->history[facts->history_count++] =
			(struct mt_sample){.at_s = at,
					   .live_bytes = bytes,
					   .held_bytes = bytes,
					   .anon_bytes = bytes + (15 << 20),
					   .other_bytes = 20 << 20,
					   .rss_bytes = bytes + (20 << 20)};
	}
}

Test(findings, what_was_as_high_before_and_came_down_is_a_round_and_no_leak)
{
	look_at((struct series){SHAPE_RAMP, 600 * MB, 2 * MB, 0, 0});
	cr_expect_eq(judge(), MT_VERDICT_LEAK);
	remember(-100, 800);
	facts->history_count = 50;
	remember(-50, 600);

	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN, "%s", diagnosis.list[0].text);
	cr_expect(strncmp(diagnosis.list[0].text, "1 round seen, use --for ", 24) == 0, "%s",
		  diagnosis.list[0].text);
}

Test(findings, what_was_never_as_high_before_stays_a_leak)
{
	look_at((struct series){SHAPE_RAMP, 600 * MB, 2 * MB, 0, 0});
	remember(-30, 600);

	cr_expect_eq(judge(), MT_VERDICT_LEAK, "%s", diagnosis.list[0].text);
}

/* R2 0.99 in each part of 15 s is not "low (37 %)". */
Test(findings, growth_that_is_straight_is_sure)
{
	facts = case_facts(&(struct series){SHAPE_FLAT, 200 * MB, 0, 0, 0}, 15, 120);
	for (size_t i = 0; i < facts->samples_count; i++) {
		uint64_t grown = (uint64_t)(facts->samples[i].at_s * 3 * MB);

		facts->samples[i].outside_bytes += grown;
		facts->samples[i].anon_bytes += grown;
		facts->samples[i].rss_bytes += grown;
	}

	cr_assert_eq(judge(), MT_VERDICT_GROWTH, "%s", diagnosis.list[0].text);
	cr_expect(diagnosis.list[0].confidence > 0.75, "%.2f", diagnosis.list[0].confidence);
}

/* A guess is never the verdict, and neither is "healthy" as a guess. */
Test(findings, what_is_only_possible_stands_below_unknown)
{
	look_at((struct series){SHAPE_FLAT, 100 * MB, 0, 0, 0});
	facts->last.head.snapshot.heap_resident_bytes = 0;
	facts->has_pymalloc = true;
	facts->is_python = true;
	case_add(facts, slack_bytes, 300 * MB);
	case_trim(facts, 0, 0, 0);

	cr_assert_eq(judge(), MT_VERDICT_UNKNOWN, "%s", diagnosis.list[0].text);
	cr_expect(strstr(diagnosis.list[0].text, "hoard is possible") != NULL, "%s",
		  diagnosis.list[0].text);
	cr_expect_not_null(finding(MT_VERDICT_HOARD));
}

/* As Redis at work: it wakes up at 16 MB, near the end of the look. */
Test(findings, a_little_growth_of_what_has_just_woken_up_is_a_guess)
{
	facts = case_facts(&(struct series){SHAPE_RAMP, 16 * MB, 0.12 * MB, 0, 0}, 12, 24);
	facts->duration_s = 60;
	cr_expect_eq(judge(), MT_VERDICT_LEAK, "%s", diagnosis.list[0].text);
	facts->has_woken = true;
	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN, "%s", diagnosis.list[0].text);
	cr_expect_not_null(finding(MT_VERDICT_LEAK));
}

/* As git while it packs: 16 MB at its start, and straight up to its end. */
Test(findings, a_program_that_builds_up_its_data_is_unknown_until_it_has_gone_on_for_minutes)
{
	const struct series data = {SHAPE_RAMP, 16 * MB, 1.3 * MB, 0, 0};

	look_at(data);
	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN, "%s", diagnosis.list[0].text);
	cr_expect(strstr(diagnosis.list[0].text, "use --for 4m") != NULL, "%s",
		  diagnosis.list[0].text);
	cr_expect_float_eq(figure("needed_s"), 240, 1);
	cr_expect_not_null(finding(MT_VERDICT_LEAK), "what it may be stands below");
	forget();
	facts = case_facts(&data, 320, 120);
	cr_expect_eq(judge(), MT_VERDICT_LEAK, "%s", diagnosis.list[0].text);
}

/* On a busy machine the look sees less of it than was before the look. */
Test(findings, a_young_program_counts_from_its_start)
{
	look_at((struct series){SHAPE_RAMP, 19 * MB, 0.1 * MB, 0, 0});
	facts->age_s = 100;
	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN, "%s", diagnosis.list[0].text);
	facts->age_s = 3600;
	cr_expect_eq(judge(), MT_VERDICT_LEAK, "%s", diagnosis.list[0].text);
	forget();
	look_at((struct series){SHAPE_RAMP, 300 * MB, 1 * MB, 0, 0});
	facts->age_s = 70;
	cr_expect_eq(judge(), MT_VERDICT_LEAK, "its data was there before: %s",
		     diagnosis.list[0].text);
}

/* The samples of a busy machine are as far apart as its rounds are long. */
Test(findings, growth_over_short_rounds_is_a_leak_however_much_it_brought)
{
	look_at((struct series){SHAPE_SAW_RAMP, 100 * MB, 200 * MB, 2.3, 0});
	cr_expect_eq(judge(), MT_VERDICT_LEAK, "%s", diagnosis.list[0].text);
}

Test(findings, a_build_up_that_ended_within_the_look_is_not_guessed_at)
{
	look_at((struct series){SHAPE_RAMP, 16 * MB, 1.3 * MB, 0, 0});
	facts->ended = true;
	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN);
	cr_expect_str_eq(diagnosis.list[0].text, "the process ended during the diagnosis");
}

/* It filled 400 MB at its start, in the history, and maps 5 MB/s since: RSS has one step. */
Test(findings, growth_beside_the_heap_is_not_healthy_where_rss_cannot_be_told)
{
	facts = case_facts(&(struct series){SHAPE_FLAT, 400 * MB, 0, 0, 0}, 8, 28);
	for (size_t i = 0; i < facts->samples_count; i++) {
		struct mt_sample *at = &facts->samples[i];
		bool is_filled = i >= 12;

		at->outside_bytes = (uint64_t)(at->at_s * 5 * MB);
		at->anon_bytes = at->outside_bytes + (uint64_t)((is_filled ? 415 : 15) * MB);
		at->rss_bytes = at->anon_bytes + (5 << 20);
	}

	cr_expect_neq(judge(), MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
}

/* ---- memory that passes malloc by ---- */

static void set_variable(const char *name, const char *value)
{
	struct mt_diagnose_variable *to = &facts->variables[facts->variables_count++];

	strcpy(to->name, name);
	strcpy(to->value, value);
}

static void sleep_on(double anon_mb)
{
	look_at((struct series){SHAPE_FLAT, 0, 0, 0, 0});
	facts->awake = false;
	facts->asleep = true;
	for (size_t i = 0; i < facts->samples_count; i++) {
		facts->samples[i].anon_bytes = (uint64_t)(anon_mb * MB);
		facts->samples[i].rss_bytes = (uint64_t)((anon_mb + 10) * MB);
	}
}

Test(findings, a_sleeping_process_is_judged_by_what_the_kernel_counts)
{
	sleep_on(10);
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
	forget();
	sleep_on(86);
	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN, "%s", diagnosis.list[0].text);
	cr_expect(strncmp(diagnosis.list[0].text, "nobody counts ", 14) == 0);
	facts->is_python = true;
	set_variable("PYTHONMALLOC", "mimalloc");
	cr_expect_eq(judge(), MT_VERDICT_PRIVATE, "%s", diagnosis.list[0].text);
	cr_expect(strstr(diagnosis.list[0].text, "PYTHONMALLOC=mimalloc") != NULL);
	facts->full_pids_max = 40;
	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN, "%s", diagnosis.list[0].text);
	cr_expect(strstr(diagnosis.list[0].text, "worker thread of the library could not start"));
	facts->full_pids_max = 0;
	for (size_t i = 0; i < facts->samples_count; i++) {
		facts->samples[i].anon_bytes += (uint64_t)(facts->samples[i].at_s * MB / 4);
		facts->samples[i].rss_bytes += (uint64_t)(facts->samples[i].at_s * MB / 4);
	}
	cr_expect_eq(judge(), MT_VERDICT_GROWTH, "%s", diagnosis.list[0].text);
}

Test(findings, a_sleeping_runtime_that_returns_memory_itself_is_healthy)
{
	sleep_on(86);
	facts->foreign_count = 1;
	strcpy(facts->foreign[0].name, "V8's heap");
	facts->foreign[0].is_managed = true;

	cr_expect_eq(judge(), MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
	cr_expect_null(strstr(diagnosis.list[0].text, "nothing to do"));
}

Test(findings, a_sleeping_process_may_have_a_larger_limit_of_its_own)
{
	sleep_on(86);
	set_variable("MT_MIN_MB", "200");

	cr_expect_eq(judge(), MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
}

/* 100 MB, and 1 MB/s more, of which nobody knows what is live: the shim is asleep, or out of reach.
 */
static void grow_unseen(bool asleep, size_t quarters)
{
	forget();
	sleep_on(100);
	facts->asleep = asleep;
	facts->process.shimmed = true;
	facts->samples_count = facts->samples_count * quarters / 4;
	facts->age_s = 30 + mt_facts_last(facts)->at_s;
	for (size_t i = 0; i < facts->samples_count; i++) {
		facts->samples[i].anon_bytes += (uint64_t)(facts->samples[i].at_s * MB);
		facts->samples[i].rss_bytes += (uint64_t)(facts->samples[i].at_s * MB);
	}
}

static void is_growing_for(const char *reason, const char *advice)
{
	enum mt_verdict verdict = judge();
	const struct mt_finding *first = &diagnosis.list[0];
	char all[4096] = "";

	cr_assert_eq(verdict, MT_VERDICT_UNKNOWN, "%s", first->text);
	cr_expect(strncmp(first->text, "growing: ", 9) == 0, "%s", first->text);
	for (size_t i = 0; i < first->evidence_count; i++)
		strcat(strcat(all, first->evidence[i].text), "\n");
	cr_expect(strstr(all, reason) != NULL, "%s", all);
	for (size_t i = 0; i < diagnosis.list[1].advice_count; i++)
		strcat(strcat(all, diagnosis.list[1].advice[i]), "\n");
	cr_expect(strstr(all, advice) != NULL, "%s", all);
	cr_expect_null(strstr(all, "not counted"), "%s", all);
}

Test(findings, a_short_look_at_growth_without_figures_is_no_firmer_than_a_long_one)
{
	for (size_t quarters = 1; quarters <= 4; quarters++) {
		grow_unseen(true, quarters);
		set_variable("MT_MIN_MB", "4000");
		facts->asleep_reason = MT_ASLEEP_SMALL;
		strcpy(facts->why_not, mt_target_asleep_text(MT_ASLEEP_SMALL));
		is_growing_for("less anonymous memory than MT_MIN_MB", "");
		grow_unseen(false, quarters);
		strcpy(facts->why_not, "out of reach: it is awake");
		is_growing_for("out of reach: it is awake", "says of its files");
	}
}

/* What MT_MIN_MB is, a recording does not tell; why a file is refused, it does. */
Test(findings, growth_in_a_recording_is_no_firmer_than_what_it_holds)
{
	struct mt_recording_process process = {.pid = 42, .comm = "server", .state = "asleep"};
	struct mt_recording recording = MT_RECORDING_EMPTY;

	recording.pid = 42;
	recording.processes = &process;
	recording.processes_count = 1;
	recording.samples_count = 100;
	recording.samples = calloc(recording.samples_count, sizeof(*recording.samples));
	for (size_t i = 0; i < recording.samples_count; i++) {
		struct mt_recording_sample *to = &recording.samples[i];

		*to = (struct mt_recording_sample){.time_ns = (i + 1) * 100000000u, .pid = 42};
		for (size_t k = 0; k < MT_RECORDING_FIGURES_COUNT; k++)
			to->bytes[k] = MT_RECORDING_UNKNOWN;
		to->bytes[MT_RECORDING_RSS] = to->bytes[MT_RECORDING_ANON] =
			(uint64_t)((300 + 0.06 * (double)i) * MB);
	}
	forget();
	facts = calloc(1, sizeof(*facts));
	mt_recorded_facts(&recording, facts);
	is_growing_for("or MT_MIN_MB is large", "");
	snprintf(process.state, sizeof(process.state), "refused");
	snprintf(process.why, sizeof(process.why), "out of reach: it is awake");
	forget();
	facts = calloc(1, sizeof(*facts));
	mt_recorded_facts(&recording, facts);
	is_growing_for("out of reach: it is awake", "");
	free(recording.samples);
}

/* "live heap" is stat's figure, without pymalloc. */
Test(findings, the_trend_of_live_memory_is_not_called_that_of_the_heap)
{
	const struct mt_finding *leak;

	look_at((struct series){SHAPE_RAMP, 50 * MB, 5 * MB, 0, 0});
	(void)judge();
	leak = finding(MT_VERDICT_LEAK);
	cr_assert_not_null(leak);
	cr_assert_gt(leak->evidence_count, 0);
	cr_expect_str_eq(leak->evidence[0].label, "live memory");
}

Test(findings, advice_says_what_the_users_own_setting_overrides)
{
	look_at((struct series){SHAPE_FLAT, 50 * MB, 0, 0, 0});
	facts->is_python = facts->has_pymalloc = facts->arenas_known = true;
	case_add(facts, arenas_bytes, 150 * MB);
	case_trim(facts, 0, 0, 0);
	cr_assert_eq(judge(), MT_VERDICT_PYTHON_ARENAS);
	cr_expect_null(strstr(diagnosis.list[0].advice[0], "environment"));
	set_variable("PYTHONMALLOC", "pymalloc");
	cr_assert_eq(judge(), MT_VERDICT_PYTHON_ARENAS);
	cr_expect(strstr(diagnosis.list[0].advice[0],
			 "PYTHONMALLOC=pymalloc in its environment overrides") != NULL,
		  "%s", diagnosis.list[0].advice[0]);
}

static const char *arenas_advice(const char *command)
{
	snprintf(facts->process.command, sizeof(facts->process.command), "%s", command);
	cr_assert_eq(judge(), MT_VERDICT_PYTHON_ARENAS);
	return diagnosis.list[0].advice[0];
}

/* docs/compatibility.md: -I, -E and -X dev. */
Test(findings, advice_does_not_name_what_this_python_ignores)
{
	static const struct {
		const char *command, *part;
	} rows[] = {
		{"python3 -I job.py", "without -I,"},
		{"python3 -sE job.py", "without -E,"},
		{"python3 -X dev job.py", "without -X dev,"},
		{"python3 -W ignore -Xdev -m job", "without -X dev,"},
		{"python3 job.py -I", "Restart it with MT_PYTHON_MALLOC=on"},
		{"python3 -c pass -E", "Restart it with MT_PYTHON_MALLOC=on"},
	};

	look_at((struct series){SHAPE_FLAT, 50 * MB, 0, 0, 0});
	facts->is_python = facts->has_pymalloc = facts->arenas_known = true;
	case_add(facts, arenas_bytes, 150 * MB);
	case_trim(facts, 0, 0, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_not_null(strstr(arenas_advice(rows[i].command), rows[i].part), "%s: %s",
				   rows[i].command, diagnosis.list[0].advice[0]);
	set_variable("MT_PYTHON_MALLOC", "on");
	cr_expect_not_null(strstr(arenas_advice("python3 job.py"), "has no effect on this Python"),
			   "%s", diagnosis.list[0].advice[0]);
}

Test(findings, advice_on_huge_pages_knows_the_setting_of_the_system)
{
	for (int on_request = 0; on_request < 2; on_request++) {
		look_at((struct series){SHAPE_FLAT, 50 * MB, 0, 0, 0});
		case_add(facts, outside_bytes, 300 * MB);
		facts->smaps_known = true;
		facts->smaps.huge_bytes = (uint64_t)(320 * MB);
		facts->huge_pages_on_request = on_request;
		cr_assert_eq(judge(), MT_VERDICT_HUGE_PAGES, "%s", diagnosis.list[0].text);
		cr_expect_eq(strstr(diagnosis.list[0].advice[0], "set to madvise") != NULL,
			     !on_request);
		forget();
	}
}

/* ---- trees ---- */

/* A root that is healthy by itself, in a tree of this sum. */
static enum mt_verdict judge_tree(struct series sum, double seconds, double processes_per_s)
{
	struct mt_facts *list[] = {facts};
	struct mt_diagnosis *diagnoses[] = {&diagnosis};

	facts->tree.known = true;
	facts->tree.points_count = 40;
	for (size_t i = 0; i < 40; i++) {
		double at_s = seconds * (double)i / 39;

		facts->tree.points[i] = (struct mt_diagnose_tree_point){
			at_s, (uint64_t)case_value(&sum, at_s, seconds),
			(size_t)(2 + processes_per_s * at_s)};
	}
	judge();
	mt_diagnose_decide_tree(list, diagnoses, 1);
	return diagnosis.list[0].verdict;
}

Test(findings, a_tree_that_grows_by_ever_more_processes_is_not_healthy)
{
	look_at((struct series){SHAPE_FLAT, 50 * MB, 0, 0, 0});
	cr_expect_eq(judge_tree((struct series){SHAPE_FLAT, 250 * MB, 0, 0, 0}, 60, 0),
		     MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
	cr_expect_eq(judge_tree((struct series){SHAPE_SAWTOOTH, 250 * MB, 20 * MB, 8, 0}, 60, 0),
		     MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
	cr_expect_eq(judge_tree((struct series){SHAPE_RAMP, 250 * MB, 5.4 * MB, 0, 0}, 60, 0.5),
		     MT_VERDICT_UNKNOWN, "they may be still starting: %s", diagnosis.list[0].text);
	cr_expect(mt_diagnose_weight(&diagnosis) > 1, "it outranks a healthy child");
	cr_expect_eq(judge_tree((struct series){SHAPE_RAMP, 250 * MB, 5.4 * MB, 0, 0}, 320, 0.5),
		     MT_VERDICT_GROWTH, "%s", diagnosis.list[0].text);
	cr_expect(diagnosis.list[0].is_of_tree);
	cr_expect_eq(figure("tree_processes_count"), 162);
}

Test(findings, a_tree_whose_member_leaks_is_explained_by_it)
{
	look_at((struct series){SHAPE_RAMP, 1200 * MB, 5 * MB, 0, 0});
	cr_expect_eq(judge_tree((struct series){SHAPE_RAMP, 1300 * MB, 5 * MB, 0, 0}, 60, 0),
		     MT_VERDICT_LEAK, "%s", diagnosis.list[0].text);
	cr_expect_null(finding(MT_VERDICT_GROWTH));
}

/* ---- Python ---- */

static void be_python(bool arenas)
{
	facts->is_python = true;
	facts->has_pymalloc = arenas;
}

Test(findings, what_a_collection_frees_was_in_cycles)
{
	look_at((struct series){SHAPE_RAMP, 1200 * MB, 5 * MB, 0, 0});
	be_python(false);
	case_trim(facts, 300 * MB, 300 * MB, 100000);

	cr_expect_eq(judge(), MT_VERDICT_PYTHON_CYCLES);
	cr_expect(finding(MT_VERDICT_LEAK) == NULL, "all of the growth was garbage");
}

Test(findings, cycles_that_lie_still_are_no_health)
{
	look_at((struct series){SHAPE_FLAT, 200 * MB, 0, 0, 0});
	be_python(false);
	case_trim(facts, 100 * MB, 100 * MB, 100000);

	cr_expect_eq(judge(), MT_VERDICT_PYTHON_CYCLES);
}

Test(findings, a_fall_that_the_program_makes_by_itself_is_not_the_collections)
{
	look_at((struct series){SHAPE_SAWTOOTH, 100 * MB, 100 * MB, 5, 0});
	be_python(false);
	case_trim(facts, 80 * MB, 80 * MB, 51);
	facts->trim.record.live_before_bytes = (uint64_t)(190 * MB);
	facts->trim.record.live_after_bytes = (uint64_t)(110 * MB);

	cr_expect_eq(judge(), MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
}

Test(findings, a_leak_of_which_a_collection_frees_little_stays_a_leak)
{
	look_at((struct series){SHAPE_RAMP, 1200 * MB, 5 * MB, 0, 0});
	be_python(false);
	case_trim(facts, 10 * MB, 10 * MB, 1000);

	cr_expect_eq(judge(), MT_VERDICT_LEAK);
}

Test(findings, a_disabled_collector_counts_only_where_memory_grows)
{
	look_at((struct series){SHAPE_FLAT, 200 * MB, 0, 0, 0});
	be_python(false);
	case_trim(facts, 0, 0, 0);
	facts->trim.record.gc_state = MT_GC_DISABLED;
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY);
	forget();
	look_at((struct series){SHAPE_RAMP, 1200 * MB, 5 * MB, 0, 0});
	be_python(false);
	case_trim(facts, 0, 0, 0);
	facts->trim.record.gc_state = MT_GC_DISABLED;
	cr_expect_eq(judge(), MT_VERDICT_PYTHON_GC_OFF);
	cr_expect_not_null(finding(MT_VERDICT_LEAK));
}

Test(findings, a_leak_of_a_python_whose_gc_was_not_asked_may_be_garbage_and_says_how_to_find_out)
{
	look_at((struct series){SHAPE_RAMP, 1200 * MB, 5 * MB, 0, 0});
	be_python(false);
	case_trim(facts, 0, 0, 0);
	facts->trim.level = MT_LEVEL_PURGE;
	facts->trim.record.gc_state = MT_GC_NONE;

	cr_expect_eq(judge(), MT_VERDICT_LEAK);
	cr_expect_lt(diagnosis.list[0].confidence, MT_DIAGNOSE_SURE);
	cr_expect(strstr(diagnosis.list[0].text, "garbage"), "%s", diagnosis.list[0].text);
	cr_expect(strstr(diagnosis.list[0].advice[0], "--gc"), "%s", diagnosis.list[0].advice[0]);
	facts->last.cleanups[0] =
		(struct mt_stats_cleanup){.number = 1, .gc_state = MT_GC_DISABLED};
	cr_expect_eq(judge(), MT_VERDICT_LEAK, "an earlier request may be out of date");
}

Test(findings, what_gc_could_not_look_at_may_be_garbage)
{
	look_at((struct series){SHAPE_FLAT, 200 * MB, 0, 0, 0});
	be_python(false);
	case_trim(facts, 0, 0, 0);
	for (uint32_t state = 0; state < MT_GC_COUNT; state++) {
		bool is_late = state == MT_GC_BLOCKED || state == MT_GC_LATE;

		facts->trim.record.gc_state = state;
		cr_expect_eq(judge(), MT_VERDICT_HEALTHY);
		cr_expect_eq(strstr(diagnosis.list[0].text,
				    "; up to 200.0 MB may be garbage: gc could not run") != NULL,
			     is_late, "%u: %s", state, diagnosis.list[0].text);
		cr_expect_eq(strstr(diagnosis.list[0].text, "nothing to do") == NULL, is_late);
	}
	facts->trim.record.gc_state = MT_GC_LATE;
	facts->trim.has_collected_late = true;
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY);
	cr_expect_null(strstr(diagnosis.list[0].text, "gc could not run"), "it ran late");
}

/* Where the arenas can be read how full they are decides, and where they cannot the number of
 * objects in them. */
Test(findings, full_arenas_are_no_finding)
{
	static const struct {
		double arenas_mb, live_mb;
		bool readable;
		uint64_t blocks;
		enum mt_verdict verdict;
	} rows[] = {
		{150, 5, true, 0, MT_VERDICT_PYTHON_ARENAS},
		{150, 140, true, 0, MT_VERDICT_HEALTHY},
		{30, 0, true, 0, MT_VERDICT_HEALTHY},
		{150, 0, false, 1000, MT_VERDICT_PYTHON_ARENAS},
		{150, 0, false, 2000000, MT_VERDICT_HEALTHY},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		look_at((struct series){SHAPE_FLAT, 50 * MB, 0, 0, 0});
		be_python(true);
		facts->arenas_known = rows[i].readable;
		if (rows[i].readable)
			case_add(facts, arenas_bytes, rows[i].arenas_mb * MB);
		else
			case_add(facts, outside_bytes, rows[i].arenas_mb * MB);
		for (size_t at = 0; at < facts->samples_count; at++)
			facts->samples[at].arenas_live_bytes = (uint64_t)(rows[i].live_mb * MB);
		facts->last.head.snapshot.python_blocks_count = rows[i].blocks;
		case_trim(facts, 0, 0, 0);
		cr_expect_eq(judge(), rows[i].verdict, "row %zu: %s", i, diagnosis.list[0].text);
		forget();
	}
}

Test(findings, objects_that_leak_in_arenas_are_a_leak)
{
	look_at((struct series){SHAPE_FLAT, 900 * MB, 0, 0, 0});
	be_python(true);
	facts->arenas_known = true;
	for (size_t i = 0; i < facts->samples_count; i++) {
		struct mt_sample *at = &facts->samples[i];
		uint64_t grown = (uint64_t)(at->at_s * 3 * MB);

		at->arenas_bytes = at->arenas_live_bytes = grown;
		at->held_bytes += grown;
		at->anon_bytes += grown;
		at->rss_bytes += grown;
	}
	case_trim(facts, 0, 0, 0);

	cr_expect_eq(judge(), MT_VERDICT_LEAK, "%s", diagnosis.list[0].text);
}

/* mariadbd: libc's heaps had 133 MB more than was live, of which 109 had gone back to the kernel;
 * InnoDB's own mappings were counted instead. */
Test(findings, what_has_left_libcs_heaps_does_not_lie_free_between_live_blocks)
{
	look_at((struct series){SHAPE_FLAT, 49 * MB, 0, 0, 0});
	case_add(facts, slack_bytes, 133 * MB);
	facts->last.head.mode = MT_MODE_SYSTEM;
	strcpy(facts->last.head.allocator, "glibc");
	facts->last.head.snapshot = (struct mt_stats_snapshot){.heap_mapped_bytes = 182 << 20,
							       .heap_live_bytes = 49 << 20};
	case_trim(facts, 2 * MB, 0, 0);
	facts->libc_free_known = true;
	facts->libc_free_bytes = 24 << 20;
	cr_expect_eq(judge(), MT_VERDICT_HEALTHY, "%s", diagnosis.list[0].text);
	cr_expect_null(finding(MT_VERDICT_HOARD));

	facts->libc_free_bytes = 100 << 20;
	(void)judge();
	cr_assert_not_null(finding(MT_VERDICT_HOARD));
	cr_expect_eq((uint64_t)finding(MT_VERDICT_HOARD)->bytes, 100 << 20);
	cr_expect_str_eq(finding(MT_VERDICT_HOARD)->environment, "MT_ALLOCATOR=jemalloc");
}

/* The library has left libc's malloc in place for a reason, and advise names no other one. */
Test(findings, no_other_allocator_is_advised_where_libcs_malloc_serves_for_good)
{
	static const struct {
		const char *evidence, *advice;
	} rows[] = {
		{"libc's malloc for good: the program imports mlockall",
		 "Another allocator is not advised: libc's malloc for good: the program imports "
		 "mlockall."},
		{"libc's malloc for good: RLIMIT_AS or RLIMIT_DATA is 4 GB or less",
		 "Restart it with RLIMIT_AS and RLIMIT_DATA above 4 GB: "},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		look_at((struct series){SHAPE_FLAT, 40 * MB, 0, 0, 0});
		case_add(facts, slack_bytes, 150 * MB);
		facts->last.head.mode = MT_MODE_LIBC;
		strcpy(facts->last.head.allocator, "glibc");
		strcpy(facts->last.head.evidence, rows[i].evidence);
		facts->last.head.snapshot = (struct mt_stats_snapshot){
			.heap_mapped_bytes = 190 << 20, .heap_live_bytes = 40 << 20};
		case_trim(facts, 0, 0, 0);
		(void)judge();
		cr_assert_not_null(finding(MT_VERDICT_HOARD));
		cr_expect_str_eq(finding(MT_VERDICT_HOARD)->environment, "");
		cr_expect(strncmp(finding(MT_VERDICT_HOARD)->advice[0], rows[i].advice,
				  strlen(rows[i].advice)) == 0,
			  "%s", finding(MT_VERDICT_HOARD)->advice[0]);
		forget();
	}
}

/* stat shows a rise of device memory that slows down, and diagnose had 'nothing to do'. */
Test(findings, a_rise_of_device_memory_that_may_go_on_is_unknown)
{
	look_at((struct series){SHAPE_FLAT, 200 * MB, 0, 0, 0});
	for (size_t i = 0; i < facts->samples_count; i++) {
		struct mt_sample *at = &facts->samples[i];

		at->gpu_allocated_bytes = (uint64_t)((100 + 100 * sqrt(at->at_s)) * MB);
		at->gpu_reserved_bytes = at->gpu_allocated_bytes;
	}

	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN, "%s", diagnosis.list[0].text);
	cr_expect_eq(diagnosis.gpu.doubt, MT_TREND_SLOWING);
	cr_expect(strstr(diagnosis.list[0].text, "device memory has grown by less and less, "),
		  "%s", diagnosis.list[0].text);
}

/* ---- nothing known ---- */

Test(findings, nothing_is_said_of_what_was_not_seen)
{
	look_at((struct series){SHAPE_FLAT, 50 * MB, 0, 0, 0});
	facts->awake = false;
	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN);
	facts->awake = true;
	facts->ended = true;
	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN);
	facts->ended = false;
	facts->samples_count = 3;
	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN);
	facts->samples_count = 0;
	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN);
}

/* Its memory is free again, and no command reaches it. */
Test(findings, a_process_that_leaked_until_it_ended_is_said_to_have_ended)
{
	look_at((struct series){SHAPE_RAMP, 5000 * MB, 20 * MB, 0, 0});
	facts->ended = facts->is_python = true;

	cr_expect_eq(judge(), MT_VERDICT_UNKNOWN);
	cr_expect_str_eq(diagnosis.list[0].text, "the process ended during the diagnosis, and "
						 "until then looked like a leak");
	cr_assert_not_null(finding(MT_VERDICT_LEAK));
	for (size_t i = 0; i < diagnosis.count; i++)
		for (size_t k = 0; k < diagnosis.list[i].advice_count; k++)
			cr_expect_null(strstr(diagnosis.list[i].advice[k], " 42"), "%s",
				       diagnosis.list[i].advice[k]);
}

Test(findings, tell_a_rate_and_its_interval_in_the_same_unit)
{
	look_at((struct series){SHAPE_RAMP, 100 * MB, 0.0625 * MB, 0, 0});

	cr_assert_eq(judge(), MT_VERDICT_LEAK);
	cr_expect(strstr(diagnosis.list[0].text, "64.0 kB/s (95 %: 6"), "%s",
		  diagnosis.list[0].text);
}

/* 33 kB/s in 20 s are less than one look at RSS can tell. */
Test(findings, need_no_name_for_a_rest_that_is_nearly_nothing)
{
	facts = case_facts(&(struct series){SHAPE_RAMP, 100 * MB, 0.0625 * MB, 0, 0}, 20, 120);
	for (size_t i = 0; i < facts->samples_count; i++) {
		facts->samples[i].rss_bytes += (uint64_t)(34000 * facts->samples[i].at_s);
		facts->samples[i].anon_bytes += (uint64_t)(34000 * facts->samples[i].at_s);
	}

	cr_assert_eq(judge(), MT_VERDICT_LEAK);
	cr_expect_null(finding(MT_VERDICT_GROWTH));
}

Test(findings, free_blocks_of_sleeping_threads_are_not_called_fragmentation)
{
	look_at((struct series){SHAPE_FLAT, 200 * MB, 0, 0, 0});
	case_add(facts, slack_bytes, 300 * MB);
	case_trim(facts, 10 * MB, 0, 0);
	facts->last.head.snapshot.threads_count = 200;
	facts->last.head.snapshot.heap_thread_cache_bytes = 250ull << 20;

	cr_expect_eq(judge(), MT_VERDICT_HOARD);
	cr_expect(strstr(diagnosis.list[0].text, "in the caches of 200 threads") != NULL, "%s",
		  diagnosis.list[0].text);
	for (size_t i = 0; i < diagnosis.list[0].advice_count; i++)
		cr_expect(strstr(diagnosis.list[0].advice[i], "ARENA") == NULL);
}
