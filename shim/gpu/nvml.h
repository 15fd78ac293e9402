/* gpu/nvml.h -- what NVIDIA's management library says of a device: which process holds how much of
 * it. The library is loaded at the first question; it comes with the driver, and where it is
 * missing nothing is known. Driver thread only (gpu/driver.h): the library keeps descriptors, and
 * shares them with a program that uses it too. mtctl links it, too, and calls it on its one thread.
 */
#ifndef MT_GPU_NVML_H
#define MT_GPU_NVML_H

#include <stdbool.h>
#include <stdint.h>

/* nvmlProcessInfo_t, as the _v2 and _v3 queries fill it. */
struct mt_nvml_process {
	unsigned int pid;
	unsigned long long used_bytes; /* all ones: unknown */
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
	uint64_t read_ns; /* when it was read, CLOCK_MONOTONIC */
	/* of this process by our own figures at that time (gpu/stats.c): a reply counts for
	 * seconds, in which the program allocates and frees */
	uint64_t held_bytes;
};

/* Splits the library's list into this process and others. The list has the host's pids: in a pid
 * namespace below it this process can be found only as the single one. Of a divided device (MIG)
 * only our part counts. Pure. */
void mt_nvml_split(const struct mt_nvml_process *list, unsigned count, unsigned own_pid,
		   bool is_host_namespace, struct mt_nvml_usage *out);

/* Reads the device at this PCI address ("0000:3b:00.0"), which may take milliseconds. If nothing is
 * known, *out is all 0 but for read_ns. */
void mt_nvml_read(const char *pci, struct mt_nvml_usage *out);

/* A device by its number on the machine, from 0 on. Returns false if the library does not know
 * it; mt_nvml_count() is 0 if the library is missing. */
struct mt_nvml_device {
	char name[64];
	uint64_t free_bytes, total_bytes;
};
unsigned mt_nvml_count(void);
bool mt_nvml_device(unsigned number, struct mt_nvml_device *out);

#endif
