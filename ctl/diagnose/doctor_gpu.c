/* ctl/diagnose/doctor_gpu.c -- device memory: how the shim serves it in a process and why, and what
 * the pool cannot reach. */
#include <inttypes.h>
#include <string.h>

#include "ctl/diagnose/doctor.h"
#include "ctl/output/text.h"

#define VALUE_BYTES 4096

/* Reads a variable, and makes it printable. */
static bool read_variable(pid_t pid, const char *name, char *out, size_t out_bytes)
{
	if (!mt_doctor_variable(pid, name, out, out_bytes))
		return false;
	mt_text_clean(out, out_bytes);
	return true;
}

static bool is_one_of(char letter, const char *letters)
{
	return letter && strchr(letters, letter);
}

/* Whether "key:value" is in a list separated by commas; blanks are ignored. value NULL: any value
 * but False. */
static bool conf_says(const char *conf, const char *key, const char *value)
{
	for (const char *at = conf; (at = strstr(at, key)); at++) {
		const char *after = at + strlen(key), *text;

		if (at > conf && !is_one_of(at[-1], ", "))
			continue;
		after += strspn(after, " ");
		if (*after != ':')
			continue;
		text = after + 1 + strspn(after + 1, " ");
		if (value ? strncmp(text, value, strlen(value)) == 0 : !is_one_of(*text, "fF0"))
			return true;
	}
	return false;
}

static void check_alloc_conf(const char *name, const char *conf)
{
	bool expandable = conf_says(conf, "expandable_segments", NULL);
	bool async = conf_says(conf, "backend", "cudaMallocAsync");

	if (expandable)
		mt_check_print(MT_CHECK_NOTE, NULL,
			       "%s: expandable_segments are out of the pool's reach; a heavy "
			       "cleanup calls empty_cache()",
			       name);
	if (async)
		mt_check_print(MT_CHECK_NOTE, NULL,
			       "%s: cudaMallocAsync is out of the pool's reach; a heavy cleanup "
			       "trims the driver's own pool",
			       name);
	if (*conf && !expandable && !async)
		mt_check_print(
			MT_CHECK_NOTE,
			"MT_CUDA_CONF takes roundup_power2_divisions, max_split_size_mb and "
			"garbage_collection_threshold for the pool",
			"%s is set: it is for PyTorch's own cache, the pool does not read it",
			name);
}

static void check_world(pid_t pid)
{
	char value[VALUE_BYTES];
	uint64_t ranks;

	if (read_variable(pid, "WORLD_SIZE", value, sizeof(value)) &&
	    mt_text_parse_u64(value, &ranks) && ranks > 1)
		mt_check_print(MT_CHECK_NOTE, NULL,
			       "WORLD_SIZE is %s: other ranks would wait, so no gc and no release "
			       "of GPU caches without being asked",
			       value);
}

void mt_doctor_check_gpu_environment(pid_t pid)
{
	static const char *const confs[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
	char value[VALUE_BYTES];

	if (read_variable(pid, "PYTORCH_NO_CUDA_MEMORY_CACHING", value, sizeof(value)))
		mt_check_print(MT_CHECK_OK, NULL, "PYTORCH_NO_CUDA_MEMORY_CACHING=%s: %s", value,
			       strcmp(value, "1") == 0
				       ? "PyTorch's own cache is off, the pool can serve it"
				       : "not 1, so PyTorch's own cache counts as on (PyTorch "
					 "before 2.7 turns it off at any value)");
	for (size_t i = 0; i < sizeof(confs) / sizeof(confs[0]); i++)
		if (read_variable(pid, confs[i], value, sizeof(value)))
			check_alloc_conf(confs[i], value);
	if (read_variable(pid, "TF_GPU_ALLOCATOR", value, sizeof(value)) &&
	    strcmp(value, "cuda_malloc_async") == 0)
		mt_check_print(MT_CHECK_NOTE, NULL,
			       "TF_GPU_ALLOCATOR: cuda_malloc_async is out of the pool's reach; a "
			       "heavy cleanup trims the driver's own pool");
	check_world(pid);
}

static void check_memory(const struct mt_stats_file *file, const struct mt_stats_device *device)
{
	const char *setting = mt_stats_file_setting(file, "cuda_low_pct");
	uint64_t percent = 5;
	bool low;

	if (setting)
		(void)mt_text_parse_u64(setting, &percent);
	if (!device->total_bytes || !device->free_bytes) {
		mt_check_print(MT_CHECK_OK, NULL,
			       "GPU %" PRIu64 " (%s): mode %s, free memory unknown",
			       device->ordinal, device->name, device->mode);
		return;
	}
	low = (double)device->free_bytes < (double)device->total_bytes * (double)percent / 100;
	mt_check_print(low ? MT_CHECK_WARN : MT_CHECK_OK,
		       low ? "mtctl trim --all (root: --all-users) returns what shimmed "
			     "processes hold idle; MT_CUDA_LOW_PCT is the bound"
			   : NULL,
		       "GPU %" PRIu64 " (%s): %s free of %s, mode %s%s", device->ordinal,
		       device->name, mt_text_bytes(device->free_bytes).text,
		       mt_text_bytes(device->total_bytes).text, device->mode,
		       low ? "; so little that the pool keeps nothing" : "");
}

/* Memory that was allocated past the pool, and is only counted. */
static void check_kinds(const struct mt_stats_device *device)
{
	const struct {
		uint64_t bytes;
		const char *what;
	} kinds[] = {
		{device->async_live_bytes,
		 "by cuMemAllocAsync: the driver's pool keeps its free part"},
		{device->vmm_live_bytes, "by cuMemCreate (expandable_segments and their like)"},
		{device->managed_live_bytes, "managed: the driver moves it by itself"},
		{device->array_live_bytes, "in arrays"},
		{device->pinned_live_bytes, "of page-locked host memory: a heavy cleanup empties "
					    "PyTorch's and CuPy's cache of it, no other"},
		{device->imported_live_bytes, "opened from another process"},
		{device->graph_reserved_bytes, "held for the allocations of CUDA graphs"},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].bytes)
			mt_check_print(MT_CHECK_NOTE, NULL,
				       "out of the pool's reach: GPU %" PRIu64 ", %s %s",
				       device->ordinal, mt_text_bytes(kinds[i].bytes).text,
				       kinds[i].what);
}

static void check_pool(const struct mt_stats_file *file)
{
	bool pools = false;

	for (size_t i = 0; i < file->head.devices_count; i++)
		pools |= strcmp(file->devices[i].mode, "pool") == 0;
	if (pools)
		mt_check_print(MT_CHECK_NOTE,
			       "MT_CUDA=account leaves each call to the driver, for a program that "
			       "counts on the wait",
			       "a cuMemFree that the pool serves does not wait for the device, as "
			       "the driver's may");
	if (file->head.snapshot.gpu_capturing)
		mt_check_print(MT_CHECK_NOTE, NULL,
			       "a stream captures into a graph: until it ends no device memory is "
			       "returned");
	if (file->head.snapshot.gpu_num_ooms)
		mt_check_print(MT_CHECK_WARN, "mtctl stat PID --oom has the reports",
			       "%s reached the program",
			       mt_text_counted(file->head.snapshot.gpu_num_ooms,
					       "out-of-memory error has",
					       "out-of-memory errors have")
				       .text);
}

void mt_doctor_check_gpu(const struct mt_stats_file *file, bool libcuda_is_mapped)
{
	const struct mt_stats_head *head = &file->head;

	if (!mt_stats_file_uses_cuda(head)) {
		if (libcuda_is_mapped)
			mt_check_print(
				MT_CHECK_NOTE,
				"before the program's first CUDA memory call this is as it should "
				"be",
				"CUDA: libcuda is loaded, but no call of it has reached the shim");
		return;
	}
	mt_check_print(MT_CHECK_OK, NULL, "CUDA: %s, driver %s",
		       *head->cuda ? head->cuda : "mode unknown", mt_stats_word_driver(head).text);
	if (!head->driver_version)
		mt_check_print(MT_CHECK_WARN,
			       "see with `mtctl stat PID` whether gpu_alloc_count rises",
			       "CUDA: the driver's version is not known; was libcuda reached?");
	for (size_t i = 0; i < head->devices_count; i++) {
		check_memory(file, &file->devices[i]);
		check_kinds(&file->devices[i]);
	}
	check_pool(file);
}
