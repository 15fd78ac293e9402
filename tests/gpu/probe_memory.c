/* probe_memory.c -- addresses and sizes of allocations, and whether the roads to a function lead to
 * the same pointer. */
#include "probe.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu/driver.def"

/* A symbol's plain name, as cuGetProcAddress takes it: without _ptsz and without _v2. */
static bool plain_name(const char *symbol, char *out, size_t room)
{
	size_t length = strlen(symbol);
	bool is_per_thread = length > 5 && strcmp(symbol + length - 5, "_ptsz") == 0;

	snprintf(out, room, "%s", symbol);
	if (is_per_thread)
		out[length -= 5] = 0;
	if (length > 3 && strncmp(out + length - 3, "_v", 2) == 0 &&
	    isdigit((unsigned char)out[length - 1]))
		out[length - 3] = 0;
	return is_per_thread;
}

/* The newest CUDA version for which cuGetProcAddress answers this symbol's pointer; 0: for none. */
static int version_of_pointer(const char *symbol, const void *pointer, bool *out_flags_matter)
{
	static const int versions[] = {13000, 12090, 12080, 12050, 12030, 12000, 11080, 11040,
				       11030, 11020, 11010, 11000, 10020, 10010, 10000, 9020,
				       9000,  8000,  7050,  7000,  6050,  6000,  5050,  5000,
				       4010,  4000,  3020,  3010,  3000,  2030,  2000};
	char name[96];
	unsigned long long flags = plain_name(symbol, name, sizeof name) ? 2 : 1;

	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
		void *found = NULL;
		void *other = NULL;
		int status;

		if (cu.cuGetProcAddress_v2(name, &found, versions[i], flags, &status) !=
			    MT_CU_SUCCESS ||
		    found != pointer)
			continue;
		cu.cuGetProcAddress_v2(name, &other, versions[i], 3 - flags, &status);
		*out_flags_matter = other != found;
		return versions[i];
	}
	return 0;
}

static void look_up(const char *symbol)
{
	void *pointer = dlsym(gpu_library, symbol);
	bool flags_matter = false;
	int version;

	if (!pointer) {
		say_bool(false, "%s_exists", symbol);
		return;
	}
	version = version_of_pointer(symbol, pointer, &flags_matter);
	say_bool(version != 0, "%s_same", symbol);
	if (version) {
		say_number(version, "%s_newest_version", symbol);
		say_bool(flags_matter, "%s_flags_matter", symbol);
	}
}

void probe_lookup(const char *argument)
{
	void *self = NULL;
	int status = -1;

	(void)argument;
	gpu_start();
	if (!gpu_has(cuGetProcAddress_v2))
		gpu_skip("no cuGetProcAddress_v2 in this driver");
	for (int version = 11030; version <= 12000; version += 970) {
		say_code(cu.cuGetProcAddress_v2("cuGetProcAddress_v2", &self, version, 0, &status),
			 "v2_of_itself_%d_code", version);
		say_code(status, "v2_of_itself_%d_status", version);
		say_bool(self == dlsym(gpu_library, "cuGetProcAddress_v2"), "v2_of_itself_%d_same",
			 version);
		say_code(cu.cuGetProcAddress_v2("cuGetProcAddress", &self, version, 0, &status),
			 "v1_of_itself_%d_code", version);
		say_bool(self == dlsym(gpu_library, "cuGetProcAddress_v2"), "plain_is_v2_%d",
			 version);
	}
#define X(symbol, parameters, ...) look_up(#symbol);
	MT_DRIVER_FUNCTIONS(X)
#undef X
}

static const struct {
	size_t bytes;
	const char *name;
} sizes[] = {{1, "1B"},
	     {100, "100B"},
	     {512, "512B"},
	     {513, "513B"},
	     {4096, "4KiB"},
	     {1 << 20, "1MiB"},
	     {(1 << 20) + 1, "1MiB1B"},
	     {2 << 20, "2MiB"},
	     {(2 << 20) + 1, "2MiB1B"},
	     {3 << 20, "3MiB"}};

void probe_ranges(const char *argument)
{
	(void)argument;
	gpu_start();
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		uint64_t first = gpu_alloc(sizes[i].bytes);
		uint64_t second = gpu_alloc(sizes[i].bytes);
		uint64_t base = 0;
		uint64_t address = 0;
		size_t bytes = 0;
		int code;

		say_number((double)(first & -first), "%s_alignment", sizes[i].name);
		say_number((double)(second > first ? second - first : first - second),
			   "%s_distance", sizes[i].name);
		gpu_ok(cu.cuMemGetAddressRange_v2(&base, &bytes, first));
		say_number((double)bytes, "%s_range", sizes[i].name);
		say_bool(bytes == sizes[i].bytes, "%s_range_is_as_asked", sizes[i].name);
		code = cu.cuMemGetAddressRange_v2(&base, &bytes, first + sizes[i].bytes / 2);
		say_bool(code == MT_CU_SUCCESS && base == first, "%s_interior_finds_base",
			 sizes[i].name);
		if (cu.cuPointerGetAttribute(&bytes, MT_CU_POINTER_RANGE_SIZE, first) ==
		    MT_CU_SUCCESS)
			say_number((double)bytes, "%s_attribute_range", sizes[i].name);
		if (cu.cuPointerGetAttribute(&address, MT_CU_POINTER_RANGE_START_ADDR, first) ==
		    MT_CU_SUCCESS)
			say_bool(address == first, "%s_attribute_start_is_base", sizes[i].name);
		say_code(cu.cuMemGetAddressRange_v2(&base, &bytes, first + 4096 * 1024 * 1024ull),
			 "%s_far_away_code", sizes[i].name);
		gpu_ok(cu.cuMemFree_v2(first));
		say_code(cu.cuMemGetAddressRange_v2(&base, &bytes, first), "%s_freed_code",
			 sizes[i].name);
		gpu_ok(cu.cuMemFree_v2(second));
	}
}

/* How many blocks of a size until the driver takes memory from the device a second time, and how
 * much; then what comes back when all are freed. Other processes on the device make these figures
 * meaningless. */
static void say_granularity(size_t bytes, const char *name)
{
	static uint64_t blocks[8192];
	uint64_t begin = gpu_free_bytes();
	uint64_t before;
	size_t count = 0;
	size_t changes = 0;

	do {
		before = gpu_free_bytes();
		blocks[count++] = gpu_alloc(bytes);
		if (gpu_free_bytes() < before) {
			say_number((double)(before - gpu_free_bytes()), "%s_step_%zu_bytes", name,
				   changes);
			say_number((double)count, "%s_step_%zu_after_blocks", name, changes);
			changes++;
		}
	} while (changes < 3 && count < sizeof blocks / sizeof *blocks);
	say_number((double)(begin - gpu_free_bytes()), "%s_taken_bytes", name);
	while (count)
		gpu_ok(cu.cuMemFree_v2(blocks[--count]));
	say_number((double)begin - (double)gpu_free_bytes(), "%s_kept_after_frees_bytes", name);
}

void probe_granularity(const char *argument)
{
	(void)argument;
	gpu_start();
	say_granularity(512, "512B");
	say_granularity(65536, "64KiB");
	say_granularity(1 << 20, "1MiB");
	say_granularity(3 << 20, "3MiB");
	say_granularity(33 << 20, "33MiB");
}

/* Memory that was freed in a stream, while another stream of the context is at work: is it there
 * for cuMemAlloc at once, as the pool relies on it? */
void probe_freed_in_stream(const char *argument)
{
	struct CUstream_st *busy, *quiet;
	uint64_t free_bytes, start_ns, block;
	size_t bytes;
	int code;

	(void)argument;
	gpu_start();
	if (!gpu_has(cuMemFreeAsync) || !gpu_has(cuStreamQuery))
		gpu_skip("no cuMemFreeAsync in this driver");
	busy = gpu_stream(0);
	quiet = gpu_stream(GPU_STREAM_NON_BLOCKING);
	bytes = gpu_free_bytes() / 8 * 5 & ~(size_t)((2 << 20) - 1); /* two of them are too much */
	block = gpu_alloc(bytes);
	free_bytes = gpu_free_bytes();
	gpu_spin(busy, 1000);
	start_ns = gpu_now_ns();
	say_code(cu.cuMemFreeAsync(block, quiet), "free_code");
	say_number((double)(gpu_now_ns() - start_ns), "free_ns");
	while ((code = cu.cuStreamQuery(quiet)) == MT_CU_NOT_READY &&
	       gpu_now_ns() - start_ns < 5000000000)
		;
	say_code(code, "stream_code");
	say_number((double)(gpu_now_ns() - start_ns), "stream_done_after_ns");
	say_bool(gpu_free_bytes() >= free_bytes + bytes, "is_free_for_cuMemGetInfo");
	start_ns = gpu_now_ns();
	code = cu.cuMemAlloc_v2(&block, bytes);
	say_code(code, "alloc_code");
	say_number((double)(gpu_now_ns() - start_ns), "alloc_ns");
	say_code(cu.cuStreamQuery(busy), "busy_stream_code");
	if (code == MT_CU_SUCCESS)
		gpu_ok(cu.cuMemFree_v2(block));
}
