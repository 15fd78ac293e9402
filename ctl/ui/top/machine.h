/* ctl/ui/top/machine.h -- what the header says of the machine: memory, swap, the limit that is
 * nearest, stalls, GPUs. */
#ifndef MT_CTL_UI_TOP_MACHINE_H
#define MT_CTL_UI_TOP_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/process/limit.h"
#include "core/stats_layout.h"

struct mt_top_machine {
	uint64_t used_bytes, total_bytes; /* MemTotal - MemAvailable, MemTotal */
	uint64_t swap_used_bytes, swap_total_bytes;
	bool has_limit; /* top itself lives in a container with a limit */
	struct mt_limit limit;
	bool has_stalls;  /* the kernel has pressure stall information */
	double stall_pct; /* of the last 10 s, tasks waited for memory ("some") */
};

/* `root` stands before every path: "" but in tests. What cannot be read stays 0. */
void mt_top_machine_read(const char *root, struct mt_top_machine *out);

struct mt_top_gpu {
	char pci[32], name[64];
	uint64_t used_bytes, total_bytes; /* by whomever, as the driver says */
};

struct mt_top_gpus {
	struct mt_top_gpu list[MT_DEVICES_COUNT];
	size_t count;
};

/* The devices of one process more, each once by its PCI address; those whose memory is not known
 * are left out. */
void mt_top_gpus_add(struct mt_top_gpus *gpus, const struct mt_stats_device *devices, size_t count);

#endif
