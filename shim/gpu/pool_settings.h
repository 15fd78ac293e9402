/* gpu/pool_settings.h -- the settings of the pool, and the parser of MT_CUDA_CONF. Plain values;
 * the parser is pure: no lock, no allocation, any thread. */
#ifndef MT_GPU_POOL_SETTINGS_H
#define MT_GPU_POOL_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

/* Ordered by how much the pool does. A mode function never returns UNDECIDED: that is a device
 * without an allocation. */
enum mt_pool_mode { MT_POOL_UNDECIDED, MT_POOL_OFF, MT_POOL_ACCOUNT, MT_POOL_POOL };

/* devices with figures of their own; those beyond share the last */
#define MT_POOL_DEVICES 16

#define MT_POOL_ROUNDUPS 17 /* up to 32 GiB by size */

struct mt_pool_settings {
	/* a ready block unused for so long is released; 0: only when asked */
	uint64_t decay_ms;
	uint64_t max_idle_bytes; /* for each device: the most bytes cached; 0: no cap */
	uint64_t max_idle_pct;   /* the same as a share of the device's memory; 100: no cap */
	/* with less than this share of the device's memory free nothing is cached; 0: off */
	uint64_t low_free_pct;
	/* the next three: MT_CUDA_CONF, mt_pool_settings_parse */
	/* Sizes are rounded up to 1/n of their power of two; 0: the default rounding. [0] is for
	 * sizes under 1 MiB, [i] for those from 2^(i-1) MiB to under 2^i, the last one for all
	 * above. */
	uint8_t roundup_divisions[MT_POOL_ROUNDUPS];
	/* blocks larger than this serve only requests that round to exactly their size */
	uint64_t max_split_bytes;
	/* above this share of the device the oldest idle blocks are released before an allocation;
	 * 0: off */
	double gc_threshold;
	/* Decides a context's mode at its first allocation. Called with no lock held. */
	enum mt_pool_mode (*mode)(void);
	/* Returns whether a free waits as the driver's does. Asked when `mode` is; NULL: it does
	 * not. */
	bool (*waits)(void);
	/* Asks other processes for device memory (gpu/rescue.h); NULL: none is asked. */
	const struct mt_rescue_ops *rescue;
};

/* Parses MT_CUDA_CONF, which has the syntax of PYTORCH_CUDA_ALLOC_CONF, "name:value,name:value"
 * (https://docs.pytorch.org/docs/stable/notes/cuda.html). It understands roundup_power2_divisions
 * (a power of two, or a list of them by size as [256:1,512:2,>:4]: 1 under 256 MB, 2 under 512, 4
 * above), max_split_size_mb (above 20), garbage_collection_threshold (between 0 and 1). PyTorch's
 * other names have no meaning for a pool that never splits a block.
 *
 * Sets the three fields that the text names and leaves the others. Calls report once for each name
 * without a meaning, unknown name and malformed value, with a line that is safe to print and has no
 * newline; the field then stays as it was. */
void mt_pool_settings_parse(const char *text, struct mt_pool_settings *settings,
			    void (*report)(const char *line));

#endif
