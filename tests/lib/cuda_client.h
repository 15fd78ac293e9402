/* cuda_client.h -- a CUDA program's view of the driver: the functions it uses, reached by one of
 * the roads that real programs take. Declared again, so that no CUDA header is needed. Every
 * function may be missing (an older driver): test before use.
 *
 * Roads: `linked` (only where compiled with -DROAD_LINKED and -lcuda), and by dlopen: `local`,
 * `lazy`, `global`, `deepbind`, `path` (an absolute path, from CUDA_CLIENT_PATH), `next` (each name
 * asked twice), `version` (by dlvsym first, which libcuda has no versions for, then by dlsym),
 * `proc` (one dlsym, all else by cuGetProcAddress_v2, as the runtime does it), `proc_old`
 * (cuGetProcAddress of 11.x, four arguments). */
#ifndef CUDA_CLIENT_H
#define CUDA_CLIENT_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For programs that are tests: a call of the driver that must succeed, else exit 1; what else must
 * hold, else exit 4. */
#define OK(call)                                                                                   \
	do {                                                                                       \
		int ok_ = (call);                                                                  \
                                                                                                   \
		if (ok_ != 0) {                                                                    \
			printf("line %d: %s: %d\n", __LINE__, #call, ok_);                         \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("line %d: not %s\n", __LINE__, #condition);                         \
			exit(4);                                                                   \
		}                                                                                  \
	} while (0)

struct cuda_location {
	int type;
	int id;
};

/* CUmemAllocationProp. */
struct cuda_allocation_prop {
	int type;
	int handle_types;
	struct cuda_location location;
	void *win32;
	unsigned char flags[8];
};

/* CUmemAccessDesc. */
struct cuda_access {
	struct cuda_location location;
	int flags;
};

struct cuda_array {
	size_t width;
	size_t height;
	int format;
	unsigned int channels;
};

struct cuda_ipc {
	char bytes[64];
};

/* cuCtxCreate has other parameters from 11.4 on, and those of now are had by asking for an old
 * version. */
#define CUDA_CLIENT_OLD (1u << 16)

/* Columns: symbol of libcuda.so.1, name for cuGetProcAddress, its flags (2: the per-thread default
 * stream; CUDA_CLIENT_OLD), parameters. */
#define CUDA_CLIENT(X)                                                                             \
	X(cuInit, "cuInit", 0, (unsigned int flags))                                               \
	X(cuDriverGetVersion, "cuDriverGetVersion", 0, (int *version))                             \
	X(cuGetErrorName, "cuGetErrorName", 0, (int error, const char **name))                     \
	X(cuDeviceGet, "cuDeviceGet", 0, (int *device, int ordinal))                               \
	X(cuDeviceGetCount, "cuDeviceGetCount", 0, (int *count))                                   \
	X(cuDeviceGetName, "cuDeviceGetName", 0, (char *name, int bytes, int device))              \
	X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 0, (size_t * bytes, int device))                \
	X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 0, (void **context, int device))   \
	X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 0, (int device))              \
	X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 0, (int device))                  \
	X(cuCtxCreate_v2, "cuCtxCreate", CUDA_CLIENT_OLD,                                          \
	  (void **context, unsigned int flags, int device))                                        \
	X(cuGLCtxCreate_v2, "cuGLCtxCreate", 0, (void **context, unsigned int flags, int device))  \
	X(cuVDPAUCtxCreate_v2, "cuVDPAUCtxCreate", 0,                                              \
	  (void **context, unsigned int flags, int device, uint32_t vdpau, void *get_address))     \
	X(cuCtxDestroy_v2, "cuCtxDestroy", 0, (void *context))                                     \
	X(cuCtxAttach, "cuCtxAttach", 0, (void **context, unsigned int flags))                     \
	X(cuCtxDetach, "cuCtxDetach", 0, (void *context))                                          \
	X(cuCtxSetCurrent, "cuCtxSetCurrent", 0, (void *context))                                  \
	X(cuCtxGetCurrent, "cuCtxGetCurrent", 0, (void **context))                                 \
	X(cuCtxPushCurrent_v2, "cuCtxPushCurrent", 0, (void *context))                             \
	X(cuCtxPopCurrent_v2, "cuCtxPopCurrent", 0, (void **context))                              \
	X(cuCtxSynchronize, "cuCtxSynchronize", 0, (void))                                         \
	X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 0, (void *peer, unsigned int flags))     \
	X(cuMemAlloc_v2, "cuMemAlloc", 0, (uint64_t * dptr, size_t bytes))                         \
	X(cuMemFree_v2, "cuMemFree", 0, (uint64_t dptr))                                           \
	X(cuMemGetInfo_v2, "cuMemGetInfo", 0, (size_t * free_bytes, size_t * total_bytes))         \
	X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 0,                                      \
	  (uint64_t * base, size_t * bytes, uint64_t dptr))                                        \
	X(cuPointerGetAttribute, "cuPointerGetAttribute", 0,                                       \
	  (void *data, int attribute, uint64_t dptr))                                              \
	X(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 0, (uint64_t to, const void *from, size_t bytes))       \
	X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 0, (void *to, uint64_t from, size_t bytes))             \
	X(cuMemcpyHtoD_v2_ptds, "cuMemcpyHtoD", 2, (uint64_t to, const void *from, size_t bytes))  \
	X(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 0,                                               \
	  (uint64_t to, void *to_context, uint64_t from, void *from_context, size_t bytes,         \
	   void *stream))                                                                          \
	X(cuMemsetD8_v2, "cuMemsetD8", 0, (uint64_t dptr, unsigned char value, size_t bytes))      \
	X(cuMemsetD8Async, "cuMemsetD8Async", 0,                                                   \
	  (uint64_t dptr, unsigned char value, size_t bytes, void *stream))                        \
	X(cuMemsetD8Async_ptsz, "cuMemsetD8Async", 2,                                              \
	  (uint64_t dptr, unsigned char value, size_t bytes, void *stream))                        \
	X(cuMemAllocPitch_v2, "cuMemAllocPitch", 0,                                                \
	  (uint64_t * dptr, size_t * pitch, size_t width, size_t height,                           \
	   unsigned int element_bytes))                                                            \
	X(cuMemAllocManaged, "cuMemAllocManaged", 0,                                               \
	  (uint64_t * dptr, size_t bytes, unsigned int flags))                                     \
	X(cuMemAllocAsync, "cuMemAllocAsync", 0, (uint64_t * dptr, size_t bytes, void *stream))    \
	X(cuMemFreeAsync, "cuMemFreeAsync", 0, (uint64_t dptr, void *stream))                      \
	X(cuMemHostAlloc, "cuMemHostAlloc", 0, (void **ptr, size_t bytes, unsigned int flags))     \
	X(cuMemFreeHost, "cuMemFreeHost", 0, (void *ptr))                                          \
	X(cuMemHostRegister_v2, "cuMemHostRegister", 0,                                            \
	  (void *ptr, size_t bytes, unsigned int flags))                                           \
	X(cuMemHostUnregister, "cuMemHostUnregister", 0, (void *ptr))                              \
	X(cuArrayCreate_v2, "cuArrayCreate", 0,                                                    \
	  (void **array, const struct cuda_array *description))                                    \
	X(cuArrayDestroy, "cuArrayDestroy", 0, (void *array))                                      \
	X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 0,                       \
	  (size_t * bytes, const struct cuda_allocation_prop *prop, int option))                   \
	X(cuMemCreate, "cuMemCreate", 0,                                                           \
	  (unsigned long long *handle, size_t bytes, const struct cuda_allocation_prop *prop,      \
	   unsigned long long flags))                                                              \
	X(cuMemRelease, "cuMemRelease", 0, (unsigned long long handle))                            \
	X(cuMemAddressReserve, "cuMemAddressReserve", 0,                                           \
	  (uint64_t * dptr, size_t bytes, size_t alignment, uint64_t address,                      \
	   unsigned long long flags))                                                              \
	X(cuMemAddressFree, "cuMemAddressFree", 0, (uint64_t dptr, size_t bytes))                  \
	X(cuMemMap, "cuMemMap", 0,                                                                 \
	  (uint64_t dptr, size_t bytes, size_t offset, unsigned long long handle,                  \
	   unsigned long long flags))                                                              \
	X(cuMemUnmap, "cuMemUnmap", 0, (uint64_t dptr, size_t bytes))                              \
	X(cuMemSetAccess, "cuMemSetAccess", 0,                                                     \
	  (uint64_t dptr, size_t bytes, const struct cuda_access *access, size_t count))           \
	X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 0, (struct cuda_ipc * handle, uint64_t dptr))    \
	X(cuStreamCreate, "cuStreamCreate", 0, (void **stream, unsigned int flags))                \
	X(cuStreamDestroy_v2, "cuStreamDestroy", 0, (void *stream))                                \
	X(cuStreamSynchronize, "cuStreamSynchronize", 0, (void *stream))                           \
	X(cuStreamSynchronize_ptsz, "cuStreamSynchronize", 2, (void *stream))                      \
	X(cuStreamWaitEvent, "cuStreamWaitEvent", 0,                                               \
	  (void *stream, void *event, unsigned int flags))                                         \
	X(cuModuleLoadData, "cuModuleLoadData", 0, (void **module, const void *image))             \
	X(cuModuleGetFunction, "cuModuleGetFunction", 0,                                           \
	  (void **function, void *module, const char *name))                                       \
	X(cuLaunchKernel, "cuLaunchKernel", 0,                                                     \
	  (void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,          \
	   unsigned int block_x, unsigned int block_y, unsigned int block_z,                       \
	   unsigned int shared_bytes, void *stream, void **parameters, void **extra))              \
	X(cuLaunchHostFunc, "cuLaunchHostFunc", 0,                                                 \
	  (void *stream, void (*function)(void *), void *argument))                                \
	X(cuLaunchHostFunc_ptsz, "cuLaunchHostFunc", 2,                                            \
	  (void *stream, void (*function)(void *), void *argument))                                \
	X(cuEventCreate, "cuEventCreate", 0, (void **event, unsigned int flags))                   \
	X(cuEventRecord, "cuEventRecord", 0, (void *event, void *stream))                          \
	X(cuEventQuery, "cuEventQuery", 0, (void *event))                                          \
	X(cuEventSynchronize, "cuEventSynchronize", 0, (void *event))                              \
	X(cuEventDestroy_v2, "cuEventDestroy", 0, (void *event))                                   \
	X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 0, (void *stream, int mode))            \
	X(cuStreamEndCapture, "cuStreamEndCapture", 0, (void *stream, void **graph))               \
	X(cuStreamIsCapturing, "cuStreamIsCapturing", 0, (void *stream, int *status))              \
	X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 0,                           \
	  (void **executable, void *graph, unsigned long long flags))                              \
	X(cuGraphLaunch, "cuGraphLaunch", 0, (void *executable, void *stream))                     \
	X(cuGraphExecDestroy, "cuGraphExecDestroy", 0, (void *executable))                         \
	X(cuGraphDestroy, "cuGraphDestroy", 0, (void *graph))

struct cuda_client {
#define X(symbol, name, flags, parameters) int(*symbol) parameters;
	CUDA_CLIENT(X)
#undef X
};

static struct cuda_client cu;

#ifdef ROAD_LINKED
#define X(symbol, name, flags, parameters) extern __attribute__((weak)) int symbol parameters;
CUDA_CLIENT(X)
#undef X

static void cuda_client_linked(void)
{
#define X(symbol, name, flags, parameters) cu.symbol = symbol;
	CUDA_CLIENT(X)
#undef X
}
#endif

static inline void *cuda_client_open(const char *road)
{
	const char *path = getenv("CUDA_CLIENT_PATH");
	int flags = RTLD_NOW | (strcmp(road, "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL);

	if (strcmp(road, "deepbind") == 0)
		flags |= RTLD_DEEPBIND;
	if (strcmp(road, "lazy") == 0)
		flags = RTLD_LAZY;
	void *handle =
		dlopen(path != NULL && strcmp(road, "path") == 0 ? path : "libcuda.so.1", flags);
	if (handle == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	return handle;
}

static inline void *cuda_client_look_up(void *handle, const char *symbol, const char *road)
{
	if (strcmp(road, "next") == 0)
		(void)dlsym(handle, symbol);
	void *found = strcmp(road, "version") == 0 ? dlvsym(handle, symbol, "CUDA_11") : NULL;
	if (found == NULL)
		found = dlsym(handle, symbol);
	if (found == NULL && strcmp(road, "global") == 0)
		found = dlsym(RTLD_DEFAULT, symbol);
	(void)dlerror();
	return found;
}

typedef int cuda_proc_old(const char *name, void **function, int version, uint64_t flags);
typedef int cuda_proc_new(const char *name, void **function, int version, uint64_t flags,
			  int *status);

static inline void *cuda_client_ask(void *handle, const char *name, int version, uint64_t flags)
{
	static cuda_proc_new *ask;
	void *found = NULL;

	version = flags & CUDA_CLIENT_OLD ? 3020 : version;
	if (ask == NULL) {
		cuda_proc_new *first = (cuda_proc_new *)dlsym(handle, "cuGetProcAddress_v2");
		/* The runtime asks it for itself, and uses that answer from then on. */
		if (first == NULL || first("cuGetProcAddress", (void **)&ask, 12000, 0, NULL) != 0)
			return NULL;
	}
	return ask(name, &found, version, flags & 2, NULL) == 0 ? found : NULL;
}

static inline void *cuda_client_ask_old(void *handle, const char *name, int version, uint64_t flags)
{
	cuda_proc_old *ask = (cuda_proc_old *)dlsym(handle, "cuGetProcAddress");
	void *found = NULL;

	version = flags & CUDA_CLIENT_OLD ? 3020 : version;
	return ask != NULL && ask(name, &found, version, flags & 2) == 0 ? found : NULL;
}

/* Fills `cu` by the road; 0, or 1 where the driver has no such road. */
static int cuda_client_start(const char *road)
{
#ifdef ROAD_LINKED
	(void)road;
	(void)cuda_client_open;
	cuda_client_linked();
	return 0;
#else
	void *handle = cuda_client_open(road);

	if (strcmp(road, "proc") == 0) {
#define X(symbol, name, flags, parameters)                                                         \
	*(void **)&cu.symbol = cuda_client_ask(handle, name, 12000, flags);
		CUDA_CLIENT(X)
#undef X
	} else if (strcmp(road, "proc_old") == 0) {
#define X(symbol, name, flags, parameters)                                                         \
	*(void **)&cu.symbol = cuda_client_ask_old(handle, name, 11080, flags);
		CUDA_CLIENT(X)
#undef X
	} else {
#define X(symbol, name, flags, parameters)                                                         \
	*(void **)&cu.symbol = cuda_client_look_up(handle, #symbol, road);
		CUDA_CLIENT(X)
#undef X
	}
	return cu.cuInit == NULL;
#endif
}

#endif
