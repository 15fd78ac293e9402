/* heap/jemalloc_math.c -- contract: heap/jemalloc_math.h. log spaces the profiler's samples; exp
 * and round scale what it counted. Exact to a few units in the last place, which is enough for
 * both. */
#include "heap/jemalloc_math.h"

#include <stdint.h>
#include <string.h>

#define LN2 0x1.62e42fefa39efp-1
/* its low bits are 0: times a small whole number it is exact */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW  0x1.a39ef35793c76p-33
#define SQRT2    0x1.6a09e667f3bcdp+0
/* above it a double overflows, below its negative only denormals are left */
#define EXP_MOST 709.78
/* |s| <= 0.1716: the first term left out is below 1e-19 */
#define LOG_TERMS     23
#define EXP_TERMS     14 /* |rest| <= ln2 / 2: likewise */
#define FRACTION_BITS 52
#define BIAS          1023

static double two_to(int64_t power)
{
	uint64_t bits = (uint64_t)(power + BIAS) << FRACTION_BITS;
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* ln(m * 2^k) = k ln 2 + 2 artanh((m - 1) / (m + 1)). jemalloc asks for the logarithm of normal
 * positive numbers alone. */
double mt_je_log(double x)
{
	uint64_t bits;
	int64_t power;
	double s, square, sum = 0;

	memcpy(&bits, &x, sizeof(bits));
	power = (int64_t)(bits >> FRACTION_BITS) - BIAS;
	x /= two_to(power);
	if (x > SQRT2) {
		x /= 2;
		power++;
	}
	s = (x - 1) / (x + 1);
	square = s * s;
	for (int term = LOG_TERMS; term >= 3; term -= 2)
		sum = (sum + 1.0 / term) * square;
	return (double)power * LN2_HIGH + (2 * s + (2 * s * sum + (double)power * LN2_LOW));
}

double mt_je_exp(double x)
{
	double power, rest, sum = 1;

	if (x > EXP_MOST)
		return __builtin_inf();
	if (x < -EXP_MOST + 2)
		return 0;
	power = mt_je_round(x / LN2);
	rest = (x - power * LN2_HIGH) - power * LN2_LOW;
	for (int term = EXP_TERMS; term >= 1; term--)
		sum = 1 + sum * rest / term;
	return sum * two_to((int64_t)power - 1) * 2;
}

/* Halves go away from zero; from 2^52 on there are none. */
double mt_je_round(double x)
{
	double size = x < 0 ? -x : x;
	double whole;

	if (!(size < (double)(1ULL << FRACTION_BITS)))
		return x;
	whole = (double)(int64_t)size;
	if (size - whole >= 0.5)
		whole += 1;
	return x < 0 ? -whole : whole;
}
