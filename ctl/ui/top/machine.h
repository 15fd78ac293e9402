/* ctl/ui/top/machine.h -- memory, swap, nearest limit, stalls and GPUs of the machine, for the
 * header. */
#ifndef MT_CTL_UI_TOP_MACHINE_H
#define MT_CTL_UI_TOP_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/process/limit.h"
#include "core/stats_layout.h"

struct mt_top_machine {
	uint64_t used_bytes, total_bytes; /* MemTotal - MemAvailable, MemTotal */
	uint64_t swap_used_bytes, swap_total_bytes;
	bool has_limit; /* top itself runs in a container with a limit */
	struct mt_limit limit;
	bool has_stalls;  /* the kernel has pressure stall information */
	double stall_pct; /* of the last 10 s, in which tasks waited for memory ("some") */
};

/* Reads all values. `root` is put before every path: "" but in tests. What cannot be read stays 0.
 */
void mt_top_machine_read(const char *root, struct mt_top_machine *out);

struct mt_top_gpu {
	char pci[32], name[64];
	uint64_t used_bytes, total_bytes; /* by all processes, as the driver reports */
};

struct mt_top_gpus {
	struct mt_top_gpu list[MT_DEVICES_COUNT];
	size_t count;
};

/* Adds the devices of a process, each PCI address once. Devices without known memory are left out.
 */
void mt_top_gpus_add(struct mt_top_gpus *gpus, const struct mt_stats_device *devices, size_t count);

#endif
