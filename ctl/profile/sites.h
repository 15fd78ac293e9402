/* ctl/profile/sites.h -- live heap bytes by stack, from the profile of the embedded jemalloc's
 * sampler. The process must have been started with MT_PROF=1 and must be sampling (`mtctl set PID
 * prof=on`); blocks from before are not included. For one thread. */
#ifndef MT_CTL_PROFILE_SITES_H
#define MT_CTL_PROFILE_SITES_H

#include <jansson.h>
#include <time.h>

#include "core/stats_layout.h"
#include "ctl/output/error.h"
#include "ctl/process/process.h"

/* Names code addresses of a process, by its maps and the symbols and line
 * tables of the mapped files, read by elfutils' libdwfl. If a file is stripped, replaced or not
 * readable, or libdw.so.1 is missing, the name is the offset in the module. Nothing is fetched from
 * the network (debuginfod). For one thread. */

struct mt_symbols;

#define MT_SYMBOLS_NAME_BYTES 400 /* of a name, with its NUL */

/* Reads the maps of a process. FOREIGN: they may not be read. The caller frees with
 * mt_symbols_free. */
enum mt_err mt_symbols_new(const struct mt_process *process, struct mt_symbols **out,
			   struct mt_error_reason *why);
void mt_symbols_free(struct mt_symbols *symbols);

/* Names code by its place in a file: "PATH+0x1a2b", counted from the first byte of the file's first
 * mapping. Replaces each text that names one (from malloc(3)), unless the file has changed after
 * `seen`, or cannot be read. In a child process, as mt_symbolizer_fill. */
void mt_symbols_name_call_sites(char **texts, size_t count, time_t seen);

/* Whether the address lies in the library of the shim. */
bool mt_symbols_is_shim(const struct mt_symbols *symbols, uint64_t return_address);

/* ---- symbolizer ---- */

/* Names code addresses in a child process. The files belong to another
 * process, whose owner may have put anything into them, and libdw parses them. So a child does
 * that, as user nobody if mtctl is root, with bounded time and memory. For one thread. */

/* Writes one text for each address, "leak at leak.c:12"; the offset if the child failed or ran
 * out of time (10 s). The caller frees each. */
void mt_symbolizer_fill(struct mt_symbols *symbols, const uint64_t *addresses, size_t count,
			char **texts);

/* Parses jemalloc's heap profile, text format heap_v2: the sampled
 * live blocks by stack. Pure, but for memory. The text comes from another process and is not
 * trusted: every number is checked, every stack is bounded, and an incomplete file is refused.
 * Source of the format: jemalloc(3), "HEAP PROFILE FORMAT". */

#define MT_HEAP_PROFILE_FRAMES 256 /* of one stack; jemalloc keeps up to 128 */

struct mt_heap_profile_stack {
	size_t first, frames_count; /* in addresses; innermost first */
	uint64_t sampled_count, sampled_bytes;
};

/* A line of Python: the frames of a stack with this address are of Python, and the innermost of
 * them stand at its beginning (core/dump_layout.h). */
struct mt_heap_profile_line {
	uint64_t address;
	char *text;               /* "/app/train.py:12", printable */
	bool is_own, is_typed_in; /* see ctl/profile/lines.h */
};

struct mt_heap_profile {
	uint64_t rate_bytes; /* one sample in so many bytes, on average */
	uint64_t *addresses;
	size_t addresses_count;
	struct mt_heap_profile_stack *stacks;
	size_t stacks_count;
	struct mt_heap_profile_line *lines; /* in the order of addresses */
	size_t lines_count;
};

/* Parses a profile. INVALID with the reason. Stacks without live samples are left out. After a
 * million addresses, further stacks have no frames, but keep their counts, so that sums are
 * correct. Lines of Python that are not valid end their list. The caller frees with
 * mt_heap_profile_free. */
enum mt_err mt_heap_profile_parse(const char *text, size_t bytes, struct mt_heap_profile *out,
				  struct mt_error_reason *why);
void mt_heap_profile_free(struct mt_heap_profile *file);

/* Returns the line of Python with this address; NULL: the address is of code. */
const struct mt_heap_profile_line *mt_heap_profile_line(const struct mt_heap_profile *file,
							uint64_t address);

/* Estimates all blocks from samples: a block of s bytes is sampled with probability 1 - exp(-s /
 * rate), so that each counts 1 / (1 - exp(-s / rate)) times, with s the mean of the stack. Source:
 * jeprof, AdjustSamples. jemalloc 5.3 writes values for this formula (prof_unbias), also for stacks
 * with blocks of many sizes. */
void mt_heap_profile_scale(uint64_t rate_bytes, uint64_t sampled_count, uint64_t sampled_bytes,
			   uint64_t *out_count, uint64_t *out_bytes);

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

/* Options of printing; top 0: all. The file (pprof's gzip'ed profile.proto) has all
 * sites. SYSTEM with the reason. */
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

/* Returns how many of `count` sites, or lines, are printed. */
size_t mt_sites_shown(const struct mt_sites_view *view, size_t count);

/* Returns the name of that frame; NULL: the stack is empty. */
const char *mt_sites_name(const struct mt_site *site);

/* Returns that name, with the line of Python above it if there is one: "c10::alloc_cpu(unsigned
 * long) in libc10.so, from /app/train.py:12". The caller frees. */
char *mt_sites_where(const struct mt_site *site);

#endif
