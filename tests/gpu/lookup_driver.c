/* A libcuda.so.1 that can only be found: every function of gpu/driver.def and a few that
 * nobody wraps, each with an address of its own, and cuGetProcAddress in both ABIs. Compile with
 * -shared -fPIC -Wl,-Bsymbolic. -DINNER: cuGetProcAddress hands out other addresses than the
 * symbols have. -DCONSTRUCTOR: asks dlsym at its start, as some stub drivers do. -DALIASES:
 * cuCtxDestroy_v2 is another name of cuCtxDestroy. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "gpu/driver.def"
#include "lookup_names.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#ifdef ALIASES
#define cuCtxDestroy_v2 other_cuCtxDestroy_v2
#endif

#define X(name, parameters, ...)                                                                   \
	int name parameters                                                                        \
	{                                                                                          \
		return __LINE__ + __COUNTER__;                                                     \
	}
MT_DRIVER_FUNCTIONS(X)
X(cuInit, (unsigned flags))
X(cuMemAlloc, (unsigned *dptr, unsigned bytes))
X(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes))
X(cuStreamWaitEvent, (void *function))
X(cuGraphDestroy, (void *graph))
X(cuGetExportTable, (const void **table, const void *id))
#undef X

#ifdef ALIASES
#undef cuCtxDestroy_v2
int cuCtxDestroy_v2(struct CUctx_st *context) __attribute__((alias("cuCtxDestroy")));
#endif

#ifdef INNER
static int inner(void)
{
	return 0;
}
#define ADDRESS(symbol) ((void *)inner)
#else
#define ADDRESS(symbol) ((void *)symbol)
#endif

int cuGetProcAddress(const char *symbol, void **out, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags, int *status);

int cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags, int *status)
{
	int best = 0;
	int best_thread = -1;

	if (!symbol || !out)
		return MT_CU_INVALID_VALUE;
	*out = NULL;
	if (strcmp(symbol, "cuInit") == 0)
		*out = (void *)cuInit;
	else if (strcmp(symbol, "cuMemcpyHtoD") == 0)
		*out = (void *)cuMemcpyHtoD_v2;
	else if (strcmp(symbol, "cuMemAlloc") == 0 && version < 3020)
		*out = (void *)cuMemAlloc;
#define X(function, parameters, since, ...)                                                        \
	if (strcmp(symbol, name_of(#function)) == 0 && since <= version &&                         \
	    (!is_twin(#function) || (flags & 2)) &&                                                \
	    (is_twin(#function) > best_thread ||                                                   \
	     (is_twin(#function) == best_thread && since > best))) {                               \
		best = since;                                                                      \
		best_thread = is_twin(#function);                                                  \
		*out = ADDRESS(function);                                                          \
	}
	MT_DRIVER_WRAPPED(X)
	MT_DRIVER_QUERIES(X)
#undef X
	if (status)
		*status = *out ? 0 : 1;
	return *out ? MT_CU_SUCCESS : MT_CU_NOT_FOUND;
}

int cuGetProcAddress(const char *symbol, void **out, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(symbol, out, version, flags, NULL);
}

#ifdef CONSTRUCTOR
void *constructor_saw[2];

__attribute__((constructor)) static void begin(void)
{
	void *self = dlopen(PATH, RTLD_LAZY | RTLD_NOLOAD);

	constructor_saw[0] = dlsym(self, "cuInit");
	constructor_saw[1] = dlsym(self, "cuMemAlloc_v2");
}
#endif
