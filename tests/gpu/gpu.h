/* gpu.h -- what the programs of tests/gpu and bench/gpu share: libcuda found by dlopen and dlsym as
 * a client finds it (so that a preloaded shim is in the way), kernels, streams, captures, and time.
 * Nothing but libc is needed to build or to start. On the fake driver the kernels are its built-in
 * ones, on a real one PTX (kernels.h). Not for use by the shim. */
#ifndef GPU_H
#define GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

#include "abi.h"
#include "functions.def" /* ours: the folder of this file comes first */

struct CUmod_st;
struct CUfunc_st;
struct CUgraphExec_st;

struct gpu_access { /* CUmemAccessDesc */
	struct mt_cu_location location;
	int flags;
};

/* CUdevResource, whose inside is the driver's own; 144 bytes in 12.4 to 13.0, with room for what
 * may come. */
struct gpu_resource {
	_Alignas(8) int type;
	unsigned char inside[508];
};

enum {
	GPU_STREAM_NON_BLOCKING = 1,
	GPU_RESOURCE_SM = 1,
	GPU_GREEN_DEFAULT_STREAM = 1,
	GPU_PEER_ACCESS_UNSUPPORTED = 217
};
#define GPU_STREAM_PER_THREAD ((struct CUstream_st *)(uintptr_t)2)

/* The driver as the loader answers dlsym for it; a function that this driver lacks answers
 * GPU_MISSING. */
struct gpu_driver {
#define X(name, parameters) int(*name) parameters;
	GPU_FUNCTIONS(X)
#undef X
};
extern struct gpu_driver cu;
extern void *gpu_library;

enum { GPU_MISSING = -1 };
int gpu_missing(void);
#define gpu_has(function) ((void *)cu.function != (void *)gpu_missing)

/* Exit statuses of a check; the last line of its output says why. */
enum { GPU_PASSED = 0, GPU_FAILED = 1, GPU_SKIPPED = 77 };
noreturn void gpu_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
noreturn void gpu_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A call that must answer CUDA_SUCCESS; else the program ends as failed, with the line of code. */
#define gpu_ok(call)           gpu_must((call), #call, __FILE__, __LINE__)
#define gpu_expect(truth, ...) ((truth) ? (void)0 : gpu_fail(__VA_ARGS__))
void gpu_must(int result, const char *call, const char *file, int line);

/* libcuda and its functions; skips where there is none. No call is made. */
void gpu_load(void);
/* gpu_load, cuInit, device 0's primary context current, the kernels loaded. */
void gpu_start(void);
/* The kernels for the context that is current now: a module belongs to one context. */
void gpu_kernels(void);
/* Their text. Where the driver has no compiler for it, kernels.sm_NN.cubin beside the program is
 * loaded instead. */
const char *gpu_kernels_ptx(void);
/* Whether libcuda is the fake one, found by its built-in kernels; after gpu_start. */
bool gpu_is_fake(void);

/* A function of libcuda itself, not what a preloaded shim answers for it: read from the symbol
 * table. NULL if missing. */
void *gpu_unwrapped(const char *symbol);
/* The device's free bytes by the driver's own cuMemGetInfo. */
uint64_t gpu_free_bytes(void);
/* Whether libmtshim.so is loaded into this process. */
bool gpu_has_shim(void);

/* Kernels, enqueued: one that only takes time; one that writes a value to every byte (bytes: a
 * multiple of 4). */
void gpu_spin(struct CUstream_st *stream, uint64_t ms);
int gpu_try_spin(struct CUstream_st *stream, uint64_t ms);
int gpu_fill(struct CUstream_st *stream, uint64_t to, size_t bytes, uint8_t value);
/* One that writes where no memory is: the context is broken from then on. */
int gpu_fault(struct CUstream_st *stream);

/* How many of the bytes differ from value; waits for the null stream only. */
size_t gpu_differing(uint64_t from, size_t bytes, uint8_t value);

/* Of a captured graph, in drivers of every age. */
struct CUgraphExec_st *gpu_instantiate(struct CUgraph_st *graph);

struct CUstream_st *gpu_stream(unsigned int flags);
struct CUevent_st *gpu_event(void);
uint64_t gpu_alloc(size_t bytes);

/* A second context of device 0, left current. */
struct CUctx_st *gpu_context(void);
/* A green context on some of device 0's multiprocessors and a stream of it; false where the driver
 * has none. */
bool gpu_green(struct CUgreenCtx_st **out_green, struct CUstream_st **out_stream);

uint64_t gpu_now_ns(void);
void gpu_sleep_ms(uint64_t ms);
/* Sorts; the share-th smallest (0.5: the median). */
double gpu_quantile(double *values, size_t count, double share);

#endif
