/* test_entries.c -- the wrappers of the driver: what is handed on, what is counted, what an
 * out-of-memory error goes through. */
#include "entries_doubles.h"

struct wrapper {
	const char *name;
	const char *parameters;
	any_fn call;
	size_t place; /* in struct mt_driver */
};

#define X(name_, parameters_)                                                                      \
	{#name_, #parameters_, (any_fn)(void (*)(void))name_, offsetof(struct mt_driver, name_)},
static const struct wrapper wrappers[] = {MT_DRIVER_WRAPPED(X)};
#undef X

#define EACH(w)                                                                                    \
	for (const struct wrapper *w = wrappers;                                                   \
	     w < wrappers + sizeof(wrappers) / sizeof(wrappers[0]); w++)                           \
		/* takes a struct by value: has its own test */                                    \
		if (strcmp(w->name, "cuIpcOpenMemHandle_v2") != 0)

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

static uint64_t outputs[4];

/* Arguments that every wrapper takes for what it wants: addresses of ours. */
static int call_plainly(const struct wrapper *w)
{
	static const struct mt_cu_allocation_prop prop = {.location = {.type = 1, .id = 0}};
	static uint64_t bytes[16];
	uint64_t second = strstr(w->name, "Array") ? (uint64_t)(uintptr_t)bytes
						   : (uint64_t)(uintptr_t)&outputs[1];

	if (strcmp(w->name, "cuMemCreate") == 0)
		return w->call((uint64_t)(uintptr_t)outputs, 64, (uint64_t)(uintptr_t)&prop, 0, 0,
			       0, 0, 0, 0, 0, 0);
	if (strncmp(w->name, "cuPointerGetAttributes", 22) == 0)
		return w->call(0, (uint64_t)(uintptr_t)bytes, (uint64_t)(uintptr_t)bytes, DPTR, 0,
			       0, 0, 0, 0, 0, 0);
	return w->call((uint64_t)(uintptr_t)outputs, second, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

Test(entries, while_the_shim_is_off_every_argument_and_answer_is_handed_on)
{
	is_on = false;
	EACH(w)
	{
		answer(4711, 0);

		cr_expect_eq(w->call(11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21), 4711, "%s",
			     w->name);

		cr_expect_str_eq(backoff, w->name, "%s: %s", w->name, backoff);
		for (unsigned i = 0; i < arity(w); i++)
			cr_expect_eq((uint32_t)seen[i], 11 + i, "%s: argument %u", w->name, i);
	}
}

Test(entries, without_a_driver_the_program_hears_that_nothing_is_initialised)
{
	has_driver = false;
	is_on = false;
	EACH(w)
	cr_expect_eq(w->call(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), MT_CU_NOT_INITIALIZED, "%s",
		     w->name);
}

Test(entries, a_function_that_this_driver_has_not_is_not_found)
{
	is_on = false;
	EACH(w)
	{
		memset((char *)&driver_table + w->place, 0, sizeof(any_fn));
		cr_expect_eq(w->call(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), MT_CU_NOT_FOUND, "%s",
			     w->name);
	}
}

Test(entries, errno_is_kept_whatever_the_driver_answers)
{
	static const int answers[] = {0, 1, MT_CU_OUT_OF_MEMORY};

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		EACH(w)
		{
			answer(answers[i], answers[i]);
			errno = 42;
			(void)call_plainly(w);
			cr_expect_eq(errno, 42, "%s after %d: %d", w->name, answers[i], errno);
		}
}

Test(entries, the_drivers_own_code_reaches_the_program)
{
	EACH(w)
	{
		bool is_range = strncmp(w->name, "cuMemGetAddressRange", 20) == 0;

		if (strcmp(w->name, "cuDevicePrimaryCtxRetain") == 0)
			continue; /* answers for other wrappers too, and always the same */
		answer(219, 219);
		cr_expect_eq(call_plainly(w), is_range ? script[2] + 219 : 219, "%s: %s", w->name,
			     backoff);
	}
}

Test(entries, null_outputs_are_the_drivers_to_judge)
{
	static const char *const names[] = {"cuMemAllocPitch_v2",    "cuMemAllocManaged",
					    "cuMemAllocAsync",       "cuMemAllocFromPoolAsync",
					    "cuMemCreate",           "cuArrayCreate_v2",
					    "cuArray3DCreate_v2",    "cuMipmappedArrayCreate",
					    "cuMemHostAlloc",        "cuMemAllocHost_v2",
					    "cuMemGetInfo_v2",       "cuMemGetAddressRange_v2",
					    "cuPointerGetAttribute", "cuPointerGetAttributes"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		EACH(w)
	if (strcmp(w->name, names[i]) == 0) {
		answer(1, 0);
		cr_expect_eq(w->call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 1, "%s", w->name);
		expect_backoff(w->name);
	}
}

/* ---- counted and uncounted ---- */

Test(entries, pitched_memory_is_counted_by_its_pitch)
{
	uint64_t dptr = 0;
	size_t pitch = 0;

	cr_expect_eq(cuMemAllocPitch_v2(&dptr, &pitch, 100, 10, 4), 0);
	cr_expect_eq(live(MT_UNPOOLED_pitch, 0), 5120);
	cr_expect_eq(cuMemFree_v2(dptr), 0);
	cr_expect_eq(live(MT_UNPOOLED_pitch, 0), 0);
}

Test(entries, managed_memory_is_counted)
{
	uint64_t dptr = 0;

	cr_expect_eq(cuMemAllocManaged(&dptr, 3000, 1), 0);
	cr_expect_eq(live(MT_UNPOOLED_managed, 0), 3000);
	cr_expect_eq(cuMemFree_v2(dptr), 0);
	cr_expect_eq(live(MT_UNPOOLED_managed, 0), 0);
}

Test(entries, async_memory_is_counted_and_freed_by_either_function)
{
	uint64_t dptr = 0;

	cr_expect_eq(cuMemAllocAsync(&dptr, 3000, NULL), 0);
	cr_expect_eq(live(MT_UNPOOLED_async, 0), 3000);
	cr_expect_eq(cuMemFreeAsync(dptr, NULL), 0);
	cr_expect_eq(live(MT_UNPOOLED_async, 0), 0);
	cr_expect_eq(cuMemAllocFromPoolAsync_ptsz(&dptr, 500, NULL, NULL), 0);
	cr_expect_eq(live(MT_UNPOOLED_async, 0), 500);
	cr_expect_eq(cuMemFree_v2(dptr), 0);
	cr_expect_eq(live(MT_UNPOOLED_async, 0), 0);
}

Test(entries, async_memory_belongs_to_the_device_it_lies_on)
{
	uint64_t dptr = 0;

	devices = 2;
	cr_expect_eq(cuMemAllocAsync_ptsz(&dptr, 3000, NULL), 0);

	cr_expect_eq(live(MT_UNPOOLED_async, 1), 3000);
}

Test(entries, what_a_capture_allocates_is_the_graphs)
{
	uint64_t dptr = 0;

	capture_is_open = true;
	cr_expect_eq(cuMemAllocAsync(&dptr, 3000, (struct CUstream_st *)0x5c), 0);
	cr_expect_eq(live(MT_UNPOOLED_async, 0), 0);
	cr_expect_eq(cuMemAllocAsync(&dptr, 200, (struct CUstream_st *)0x5d), 0);
	cr_expect_eq(live(MT_UNPOOLED_async, 0), 200);
}

Test(entries, created_memory_is_counted_where_it_lies)
{
	struct mt_cu_allocation_prop prop = {.location = {.type = 1, .id = 3}};
	unsigned long long handle = 0;

	cr_expect_eq(cuMemCreate(&handle, 4096, &prop, 0), 0);
	cr_expect_eq(live(MT_UNPOOLED_vmm, 3), 4096);
	cr_expect_eq(cuMemRelease(handle), 0);
	cr_expect_eq(live(MT_UNPOOLED_vmm, 3), 0);
}

Test(entries, created_host_memory_is_not_the_devices)
{
	struct mt_cu_allocation_prop prop = {.location = {.type = 2, .id = 0}};
	unsigned long long handle = 0;

	cr_expect_eq(cuMemCreate(&handle, 4096, &prop, 0), 0);
	cr_expect_eq(live(MT_UNPOOLED_vmm, 0), 0);
}

Test(entries, arrays_are_counted_by_their_description)
{
	const struct mt_cu_array_descriptor flat = {.width = 2048, .format = 0x20, .channels = 1};
	const struct mt_cu_array3d_descriptor layered = {
		.width = 64, .height = 64, .depth = 6, .format = 0x10, .channels = 4, .flags = 1};
	const struct mt_cu_array3d_descriptor deep = {
		.width = 64, .height = 64, .depth = 64, .format = 0x01, .channels = 2};
	struct CUarray_st *array = NULL;
	struct CUmipmappedArray_st *mipmapped = NULL;

	cr_expect_eq(cuArrayCreate_v2(&array, &flat), 0);
	cr_expect_eq(live(MT_UNPOOLED_array, 0), 8192);
	cr_expect_eq(cuArrayDestroy(array), 0);
	cr_expect_eq(live(MT_UNPOOLED_array, 0), 0);
	cr_expect_eq(cuArray3DCreate_v2(&array, &layered), 0);
	cr_expect_eq(live(MT_UNPOOLED_array, 0), 64 * 64 * 6 * 8);
	cr_expect_eq(cuArrayDestroy(array), 0);
	cr_expect_eq(cuMipmappedArrayCreate(&mipmapped, &deep, 3), 0);
	cr_expect_eq(live(MT_UNPOOLED_array, 0), 2 * (64 * 64 * 64 + 32 * 32 * 32 + 16 * 16 * 16));
	cr_expect_eq(cuMipmappedArrayDestroy(mipmapped), 0);
	cr_expect_eq(cuMipmappedArrayCreate(&mipmapped, &layered, 99), 0);
	cr_expect_eq(live(MT_UNPOOLED_array, 0), 6 * 8 * (4096 + 1024 + 256 + 64 + 16 + 4 + 1));
}

Test(entries, an_array_of_unknown_format_counts_without_bytes)
{
	const struct mt_cu_array_descriptor odd = {
		.width = 2048, .height = 2, .format = 0x7777, .channels = 1};
	struct CUarray_st *array = NULL;
	struct mt_unpooled_usage usage;

	cr_expect_eq(cuArrayCreate_v2(&array, &odd), 0);
	mt_unpooled_usage(0, &usage);
	cr_expect_eq(usage.live_count[MT_UNPOOLED_array], 1);
	cr_expect_eq(usage.live_bytes[MT_UNPOOLED_array], 0);
}

Test(entries, page_locked_memory_is_counted)
{
	void *ptr = NULL;
	char own[64];

	cr_expect_eq(cuMemHostAlloc(&ptr, 100, 0), 0);
	cr_expect_eq(live(MT_UNPOOLED_pinned, 0), 100);
	cr_expect_eq(cuMemFreeHost(ptr), 0);
	cr_expect_eq(cuMemAllocHost_v2(&ptr, 200), 0);
	cr_expect_eq(cuMemHostRegister_v2(own, sizeof(own), 0), 0);
	cr_expect_eq(live(MT_UNPOOLED_pinned, 0), 264);
	cr_expect_eq(cuMemHostUnregister(own), 0);
	cr_expect_eq(cuMemFreeHost(ptr), 0);
	cr_expect_eq(live(MT_UNPOOLED_pinned, 0), 0);
}

static struct mt_cu_ipc_handle opened;

static int open_handle(uint64_t *dptr, struct mt_cu_ipc_handle handle, unsigned int flags)
{
	int result = script_at < 8 ? script[script_at++] : 0;

	tell("cuIpcOpenMemHandle_v2");
	opened = handle;
	seen[2] = flags;
	if (result == MT_CU_SUCCESS)
		*dptr = DPTR;
	return result;
}

Test(entries, opened_memory_is_counted_by_the_drivers_range)
{
	const struct mt_cu_ipc_handle handle = {"the handle of another process"};
	uint64_t dptr = 0;

	driver_table.cuIpcOpenMemHandle_v2 = open_handle;
	cr_expect_eq(cuIpcOpenMemHandle_v2(&dptr, handle, 5), 0);
	cr_expect_str_eq(opened.reserved, handle.reserved);
	cr_expect_eq(dptr, DPTR);
	cr_expect_eq(live(MT_UNPOOLED_imported, 0), 4096);
	cr_expect_eq(cuIpcCloseMemHandle(dptr), 0);
	cr_expect_eq(live(MT_UNPOOLED_imported, 0), 0);
}

Test(entries, a_handle_that_cannot_be_opened_for_want_of_memory_is_tried_again)
{
	const struct mt_cu_ipc_handle handle = {{0}};
	uint64_t dptr = 0;

	driver_table.cuIpcOpenMemHandle_v2 = open_handle;
	room_bytes = 1;
	answer(MT_CU_OUT_OF_MEMORY, 0);
	cr_expect_eq(cuIpcOpenMemHandle_v2(&dptr, handle, 1), 0);
	expect_backoff("cuIpcOpenMemHandle_v2 room cuIpcOpenMemHandle_v2 cuMemGetAddressRange_v2");
	is_on = false;
	answer(4711, 0);
	cr_expect_eq(cuIpcOpenMemHandle_v2(&dptr, handle, 1), 4711);
	expect_backoff("cuIpcOpenMemHandle_v2");
}

Test(entries, a_refused_free_leaves_the_count_as_it_was)
{
	struct mt_cu_allocation_prop prop = {.location = {.type = 1, .id = 0}};
	unsigned long long handle = 0;
	uint64_t dptr = 0;

	cr_expect_eq(cuMemAllocManaged(&dptr, 3000, 1), 0);
	cr_expect_eq(cuMemCreate(&handle, 4096, &prop, 0), 0);
	answer(219, 219);
	cr_expect_eq(cuMemFree_v2(dptr), 219);
	cr_expect_eq(cuMemRelease(handle), 219);
	cr_expect_eq(live(MT_UNPOOLED_managed, 0), 3000);
	cr_expect_eq(live(MT_UNPOOLED_vmm, 0), 4096);
}

Test(entries, a_failed_allocation_is_not_counted)
{
	EACH(w)
	{
		answer(219, 219);
		(void)call_plainly(w);
	}
	for (int kind = 0; kind < MT_UNPOOLED_KIND_COUNT; kind++)
		cr_expect_eq(live((enum mt_unpooled_kind)kind, 0), 0);
}

/* ---- out of memory ---- */

static const char *const retrying[] = {
	"cuMemAllocPitch_v2",    "cuMemAllocManaged",       "cuMemAllocAsync",
	"cuMemAllocAsync_ptsz",  "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync_ptsz",
	"cuMemCreate",           "cuArrayCreate_v2",        "cuArray3DCreate_v2",
	"cuMipmappedArrayCreate"};

static const struct wrapper *named(const char *name)
{
	EACH(w)
	if (strcmp(w->name, name) == 0)
		return w;
	cr_assert(0, "no wrapper %s", name);
	return NULL;
}

Test(entries, out_of_memory_flushes_the_pool_and_tries_once_more)
{
	room_bytes = 1;
	for (size_t i = 0; i < sizeof(retrying) / sizeof(retrying[0]); i++) {
		char expected[128];

		snprintf(expected, sizeof(expected), "%s room %s", retrying[i], retrying[i]);
		answer(MT_CU_OUT_OF_MEMORY, 0);
		cr_expect_eq(call_plainly(named(retrying[i])), 0, "%s", retrying[i]);
		expect_backoff(expected);
	}
}

Test(entries, with_nothing_to_give_back_the_error_is_reported_and_handed_on)
{
	for (size_t i = 0; i < sizeof(retrying) / sizeof(retrying[0]); i++) {
		char expected[128];

		snprintf(expected, sizeof(expected), "%s room cuMemGetInfo_v2 report(",
			 retrying[i]);
		answer(MT_CU_OUT_OF_MEMORY, 0);
		cr_expect_eq(call_plainly(named(retrying[i])), MT_CU_OUT_OF_MEMORY);
		cr_expect(strncmp(backoff, expected, strlen(expected)) == 0, "%s", backoff);
		cr_expect(strstr(backoff, ",600,1000)"), "%s", backoff);
	}
}

Test(entries, a_second_refusal_is_final)
{
	room_bytes = 1;
	for (size_t i = 0; i < sizeof(retrying) / sizeof(retrying[0]); i++) {
		char expected[160];

		snprintf(expected, sizeof(expected), "%s room %s ", retrying[i], retrying[i]);
		answer(MT_CU_OUT_OF_MEMORY, MT_CU_OUT_OF_MEMORY);
		cr_expect_eq(call_plainly(named(retrying[i])), MT_CU_OUT_OF_MEMORY);
		cr_expect(strncmp(backoff, expected, strlen(expected)) == 0, "%s", backoff);
	}
}

Test(entries, the_pool_has_tried_again_already_and_only_the_report_is_left)
{
	uint64_t dptr = 0;

	answer(MT_CU_OUT_OF_MEMORY, 0);
	script_at = 1;
	cr_expect_eq(cuMemAlloc_v2(&dptr, 7000), MT_CU_OUT_OF_MEMORY);
	expect_backoff("pool-alloc cuMemGetInfo_v2 report(cuMemAlloc,7000,0,600,1000)");
}

Test(entries, while_a_capture_is_open_the_report_asks_nothing)
{
	uint64_t dptr = 0;

	capture_is_open = true;
	answer(MT_CU_OUT_OF_MEMORY, 0);
	cr_expect_eq(cuMemAlloc_v2(&dptr, 7000), MT_CU_OUT_OF_MEMORY);
	expect_backoff("pool-alloc report(cuMemAlloc,7000,0,0,0)");
}

Test(entries, the_hosts_out_of_memory_flushes_nothing_and_is_counted)
{
	void *ptr = NULL;

	answer(MT_CU_OUT_OF_MEMORY, 0);
	cr_expect_eq(cuMemHostAlloc(&ptr, 100, 0), MT_CU_OUT_OF_MEMORY);
	expect_backoff("cuMemHostAlloc note-oom");
}
