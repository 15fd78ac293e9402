/* ctl/profile/heap_profile.h -- jemalloc's heap profile, text format heap_v2: how many live blocks
 * were sampled, by stack. Pure. The text comes from another process and is not trusted: every
 * number is checked, every stack bounded, and a file that does not end as the writer ends it is
 * refused as not whole. Source of the format: jemalloc(3), "HEAP PROFILE FORMAT". */
#ifndef MT_CTL_PROFILE_HEAP_PROFILE_H
#define MT_CTL_PROFILE_HEAP_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "ctl/output/error.h"

#define MT_HEAP_PROFILE_FRAMES 256 /* of one stack; jemalloc keeps at most 128 */

struct mt_heap_profile_stack {
	size_t first, frames_count; /* in addresses; innermost first */
	uint64_t sampled_count, sampled_bytes;
};

struct mt_heap_profile {
	uint64_t rate_bytes; /* one sample in so many bytes, on average */
	uint64_t *addresses;
	size_t addresses_count;
	struct mt_heap_profile_stack *stacks;
	size_t stacks_count;
};

/* INVALID with the reason. Stacks without live samples are left out. Once a million addresses are
 * kept, further stacks have no frames: their counts are kept, so that the sums are those of the
 * file. The caller frees with mt_heap_profile_free. */
enum mt_err mt_heap_profile_parse(const char *text, size_t bytes, struct mt_heap_profile *out,
				  struct mt_why *why);
void mt_heap_profile_free(struct mt_heap_profile *file);

/* What samples stand for: a block of s bytes is sampled with probability 1 - exp(-s / rate), so
 * each counts 1 / (1 - exp(-s / rate)) times, with s the mean of the stack. Source: jeprof,
 * AdjustSamples; what jemalloc 5.3 writes is made for this formula (prof_unbias) even where a stack
 * allocates blocks of many sizes. */
void mt_heap_profile_scale(uint64_t rate_bytes, uint64_t sampled_count, uint64_t sampled_bytes,
			   uint64_t *out_count, uint64_t *out_bytes);

#endif
