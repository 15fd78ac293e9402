/* gpu/frameworks.h -- which caching allocator sits on top of the device memory calls, told from the
 * objects that this process has loaded. A cache on top of a cache defeats empty_cache(), so that
 * only counting is left where there is one. Any thread; takes no lock of ours, allocates nothing,
 * asks the loader (dl_iterate_phdr). */
#ifndef MT_GPU_FRAMEWORKS_H
#define MT_GPU_FRAMEWORKS_H

#include <stdbool.h>

#include "core/config.h"
#include "gpu/pool_settings.h"

/* What is loaded of whom. */
struct mt_frameworks_seen {
	bool torch;      /* libc10_cuda.so */
	bool jax;        /* xla_cuda_plugin*.so, xla_extension*.so */
	bool tensorflow; /* libtensorflow_framework.so* */
	bool cupy;       /* cupy/cuda/memory*.so */
};

struct mt_frameworks_verdict {
	enum mt_pool_mode mode;
	const char *text; /* "account: PyTorch's caching allocator sits on top" */
};

/* Adds to *seen what the object at this path belongs to. Pure. */
void mt_frameworks_note(const char *path, struct mt_frameworks_seen *seen);

/* What MT_CUDA (enum mt_cuda_choice), the environment and the loaded objects come to. Pure. */
struct mt_frameworks_verdict mt_frameworks_decide(uint64_t choice,
						  const struct mt_launch_env *facts,
						  const struct mt_frameworks_seen *seen);

/* The same for this process, by the objects that are loaded now. */
struct mt_frameworks_verdict mt_frameworks_look(void);

#endif
