/* python/gpu_caches.h -- empties the caches of Python's frameworks: PyTorch's caches of device
 * memory and page-locked host memory, CuPy's pools, Numba's pending deallocations, and pyarrow's
 * pool of host memory. Uses only modules that are in sys.modules and completely initialised. Never
 * imports a module, never calls a function that initialises CUDA. Clears the errors of these calls;
 * an exception that was set before stays set, and a Ctrl-C during a call is raised again after it.
 * The calling thread holds the GIL, except in mt_python_gpu_find. */
#ifndef MT_PYTHON_GPU_CACHES_H
#define MT_PYTHON_GPU_CACHES_H

#include <stdbool.h>
#include <stdint.h>

#define MT_PYTHON_GPU_DEVICES 16

struct mt_python_gpu_figures {
	/* number of devices; 0: PyTorch is not loaded, has not initialised CUDA, or captures */
	int count;
	struct {
		uint64_t reserved_bytes;  /* torch.cuda.memory_reserved */
		uint64_t allocated_bytes; /* torch.cuda.memory_allocated */
	} devices[MT_PYTHON_GPU_DEVICES];
};

/* Finds the C API functions; call it before a pending call is queued. Returns false if there is
 * no Python, or it lacks one of them. Any thread; calls the loader. */
bool mt_python_gpu_find(void);

/* Empties the caches of device memory, and (host_too) those of host memory. cuda_used: this process
 * has initialised CUDA; without it CuPy is skipped, whose pool would initialise it. Returns the
 * frameworks whose caches were emptied, bits of enum mt_framework_bit; *out_skipped: those that an
 * open stream capture kept from it. */
uint32_t mt_python_gpu_empty(bool cuda_used, bool host_too, uint32_t *out_skipped);

/* Empties only PyTorch's cache of device memory. Returns false if it was not emptied, as during
 * a capture. */
bool mt_python_gpu_empty_torch(void);

/* Reads the figures of PyTorch's cache into *out; all 0 if there is none. */
void mt_python_gpu_read(struct mt_python_gpu_figures *out);

/* Returns whether the program has called gc.set_threshold(0), which disables collection by Python's
 * documentation. False if unknown. */
bool mt_python_gpu_is_gc_off(void);

#endif
