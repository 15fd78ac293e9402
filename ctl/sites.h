/* ctl/sites.h -- who holds the heap: live bytes by stack, from the profile that the embedded jemalloc's sampler writes.
 * Needs a process that was started with MT_PROF=1 and whose profiler samples (`mtctl set PID prof=on`); what was allocated before
 * it was switched on is not in it. */
#ifndef MT_CTL_SITES_H
#define MT_CTL_SITES_H

#include <stddef.h>
#include <stdint.h>

#include "ctl/error.h"
#include "ctl/process.h"

#define MT_SITES_FRAMES 64

struct mt_site {
	uint64_t live_bytes;              /* estimated from the samples */
	uint64_t live_count;
	uint64_t sampled_count;           /* samples behind the estimate: few are a guess */
	size_t frames_count;              /* innermost first */
	char *frames[MT_SITES_FRAMES];    /* "leaky_function at leak.c:12", "PyList_Append in python3.11", "0x7f... in libx.so" */
};

struct mt_sites {
	struct mt_site *list;             /* the largest first; stacks with the same frames are one */
	size_t count;
	uint64_t live_bytes;
};

/* Asks the process for a profile, reads and symbolizes it. NOT_AVAILABLE with the reason where its profiler is not ready or does not
 * sample. The caller frees with mt_sites_free. */
enum mt_err mt_sites_collect(const struct mt_process *process, struct mt_sites *out, struct mt_why *why);
void mt_sites_free(struct mt_sites *sites);

/* The first frame that is not the allocator's, the C++ operator's or the shim's own; never NULL where there are frames. */
const char *mt_sites_name(const struct mt_site *site);

#endif
