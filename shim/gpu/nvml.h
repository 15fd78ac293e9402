/* gpu/nvml.h -- what NVIDIA's management library says of a device: who holds how much of it. The
 * library is loaded at run time, at the first question; the driver's user space comes with it
 * wherever CUDA works, and where it does not, nothing is known. Only from the thread that makes our
 * driver calls (gpu/thread.h): the library keeps descriptors, and shares them with a program that
 * uses it too. Answers are kept for 5 s. */
#ifndef MT_GPU_NVML_H
#define MT_GPU_NVML_H

#include <stdbool.h>
#include <stdint.h>

/* nvmlProcessInfo_t, as the _v2 and _v3 queries fill it. */
struct mt_nvml_process {
	unsigned int pid;
	unsigned long long used_bytes; /* all ones: not told */
	unsigned int gpu_instance;
	unsigned int compute_instance;
};

struct mt_nvml_usage {
	bool own_known;
	uint64_t own_bytes;
	bool others_known;
	uint64_t others_bytes;
	uint64_t others_count;
	uint64_t free_bytes; /* of the device; 0 unknown */
	uint64_t total_bytes;
	uint64_t read_ns; /* when it was asked, CLOCK_MONOTONIC */
};

/* Who is who in the library's list. It names processes by the pids of the host: in a pid namespace
 * below it we cannot find ourselves, unless we are the only one there is. Of a divided device only
 * our part counts. Pure. */
void mt_nvml_split(const struct mt_nvml_process *list, unsigned count, unsigned own_pid,
			bool is_host_namespace, struct mt_nvml_usage *out);

/* Of the device at this PCI address ("0000:3b:00.0"). now: do not take an answer that was kept.
 * False, *out all 0: nothing is known. */
bool mt_nvml_read(const char *pci, bool now, struct mt_nvml_usage *out);

/* The library's state is the parent's. */
void mt_nvml_fork_child(void);

#endif
