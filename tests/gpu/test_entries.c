/* test_entries.c -- the wrappers of the driver over the stand-in (tests/fakecuda): what each of
 * them hands on while the shim is off, and what they count while it is on. What a program sees
 * beside that is in test_cuda_entries.py. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/driver.h"
#include "gpu/capture.h"
#include "gpu/pool.h"
#include "no_rescue.h"
#include "gpu/lookup.h"
#include "gpu/unpooled.h"

static void *library;
static bool is_on;

/* The wrappers ask this first. */
bool mt_wrapper_is_on(void)
{
	return is_on;
}

static void load_driver(void)
{
	char path[PATH_MAX + 32], program[PATH_MAX] = {0};

	cr_assert(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
	*strrchr(program, '/') = '\0';
	snprintf(path, sizeof(path), "%s/../fakecuda/libcuda.so.1", program);
	setenv("FAKECUDA_DEVICES", "2", 1);
	cr_assert((library = dlopen(path, RTLD_NOW | RTLD_GLOBAL)), "%s", dlerror());
	cr_assert(mt_driver());
}

/* ---- off ---- */

#define ARGUMENTS 11 /* of cuLaunchKernel, which has the most */
typedef int (*any_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
		      uint64_t, uint64_t, uint64_t, uint64_t);

static const char *called; /* the function that was called last */
static uint64_t given[ARGUMENTS];

#define X(name, parameters, ...)                                                                   \
	static int real_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,         \
			       uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j,         \
			       uint64_t k)                                                         \
	{                                                                                          \
		const uint64_t arguments[ARGUMENTS] = {a, b, c, d, e, f, g, h, i, j, k};           \
                                                                                                   \
		called = #name;                                                                    \
		memcpy(given, arguments, sizeof(given));                                           \
		return 4711;                                                                       \
	}
MT_DRIVER_WRAPPED(X)
#undef X

static const struct wrapper {
	const char *name;
	const char *parameters;
	any_fn call, real;
	size_t offset; /* in struct mt_driver */
} wrappers[] = {
#define TEXT(...) #__VA_ARGS__
#define X(name_, parameters_, ...)                                                                 \
	{#name_, TEXT(parameters_), (any_fn)(void (*)(void))name_, real_##name_,                   \
	 offsetof(struct mt_driver, name_)},
	MT_DRIVER_WRAPPED(X)
#undef X
};

/* cuIpcOpenMemHandle takes a struct by value: the programs of test_cuda_entries.py call it. */
#define EACH(w)                                                                                    \
	for (const struct wrapper *w = wrappers;                                                   \
	     w < wrappers + sizeof(wrappers) / sizeof(wrappers[0]); w++)                           \
		if (strcmp(w->name, "cuIpcOpenMemHandle_v2") != 0)

static int call(const struct wrapper *w)
{
	return w->call(11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21);
}

/* The table of the driver lies in memory that can be written. */
static void replace(const struct wrapper *w, any_fn with)
{
	memcpy((char *)(uintptr_t)mt_driver() + w->offset, &with, sizeof(with));
}

static unsigned arity(const struct wrapper *w)
{
	unsigned count = 1;
	int depth = 0; /* a pointer to a function has parameters of its own */

	for (const char *at = w->parameters; *at; at++) {
		depth += (*at == '(') - (*at == ')');
		count += *at == ',' && depth == 1;
	}
	return count;
}

Test(entries, while_the_shim_is_off_every_argument_and_result_is_handed_on)
{
	load_driver();
	EACH(w)
	{
		replace(w, w->real);
		called = "none";
		cr_expect_eq(call(w), 4711, "%s", w->name);
		cr_expect_str_eq(called, w->name);
		for (unsigned i = 0; i < arity(w); i++)
			cr_expect_eq((uint32_t)given[i], 11 + i, "%s: argument %u", w->name, i);
	}
}

Test(entries, without_a_driver_the_program_hears_that_nothing_is_initialised)
{
	EACH(w)
	cr_expect_eq(call(w), MT_CU_NOT_INITIALIZED, "%s", w->name);
}

Test(entries, a_function_that_this_driver_lacks_is_not_found)
{
	load_driver();
	EACH(w)
	{
		replace(w, NULL);
		cr_expect_eq(call(w), MT_CU_NOT_FOUND, "%s", w->name);
	}
}

/* ---- on ---- */

/* Of the stand-in; functions that no wrapper stands before. */
#define CALL(name, type, ...) ((int(*) type)(dlsym(library, name)))(__VA_ARGS__)

static enum mt_pool_mode account(bool *out_waits)
{
	*out_waits = false;
	return MT_POOL_ACCOUNT;
}

static void begin(void)
{
	struct CUctx_st *context;

	load_driver();
	is_on = true;
	cr_assert_eq(CALL("cuInit", (unsigned int), 0), 0);
	mt_pool_start(mt_driver(), account);
	cr_assert_eq(cuCtxCreate_v2(&context, 0, 1), 0);
}

static uint64_t live(enum mt_unpooled_kind kind, int device)
{
	struct mt_unpooled_usage usage;

	mt_unpooled_usage(device, &usage);
	return usage.live_bytes[kind];
}

static void refuse(const char *name)
{
	cr_assert_eq(CALL("fakecuda_fail", (const char *, unsigned int, int), name, 1, 219), 0);
}

TestSuite(entries_kinds, .init = begin);

Test(entries_kinds, pitched_memory_is_counted_by_its_pitch_on_the_current_device)
{
	uint64_t dptr = 0;
	size_t pitch = 0;

	errno = 42;
	cr_expect_eq(cuMemAllocPitch_v2(&dptr, &pitch, 100, 10, 4), 0);
	cr_expect(pitch > 100);
	cr_expect_eq(live(MT_UNPOOLED_pitch, 1), pitch * 10);
	cr_expect_eq(cuMemFree_v2(dptr), 0);
	cr_expect_eq(errno, 42);
	cr_expect_eq(live(MT_UNPOOLED_pitch, 1), 0);
}

Test(entries_kinds, async_memory_is_counted_and_freed_by_either_function)
{
	uint64_t dptr = 0;

	cr_expect_eq(cuMemAllocAsync(&dptr, 3000, NULL), 0);
	cr_expect_eq(live(MT_UNPOOLED_async, 1), 3000);
	cr_expect_eq(cuMemFreeAsync(dptr, NULL), 0);
	cr_expect_eq(live(MT_UNPOOLED_async, 1), 0);
	cr_expect_eq(cuMemAllocAsync_ptsz(&dptr, 500, NULL), 0);
	cr_expect_eq(live(MT_UNPOOLED_async, 1), 500);
	cr_expect_eq(cuMemFree_v2(dptr), 0);
	cr_expect_eq(live(MT_UNPOOLED_async, 1), 0);
}

Test(entries_kinds, what_a_capture_allocates_is_the_graphs)
{
	struct CUstream_st *captured = NULL, *other = NULL;
	uint64_t dptr = 0;

	cr_assert_eq(cuStreamCreate(&captured, 1), 0);
	cr_assert_eq(cuStreamCreate(&other, 1), 0);
	cr_assert_eq(cuStreamBeginCapture_v2(captured, MT_CU_CAPTURE_RELAXED), 0);
	cr_expect_eq(cuMemAllocAsync(&dptr, 3000, captured), 0);
	cr_expect_eq(live(MT_UNPOOLED_async, 1), 0);
	cr_expect_eq(cuMemAllocAsync(&dptr, 200, other), 0);
	cr_expect_eq(live(MT_UNPOOLED_async, 1), 200);
}

Test(entries_kinds, created_memory_is_counted_on_the_device_that_has_it_and_host_memory_is_not)
{
	struct mt_cu_allocation_prop prop = {.type = 1, .location = {.type = 1, .id = 0}};
	unsigned long long handle = 0;

	cr_expect_eq(cuMemCreate(&handle, 2 << 20, &prop, 0), 0);
	cr_expect_eq(live(MT_UNPOOLED_vmm, 0), 2 << 20);
	refuse("cuMemRelease");
	cr_expect_eq(cuMemRelease(handle), 219);
	cr_expect_eq(live(MT_UNPOOLED_vmm, 0), 2 << 20, "a refused free changes nothing");
	cr_expect_eq(cuMemRelease(handle), 0);
	prop.location.type = 2;
	(void)cuMemCreate(&handle, 2 << 20, &prop, 0);
	cr_expect_eq(live(MT_UNPOOLED_vmm, 0) + live(MT_UNPOOLED_vmm, 1), 0);
}

Test(entries_kinds, a_refused_free_or_allocation_changes_nothing)
{
	uint64_t dptr = 0;

	cr_expect_eq(cuMemAllocManaged(&dptr, 3000, 1), 0);
	refuse("cuMemFree_v2");
	cr_expect_eq(cuMemFree_v2(dptr), 219);
	cr_expect_eq(live(MT_UNPOOLED_managed, 1), 3000);
	refuse("cuMemAllocManaged");
	cr_expect_eq(cuMemAllocManaged(&dptr, 3000, 1), 219);
	cr_expect_eq(live(MT_UNPOOLED_managed, 1), 3000);
}

Test(entries_kinds, arrays_are_counted_by_their_description)
{
	const struct mt_cu_array_descriptor flat = {.width = 2048, .format = 0x20, .channels = 1};
	const struct mt_cu_array3d_descriptor layered = {
		.width = 64, .height = 64, .depth = 6, .format = 0x10, .channels = 4, .flags = 1};
	const struct mt_cu_array3d_descriptor deep = {
		.width = 64, .height = 64, .depth = 64, .format = 0x01, .channels = 2};
	struct CUmipmappedArray_st *mipmapped = NULL;
	struct CUarray_st *array = NULL;

	cr_expect_eq(cuArrayCreate_v2(&array, &flat), 0);
	cr_expect_eq(live(MT_UNPOOLED_array, 1), 8192);
	cr_expect_eq(cuArrayDestroy(array), 0);
	cr_expect_eq(live(MT_UNPOOLED_array, 1), 0);
	cr_expect_eq(cuArray3DCreate_v2(&array, &layered), 0);
	cr_expect_eq(live(MT_UNPOOLED_array, 1), 64 * 64 * 6 * 8);
	cr_expect_eq(cuArrayDestroy(array), 0);
	cr_expect_eq(cuMipmappedArrayCreate(&mipmapped, &deep, 3), 0);
	cr_expect_eq(live(MT_UNPOOLED_array, 1), 2 * 64 * 64 * 64, "the first level");
	cr_expect_eq(cuMipmappedArrayDestroy(mipmapped), 0);
	cr_expect_eq(live(MT_UNPOOLED_array, 1), 0);
}

Test(entries_kinds, page_locked_memory_is_counted)
{
	static char own[8192] __attribute__((aligned(4096)));
	void *ptr = NULL;

	cr_expect_eq(cuMemHostAlloc(&ptr, 100, 0), 0);
	cr_expect_eq(live(MT_UNPOOLED_pinned, 1), 100);
	cr_expect_eq(cuMemFreeHost(ptr), 0);
	cr_expect_eq(cuMemAllocHost_v2(&ptr, 200), 0);
	cr_expect_eq(cuMemHostRegister_v2(own, sizeof(own), 0), 0);
	cr_expect_eq(live(MT_UNPOOLED_pinned, 1), 200 + sizeof(own));
	cr_expect_eq(cuMemHostUnregister(own), 0);
	cr_expect_eq(cuMemFreeHost(ptr), 0);
	cr_expect_eq(live(MT_UNPOOLED_pinned, 1), 0);
}

/* Its work runs when the program submits it, which no event sees. */
Test(entries_kinds, a_capture_into_a_graphics_api_ends_pooling_and_leaves_the_gate_open)
{
	EACH(w)
	{
		if (strcmp(w->name, "cuStreamBeginCaptureToCig") == 0)
			replace(w, w->real);
	}
	cr_assert_not(mt_load_relaxed(&mt_pool.is_mixed));
	cr_expect_eq(cuStreamBeginCaptureToCig(NULL, NULL), 4711);
	cr_expect(mt_load_relaxed(&mt_pool.is_mixed));
	cr_expect_not(mt_capture_is_open());
}
