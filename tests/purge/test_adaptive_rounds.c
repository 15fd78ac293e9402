/* test_adaptive_rounds.c -- purge/rounds: MT_GC_ROUNDS=auto. Rows of what is kept at round
 * ends, and the step after each. */
#include <criterion/criterion.h>
#include <string.h>

#include "sys/os.h"
#include "purge/purge.h"
#include "purge/policy.h"

#define MIB(n)   ((uint64_t)(n)*MT_MIB)
#define ENDS_MAX 24

/* Steps are one digit each: "1112" is the step after each of the round ends. A pressure of 'p' at a
 * place is one there. */
struct row {
	const char *name;
	uint64_t mb[ENDS_MAX];
	const char *pressure;
	const char *steps;
};

/* clang-format off */
static const struct row rows[] = {
	{"flat from the start",          {300, 300, 300, 300, 300, 300, 300, 300, 300, 300}, "", "1112222555"},
	{"flat within 8 MB",             {300, 308, 300, 308, 300, 308, 300, 308, 300, 308}, "", "1112222555"},
	{"9 MB of 300",                  {300, 309, 300, 309, 300, 309, 300, 309, 300, 309}, "", "1111111111"},
	{"flat within 2 % of 4 GB",      {4000, 4080, 4000, 4080, 4000, 4080, 4000, 4080},   "", "11122225"},
	{"2 % of 4 GB and 1 MB",         {4000, 4081, 4000, 4081, 4000, 4081, 4000, 4081},   "", "11111111"},
	{"it grows from the start",      {300, 310, 320, 330, 340, 350, 360, 370},           "", "11111111"},
	{"it falls, and then is flat",   {900, 700, 500, 300, 300, 300, 300, 300, 300, 300, 300}, "", "11111122225"},
	{"it rises from the second step", {300, 300, 300, 300, 300, 309, 309, 309},           "", "11122111"},
	{"it climbs on the last",        {300, 300, 300, 300, 300, 300, 300, 300, 300, 309}, "", "1112222551"},
	{"it falls on the last",         {300, 300, 300, 300, 300, 300, 300, 300, 300, 100, 104}, "", "11122225555"},
	{"garbage accumulates at the second step", {300, 300, 300, 300, 330, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300},
	 "", "111211111111222"},
	{"slowly, and past 8 MB in the end", {300, 302, 304, 306, 308, 309, 309, 309},       "", "11122111"},
	{"pressure at the start",        {300, 300, 300, 300, 300, 300, 300, 300},           "pp", "11111222"},
	{"pressure at the second step",  {300, 300, 300, 300, 300, 300, 300, 300, 300, 300}, "....p", "1112111122"},
	{"pressure on the last",         {300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300}, "........p", "1112222511112"},
	{"pressure at each second",      {300, 300, 300, 300, 300, 300, 300, 300},           "p.p.p.p.", "11111111"},
	{"nothing at all",               {0, 0, 0, 0, 0, 0, 0, 0},                           "", "11122225"},
};
/* clang-format on */

static struct mt_adaptive_rounds adaptive;

static void expect_row(const struct row *row)
{
	char steps[ENDS_MAX + 1] = "";
	size_t pressure = strlen(row->pressure);

	mt_rounds_auto_start(&adaptive);
	cr_expect_eq(mt_rounds_auto_step(&adaptive), 1);
	for (size_t i = 0; row->steps[i]; i++) {
		mt_rounds_auto_add(&adaptive, MIB(row->mb[i]),
				   i < pressure && row->pressure[i] == 'p');
		steps[i] = (char)('0' + mt_rounds_auto_step(&adaptive));
	}
	cr_expect_str_eq(steps, row->steps, "%s", row->name);
}

Test(adaptive, climbs_while_flat_and_is_back_at_once)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect_row(&rows[i]);
}

/* How many of the last 1000 of 2000 round ends saw each step, with so many bytes more at each. */
static uint64_t share_of_step(uint64_t step, uint64_t growth_bytes)
{
	uint64_t seen = 0;

	mt_rounds_auto_start(&adaptive);
	for (uint64_t i = 0; i < 2000; i++) {
		mt_rounds_auto_add(&adaptive, MIB(300) + i * growth_bytes, false);
		seen += i >= 1000 && mt_rounds_auto_step(&adaptive) == step;
	}
	return seen;
}

Test(adaptive, a_leak_keeps_the_first_step_however_slow)
{
	/* 2 % become more as it grows: now and then it tries again. */
	cr_expect_geq(share_of_step(1, MIB(20)), 900);
	cr_expect_geq(share_of_step(1, MIB(1)), 900);
	cr_expect_geq(share_of_step(1, MIB(1) / 4), 900);
	cr_expect_geq(share_of_step(5, 1000), 900, "1 kB a round is none");
}

Test(adaptive, is_patient_again_after_a_long_time_on_the_last_rung)
{
	mt_rounds_auto_start(&adaptive);
	for (uint64_t i = 0; i < 8 * MT_ADAPTIVE_ROUNDS_LONGEST; i++) /* wrong again and again */
		mt_rounds_auto_add(&adaptive,
				   MIB(300) + (mt_rounds_auto_step(&adaptive) - 1) * MIB(20),
				   false);
	cr_expect_eq(adaptive.window, MT_ADAPTIVE_ROUNDS_LONGEST);
	for (int i = 0; i < 4 * MT_ADAPTIVE_ROUNDS_LONGEST; i++)
		mt_rounds_auto_add(&adaptive, MIB(300), false);
	cr_expect_eq(mt_rounds_auto_step(&adaptive), 5);
	cr_expect_eq(adaptive.window, 4);
}

Test(adaptive, takes_pressure_for_no_mistake_of_its_own)
{
	mt_rounds_auto_start(&adaptive);
	for (int turn = 0; turn < 20; turn++) {
		for (int i = 0; i < 8; i++)
			mt_rounds_auto_add(&adaptive, MIB(300), false);
		cr_expect_eq(mt_rounds_auto_step(&adaptive), 5);
		mt_rounds_auto_add(&adaptive, MIB(300), true);
		cr_expect_eq(mt_rounds_auto_step(&adaptive), 1);
	}
}

Test(adaptive, climbs_again_once_what_has_grown_is_flat)
{
	mt_rounds_auto_start(&adaptive);
	for (int i = 0; i < 20; i++)
		mt_rounds_auto_add(&adaptive, MIB(300), false);
	mt_rounds_auto_add(&adaptive, MIB(900), false);
	cr_expect_eq(mt_rounds_auto_step(&adaptive), 1);
	for (int i = 0; i < 17; i++) /* the window has doubled */
		mt_rounds_auto_add(&adaptive, MIB(900), false);
	cr_expect_eq(mt_rounds_auto_step(&adaptive), 5);
}
