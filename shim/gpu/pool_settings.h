/* gpu/pool_settings.h -- the settings of the pool. Plain values. */
#ifndef MT_GPU_POOL_SETTINGS_H
#define MT_GPU_POOL_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

/* Ordered by how much the pool does. A mode function never returns UNDECIDED: that is a device
 * without an allocation. */
enum mt_pool_mode { MT_POOL_UNDECIDED, MT_POOL_OFF, MT_POOL_ACCOUNT, MT_POOL_POOL };

/* devices with figures of their own; those beyond share the last */
#define MT_POOL_DEVICES 16

struct mt_pool_settings {
	/* a ready block unused for so long is released; 0: only when asked */
	uint64_t decay_ms;
	uint64_t max_idle_bytes; /* for each device: the most bytes cached; 0: no cap */
	uint64_t max_idle_pct;   /* the same as a share of the device's memory; 100: no cap */
	/* with less than this share of the device's memory free nothing is cached; 0: off */
	uint64_t low_free_pct;
	/* Decides a context's mode at its first allocation. Called with no lock held. */
	enum mt_pool_mode (*mode)(void);
	/* Returns whether a free waits as the driver's does. Asked when `mode` is; NULL: it does
	 * not. */
	bool (*waits)(void);
	/* Asks other processes for device memory (gpu/rescue.h); NULL: none is asked. */
	const struct mt_rescue_ops *rescue;
};

#endif
