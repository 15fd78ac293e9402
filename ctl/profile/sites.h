/* ctl/profile/sites.h -- live heap bytes by stack, from the profile of the embedded jemalloc's
 * sampler. The process must have been started with MT_PROF=1 and must be sampling (`mtctl set PID
 * prof=on`); blocks from before are not included. For one thread. */
#ifndef MT_CTL_PROFILE_SITES_H
#define MT_CTL_PROFILE_SITES_H

#include <jansson.h>
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
	uint64_t sampled_count; /* samples of the estimate: few make it a guess */
	size_t frames_count;    /* innermost first */
	/* "leaky_function at leak.c:12", "PyList_Append in python3.11", "0x1a2b in libx.so";
	 * frames of Python, "/app/train.py:12", stand before the C frame that runs the
	 * innermost of them */
	const char *frames[MT_SITES_FRAMES];
	const char *python; /* the program's own line of Python above the C frames; NULL: none */
};

struct mt_sites {
	/* the largest first; stacks with the same frames are merged */
	struct mt_site *list;
	size_t count;
	uint64_t live_bytes;
	uint64_t sampled_count;
	uint64_t rate_bytes; /* one sample in so many bytes, on average */
	/* false: sampling is off now, and later blocks are missing */
	bool samples;
	char **names; /* the texts of all frames */
	size_t names_count;
};

/* Requests a profile from the process, reads it, and names its stacks. Waits up to 30 s.
 * NOT_AVAILABLE with the reason if its profiler is not ready, or is off without samples. The
 * caller frees with mt_sites_free. */
enum mt_err mt_sites_collect(const struct mt_process *process, struct mt_sites *out,
			     struct mt_error_reason *why);
void mt_sites_free(struct mt_sites *sites);

/* Makes sites from a profile: scales, names and merges its stacks. Takes over the texts of its
 * lines of Python. Part of mt_sites_collect. */
void mt_sites_read(struct mt_heap_profile *file, struct mt_symbols *symbols, struct mt_sites *out);

/* Makes sites of all stacks of a look at Python lines that have grown, with their growth. The
 * caller frees with mt_sites_free. */
struct mt_lines;
void mt_sites_of_lines(const struct mt_lines *lines, struct mt_sites *out);

/* Writes the growth between two profiles: the sites of `after` with more bytes than before, each
 * with the difference. They point into `after`, which must live longer. The caller frees with
 * mt_sites_free. */
void mt_sites_growth(const struct mt_sites *before, const struct mt_sites *after,
		     struct mt_sites *out);

/* Returns the index of the first frame that is not a wrapper of an allocation function. */
size_t mt_sites_first_frame(const struct mt_site *site);

/* Options of printing; top 0: all. The files (pprof's gzip'ed profile.proto, speedscope's JSON)
 * have all sites. SYSTEM with the reason. */
struct mt_sites_view {
	const struct mt_process *process;
	uint64_t top;
	uint64_t over_ms; /* of a growth: the time between the profiles; 0: live bytes */
};
void mt_sites_print_table(const struct mt_sites *sites, const struct mt_sites_view *view);
/* Returns the object that mt_sites_print_json prints. The caller owns it. */
json_t *mt_sites_json(const struct mt_sites *sites, const struct mt_sites_view *view);
void mt_sites_print_json(const struct mt_sites *sites, const struct mt_sites_view *view);
void mt_sites_print_folded(const struct mt_sites *sites, const struct mt_sites_view *view);
enum mt_err mt_sites_write_pprof(const struct mt_sites *sites, const char *path,
				 struct mt_error_reason *why);
enum mt_err mt_sites_write_speedscope(const struct mt_sites *sites,
				      const struct mt_sites_view *view, const char *path,
				      struct mt_error_reason *why);

/* Returns the name of that frame; NULL: the stack is empty. */
const char *mt_sites_name(const struct mt_site *site);

/* Returns that name, with the line of Python above it if there is one: "c10::alloc_cpu(unsigned
 * long) in libc10.so, from /app/train.py:12". The caller frees. */
char *mt_sites_where(const struct mt_site *site);

#endif
