/* cuda_entries.h -- the driver's functions as a program sees them, and the words of the programs
 * that test the wrappers. The declarations are those of the shim, which a test compares with
 * cuda.h. */
#ifndef CUDA_ENTRIES_H
#define CUDA_ENTRIES_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../fakecuda/fakecuda.h"
#include "abi.h"
#include "gpu/driver.def"

#define X(name, parameters, ...) int name parameters;
MT_DRIVER_FUNCTIONS(X)
#undef X
int cuInit(unsigned int flags);
int cuCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device);
int cuCtxSetCurrent(struct CUctx_st *context);
int cuCtxSynchronize(void);
int cuStreamCreate(struct CUstream_st **stream, unsigned int flags);
int cuStreamSynchronize(struct CUstream_st *stream);
int cuGraphDestroy(struct CUgraph_st *graph);
int cuMemsetD8Async(uint64_t dptr, unsigned char value, size_t count, struct CUstream_st *stream);
int cuDeviceGetDevResource(int device, void *resource, int type);
int cuDevResourceGenerateDesc(void **description, void *resources, unsigned int count);

#define MIB          (1024ull * 1024ull)
#define NON_BLOCKING 1u

static int bad;

/* A call and what it is to answer. */
#define IS(expected, call)                                                                         \
	do {                                                                                       \
		long is_ = (long)(call);                                                           \
                                                                                                   \
		if (is_ != (long)(expected)) {                                                     \
			printf("%d: %s is %ld, not %ld\n", __LINE__, #call, is_,                   \
			       (long)(expected));                                                  \
			bad++;                                                                     \
		}                                                                                  \
	} while (0)

/* What the program sees, for a comparison with a run without the shim. */
#define SHOW(what) printf("%s: %ld\n", #what, (long)(what))

static inline struct CUctx_st *begin(void)
{
	struct CUctx_st *context = NULL;

	IS(0, cuInit(0));
	IS(0, cuCtxCreate_v2(&context, 0, 0));
	return context;
}

static inline struct fakecuda_ledger ledger(void)
{
	struct fakecuda_ledger now;

	fakecuda_ledger(&now);
	return now;
}

static inline uint64_t live_bytes(void)
{
	struct fakecuda_ledger now = ledger();
	uint64_t sum = 0;

	for (int kind = 0; kind < FAKECUDA_KIND_COUNT; kind++)
		sum += now.live_bytes[kind];
	return sum;
}

static inline uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

#endif
