/* stubs.c -- the functions that are only named. */
#include "internal.h"

static int refuse(enum fake_fn fn)
{
	const int result = fake_enter(fn, NULL);

	return result != OK ? result : fake_leave(NOT_SUPPORTED);
}

#define N(symbol, base, since, needs, parameters)                                                  \
	int symbol parameters                                                                      \
	{                                                                                          \
		return refuse(FN_##symbol);                                                        \
	}
#define Z(symbol, base, since, needs, parameters)                                                  \
	int symbol parameters                                                                      \
	{                                                                                          \
		return refuse(FN_##symbol);                                                        \
	}                                                                                          \
	int symbol##_ptsz parameters                                                               \
	{                                                                                          \
		return refuse(FN_##symbol##_ptsz);                                                 \
	}
#define D(symbol, base, since, needs, parameters)                                                  \
	int symbol parameters                                                                      \
	{                                                                                          \
		return refuse(FN_##symbol);                                                        \
	}                                                                                          \
	int symbol##_ptds parameters                                                               \
	{                                                                                          \
		return refuse(FN_##symbol##_ptds);                                                 \
	}
FAKE_FUNCTIONS_STUB(N, Z, D)
