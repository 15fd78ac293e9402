/* fakecuda_test.h -- what the programs share that test the stand-in for libcuda without the shim:
 * expectations that say what came instead, and a device with a context, streams and kernels at
 * hand. */
#ifndef FAKECUDA_TEST_H
#define FAKECUDA_TEST_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api.h"
#include "fakecuda.h"

static _Atomic int failures;

#define EXPECT(expression, wanted)                                                                 \
	do {                                                                                       \
		const long long got_ = (long long)(expression), wanted_ = (long long)(wanted);     \
		if (got_ != wanted_) {                                                             \
			printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #expression,   \
			       got_, wanted_);                                                     \
			failures++;                                                                \
		}                                                                                  \
	} while (0)
#define GOOD(call) EXPECT(call, OK)

enum { DISABLE_TIMING = 2, NON_BLOCKING = 1, GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };

typedef struct CUstream_st *stream_t;
typedef struct CUevent_st *event_t;
typedef struct CUctx_st *context_t;
typedef struct CUgraph_st *graph_t;

static struct CUfunc_st *kernel_fill, *kernel_check, *kernel_delay, *kernel_illegal;

static inline void kernels(void)
{
	struct CUmod_st *module;

	GOOD(cuModuleLoadData(&module, "image"));
	GOOD(cuModuleGetFunction(&kernel_fill, module, FAKECUDA_KERNEL_FILL));
	GOOD(cuModuleGetFunction(&kernel_check, module, FAKECUDA_KERNEL_CHECK));
	GOOD(cuModuleGetFunction(&kernel_delay, module, FAKECUDA_KERNEL_DELAY));
	GOOD(cuModuleGetFunction(&kernel_illegal, module, FAKECUDA_KERNEL_ILLEGAL));
}

/* The primary context of device 0, current, with kernels. */
static inline context_t begin(void)
{
	context_t context = NULL;

	GOOD(cuInit(0));
	GOOD(cuDevicePrimaryCtxRetain(&context, 0));
	GOOD(cuCtxSetCurrent(context));
	kernels();
	return context;
}

static inline uint64_t take(size_t bytes)
{
	uint64_t dptr = 0;

	GOOD(cuMemAlloc_v2(&dptr, bytes));
	return dptr;
}

static inline int launch(struct CUfunc_st *kernel, stream_t stream, void **params)
{
	return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static inline int fill(stream_t stream, uint64_t dptr, uint64_t bytes, unsigned int byte,
		       unsigned int delay_us)
{
	void *params[] = {&dptr, &bytes, &byte, &delay_us};

	return launch(kernel_fill, stream, params);
}

static inline int sleep_on(stream_t stream, unsigned int delay_us)
{
	void *params[] = {&delay_us};

	return launch(kernel_delay, stream, params);
}

static inline stream_t stream_new(unsigned int flags)
{
	stream_t stream = NULL;

	GOOD(cuStreamCreate(&stream, flags));
	return stream;
}

static inline event_t event_new(void)
{
	event_t event = NULL;

	GOOD(cuEventCreate(&event, DISABLE_TIMING));
	return event;
}

/* The first byte, read by the host without any stream's help. */
static inline int byte_at(uint64_t dptr)
{
	return *(volatile unsigned char *)(uintptr_t)dptr;
}

static inline struct fakecuda_ledger ledger(void)
{
	struct fakecuda_ledger now;

	fakecuda_ledger(&now);
	return now;
}

struct behaviour {
	const char *name;
	void (*test)(void);
};

/* The behaviour named on the command line; with --list, their names. */
static inline int run_one(const struct behaviour *all, size_t count, const char *name)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (name == NULL || strcmp(name, "--list") == 0)
			puts(all[i].name);
		else if (strcmp(all[i].name, name) == 0) {
			all[i].test();
			return failures ? 1 : 0;
		}
	}
	return name && strcmp(name, "--list") == 0 ? 0 : 2;
}

#endif
