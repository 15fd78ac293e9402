#include "gpu/nvml.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#include "sys/loader.h"
#include "sys/os.h"

#define PROCESSES_MAX 128
#define HOST_PIDNS    0xEFFFFFFCu /* PROC_PID_INIT_INO of linux/proc_ns.h */

/* nvmlReturn_t is an enum in which 0 is success; an nvmlDevice_t is a pointer. */
struct memory_info {
	unsigned long long total_bytes, free_bytes, used_bytes;
};
#define FUNCTIONS(X)                                                                               \
	X(nvmlInit_v2, (void))                                                                     \
	X(nvmlDeviceGetHandleByPciBusId_v2, (const char *pci, void **device))                      \
	X(nvmlDeviceGetComputeRunningProcesses_v3,                                                 \
	  (void *device, unsigned *count, struct mt_nvml_process *list))                           \
	X(nvmlDeviceGetComputeRunningProcesses_v2,                                                 \
	  (void *device, unsigned *count, struct mt_nvml_process *list))                           \
	X(nvmlDeviceGetMemoryInfo, (void *device, struct memory_info *out))                        \
	X(nvmlDeviceGetCount_v2, (unsigned *count))                                                \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned number, void **device))                         \
	X(nvmlDeviceGetName, (void *device, char *name, unsigned name_bytes))

static struct {
#define X(name, parameters) int(*name) parameters;
	FUNCTIONS(X)
#undef X
} nvml;

enum state { STATE_NEW, STATE_READY, STATE_REFUSED };
static enum state state;

#define NO_INSTANCE 0xFFFFFFFFu /* the device is not divided (MIG) */

/* Which part of a divided device is ours: the other parts have memory of their own. */
static unsigned own_instance(const struct mt_nvml_process *list, unsigned count, unsigned own_pid)
{
	for (unsigned i = 0; i < count; i++)
		if (list[i].pid == own_pid)
			return list[i].gpu_instance;
	return NO_INSTANCE;
}

void mt_nvml_split(const struct mt_nvml_process *list, unsigned count, unsigned own_pid,
		   bool is_host_namespace, struct mt_nvml_usage *out)
{
	bool single = !is_host_namespace && count == 1;
	unsigned instance = is_host_namespace ? own_instance(list, count, own_pid) : NO_INSTANCE;

	out->own_known = false;
	out->own_bytes = out->others_bytes = out->others_count = 0;
	out->others_known = is_host_namespace || count <= 1;
	for (unsigned i = 0; i < count; i++) {
		bool is_known = list[i].used_bytes != ~0ull;

		if (single || (is_host_namespace && list[i].pid == own_pid)) {
			out->own_known = is_known;
			/* a row for each compute instance is possible */
			out->own_bytes += is_known ? list[i].used_bytes : 0;
		} else if (out->others_known &&
			   (instance == NO_INSTANCE || list[i].gpu_instance == instance)) {
			out->others_bytes += is_known ? list[i].used_bytes : 0;
			out->others_count++;
		}
	}
}

static void find_functions(void *library)
{
#define X(name, parameters) *(void **)(void *)&nvml.name = mt_loader_symbol(library, #name);
	FUNCTIONS(X)
#undef X
}

/* Tried once: a library that refuses will refuse again. It stays loaded, since others may use it.
 */
static bool is_ready(void)
{
	void *library;

	if (state != STATE_NEW)
		return state == STATE_READY;
	state = STATE_REFUSED;
	mt_loader_enter();
	library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	if (!library)
		library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
	mt_loader_leave();
	if (!library)
		return false;
	find_functions(library);
	if (nvml.nvmlInit_v2 && nvml.nvmlDeviceGetHandleByPciBusId_v2 && nvml.nvmlInit_v2() == 0)
		state = STATE_READY;
	return state == STATE_READY;
}

static bool is_host_namespace(void)
{
	struct stat seen;

	return mt_os_stat("/proc/self/ns/pid", &seen) == 0 && seen.st_ino == HOST_PIDNS;
}

void mt_nvml_read(const char *pci, struct mt_nvml_usage *out)
{
	static struct mt_nvml_process list[PROCESSES_MAX];
	int (*processes)(void *, unsigned *, struct mt_nvml_process *) =
		nvml.nvmlDeviceGetComputeRunningProcesses_v3;
	struct memory_info memory = {0};
	unsigned count = PROCESSES_MAX;
	void *device = NULL;

	memset(out, 0, sizeof(*out));
	out->read_ns = mt_os_now_ns();
	if (!is_ready() || nvml.nvmlDeviceGetHandleByPciBusId_v2(pci, &device) != 0)
		return;
	if (!processes)
		processes = nvml.nvmlDeviceGetComputeRunningProcesses_v2;
	/* More processes than the list has room for: an error without figures. */
	if (processes && processes(device, &count, list) == 0 && count <= PROCESSES_MAX)
		mt_nvml_split(list, count, (unsigned)mt_os_getpid(), is_host_namespace(), out);
	if (nvml.nvmlDeviceGetMemoryInfo && nvml.nvmlDeviceGetMemoryInfo(device, &memory) == 0) {
		out->free_bytes = memory.free_bytes;
		out->total_bytes = memory.total_bytes;
	}
}

unsigned mt_nvml_count(void)
{
	unsigned count = 0;

	if (!is_ready() || !nvml.nvmlDeviceGetCount_v2 || nvml.nvmlDeviceGetCount_v2(&count) != 0)
		return 0;
	return count;
}

bool mt_nvml_device(unsigned number, struct mt_nvml_device *out)
{
	struct mt_nvml_device found = {.name = ""};
	struct memory_info memory = {0};
	void *device = NULL;

	if (!is_ready() || !nvml.nvmlDeviceGetHandleByIndex_v2 || !nvml.nvmlDeviceGetMemoryInfo ||
	    nvml.nvmlDeviceGetHandleByIndex_v2(number, &device) != 0 ||
	    nvml.nvmlDeviceGetMemoryInfo(device, &memory) != 0)
		return false;
	if (nvml.nvmlDeviceGetName)
		(void)nvml.nvmlDeviceGetName(device, found.name, sizeof(found.name));
	found.free_bytes = memory.free_bytes;
	found.total_bytes = memory.total_bytes;
	*out = found;
	return true;
}
