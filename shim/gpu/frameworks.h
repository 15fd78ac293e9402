/* gpu/frameworks.h -- which caching allocator lies on top of the device memory calls, by the
 * objects that this process has loaded. Two caches defeat empty_cache(), so that the pool only
 * counts if there is another one. Any thread; takes no lock, allocates nothing, asks the loader
 * (dl_iterate_phdr). */
#ifndef MT_GPU_FRAMEWORKS_H
#define MT_GPU_FRAMEWORKS_H

#include <stdbool.h>

#include "core/config.h"
#include "gpu/context.h"

/* The frameworks that are loaded, by their objects. */
struct mt_frameworks_seen {
	bool torch;      /* libc10_cuda.so */
	bool jax;        /* xla_cuda_plugin*.so, xla_extension*.so */
	bool tensorflow; /* libtensorflow_framework.so* */
	bool cupy;       /* cupy/cuda/memory*.so */
	bool sanitizer;  /* libsanitizer-*.so, libcuda-memcheck.so */
};

/* What MT_CUDA_RESCUE=1 does in this process. NONE: nothing, as a tool watches the calls, or it is
 * a client of the MPS server. AGAIN: asks at the second error of a thread, since after the first
 * one a framework empties its own cache and tries again. */
enum mt_frameworks_rescue { MT_RESCUE_NONE, MT_RESCUE_AGAIN, MT_RESCUE_AT_ONCE };

struct mt_frameworks_verdict {
	enum mt_pool_mode mode;
	const char *text; /* "account: PyTorch's caching allocator sits on top" */
	/* set by mt_frameworks_look only: */
	bool waits; /* mt_frameworks_wait */
	enum mt_frameworks_rescue rescue;
};

/* Adds to *seen the framework to which the object at this path belongs. Pure. */
void mt_frameworks_note(const char *path, struct mt_frameworks_seen *seen);

/* Decides by MT_CUDA (enum mt_cuda_choice, but off), the environment and the loaded objects.
 * Pure. */
struct mt_frameworks_verdict mt_frameworks_decide(uint64_t choice,
						  const struct mt_launch_env *facts,
						  const struct mt_frameworks_seen *seen);

/* Decides by MT_CUDA_FREE (enum mt_cuda_free_choice) whether a free of a pooled block waits as the
 * driver's does. With `auto` only a client that is known to rely on no wait does without: PyTorch,
 * whose own cache, on by default, never waits in a free either. Pure. */
bool mt_frameworks_wait(uint64_t choice, const struct mt_launch_env *facts,
			const struct mt_frameworks_seen *seen);

/* The same for this process and the objects that are loaded now. */
struct mt_frameworks_verdict mt_frameworks_look(void);

/* Returns whether the last look found that this process may give to others; before the first one:
 * false. For the worker, which does not walk through the loaded objects: a fork would wait for
 * it. */
bool mt_frameworks_is_rescuer(void);

#endif
