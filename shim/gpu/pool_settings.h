/* gpu/pool_settings.h -- the settings of the pool, and what it calls of other parts. */
#ifndef MT_GPU_POOL_SETTINGS_H
#define MT_GPU_POOL_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

/* Ordered by how much the pool does. A mode function never returns UNDECIDED: that is a device
 * without an allocation. */
enum mt_pool_mode { MT_POOL_UNDECIDED, MT_POOL_OFF, MT_POOL_ACCOUNT, MT_POOL_POOL };

/* devices with figures of their own; those beyond share the last */
#define MT_POOL_DEVICES 16

/* One error. Zeroed: nothing was asked yet. */
struct mt_gpu_rescue {
	bool is_over;
	uint32_t thread; /* the caller, if the turn to ask is its own; else 0 */
	uint64_t began_ns;
	uint64_t freed_bytes; /* as the replies said so far */
	uint64_t bytes, pid;  /* for this process, and the process that gave most of it */
};

/* Any thread that is out of memory, with no lock held, not cancellable. */
struct mt_rescue_ops {
	/* Returns whether other processes may be asked now. */
	bool (*is_possible)(void);
	/* Asks at the first call. Waits until a process has given something more: true, try again.
	 * Returns false if nothing more will come. bytes: the size asked for; 0: unknown.
	 * device: may be MT_ANY_DEVICE. */
	bool (*next)(struct mt_gpu_rescue *rescue, int device, uint64_t bytes);
	/* Must follow the last call. */
	void (*end)(struct mt_gpu_rescue *rescue);
};

struct mt_pool_settings {
	/* a ready block unused for so long is released; 0: only when asked */
	uint64_t decay_ms;
	/* with less than this share of the device's memory free the worker releases what is idle;
	 * 0: off */
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
