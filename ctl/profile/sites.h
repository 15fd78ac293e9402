/* ctl/profile/sites.h -- who holds the heap: live bytes by stack, from the profile that the
 * embedded jemalloc's sampler writes. Needs a process that was started with MT_PROF=1 and whose
 * profiler samples (`mtctl set PID prof=on`); what was allocated before it was switched on is not
 * in it. */
#ifndef MT_CTL_PROFILE_SITES_H
#define MT_CTL_PROFILE_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/output/error.h"
#include "ctl/profile/heap_profile.h"
#include "ctl/process/process.h"
#include "ctl/profile/symbols.h"
#include "core/stats_layout.h"

#define MT_SITES_FRAMES 64

struct mt_site {
	uint64_t live_bytes; /* estimated from the samples */
	uint64_t live_count;
	uint64_t sampled_count; /* samples behind the estimate: few are a guess */
	size_t frames_count;    /* innermost first */
	/* "leaky_function at leak.c:12", "PyList_Append in python3.11", "0x1a2b in libx.so" */
	const char *frames[MT_SITES_FRAMES];
};

struct mt_sites {
	/* the largest first; stacks with the same frames are one */
	struct mt_site *list;
	size_t count;
	uint64_t live_bytes;
	uint64_t sampled_count;
	uint64_t rate_bytes; /* one sample in so many bytes, on average */
	/* false: switched off since; what was allocated after that is not in it */
	bool samples;
	char **names; /* the texts of all frames */
	size_t names_count;
};

/* Asks the process for a profile, reads and symbolizes it. NOT_AVAILABLE with the reason where its
 * profiler is not ready, or has nothing and does not sample. The caller frees with mt_sites_free.
 */
enum mt_err mt_sites_collect(const struct mt_process *process, struct mt_sites *out,
			     struct mt_why *why);
void mt_sites_free(struct mt_sites *sites);

/* The rest of mt_sites_collect, for who has a profile at hand: scales, names and merges its stacks.
 */
void mt_sites_read(const struct mt_heap_profile *file, struct mt_symbols *symbols,
		   struct mt_sites *out);

/* What has grown from one to the other: its sites are those of `after` with more bytes than before,
 * each with the difference. They point into `after`, which must live longer; freed with
 * mt_sites_free as well. */
void mt_sites_growth(const struct mt_sites *before, const struct mt_sites *after,
		     struct mt_sites *out);

/* The stack without what mt_sites_name passes over: where that starts. */
size_t mt_sites_first_frame(const struct mt_site *site);

/* The three ways to print them; top 0: all. pprof: the gzip'ed profile.proto that pprof reads;
 * SYSTEM with the reason. */
struct mt_sites_view {
	const struct mt_process *process;
	uint64_t top;
	uint64_t over_ms; /* of a difference: the time between; 0: what is live */
};
void mt_sites_print_table(const struct mt_sites *sites, const struct mt_sites_view *view);
void mt_sites_print_json(const struct mt_sites *sites, const struct mt_sites_view *view);
void mt_sites_print_folded(const struct mt_sites *sites, const struct mt_sites_view *view);
enum mt_err mt_sites_write_pprof(const struct mt_sites *sites, const char *path,
				 struct mt_why *why);

/* The first frame that is not the allocator's, the C++ operator's or the shim's own; never NULL
 * where there are frames. */
const char *mt_sites_name(const struct mt_site *site);

#endif
