/* python/framework.h -- MT_FRAMEWORK_DECAY_MS: what PyTorch's own device cache holds unused for
 * that long is released. Asked and done in pending calls that nobody waits for. Where several
 * processes train together (WORLD_SIZE > 1) nothing is done: one that flushes lets all others wait.
 * For the worker. */
#ifndef MT_PYTHON_FRAMEWORK_H
#define MT_PYTHON_FRAMEWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "python/gpu_caches.h"

/* Since when each device's cache has held more than the gate; 0: it does not. */
struct mt_framework_policy {
	uint64_t since_ns[MT_PYTHON_GPU_DEVICES];
};

/* Whether it is time to release: on some device, more than max(slack_mb, slack_pct of reserved) has
 * been unused at every look for framework_decay_ms. Pure but for *policy. */
bool mt_framework_decide(struct mt_framework_policy *policy,
			 const struct mt_python_gpu_figures *seen, const struct mt_config *cfg,
			 uint64_t now_ns);

/* One look, if it is time. When to come again, in ns of CLOCK_MONOTONIC; UINT64_MAX: not. */
uint64_t mt_framework_tick(uint64_t now_ns);

/* What PyTorch's cache held unused on a device at the last look; 0 where nobody looks. */
uint64_t mt_framework_idle_bytes(int device);

void mt_framework_fork_child(void);

#endif
