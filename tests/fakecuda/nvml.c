/* nvml.c -- a libnvidia-ml.so.1 beside the fake driver: what NVML says of its devices. The process
 * itself is seen through the fake driver where that is loaded; FAKECUDA_OTHER_MB of device 0 belong
 * to a process 4242. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	NVML_SUCCESS = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7
};
enum { DEVICE_MAX = 8, OTHER_PID = 4242 };

struct nvml_device;
struct nvml_memory {
	unsigned long long total, free, used;
};
struct nvml_process {
	unsigned int pid;
	unsigned long long used_bytes;
	unsigned int gpu_instance, compute_instance;
};
struct nvml_utilization {
	unsigned int gpu, memory;
};

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT const char *nvmlErrorString(int result);
EXPORT int nvmlDeviceGetCount_v2(unsigned int *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct nvml_device **device);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, struct nvml_device **device);
EXPORT int nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct nvml_memory *memory);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device, unsigned int *count,
						   struct nvml_process *processes);
EXPORT int nvmlDeviceGetUtilizationRates(struct nvml_device *device,
					 struct nvml_utilization *rates);

/* Handles are addresses in here: one byte for each device. */
static char handles[DEVICE_MAX];
static int users;

static unsigned long long setting(const char *name, unsigned long long otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static unsigned int device_count(void)
{
	const unsigned long long count = setting("FAKECUDA_DEVICES", 1);

	return count > DEVICE_MAX ? DEVICE_MAX : (unsigned int)count;
}

/* -1: no handle of ours. */
static int index_of(const struct nvml_device *device)
{
	const uintptr_t offset = (uintptr_t)device - (uintptr_t)handles;

	return offset < device_count() ? (int)offset : -1;
}

static int check(const struct nvml_device *device, const void *out)
{
	if (__atomic_load_n(&users, __ATOMIC_RELAXED) <= 0)
		return NVML_UNINITIALIZED;
	return out == NULL || index_of(device) < 0 ? NVML_INVALID_ARGUMENT : NVML_SUCCESS;
}

struct own {
	uint64_t bytes;
	unsigned int contexts;
};

static struct own own(int device)
{
	unsigned int (*contexts)(int);
	uint64_t (*used_bytes)(int);
	void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
	struct own found = {0, 0};

	if (driver == NULL)
		return found;
	*(void **)&used_bytes = dlsym(driver, "fakecuda_used_bytes");
	*(void **)&contexts = dlsym(driver, "fakecuda_contexts");
	if (used_bytes != NULL)
		found.bytes = used_bytes(device);
	if (contexts != NULL)
		found.contexts = contexts(device);
	dlclose(driver);
	return found;
}

static uint64_t other_bytes(int device)
{
	return device == 0 ? setting("FAKECUDA_OTHER_MB", 0) << 20 : 0;
}

int nvmlInit_v2(void)
{
	__atomic_fetch_add(&users, 1, __ATOMIC_RELAXED);
	return NVML_SUCCESS;
}

int nvmlShutdown(void)
{
	if (__atomic_load_n(&users, __ATOMIC_RELAXED) <= 0)
		return NVML_UNINITIALIZED;
	__atomic_fetch_sub(&users, 1, __ATOMIC_RELAXED);
	return NVML_SUCCESS;
}

const char *nvmlErrorString(int result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "The operation was successful";
	case NVML_UNINITIALIZED:
		return "NVML was not first initialized";
	case NVML_INVALID_ARGUMENT:
		return "A supplied argument is invalid";
	case NVML_NOT_FOUND:
		return "A query to find an object was unsuccessful";
	case NVML_INSUFFICIENT_SIZE:
		return "An input argument is not large enough";
	default:
		return "Unknown error";
	}
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
	const int result = check((struct nvml_device *)(void *)handles, count);

	if (result == NVML_SUCCESS)
		*count = device_count();
	return result;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct nvml_device **device)
{
	const int result = check((struct nvml_device *)(void *)handles, device);

	if (result != NVML_SUCCESS)
		return result;
	if (index >= device_count())
		return NVML_INVALID_ARGUMENT;
	*device = (struct nvml_device *)(void *)&handles[index];
	return NVML_SUCCESS;
}

/* domain:bus:device.function, the domain with four or eight digits. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, struct nvml_device **device)
{
	unsigned int domain, number, slot;
	const int result = check((struct nvml_device *)(void *)handles, device);

	if (result != NVML_SUCCESS)
		return result;
	if (bus == NULL || sscanf(bus, "%x:%x:%x", &domain, &number, &slot) != 3)
		return NVML_INVALID_ARGUMENT;
	if (domain != 0 || slot != 0 || number == 0 || number > device_count())
		return NVML_NOT_FOUND;
	*device = (struct nvml_device *)(void *)&handles[number - 1];
	return NVML_SUCCESS;
}

int nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct nvml_memory *memory)
{
	const int result = check(device, memory);

	if (result != NVML_SUCCESS)
		return result;
	memory->total = setting("FAKECUDA_MEMORY_MB", 1024) << 20;
	memory->used = own(index_of(device)).bytes + other_bytes(index_of(device));
	memory->free =
		memory->total - (memory->used < memory->total ? memory->used : memory->total);
	return NVML_SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device, unsigned int *count,
					    struct nvml_process *processes)
{
	struct nvml_process found[2];
	unsigned int room, i, n = 0;
	struct own mine;
	const int result = check(device, count);

	if (result != NVML_SUCCESS)
		return result;
	/* A context makes a process one that computes, with or without memory of its own. */
	mine = own(index_of(device));
	if (mine.contexts > 0)
		found[n++] = (struct nvml_process){(unsigned int)getpid(), mine.bytes, ~0u, ~0u};
	if (other_bytes(index_of(device)) > 0)
		found[n++] =
			(struct nvml_process){OTHER_PID, other_bytes(index_of(device)), ~0u, ~0u};
	room = *count;
	*count = n;
	if (n > room)
		return NVML_INSUFFICIENT_SIZE;
	for (i = 0; i < n && processes; i++)
		processes[i] = found[i];
	return n > 0 && processes == NULL ? NVML_INVALID_ARGUMENT : NVML_SUCCESS;
}

int nvmlDeviceGetUtilizationRates(struct nvml_device *device, struct nvml_utilization *rates)
{
	const int result = check(device, rates);

	if (result == NVML_SUCCESS)
		*rates = (struct nvml_utilization){0, 0};
	return result;
}
