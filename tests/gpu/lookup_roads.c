/* All roads to the driver. argv[1]: wrapped (what we stand in for is ours) or plain (every answer
 * is the driver's own); argv[2]: the path of libcuda.so.1; argv[3]: the dlopen flags, local, global
 * or deep; argv[4]: the version of its symbols, where they have one. Compile with -DLINKED and the
 * driver for a program that is linked to it. Prints a line for each answer that is wrong, and `N
 * answers`. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/driver.def"
#include "lookup_names.h"

static int is_wrapped_mode;
static int answers, wrong;
static void *shim, *driver;
static const char *version;

static int is_wrapped(const char *symbol)
{
#define X(name, parameters, ...) || strcmp(symbol, #name) == 0
	return 0 MT_DRIVER_WRAPPED(X) MT_DRIVER_QUERIES(X);
#undef X
}

/* The exported wrapper itself: only who asks for its version gets it unconditionally. */
static void *ours(const char *symbol)
{
	return shim ? dlvsym(shim, symbol, "MTSHIM") : NULL;
}

static int is_drivers(const void *pointer)
{
	Dl_info info;

	return pointer && dladdr(pointer, &info) && strstr(info.dli_fname, "libcuda.so");
}

static void check(const char *road, const char *symbol, void *got)
{
	int right = is_wrapped_mode && is_wrapped(symbol) ? got && got == ours(symbol)
							  : is_drivers(got);

	answers++;
	if (right)
		return;
	wrong++;
	printf("%s: %s is %p, ours %p\n", road, symbol, got, ours(symbol));
}

static void check_symbol(const char *symbol, int is_global)
{
	check("dlsym", symbol, dlsym(driver, symbol));
	if (version)
		check("dlvsym", symbol, dlvsym(driver, symbol, version));
	if (is_global) {
		check("dlsym(RTLD_DEFAULT)", symbol, dlsym(RTLD_DEFAULT, symbol));
		check("dlsym(program)", symbol, dlsym(dlopen(NULL, RTLD_LAZY), symbol));
	} else if (dlsym(RTLD_DEFAULT, symbol) || dlsym(dlopen(NULL, RTLD_LAZY), symbol)) {
		wrong++;
		printf("%s is in the global scope\n", symbol);
	}
}

typedef int (*old_query)(const char *, void **, int, uint64_t);
typedef int (*new_query)(const char *, void **, int, uint64_t, int *);

static void check_query(old_query old, new_query fresh, const char *symbol, const char *name,
			int cuda, int flags)
{
	void *got = NULL;
	int status = 77;

	if (old(name, &got, cuda, (uint64_t)flags) != 0)
		got = NULL;
	check("cuGetProcAddress", symbol, got);
	got = NULL;
	if (fresh(name, &got, cuda, (uint64_t)flags, &status) != 0 || status != 0)
		got = NULL;
	check("cuGetProcAddress_v2", symbol, got);
}

static void check_queries(void)
{
	void *got = NULL;
	old_query old;
	new_query fresh;
	int status = 77;

	*(void **)&old = dlsym(driver, "cuGetProcAddress");
	*(void **)&fresh = dlsym(driver, "cuGetProcAddress_v2");
#define X(symbol, parameters, since, ...)                                                          \
	check_query(old, fresh, #symbol, name_of(#symbol), since, is_twin(#symbol) ? 2 : 0);       \
	if (!is_twin(#symbol))                                                                     \
		check_query(old, fresh, #symbol, name_of(#symbol), since, 1);
	MT_DRIVER_WRAPPED(X)
	MT_DRIVER_QUERIES(X)
#undef X
	check_query(old, fresh, "cuMemAlloc_v2", "cuMemAlloc", 13000, 2);
	check_query(old, fresh, "cuCtxDestroy_v2", "cuCtxDestroy", 12080, 0);
	check_query(old, fresh, "cuMemAlloc", "cuMemAlloc", 3010, 0);
	check_query(old, fresh, "cuInit", "cuInit", 12000, 0);
	check_query(old, fresh, "cuMemcpyHtoD_v2", "cuMemcpyHtoD", 12000, 0);
	/* What the driver says of a name it does not have stays as it is, and outputs it does not
	 * need may be NULL. */
	if (fresh("cuNoSuchThing", &got, 12000, 0, &status) != MT_CU_NOT_FOUND || got ||
	    status != 1)
		wrong += printf("a missing name: %p, status %d\n", got, status) > 0;
	if (fresh("cuMemAlloc", &got, 12000, 0, NULL) != 0 ||
	    fresh("cuMemAlloc", NULL, 12000, 0, &status) != 1 ||
	    fresh(NULL, &got, 12000, 0, &status) != 1)
		wrong += printf("NULL arguments\n") > 0;
}

#ifdef LINKED
#define X(name, parameters, ...) extern int name parameters;
MT_DRIVER_FUNCTIONS(X)
MT_DRIVER_QUERIES(X)
extern int cuInit(unsigned);
#undef X

/* A linked name is ours whatever the settings say: the wrapper itself then hands on. */
static void check_linked(void)
{
	int mode = is_wrapped_mode;

	is_wrapped_mode = shim != NULL;
#define X(name, parameters, ...) check("linked", #name, (void *)name);
	MT_DRIVER_FUNCTIONS(X)
	MT_DRIVER_QUERIES(X)
#undef X
	check("linked", "cuInit", (void *)cuInit);
	is_wrapped_mode = mode;
}
#endif

int main(int argc, char **argv)
{
	const char *how = argc > 3 ? argv[3] : "local";
	int flags = strcmp(how, "global") == 0 ? RTLD_GLOBAL
		    : strcmp(how, "deep") == 0 ? RTLD_DEEPBIND
					       : RTLD_LOCAL;
	int is_global = flags == RTLD_GLOBAL;
	const char *preload = getenv(getenv("LOOKUP_SHIM") ? "LOOKUP_SHIM" : "LD_PRELOAD");

	is_wrapped_mode = argc > 1 && strcmp(argv[1], "wrapped") == 0;
	version = argc > 4 ? argv[4] : NULL;
	shim = preload ? dlopen(preload, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	driver = dlopen(argc > 2 ? argv[2] : "libcuda.so.1", RTLD_NOW | flags);
	if (!driver || dlerror()) {
		puts("no driver");
		return 1;
	}
#ifdef LINKED
	check_linked();
	is_global = 1;
#endif
#define X(name, parameters, ...) check_symbol(#name, is_global);
	MT_DRIVER_FUNCTIONS(X)
	MT_DRIVER_QUERIES(X)
#undef X
	check_symbol("cuInit", is_global);
	check_symbol("cuMemAlloc", is_global);
	check_symbol("cuMemcpyHtoD_v2", is_global);
	check_symbol("cuStreamWaitEvent", is_global);
	check_symbol("cuGraphDestroy", is_global);
	check_symbol("cuGetExportTable", is_global);
	check_queries();
	/* A second question is answered like the first (and so is one after another). */
	check_symbol("cuMemAlloc_v2", is_global);
	(void)dlerror(); /* of the names that are not in the global scope */
	check("after all", "cuMemAlloc_v2", dlsym(driver, "cuMemAlloc_v2"));
	if (dlerror()) {
		wrong++;
		puts("an answer has left a message with dlerror");
	}
	printf("%d answers\n", answers);
	return wrong != 0;
}
