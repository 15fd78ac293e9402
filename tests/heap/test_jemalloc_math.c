#include <criterion/criterion.h>

#include <math.h>

#ifndef MT_NO_JEMALLOC
#include "heap/jemalloc_internal.h"

/* Units in the last place of the right answer. */
static double apart(double ours, double right)
{
	return fabs(ours - right) / (nextafter(fabs(right), INFINITY) - fabs(right));
}

Test(jemalloc_math, log_is_right_to_a_few_units_in_the_last_place)
{
	double worst = 0;

	for (double x = 1e-300; x < 1e300; x *= 1.7320508)
		worst = fmax(worst, apart(mt_je_log(x), log(x)));
	for (double x = 0.001; x < 3; x += 0.000977)
		worst = fmax(worst, fabs(mt_je_log(x) - log(x)) / 0x1p-52);
	cr_expect_lt(worst, 4.0, "%f", worst);
	cr_expect_eq(mt_je_log(1.0), 0.0);
}

Test(jemalloc_math, exp_is_right_and_has_ends)
{
	double worst = 0;

	for (double x = -700; x < 709; x += 0.0317)
		worst = fmax(worst, apart(mt_je_exp(x), exp(x)));
	cr_expect_lt(worst, 4.0, "%f", worst);
	cr_expect_eq(mt_je_exp(0.0), 1.0);
	cr_expect_eq(mt_je_exp(-1e4), 0.0);
	cr_expect(isinf(mt_je_exp(1e4)));
}

Test(jemalloc_math, round_takes_halves_away_from_zero)
{
	static const double values[] = {0.0,    0.49999999999999994, 0.5,  1.5, 2.5, 1e15 + 0.5,
					0x1p52, 0x1p53 + 2,          1e300};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		cr_expect_eq(mt_je_round(values[i]), round(values[i]), "%a", values[i]);
		cr_expect_eq(mt_je_round(-values[i]), round(-values[i]), "%a", -values[i]);
	}
}
#endif
