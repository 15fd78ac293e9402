/* ctl/profile/heap_profile.h -- parses jemalloc's heap profile, text format heap_v2: the sampled
 * live blocks by stack. Pure, but for memory. The text comes from another process and is not
 * trusted: every number is checked, every stack is bounded, and an incomplete file is refused.
 * Source of the format: jemalloc(3), "HEAP PROFILE FORMAT". */
#ifndef MT_CTL_PROFILE_HEAP_PROFILE_H
#define MT_CTL_PROFILE_HEAP_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/output/error.h"

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

#endif
