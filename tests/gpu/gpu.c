/* gpu.c -- see gpu.h. */
#include "gpu.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels.h"

struct gpu_driver cu;
void *gpu_library;

/* Modules belong to a context; programs here have few, made before any thread starts. */
static struct {
	struct CUctx_st *context;
	struct CUfunc_st *spin;
	struct CUfunc_st *fill;
	/* on the fake driver only: there a wild address is one of the host's */
	struct CUfunc_st *fault;
	bool is_fake;
} kernels[64];
static size_t kernels_count;

noreturn static void end(int status, const char *word, const char *format, va_list arguments)
{
	fflush(stdout);
	printf("%s: ", word);
	vprintf(format, arguments);
	putchar('\n');
	fflush(stdout);
	/* No destructors: a failed program may hold a driver in any state. */
	_exit(status);
}

void gpu_skip(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	end(GPU_SKIPPED, "skipped", format, arguments);
}

void gpu_fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	end(GPU_FAILED, "failed", format, arguments);
}

void gpu_must(int result, const char *call, const char *file, int line)
{
	if (result != MT_CU_SUCCESS)
		gpu_fail("%s:%d: error %d from %s", file, line, result, call);
}

/* Called through pointers of many types: it looks at no parameter, and the caller clears them up.
 */
int gpu_missing(void)
{
	return GPU_MISSING;
}

void gpu_load(void)
{
	gpu_library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!gpu_library)
		gpu_skip("no libcuda.so.1 (%s)", dlerror());
#define X(name, parameters)                                                                        \
	{                                                                                          \
		void *found = dlsym(gpu_library, #name);                                           \
		found = found ? found : (void *)gpu_missing;                                       \
		memcpy(&cu.name, &found, sizeof found);                                            \
	}
	GPU_FUNCTIONS(X)
#undef X
}

static struct CUfunc_st *function_of(struct CUmod_st *module, const char *own, const char *fake,
				     bool *out_is_fake)
{
	struct CUfunc_st *function = NULL;

	*out_is_fake = cu.cuModuleGetFunction(&function, module, fake) == MT_CU_SUCCESS;
	if (!*out_is_fake)
		gpu_ok(cu.cuModuleGetFunction(&function, module, own));
	return function;
}

const char *gpu_kernels_ptx(void)
{
	return kernels_ptx;
}

/* Machines are seen whose containers lack the driver's PTX compiler: `make gpu-kit` assembles the
 * kernels. */
static int load_assembled(struct CUmod_st **module)
{
	static char image[1 << 16];
	char path[512] = "";
	int major = 0;
	int minor = 0;
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
	char *slash = length > 0 ? strrchr(path, '/') : NULL;
	FILE *file;

	gpu_ok(cu.cuDeviceGetAttribute(&major, 75, 0));
	gpu_ok(cu.cuDeviceGetAttribute(&minor, 76, 0));
	if (!slash)
		return MT_CU_NOT_FOUND;
	sprintf(slash + 1, "kernels.sm_%d%d.cubin", major, minor);
	file = fopen(path, "rb");
	if (!file)
		return MT_CU_NOT_FOUND;
	length = (ssize_t)fread(image, 1, sizeof image, file);
	fclose(file);
	return length > 0 ? cu.cuModuleLoadData(module, image) : MT_CU_NOT_FOUND;
}

void gpu_kernels(void)
{
	struct CUmod_st *module;
	size_t at = kernels_count;

	gpu_expect(at < sizeof kernels / sizeof *kernels,
		   "more contexts than this program has room for");
	if (cu.cuModuleLoadData(&module, kernels_ptx) != MT_CU_SUCCESS)
		gpu_ok(load_assembled(&module));
	gpu_ok(cu.cuCtxGetCurrent(&kernels[at].context));
	kernels[at].spin = function_of(module, "mt_spin", "fake_delay", &kernels[at].is_fake);
	kernels[at].fill = function_of(module, "mt_fill", "fake_fill", &kernels[at].is_fake);
	if (kernels[at].is_fake)
		gpu_ok(cu.cuModuleGetFunction(&kernels[at].fault, module, "fake_illegal"));
	kernels_count = at + 1;
}

void gpu_start(void)
{
	struct CUctx_st *context;
	int count = 0;
	int result;

	gpu_load();
	result = cu.cuInit(0);
	if (result != MT_CU_SUCCESS || cu.cuDeviceGetCount(&count) != MT_CU_SUCCESS || count == 0)
		gpu_skip("no GPU: cuInit answers %d, %d devices", result, count);
	gpu_ok(cu.cuDevicePrimaryCtxRetain(&context, 0));
	gpu_ok(cu.cuCtxSetCurrent(context));
	gpu_kernels();
}

bool gpu_is_fake(void)
{
	return kernels_count && kernels[0].is_fake;
}

/* ---- the driver past the shim ---- */

/* The number of symbols of an object: DT_HASH says it, DT_GNU_HASH only through its longest chain.
 */
static size_t symbols_count(const uint32_t *sysv, const uint32_t *gnu)
{
	const uint32_t *buckets;
	const uint32_t *chain;
	uint32_t last = 0;

	if (sysv)
		return sysv[1];
	if (!gnu)
		return 0;
	buckets = gnu + 4 + gnu[2] * (sizeof(ElfW(Addr)) / 4);
	chain = buckets + gnu[0];
	for (uint32_t i = 0; i < gnu[0]; i++)
		last = buckets[i] > last ? buckets[i] : last;
	if (last < gnu[1])
		return gnu[1];
	while (!(chain[last - gnu[1]] & 1))
		last++;
	return last + 1;
}

void *gpu_unwrapped(const char *symbol)
{
	/* glibc's handles are its link maps (dlinfo(3)); its loader relocates the addresses in the
	 * dynamic section. */
	const struct link_map *map = gpu_library;
	const ElfW(Sym) *table = NULL;
	const char *names = NULL;
	const uint32_t *sysv = NULL;
	const uint32_t *gnu = NULL;
	size_t count;

	for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		const void *at = (const void *)entry->d_un.d_ptr;

		table = entry->d_tag == DT_SYMTAB ? at : table;
		names = entry->d_tag == DT_STRTAB ? at : names;
		sysv = entry->d_tag == DT_HASH ? at : sysv;
		gnu = entry->d_tag == DT_GNU_HASH ? at : gnu;
	}
	count = symbols_count(sysv, gnu);
	for (size_t i = 0; table && names && i < count; i++)
		if (table[i].st_shndx != SHN_UNDEF && strcmp(names + table[i].st_name, symbol) == 0)
			return (void *)(map->l_addr + table[i].st_value);
	return NULL;
}

uint64_t gpu_free_bytes(void)
{
	static int (*info)(size_t *, size_t *);
	size_t free_bytes = 0;
	size_t total_bytes = 0;

	if (!info) {
		void *found = gpu_unwrapped("cuMemGetInfo_v2");

		gpu_expect(found, "cuMemGetInfo_v2 is not in libcuda's symbol table");
		memcpy(&info, &found, sizeof found);
	}
	gpu_ok(info(&free_bytes, &total_bytes));
	return free_bytes;
}

bool gpu_has_shim(void)
{
	return dlsym(RTLD_DEFAULT, "mt_trim") != NULL;
}

/* ---- work ---- */

static size_t kernels_of_current(void)
{
	struct CUctx_st *context = NULL;

	gpu_ok(cu.cuCtxGetCurrent(&context));
	/* The newest first: a context may have the address of one that is gone. */
	for (size_t i = kernels_count; i-- > 0;)
		if (kernels[i].context == context)
			return i;
	gpu_fail("no kernels are loaded for the current context");
}

/* The fake kernels have parameters of their own: fakecuda.h. */
int gpu_try_spin(struct CUstream_st *stream, uint64_t ms)
{
	size_t at = kernels_of_current();
	uint64_t ns = ms * 1000000;
	uint32_t delay_us = (uint32_t)(ms * 1000);
	void *real[] = {&ns};
	void *fake[] = {&delay_us};

	return cu.cuLaunchKernel(kernels[at].spin, 1, 1, 1, 1, 1, 1, 0, stream,
				 kernels[at].is_fake ? fake : real, NULL);
}

void gpu_spin(struct CUstream_st *stream, uint64_t ms)
{
	gpu_ok(gpu_try_spin(stream, ms));
}

int gpu_fill(struct CUstream_st *stream, uint64_t to, size_t bytes, uint8_t value)
{
	size_t at = kernels_of_current();
	uint64_t words = bytes / 4;
	uint64_t count = bytes;
	uint32_t word = value * 0x01010101u;
	uint32_t byte = value;
	uint32_t delay_us = 0;
	void *real[] = {&to, &words, &word};
	void *fake[] = {&to, &count, &byte, &delay_us};

	return cu.cuLaunchKernel(kernels[at].fill, 64, 1, 1, 256, 1, 1, 0, stream,
				 kernels[at].is_fake ? fake : real, NULL);
}

int gpu_fault(struct CUstream_st *stream)
{
	size_t at = kernels_of_current();
	uint32_t delay_us = 0;
	void *fake[] = {&delay_us};

	if (!kernels[at].is_fake)
		return gpu_fill(stream, 0x1000, 4096, 1);
	return cu.cuLaunchKernel(kernels[at].fault, 1, 1, 1, 1, 1, 1, 0, stream, fake, NULL);
}

struct CUgraphExec_st *gpu_instantiate(struct CUgraph_st *graph)
{
	struct CUgraphExec_st *exec;

	if (gpu_has(cuGraphInstantiateWithFlags))
		gpu_ok(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	else
		gpu_ok(cu.cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
	return exec;
}

size_t gpu_differing(uint64_t from, size_t bytes, uint8_t value)
{
	uint8_t *copy = malloc(bytes);
	size_t differing = 0;

	gpu_expect(copy, "no memory for %zu bytes", bytes);
	gpu_ok(cu.cuMemcpyDtoH_v2(copy, from, bytes));
	for (size_t i = 0; i < bytes; i++)
		differing += copy[i] != value;
	free(copy);
	return differing;
}

struct CUstream_st *gpu_stream(unsigned int flags)
{
	struct CUstream_st *stream;

	gpu_ok(cu.cuStreamCreate(&stream, flags));
	return stream;
}

struct CUevent_st *gpu_event(void)
{
	struct CUevent_st *event;

	gpu_ok(cu.cuEventCreate(&event, MT_CU_EVENT_DISABLE_TIMING));
	return event;
}

uint64_t gpu_alloc(size_t bytes)
{
	uint64_t address;

	gpu_ok(cu.cuMemAlloc_v2(&address, bytes));
	return address;
}

struct CUctx_st *gpu_context(void)
{
	struct CUctx_st *context;

	gpu_ok(cu.cuCtxCreate_v2(&context, 0, 0));
	gpu_kernels();
	return context;
}

bool gpu_green(struct CUgreenCtx_st **out_green, struct CUstream_st **out_stream)
{
	struct gpu_resource all = {0};
	struct gpu_resource some = {0};
	unsigned int groups = 1;
	void *description;

	if (!gpu_has(cuDeviceGetDevResource) || !gpu_has(cuDevResourceGenerateDesc) ||
	    !gpu_has(cuGreenCtxCreate) || !gpu_has(cuGreenCtxStreamCreate))
		return false;
	if (cu.cuDeviceGetDevResource(0, &all, GPU_RESOURCE_SM) != MT_CU_SUCCESS)
		return false;
	if (!gpu_has(cuDevSmResourceSplitByCount) ||
	    cu.cuDevSmResourceSplitByCount(&some, &groups, &all, NULL, 0, 8) != MT_CU_SUCCESS)
		some = all;
	if (cu.cuDevResourceGenerateDesc(&description, &some, 1) != MT_CU_SUCCESS ||
	    cu.cuGreenCtxCreate(out_green, description, 0, GPU_GREEN_DEFAULT_STREAM) !=
		    MT_CU_SUCCESS)
		return false;
	return cu.cuGreenCtxStreamCreate(out_stream, *out_green, GPU_STREAM_NON_BLOCKING, 0) ==
	       MT_CU_SUCCESS;
}

/* ---- time ---- */

uint64_t gpu_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void gpu_sleep_ms(uint64_t ms)
{
	struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	while (nanosleep(&left, &left))
		;
}

static int by_value(const void *left, const void *right)
{
	const double one = *(const double *)left;
	const double other = *(const double *)right;

	return (one > other) - (one < other);
}

double gpu_quantile(double *values, size_t count, double share)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof *values, by_value);
	return values[(size_t)((double)(count - 1) * share)];
}
