/* python/gpu_caches.h -- the device caches of Python's frameworks: torch.cuda.empty_cache() and
 * PyTorch's page-locked host memory, CuPy's pools, Numba's pending deallocations. Only what is in
 * sys.modules already and completely initialised is touched, which a lazy loader's stand-in is not:
 * nothing is ever imported, and nothing is called that would initialise CUDA. Errors of theirs are
 * swallowed, an exception that was set before stays set, and a Ctrl-C that falls into a call is
 * raised again after it. All but the first and the last on a thread that holds the GIL. No state
 * but what was found of the C API. */
#ifndef MT_PYTHON_GPU_CACHES_H
#define MT_PYTHON_GPU_CACHES_H

#include <stdbool.h>
#include <stdint.h>

#define MT_PYTHON_GPU_DEVICES 16

struct mt_python_gpu_figures {
	int count; /* devices; 0: PyTorch is not there, has not initialised CUDA, or captures */
	struct {
		uint64_t reserved_bytes;  /* torch.cuda.memory_reserved */
		uint64_t allocated_bytes; /* torch.cuda.memory_allocated */
	} devices[MT_PYTHON_GPU_DEVICES];
};

/* Looks for what is needed of the C API; false where there is no Python, or it lacks something.
 * Before a call is queued. */
bool mt_python_gpu_find(void);

/* Empties the caches. cuda_used: this process has initialised CUDA, so that asking CuPy for its
 * pool cannot do it. Answers whose caches were emptied, enum mt_framework_bit. Where a capture has
 * begun meanwhile the others are left: *out_left. */
uint32_t mt_python_gpu_empty(bool cuda_used, uint32_t *out_left);

/* PyTorch's cache of device memory alone; true when it was emptied, which during a capture it is
 * not. */
bool mt_python_gpu_empty_torch(void);

/* What PyTorch's cache holds. */
void mt_python_gpu_read(struct mt_python_gpu_figures *out);

/* Whether the program has called gc.set_threshold(0), which Python documents as collection
 * disabled. False where that cannot be told. */
bool mt_python_gpu_is_gc_off(void);

void mt_python_gpu_fork_child(void);

#endif
