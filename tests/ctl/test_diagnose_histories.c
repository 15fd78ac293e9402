/* tests/ctl/test_diagnose_histories.c -- patients whose trouble is longer than the look: 15 minutes
 * of history and a minute of samples in, verdict out. Each is seen at many moments of its rounds.
 * None that leaks may be called healthy, and none that is healthy may be called ill; "unknown" is
 * honest where a patient may be so. */
#include <criterion/criterion.h>

#include "diagnose_case.h"

enum { MOMENTS = 5 };

static struct mt_diagnosis diagnosis;

/* What the process holds at a time since its start, in MB. */
struct patient {
	const char *name;
	double (*held_mb)(double at_s, double noise);
	double noise_mb;  /* to either side */
	double history_s; /* before the look */
	double mark_s;    /* the program marks the end of a round so often; 0: never */
	enum mt_verdict verdict;
	bool may_be_unknown; /* and at moments it is */
	bool is_outside;     /* of the heap: mapped past malloc */
};

static double part(double at_s, double period_s)
{
	return fmod(at_s, period_s) / period_s;
}

/* A federated round: updates come, are averaged and dropped; then the server waits. */
static double round_of(double at_s, double period_s, double rise_mb)
{
	double phase = part(at_s, period_s);

	return phase < 0.6 ? rise_mb * fmin(1, phase / 0.3) : 0;
}

static double rounds_of_27_s_keep_3_mb(double at_s, double noise)
{
	return 343 + round_of(at_s, 27, 90) + 3 * floor(at_s / 27) + noise;
}

static double rounds_of_27_s(double at_s, double noise)
{
	return 343 + round_of(at_s, 27, 90) + noise;
}

static double rounds_of_80_s_keep_1_pct(double at_s, double noise)
{
	return 300 + round_of(at_s, 80, 120) + 3.6 * floor(at_s / 80) + noise;
}

static double rounds_of_80_s(double at_s, double noise)
{
	return 300 + round_of(at_s, 80, 120) + noise;
}

/* Four in 15 minutes. */
static double rounds_of_4_minutes_keep_1_pct(double at_s, double noise)
{
	return 300 + round_of(at_s, 240, 120) + 3.6 * floor(at_s / 240) + noise;
}

static double ramps_of_4_minutes(double at_s, double noise)
{
	return 300 + 200 * part(at_s, 240) + noise;
}

static double steps_of_10_mb(double at_s, double noise)
{
	return 300 + 10 * floor(at_s / 110) + noise;
}

static double steps_of_1_pct(double at_s, double noise)
{
	return 300 + 3 * floor(at_s / 75) + noise;
}

static double leak_under_noise(double at_s, double noise)
{
	return 200 + at_s / 10 + noise;
}

static double leak_under_rounds_and_noise(double at_s, double noise)
{
	return 300 + round_of(at_s, 12, 200) + 4 * floor(at_s / 12) + noise;
}

static double leak_after_a_warm_up(double at_s, double noise)
{
	return 200 + 300 * fmin(1, at_s / 60) + at_s / 8 + noise;
}

static double leak_after_a_large_drop(double at_s, double noise)
{
	return (at_s < 90 ? 1000 : 200) + at_s / 8 + noise;
}

static double cache_that_fills_and_stays(double at_s, double noise)
{
	return 200 + 300 * (1 - exp(-at_s / 60)) + noise;
}

static double cache_that_is_still_filling(double at_s, double noise)
{
	return 200 + 300 * (1 - exp(-at_s / 400)) + noise;
}

static double cache_that_is_loaded_once(double at_s, double noise)
{
	return 200 + (at_s > 150 ? 80 : 0) + noise;
}

static double one_peak(double at_s, double noise)
{
	return 200 + (at_s > 400 && at_s < 420 ? 300 : 0) + noise;
}

static double marked_rounds_that_keep_1_pct(double at_s, double noise)
{
	return 300 + 3 * floor(at_s / 40) + noise;
}

static double data_that_is_built_up(double at_s, double noise)
{
	return 10 + 1.3 * at_s + noise;
}

static double leak_above_data(double at_s, double noise)
{
	return 300 + at_s + noise;
}

static double nothing_but_noise(double at_s, double noise)
{
	(void)at_s;
	return 300 + noise;
}

/* Each inner round leaves 4 MB for the outer one, which drops them all. */
static double rounds_within_rounds(double at_s, double noise)
{
	return 60 + (part(at_s, 3) < 0.67 ? 50 : 0) + 5 * floor(fmod(at_s, 39) / 3) + noise;
}

#define LEAK    MT_VERDICT_LEAK
#define HEALTHY MT_VERDICT_HEALTHY
#define UNKNOWN MT_VERDICT_UNKNOWN

static const struct patient patients[] = {
	{"3 MB a round of 27 s", rounds_of_27_s_keep_3_mb, 1, 840, 0, LEAK, false, false},
	{"the same, two minutes old", rounds_of_27_s_keep_3_mb, 1, 120, 0, LEAK, false, false},
	{"the same, just started", rounds_of_27_s_keep_3_mb, 1, 0, 0, UNKNOWN, false, false},
	{"rounds of 27 s that keep nothing", rounds_of_27_s, 1, 840, 0, HEALTHY, false, false},
	{"the same, just started", rounds_of_27_s, 1, 0, 0, UNKNOWN, false, false},
	{"1 % a round of 80 s", rounds_of_80_s_keep_1_pct, 1, 840, 0, LEAK, false, false},
	{"rounds of 80 s that keep nothing", rounds_of_80_s, 1, 840, 0, HEALTHY, false, false},
	{"1 % a round of 4 minutes", rounds_of_4_minutes_keep_1_pct, 1, 840, 0, UNKNOWN, false,
	 false},
	{"1 % a round of 4 minutes, past malloc", rounds_of_4_minutes_keep_1_pct, 1, 840, 0,
	 UNKNOWN, false, true},
	{"ramps of 4 minutes that fall back", ramps_of_4_minutes, 1, 840, 0, UNKNOWN, false, false},
	{"steps of 10 MB", steps_of_10_mb, 1, 840, 0, LEAK, false, false},
	{"steps of 1 %", steps_of_1_pct, 0.5, 840, 0, LEAK, false, false},
	{"0.1 MB/s below noise of 20 MB", leak_under_noise, 20, 840, 0, LEAK, false, false},
	{"the same, just started", leak_under_noise, 20, 0, 0, UNKNOWN, true, false},
	{"1 % a round, below noise of 8 MB", leak_under_rounds_and_noise, 8, 840, 0, LEAK, false,
	 false},
	{"a leak after a warm-up", leak_after_a_warm_up, 1, 840, 0, LEAK, false, false},
	{"a leak after a large drop", leak_after_a_large_drop, 1, 840, 0, LEAK, false, false},
	{"a cache that fills and stays", cache_that_fills_and_stays, 1, 840, 0, HEALTHY, false,
	 false},
	{"a cache that is still filling", cache_that_is_still_filling, 1, 840, 0, UNKNOWN, false,
	 false},
	{"a cache that is loaded once", cache_that_is_loaded_once, 1, 840, 0, HEALTHY, false,
	 false},
	{"one peak", one_peak, 1, 840, 0, HEALTHY, true, false},
	{"1 % a marked round", marked_rounds_that_keep_1_pct, 0.5, 840, 40, LEAK, false, false},
	{"the same, two rounds old", marked_rounds_that_keep_1_pct, 0.5, 40, 40, UNKNOWN, false,
	 false},
	{"data that is built up", data_that_is_built_up, 1, 30, 0, UNKNOWN, false, false},
	{"the same for more than five minutes", data_that_is_built_up, 1, 300, 0, LEAK, false,
	 false},
	{"rounds of 3 s in rounds of 39 s, past malloc", rounds_within_rounds, 1, 140, 0, UNKNOWN,
	 false, true},
	{"a young leak above data", leak_above_data, 1, 10, 0, LEAK, false, false},
	{"marked rounds that keep nothing", nothing_but_noise, 1, 840, 40, HEALTHY, false, false},
};

static void fill(const struct patient *patient, double age_s, double at_s, unsigned *state,
		 struct mt_sample *to)
{
	double noise = patient->noise_mb * case_noise(state), now_s = age_s + at_s;
	uint64_t held = (uint64_t)(patient->held_mb(now_s, noise) * MB);

	*to = (struct mt_sample){.at_s = at_s};
	to->live_bytes = to->held_bytes = patient->is_outside ? (uint64_t)(50 * MB) : held;
	to->outside_bytes = patient->is_outside ? held : 0;
	to->anon_bytes = to->live_bytes + to->outside_bytes + (15 << 20);
	to->file_bytes = 5 << 20;
	to->rss_bytes = to->anon_bytes + to->file_bytes;
	to->other_bytes = to->rss_bytes - to->live_bytes;
	to->rounds_count = patient->mark_s > 0 ? (uint64_t)(now_s / patient->mark_s) : 0;
}

/* As the ring and a look of 60 s have it: a sample each 0.9 s, then one each 0.5 s. */
static struct mt_facts *look_at(const struct patient *patient, int moment)
{
	struct mt_facts *facts = calloc(1, sizeof(*facts));
	unsigned state = 17u * (unsigned)moment + 1;
	double start_s = 7.3 * moment, age_s = start_s + patient->history_s;

	facts->awake = true;
	facts->duration_s = 60;
	facts->age_s = age_s + 60;
	facts->last.head.snapshot.heap_resident_bytes = 1;
	for (double at = -patient->history_s; at < 0; at += 0.9)
		fill(patient, age_s, at, &state, &facts->history[facts->history_count++]);
	for (double at = 0; at <= 60; at += 0.5)
		fill(patient, age_s, at, &state, &facts->samples[facts->samples_count++]);
	return facts;
}

Test(histories, decide_where_the_look_is_too_short)
{
	for (size_t i = 0; i < sizeof(patients) / sizeof(patients[0]); i++) {
		const struct patient *patient = &patients[i];

		for (int moment = 0; moment < MOMENTS; moment++) {
			struct mt_facts *facts = look_at(patient, moment);
			enum mt_verdict verdict;

			mt_diagnose_decide(facts, &diagnosis);
			verdict = diagnosis.list[0].verdict;
			cr_expect(verdict == patient->verdict ||
					  (patient->may_be_unknown && verdict == UNKNOWN) ||
					  (patient->verdict == UNKNOWN && patient->may_be_unknown &&
					   verdict == LEAK),
				  "%s, moment %d: %s instead of %s (%s)", patient->name, moment,
				  mt_diagnose_word(verdict), mt_diagnose_word(patient->verdict),
				  diagnosis.list[0].text);
			cr_expect(diagnosis.list[0].confidence >= MT_DIAGNOSE_CONFIDENT,
				  "%s, moment %d: a guess is the verdict", patient->name, moment);
			free(facts);
		}
	}
}

/* A number of rounds and a time that can be pasted, computed from the period that was seen. */
Test(histories, tell_how_many_rounds_were_seen_and_how_long_to_look)
{
	struct mt_facts *facts = look_at(&patients[2], 0);
	const struct mt_finding *finding;
	double needed_s = 0;

	mt_diagnose_decide(facts, &diagnosis);
	finding = diagnosis.list;
	for (size_t i = 0; i < finding->evidence_count; i++)
		if (strcmp(finding->evidence[i].name, "needed_s") == 0)
			needed_s = finding->evidence[i].value;
	cr_expect_str_eq(finding->text, "2 rounds seen, use --for 3m");
	cr_expect(needed_s > 5 * 27 && needed_s < 7 * 27, "%.0f s", needed_s);
	cr_expect_str_eq(finding->advice[0], "Run mtctl diagnose 0 --for 3m: that is time for the "
					     "rounds that a verdict takes.");
	free(facts);
}

Test(histories, say_how_much_of_the_time_before_was_read_and_no_more)
{
	static struct mt_facts facts;

	cr_expect_str_eq(mt_diagnose_history(&facts).text, "");
	facts.history_count = 1;
	facts.history[0].at_s = -3.4;
	cr_expect_str_eq(mt_diagnose_history(&facts).text, ", and read the 3 s before");
	facts.history[0].at_s = -0.4;
	cr_expect_str_eq(mt_diagnose_history(&facts).text, "");
	facts.history[0].at_s = -899.9;
	cr_expect_str_eq(mt_diagnose_history(&facts).text, ", and read the 14 min before");
}

/* Rounds of 27 s, two of which were seen: three minutes are enough for six, whoever has looked for
 * so long is not sent to look again. */
Test(histories, no_look_is_followed_by_the_advice_to_look_for_as_long_again)
{
	struct mt_facts *facts = look_at(&patients[2], 0);
	const struct mt_finding *finding;

	facts->duration_s = 180;
	mt_diagnose_decide(facts, &diagnosis);
	finding = diagnosis.list;
	cr_expect_str_eq(finding->text, "2 rounds seen, and 3 min did not settle it");
	for (size_t i = 0; i < finding->advice_count; i++)
		cr_expect_null(strstr(finding->advice[i], "--for"), "%s", finding->advice[i]);
	cr_expect_not_null(strstr(finding->advice[0], "mtctl round 0,"), "%s", finding->advice[0]);
	free(facts);
}
