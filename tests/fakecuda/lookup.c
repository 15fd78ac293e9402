/* lookup.c -- the table of functions, and cuGetProcAddress over it. What is newer than the
 * library's version is not exported either (fakecuda.mk makes the version script from the same
 * table). */
#include <string.h>

#include "internal.h"

enum { QUERY_FOUND = 0, QUERY_NOT_FOUND = 1, QUERY_VERSION = 2 };
enum { FLAG_LEGACY = 1, FLAG_PER_THREAD = 2 };

/* The twins for the per-thread default stream came with 7.0. */
#define TWIN_SINCE(since) ((since) < 7000 ? 7000 : (since))
#define ANY               FAKE_ANY
#define INIT              FAKE_INIT
#define HOLD              FAKE_HOLD
#define CTX               (FAKE_INIT | FAKE_CTX)
#define SAFE              FAKE_SAFE
const struct fake_row fake_rows[FN_COUNT] = {
#define N(symbol, base, since, needs, parameters)                                                  \
	{#symbol, #base, since, needs, false, (void *)&symbol},
#define Z(symbol, base, since, needs, parameters)                                                  \
	{#symbol, #base, since, needs, false, (void *)&symbol},                                    \
		{#symbol "_ptsz", #base, TWIN_SINCE(since), needs, true, (void *)&symbol##_ptsz},
#define D(symbol, base, since, needs, parameters)                                                  \
	{#symbol, #base, since, needs, false, (void *)&symbol},                                    \
		{#symbol "_ptds", #base, TWIN_SINCE(since), needs, true, (void *)&symbol##_ptds},
	FAKE_FUNCTIONS(N, Z, D)
#undef N
#undef Z
#undef D
};
#undef ANY
#undef INIT
#undef HOLD
#undef CTX
#undef SAFE

int fake_row_find(const char *symbol)
{
	int fn;

	for (fn = 0; fn < FN_COUNT; fn++)
		if (strcmp(fake_rows[fn].symbol, symbol) == 0)
			return fn;
	return -1;
}

/* The newest one that the version asked for knows; the per-thread one goes before its equal where
 * it is wanted. */
static const struct fake_row *find(const char *base, int version, bool per_thread, int *status)
{
	const struct fake_row *best = NULL;
	int fn;

	*status = QUERY_NOT_FOUND;
	for (fn = 0; fn < FN_COUNT; fn++) {
		const struct fake_row *row = &fake_rows[fn];

		if (strcmp(row->base, base) != 0 || row->since > fake_settings.version ||
		    (row->per_thread && !per_thread))
			continue;
		if (row->since > version) {
			if (*status == QUERY_NOT_FOUND)
				*status = QUERY_VERSION;
			continue;
		}
		*status = QUERY_FOUND;
		if (best == NULL || row->since > best->since ||
		    (row->since == best->since && row->per_thread))
			best = row;
	}
	return best;
}

static int look_up(const char *symbol, void **pfn, int version, uint64_t flags, int *status)
{
	const struct fake_row *row;

	if (symbol == NULL || pfn == NULL ||
	    (flags & ~(uint64_t)(FLAG_LEGACY | FLAG_PER_THREAD)) != 0 ||
	    flags == (FLAG_LEGACY | FLAG_PER_THREAD) || version > fake_settings.version)
		return INVALID_VALUE;
	row = find(symbol, version, (flags & FLAG_PER_THREAD) != 0, status);
	*pfn = row ? row->address : NULL;
	return OK;
}

int cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags)
{
	int result = fake_enter(FN_cuGetProcAddress, NULL);
	int status;

	if (result != OK)
		return result;
	result = look_up(symbol, pfn, version, flags, &status);
	return fake_leave(result == OK && *pfn == NULL ? NOT_FOUND : result);
}

int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status)
{
	int result = fake_enter(FN_cuGetProcAddress_v2, NULL);
	int found;

	if (result != OK)
		return result;
	result = look_up(symbol, pfn, version, flags, &found);
	if (result == OK && status != NULL)
		*status = found;
	return fake_leave(result);
}

int cuGetExportTable(const void **table, const void *id)
{
	const int result = fake_enter(FN_cuGetExportTable, NULL);

	if (result != OK)
		return result;
	if (table == NULL || id == NULL)
		return fake_leave(INVALID_VALUE);
	return fake_leave(NOT_FOUND);
}
