/* ctl/process/gpu_memory.c -- see gpu_memory.h. */
#include "ctl/process/gpu_memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/process/process_list.h"
#include "ctl/process/target.h"

/* Of nvmlReturn_t only 0 is success; an nvmlDevice_t is a pointer. */
struct nvml_memory {
	unsigned long long total_bytes, free_bytes, used_bytes;
};

static struct {
	int (*nvmlInit_v2)(void);
	int (*nvmlShutdown)(void);
	int (*nvmlDeviceGetCount_v2)(unsigned *count);
	int (*nvmlDeviceGetHandleByIndex_v2)(unsigned index, void **device);
	int (*nvmlDeviceGetMemoryInfo)(void *device, struct nvml_memory *out);
	int (*nvmlDeviceGetName)(void *device, char *name, unsigned name_bytes);
} nvml;

static bool load_nvml(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);

	if (!library)
		return false;
#define FIND(name) *(void **)(void *)&nvml.name = dlsym(library, #name)
	FIND(nvmlInit_v2);
	FIND(nvmlShutdown);
	FIND(nvmlDeviceGetCount_v2);
	FIND(nvmlDeviceGetHandleByIndex_v2);
	FIND(nvmlDeviceGetMemoryInfo);
	FIND(nvmlDeviceGetName);
#undef FIND
	return nvml.nvmlInit_v2 && nvml.nvmlDeviceGetCount_v2 &&
	       nvml.nvmlDeviceGetHandleByIndex_v2 && nvml.nvmlDeviceGetMemoryInfo;
}

/* Takes the device if it is the wanted one, or for MT_GPU_ANY if it has more free memory than the
 * one so far. */
static bool consider(long wanted, const struct mt_gpu_memory *found, bool known,
		     struct mt_gpu_memory *out)
{
	bool better = wanted == MT_GPU_ANY ? !known || found->free_bytes > out->free_bytes
					   : found->number == (uint64_t)wanted;

	if (better)
		*out = *found;
	return known || better;
}

static bool read_nvml(long number, struct mt_gpu_memory *out)
{
	unsigned count = 0;
	bool known = false;

	if (!load_nvml() || nvml.nvmlInit_v2() != 0)
		return false;
	if (nvml.nvmlDeviceGetCount_v2(&count) != 0)
		count = 0;
	for (unsigned i = 0; i < count; i++) {
		struct mt_gpu_memory gpu = {.number = i, .source = "NVML"};
		struct nvml_memory memory = {0};
		void *device = NULL;

		if (nvml.nvmlDeviceGetHandleByIndex_v2(i, &device) != 0 ||
		    nvml.nvmlDeviceGetMemoryInfo(device, &memory) != 0)
			continue;
		if (nvml.nvmlDeviceGetName)
			(void)nvml.nvmlDeviceGetName(device, gpu.name, sizeof(gpu.name));
		mt_text_clean(gpu.name, sizeof(gpu.name));
		gpu.free_bytes = memory.free_bytes;
		gpu.total_bytes = memory.total_bytes;
		known = consider(number, &gpu, known, out);
	}
	if (nvml.nvmlShutdown)
		(void)nvml.nvmlShutdown();
	return known;
}

static bool read_process(const struct mt_process *process, long number, bool known,
			 struct mt_gpu_memory *out)
{
	struct mt_stats_file *file = mt_error_check_memory(malloc(sizeof(*file)));
	struct mt_error_reason why;

	if (mt_target_read(process, file, &why) != MT_ERR_OK)
		file->head.devices_count = 0;
	for (size_t i = 0; i < file->head.devices_count; i++) {
		const struct mt_stats_device *device = &file->devices[i];
		struct mt_gpu_memory gpu = {.number = device->ordinal,
					    .free_bytes = device->free_bytes,
					    .total_bytes = device->total_bytes};

		snprintf(gpu.name, sizeof(gpu.name), "%s", device->name);
		snprintf(gpu.source, sizeof(gpu.source), "process %d", (int)process->pid);
		if (gpu.total_bytes)
			known = consider(number, &gpu, known, out);
	}
	free(file);
	return known;
}

bool mt_gpu_memory_find(long number, struct mt_gpu_memory *out)
{
	struct mt_process_list processes;
	bool known = read_nvml(number, out);

	if (known)
		return true;
	mt_process_list_read(MT_PROCESS_LIST_ALL, &processes);
	for (size_t i = 0; i < processes.count; i++)
		if (processes.list[i].uses_cuda)
			known = read_process(&processes.list[i].process, number, known, out);
	mt_process_list_free(&processes);
	return known;
}
