/* test_pressure_policy.c -- pressure/policy as a table: each row is a sequence of steps, with what
 * the policy is to do at each. Pure code, so that an hour takes no time.
 *
 * A step is what has changed, a colon, and what is expected. Between two steps 1 s passes unless
 * the step says +TIME.
 *   ram=MB ram~MB   used of the limit, which is 1000 MB, so that MB are also tenths of a percent; ~
 *     for an upper bound
 *   limit=MB        another limit, 0 for nothing known         own=MB    resident and swapped
 *     memory of the process
 *   gpu=MB gpu2=MB  used on a device of 1000 MB
 *   events=N        the limit has been met N times, ever       psi=MS    tasks have waited for MS
 *     more
 *   gives=MB ggives=MB  what a cleanup returns from now on
 * Expected: - (nothing), purge, pool (purge and our idle device blocks) or heavy; then any of
 * by=SOURCE,SOURCE level=LEVEL (of all) entered=LEVEL over limit_report reason=REASON used=MB
 * spared next=MS. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/os.h"
#include "pressure/pressure_internal.h"
#include "core/core_internal.h"

#define MB MT_MIB

static const struct row {
	const char *name;
	const char *settings;
	const char *backoff;
} rows[] = {
	/* levels of the limit */
	{"quiet", "", "ram=100: - level=none | ram=500: - | ram=849: - level=none"},
	{"warn is a purge", "",
	 "ram=100: - | ram=850: purge by=limit level=warn entered=warn reason=pressure"},
	{"critical is heavy", "",
	 "ram=100: - | ram=900: heavy by=limit level=critical entered=critical used=900"},
	{"from warn to critical at once", "",
	 "ram=860 gives=20: purge | ram=900: heavy entered=critical"},
	{"critical to begin with", "", "ram=950: heavy entered=critical"},
	{"first look at full", "", "ram=1000: heavy"},
	{"other thresholds", "warn_pct=50 crit_pct=60",
	 "ram=490: - | ram=510: purge | +11s ram=610: heavy"},
	{"critical below warn wins", "warn_pct=90 crit_pct=80", "ram=790: - | ram=810: heavy"},
	{"nothing known, nothing done", "", "limit=0 ram=900: - level=none"},
	{"a limit that comes later", "", "limit=0 ram=900: - | limit=1000: heavy"},
	{"a limit that is raised", "",
	 "ram=900 gives=20: heavy | limit=4000 ram=900: - level=none over"},
	{"a limit that is lowered", "",
	 "limit=4000 ram=900: - | limit=1000: heavy entered=critical"},
	/* exact or bound */
	{"an upper bound enters no level", "", "ram~990: - level=none"},
	{"an upper bound does not end one", "", "ram=870 gives=20: purge | ram~860: - level=warn"},
	{"an upper bound below it ends one", "",
	 "ram=870 gives=20: purge | ram~700: - level=none over"},
	{"an upper bound raises none", "",
	 "ram=870 gives=20: purge | ram~950: - level=warn | ram=950: heavy"},
	/* hysteresis, both ways */
	{"warn is left 5 points lower", "",
	 "ram=860 gives=20: purge | ram=810: - level=warn | ram=799: - level=none over"},
	{"critical is left 5 points lower", "",
	 "ram=910 gives=20: heavy | ram=860: - level=critical | ram=849: - level=warn"},
	{"critical falls through to none", "",
	 "ram=910 gives=20: heavy | ram=500: - level=none over"},
	{"a wobble at warn is one level", "",
	 "ram=860 gives=20: purge entered=warn | ram=840: - level=warn | ram=860: - level=warn "
	 "entered=none | ram=840: -"},
	{"a wobble at critical is one level", "",
	 "ram=910 gives=20: heavy | ram=890: - level=critical | ram=910: - level=critical "
	 "entered=none"},
	{"no hysteresis if so set", "clear_pct=0",
	 "ram=860 gives=20: purge | ram=849: - level=none over"},
	{"a wide hysteresis", "clear_pct=50",
	 "ram=860 gives=20: purge | ram=400: - level=warn | ram=340: - level=none"},
	{"one that is wider than the threshold ends at half of it", "warn_pct=40 clear_pct=45",
	 "ram=410 gives=20: purge | ram=210: - level=warn | ram=190: - level=none over"},
	{"up again after clear is a new episode", "",
	 "ram=860 gives=200: purge | ram=660: - over | +11s ram=700: - | ram=860: purge "
	 "entered=warn"},
	/* cooldown */
	{"staying at warn repeats after the cooldown", "",
	 "ram=860 gives=30: purge | +9s ram=860 own=480: - | +2s: purge by=limit entered=none"},
	{"staying at critical repeats after it", "",
	 "ram=910 gives=30: heavy | +9s ram=910 own=480: - | +2s: heavy"},
	{"a longer cooldown", "cooldown_ms=60000",
	 "ram=860 gives=30: purge | +50s ram=860 own=480: - | +11s: purge"},
	{"from critical down to warn is no reason", "",
	 "ram=910 gives=30: heavy | ram=840 own=480: - level=warn"},
	{"heavy does not wait for the purge's cooldown", "",
	 "ram=860 gives=30: purge | +200ms ram=900: heavy"},
	{"an episode soon after a good one", "",
	 "ram=860 gives=300: purge | ram=560: - over | +3s ram=860 own=300: purge"},
	/* back-off: nothing to be had */
	{"a cleanup for nothing doubles the pause", "",
	 "ram=860 gives=0: purge | +11s: - | +10s: purge | +21s: - | +21s: purge"},
	{"less than 8 MB is next to nothing", "",
	 "limit=500 ram=430 gives=7: purge | +11s ram=430: - | +10s: purge"},
	{"less than a hundredth of the limit is", "",
	 "ram=860 gives=9: purge | +11s ram=860: - | +10s: purge"},
	{"more than that is not", "", "ram=860 gives=11: purge | +11s ram=860 own=489: purge"},
	{"the pause ends at five minutes", "",
	 "ram=860 gives=0: purge | +21s: purge | +41s: purge | +81s: purge | +161s: purge | +301s: "
	 "purge | +299s: - | +2s: purge"},
	{"one that returns much resets the pause", "",
	 "ram=860 gives=0: purge | +21s: purge | +41s gives=100: purge | +11s ram=860 own=400: "
	 "purge"},
	{"wasted heavy ones back off too", "",
	 "ram=910 gives=0: heavy | +11s: - | +10s: heavy | +39s: - | +2s: heavy"},
	{"backed off at warn, critical acts at once", "",
	 "ram=860 gives=0: purge | +21s: purge | ram=900: heavy"},
	{"backed off, up and down brings nothing", "",
	 "ram=910 gives=0: heavy | ram=700: - over | ram=910: - entered=critical | ram=700: - | "
	 "ram=910: - | +20s: heavy"},
	{"an hour later the pause is short again", "",
	 "ram=860 gives=0: purge | +21s: purge | ram=700: - | +3600s: - | ram=860: purge | +21s: "
	 "purge"},
	{"an hour later nothing is held against it", "",
	 "ram=910 gives=0: heavy | ram=700: - | +3600s: - | ram=860: purge | ram=910: heavy"},
	/* back-off: what was returned is back */
	{"back at the next look doubles the pause", "",
	 "ram=860 own=500 gives=100: purge | +100ms ram=860 own=500: - | +11s: - | +10s: purge"},
	{"half of it back counts as back", "",
	 "ram=860 own=500 gives=100: purge | +100ms ram=815 own=455: - | +11s: - | +10s: purge"},
	{"a little of it back does not", "",
	 "ram=860 own=500 gives=100: purge | +100ms ram=800 own=420: - | +11s: purge"},
	{"a step that comes and goes is purged ever less", "",
	 "ram=860 own=700 gives=300: purge | ram=860 own=700: - | +11s: - | +9s: purge | ram=860 "
	 "own=700: - | +21s: - | +20s: purge"},
	{"back after the cooldown is new", "",
	 "ram=860 own=500 gives=100: purge | ram=760 own=400: - over | +12s: - | ram=860 own=500: "
	 "purge | +11s ram=860 own=410: purge"},
	/* events */
	{"the count at the first look is no event", "",
	 "ram=700 events=40: - level=none | : - | : -"},
	{"events are critical at once", "",
	 "ram=700 events=40: - | ram=700 events=41 gives=20: heavy by=events level=critical"},
	{"events once within the cooldown", "",
	 "ram=700 events=0: - | events=1 gives=20: heavy | ram=700 events=2: - | events=9: - | "
	 "+11s events=10 own=480: heavy"},
	{"events end after the cooldown", "",
	 "ram=700 events=0: - | events=1 gives=20: heavy | +11s: - level=none over"},
	{"events over a warn act at once", "",
	 "ram=870 events=0 gives=20: purge | ram=870 events=1: heavy by=limit,events | ram=870 "
	 "events=2: -"},
	{"events of a file cache are none", "", "ram=300 events=0: - | events=50: - level=none"},
	{"events where nothing else is known", "",
	 "limit=0 events=0: - | events=1: heavy by=events used=0"},
	{"a count that falls is another group's", "",
	 "ram=700 events=50: - | events=3: - level=none | events=4: heavy"},
	{"events that bring nothing back off", "",
	 "ram=700 events=0 gives=0: - | events=1: heavy | +11s events=2: - | +10s events=3: heavy"},
	/* stall */
	{"stall that has always been there is none", "",
	 "ram=600 psi=500000: - level=none | psi=0: - level=none"},
	{"a tenth of the time is warn", "",
	 "ram=600 psi=0: - | psi=100: purge by=stall level=warn"},
	{"less than a tenth is nothing", "", "ram=600 psi=0: - | psi=99: - level=none"},
	{"a fifth is critical", "", "ram=600 psi=0: - | psi=200: heavy by=stall level=critical"},
	{"a fifth with the limit far is warn", "", "ram=400 psi=0: - | psi=900: purge level=warn"},
	{"a fifth with nothing known is critical", "", "limit=0 psi=0: - | psi=200: heavy"},
	{"stall is measured over the time since", "",
	 "ram=400 psi=0: - | +5s psi=400: - | +5s psi=500: purge"},
	{"a moment is too short to tell", "",
	 "ram=600 psi=0: - | +100ms psi=50: - | +900ms psi=49: -"},
	{"stall is left at half", "",
	 "ram=600 psi=0: - | psi=120 gives=20: purge | psi=60: - level=warn | psi=40: - level=none "
	 "over"},
	/* devices */
	{"a device at warn gives back idle blocks", "",
	 "gpu=840: - | gpu=860 ggives=50: pool by=device level=warn"},
	{"a device at critical is heavy", "", "gpu=910: heavy by=device used=910"},
	{"a device is left 5 points lower", "",
	 "gpu=860 ggives=50: pool | gpu=810: - level=warn | gpu=790: - level=none over"},
	{"the fullest device counts", "", "gpu=100 gpu2=910: heavy by=device used=910"},
	{"each device has its own level", "",
	 "gpu=860 ggives=50: pool | gpu=790 gpu2=860: - level=warn | gpu2=790: - level=none"},
	{"a device full of others backs off", "",
	 "gpu=910 ggives=0: heavy | +11s: - | +10s: heavy | +39s: - | +2s: heavy"},
	{"a device and memory in one cleanup", "", "ram=860 gpu=860: pool by=limit,device"},
	{"memory's cooldown is not the device's", "",
	 "ram=860 gives=20: purge | gpu=860 ggives=50: pool by=device"},
	/* MT_RSS_LIMIT_MB */
	{"no own limit", "", "own=5000 ram=100: - level=none"},
	{"near the own limit is heavy", "rss_limit_mb=600",
	 "ram=100 own=500: - | own=515: heavy by=rss reason=rss_limit level=warn"},
	{"near it again after the cooldown", "rss_limit_mb=600",
	 "ram=100 own=550 gives=20: heavy | own=535: - | +11s: heavy"},
	{"at it a cleanup that helps is no limit_report", "rss_limit_mb=600",
	 "ram=100 own=610 gives=200: heavy level=critical"},
	{"at it one that does not help is an limit_report", "rss_limit_mb=600",
	 "ram=100 own=610 gives=0: heavy limit_report used=610"},
	{"one limit_report until it is below warn", "rss_limit_mb=600",
	 "ram=100 own=610 gives=0: heavy limit_report | +21s: heavy | own=520: - | own=620: - | "
	 "+40s: "
	 "heavy"},
	{"and another one after that", "rss_limit_mb=600",
	 "ram=100 own=610 gives=0: heavy limit_report | own=400: - over | +60s own=610: heavy "
	 "limit_report"},
	{"near and then at it: both at once", "rss_limit_mb=600",
	 "ram=100 own=520 gives=0: heavy | own=600: heavy limit_report"},
	{"the own limit and memory at once", "rss_limit_mb=600",
	 "ram=910 own=590: heavy by=limit,rss reason=pressure used=590"},
	{"the own limit stands without pressure", "rss_limit_mb=600 pressure=0",
	 "ram=990 own=550: heavy by=rss"},
	/* switches, ranks, budget */
	{"switched off: figures alone", "pressure=0",
	 "ram=950 gpu=950 events=1: - level=critical next=5000 | events=2: - level=critical"},
	{"a budget of nothing is no obstacle", "budget_pct=0",
	 "ram=860 gives=20: purge | ram=910: heavy | +11s ram=910 own=400: heavy"},
	{"ranks only purge", "WORLD_SIZE=8",
	 "ram=860 gives=20: purge | ram=910: purge level=critical spared | +11s ram=910 own=400: "
	 "purge"},
	{"one rank is none", "WORLD_SIZE=1", "ram=910: heavy"},
	{"ranks leave their devices alone", "WORLD_SIZE=2",
	 "gpu=860: - level=warn spared | gpu=950: - level=critical spared"},
	{"ranks with both only purge", "WORLD_SIZE=2",
	 "ram=910 gpu=910: purge by=limit,device spared"},
	{"ranks near their own limit only purge", "WORLD_SIZE=2 rss_limit_mb=600",
	 "ram=100 own=590: purge by=rss spared"},
	{"ranks are told that the limit is reached", "WORLD_SIZE=2 rss_limit_mb=600",
	 "ram=100 own=610 gives=0: purge by=rss limit_report"},
	/* when to look again */
	{"far: every 5 s", "", "ram=100: - next=5000 | +60s ram=499: - next=5000"},
	{"from half on: every second", "", "ram=500: - next=1000 | +5s ram=500: - next=1000"},
	{"near: every quarter", "", "ram=810: - next=250 | +5s ram=810: - next=250"},
	{"at a level, slower ticks", "tick_ms=5000",
	 "ram=860 gives=20: purge | ram=840: - next=250"},
	{"devices far: every 5 s", "",
	 "gpu=100 ram=100: - next=5000 | gpu=600: - next=1000 | gpu=820: - next=250"},
	{"the own limit is sampled at likewise", "rss_limit_mb=1000",
	 "ram=100 own=100: - next=5000 | +60s own=820: - next=250"},
};

/* ---- running a sequence ---- */

struct teller {
	const struct row *row;
	struct mt_pressure pressure;
	struct mt_config cfg;
	struct mt_launch_env facts;
	struct mt_pressure_sample look;
	uint64_t gives_bytes, gpu_gives_bytes;
	struct mt_pressure_plan plan;
	bool limit_report;
	int step;
};

static struct teller tell;

static void start(const struct row *row)
{
	char text[256];
	char *rest = text;
	char *word;

	memset(&tell, 0, sizeof(tell));
	tell.row = row;
	mt_config_defaults(&tell.cfg);
	tell.look = (struct mt_pressure_sample){.now_ns = 1000 * MT_NS_PER_S,
						.limit_bytes = 1000 * MB,
						.exact = true,
						.own_bytes = 500 * MB};
	tell.gives_bytes = 200 * MB;
	snprintf(text, sizeof(text), "%s", row->settings);
	while ((word = strsep(&rest, " "))) {
		char *value = strchr(word, '=');

		if (!value)
			continue;
		*value++ = 0;
		if (strcmp(word, "WORLD_SIZE") == 0)
			tell.facts.world_size = strtoull(value, NULL, 10);
		else
			cr_assert_eq(mt_config_set(&tell.cfg, word, value), MT_ERR_OK, "%s: %s",
				     row->name, word);
	}
}

static void use_device(uint32_t i, uint64_t bytes)
{
	tell.look.devices[i] = (struct mt_pressure_device){i, bytes, 1000 * MB};
	if (tell.look.devices_count <= i)
		tell.look.devices_count = i + 1;
}

static void pass(const char *span)
{
	char *unit;
	uint64_t number = strtoull(span, &unit, 10);

	tell.look.now_ns += number * (strcmp(unit, "s") == 0 ? MT_NS_PER_S : MT_NS_PER_MS);
}

/* "ram=860" and the like. */
static void change(char *word)
{
	char *value = word + strcspn(word, "=~");
	bool bound = *value == '~';
	uint64_t number = *value ? strtoull(value + 1, NULL, 10) : 0;

	*value = 0;
	if (strcmp(word, "ram") == 0) {
		tell.look.used_bytes = number * MB;
		tell.look.exact = !bound;
	} else if (strcmp(word, "limit") == 0) {
		tell.look.limit_bytes = number * MB;
	} else if (strcmp(word, "own") == 0) {
		tell.look.own_bytes = number * MB;
	} else if (strcmp(word, "gpu") == 0 || strcmp(word, "gpu2") == 0) {
		use_device(word[3] == '2', number * MB);
	} else if (strcmp(word, "events") == 0) {
		tell.look.events_known = true;
		tell.look.events_count = number;
	} else if (strcmp(word, "psi") == 0) {
		tell.look.psi_known = true;
		tell.look.some_us += number * 1000;
	} else if (strcmp(word, "gives") == 0) {
		tell.gives_bytes = number * MB;
	} else if (strcmp(word, "ggives") == 0) {
		tell.gpu_gives_bytes = number * MB;
	} else {
		cr_assert_fail("%s: what is %s?", tell.row->name, word);
	}
}

static uint64_t lower(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The plan is carried out: so much goes, and time passes with it. */
static void clean(void)
{
	struct mt_pressure_outcome outcome = {.returned_bytes = tell.gives_bytes};

	tell.look.now_ns += 20 * MT_NS_PER_MS;
	tell.look.used_bytes -= lower(tell.gives_bytes, tell.look.used_bytes);
	tell.look.own_bytes -= lower(tell.gives_bytes, tell.look.own_bytes);
	if (tell.plan.flush_gpu || tell.plan.cleanup == MT_LEVEL_HEAVY) {
		outcome.gpu_returned_bytes = tell.gpu_gives_bytes;
		tell.look.devices[0].used_bytes -=
			lower(tell.gpu_gives_bytes, tell.look.devices[0].used_bytes);
	}
	outcome.after = tell.look;
	tell.limit_report =
		mt_pressure_note_cleanup(&tell.pressure, &tell.plan, &outcome, &tell.cfg);
}

/* ---- what is expected of a step ---- */

static const char *const sources[] = {
#define X(name, text) text,
	MT_PRESSURE_SOURCES(X)
#undef X
};
static const char *const reasons[] = {
#define X(name, text) text,
	MT_REASONS(X)
#undef X
};
static const char *const levels[] = {"none", "warn", "critical"};

static const char *action(void)
{
	if (!tell.plan.clean)
		return "-";
	if (tell.plan.cleanup == MT_LEVEL_HEAVY)
		return "heavy";
	return tell.plan.flush_gpu ? "pool" : "purge";
}

static const char *named_sources(void)
{
	static char text[128];

	text[0] = 0;
	for (int i = 0; i < MT_PRESSURE_SOURCE_COUNT; i++)
		if (tell.plan.sources & 1u << i)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
				 text[0] ? "," : "", sources[i]);
	return text;
}

#define SAME(what, got, wanted)                                                                    \
	cr_expect_str_eq(got, wanted, "%s, step %d: %s is %s, not %s", tell.row->name, tell.step,  \
			 what, got, wanted)

static void expect_number(const char *what, uint64_t got, const char *wanted)
{
	cr_expect_eq(got, strtoull(wanted, NULL, 10), "%s, step %d: %s is %llu, not %s",
		     tell.row->name, tell.step, what, (unsigned long long)got, wanted);
}

static void expect_word(const char *word, const char *value)
{
	if (strcmp(word, "by") == 0)
		SAME("by", named_sources(), value);
	else if (strcmp(word, "level") == 0)
		SAME("level", levels[tell.pressure.level], value);
	else if (strcmp(word, "entered") == 0)
		SAME("entered", levels[tell.plan.entered], value);
	else if (strcmp(word, "reason") == 0)
		SAME("reason", reasons[tell.plan.reason], value);
	else if (strcmp(word, "used") == 0)
		expect_number("used", tell.plan.used_bytes / MB, value);
	else if (strcmp(word, "next") == 0)
		expect_number("next", (tell.plan.next_ns - tell.look.now_ns) / MT_NS_PER_MS, value);
	else if (strcmp(word, "over") == 0)
		cr_expect(tell.plan.over, "%s, step %d: not over", tell.row->name, tell.step);
	else if (strcmp(word, "spared") == 0)
		cr_expect(tell.plan.is_reduced, "%s, step %d: not spared", tell.row->name,
			  tell.step);
	else
		cr_assert_str_eq(word, "limit_report", "%s: what is %s?", tell.row->name, word);
}

static void expect(char *wanted)
{
	char *word = strsep(&wanted, " ");
	bool limit_report = false;

	SAME("it", action(), word);
	while ((word = strsep(&wanted, " "))) {
		char *value = word + strcspn(word, "=");

		if (!*word)
			continue;
		limit_report = limit_report || strcmp(word, "limit_report") == 0;
		if (*value)
			*value++ = 0;
		expect_word(word, value);
	}
	cr_expect_eq(tell.limit_report, limit_report, "%s, step %d: limit_report %d",
		     tell.row->name, tell.step, tell.limit_report);
}

/* "+2s ram=860: purge level=warn" */
static void play(char *step)
{
	char *wanted = strchr(step, ':');
	bool passed = tell.step == 0;
	char *word;

	cr_assert_not_null(wanted, "%s: no expectation in %s", tell.row->name, step);
	*wanted++ = 0;
	tell.step++;
	while ((word = strsep(&step, " "))) {
		if (*word == '+')
			pass(word + 1);
		else if (*word)
			change(word);
		passed = passed || *word == '+';
	}
	if (!passed)
		pass("1s");
	tell.plan = mt_pressure_decide(&tell.pressure, &tell.look, &tell.cfg, &tell.facts);
	tell.limit_report = false;
	if (tell.plan.clean)
		clean();
	expect(wanted + strspn(wanted, " "));
}

Test(pressure_policy, does_what_the_table_says)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[1024];
		char *rest = text;
		char *step;

		start(&rows[i]);
		snprintf(text, sizeof(text), "%s", rows[i].backoff);
		while ((step = strsep(&rest, "|")))
			play(step);
	}
}

/* ---- between two looks ---- */

static void look_once(const char *settings, const char *first)
{
	const struct row row = {"between", settings, ""};
	char text[128];

	start(&row);
	snprintf(text, sizeof(text), "%s", first);
	play(text);
}

Test(pressure_policy, is_due_when_it_is_time)
{
	look_once("", "ram=100: - next=5000");

	cr_expect_not(mt_pressure_is_due(&tell.pressure, tell.look.now_ns + MT_NS_PER_S, 500 * MB));
	cr_expect(mt_pressure_is_due(&tell.pressure, tell.look.now_ns + 5 * MT_NS_PER_S, 500 * MB));
}

Test(pressure_policy, comes_along_with_a_tick_that_is_about_as_late)
{
	look_once("", "ram=100: -");

	cr_expect(mt_pressure_is_due(&tell.pressure, tell.look.now_ns + 4700 * MT_NS_PER_MS,
				     500 * MB));
}

Test(pressure_policy, wakes_nobody_by_itself_far_from_every_limit)
{
	look_once("", "ram=100: -");
	cr_expect_eq(mt_pressure_wake_ns(&tell.pressure), tell.look.now_ns + 10 * MT_NS_PER_S);
	look_once("", "ram=600: -");
	cr_expect_eq(mt_pressure_wake_ns(&tell.pressure), tell.look.now_ns + MT_NS_PER_S);
}

Test(pressure_policy, is_due_when_the_process_has_used_a_quarter_of_the_room)
{
	look_once("", "ram=450: -"); /* 400 MB until warn */

	cr_expect_not(
		mt_pressure_is_due(&tell.pressure, tell.look.now_ns + MT_NS_PER_MS, 590 * MB));
	cr_expect(mt_pressure_is_due(&tell.pressure, tell.look.now_ns + MT_NS_PER_MS, 601 * MB));
}

Test(pressure_policy, is_due_for_growth_towards_the_own_limit)
{
	look_once("rss_limit_mb=600 pressure=0", "ram=990: -"); /* 10 MB until warn */

	cr_expect_not(
		mt_pressure_is_due(&tell.pressure, tell.look.now_ns + MT_NS_PER_MS, 502 * MB));
	cr_expect(mt_pressure_is_due(&tell.pressure, tell.look.now_ns + MT_NS_PER_MS, 503 * MB));
}

/* ---- by how much the process may grow until then ---- */

static void expect_sample_growth(uint64_t used_mb, uint64_t growth_mb)
{
	const struct mt_pressure_sample now = {
		.used_bytes = used_mb * MB, .limit_bytes = 1000 * MB, .exact = true};
	uint64_t ring_bytes;

	cr_assert(mt_pressure_limits_growth(&now, &tell.cfg, &ring_bytes));
	cr_expect_eq(ring_bytes / MB, growth_mb, "%llu MB", (unsigned long long)(ring_bytes / MB));
}

Test(pressure_policy, wants_another_look_after_a_quarter_of_the_way_to_the_next_threshold)
{
	look_once("", "ram=100: -");

	expect_sample_growth(450, 100);
	expect_sample_growth(870, 7);
	expect_sample_growth(900, 25);
	expect_sample_growth(960, 10);
}

Test(pressure_policy, limits_no_growth_where_no_limit_counts)
{
	struct mt_pressure_sample now = {
		.used_bytes = 900 * MB, .limit_bytes = 1000 * MB, .exact = true};
	uint64_t ring_bytes;

	look_once("pressure=0", "ram=100: -");
	cr_expect_not(mt_pressure_limits_growth(&now, &tell.cfg, &ring_bytes), "switched off");
	look_once("", "ram=100: -");
	now.exact = false;
	cr_expect_not(mt_pressure_limits_growth(&now, &tell.cfg, &ring_bytes),
		      "much of it may be pages of files");
	now.used_bytes = 1000 * MB;
	now.exact = true;
	cr_expect_not(mt_pressure_limits_growth(&now, &tell.cfg, &ring_bytes),
		      "nothing is left to be saved");
}

static bool warns(struct mt_pressure *pressure, struct mt_pressure_sample *now)
{
	struct mt_launch_env facts = {.world_size = 1};
	struct mt_config cfg;

	mt_config_defaults(&cfg);
	now->now_ns += 2 * MT_NS_PER_S;
	return mt_pressure_decide(pressure, now, &cfg, &facts).warns;
}

/* An idle service beside others that fill the machine, or make its tasks wait. */
Test(pressure_policy, others_are_no_reason_to_warn)
{
	struct mt_pressure pressure = {0};
	struct mt_pressure_sample now = {.now_ns = MT_NS_PER_S,
					 .limit_bytes = 16000 * MB,
					 .used_bytes = 700 * MB,
					 .exact = true,
					 .is_machines = true,
					 .psi_known = true,
					 .own_bytes = 100 * MB};

	cr_expect_not(warns(&pressure, &now));
	now.some_us += 1000000;
	cr_expect_not(warns(&pressure, &now));
	cr_expect_eq(pressure.level, MT_PRESSURE_WARN, "it cleans up all the same");
	now.used_bytes = 15000 * MB;
	cr_expect_not(warns(&pressure, &now));
	cr_expect_eq(pressure.level, MT_PRESSURE_CRITICAL);
	now.own_bytes = 2000 * MB;
	cr_expect(warns(&pressure, &now), "it holds an eighth of the machine itself");
	cr_expect_not(warns(&pressure, &now), "once");
}

Test(pressure_policy, the_own_cgroup_is_a_reason_to_warn)
{
	struct mt_pressure pressure = {0};
	struct mt_pressure_sample now = {.now_ns = MT_NS_PER_S,
					 .limit_bytes = 1000 * MB,
					 .used_bytes = 600 * MB,
					 .exact = true,
					 .psi_known = true,
					 .psi_is_own = true,
					 .own_bytes = 10 * MB};

	cr_expect_not(warns(&pressure, &now));
	now.some_us += 300000;
	cr_expect(warns(&pressure, &now));
	now.used_bytes = 920 * MB;
	cr_expect(warns(&pressure, &now));
}
