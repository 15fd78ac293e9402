/* gpu/entries_retry.c -- the driver's functions that may take device memory without being asked for
 * any: code, streams, events, graphs, stacks. Each is the driver's own. Only where that is out of
 * memory it is made again while the pool gives back (mt_shortage_begin). The first call pays one
 * compare for it. Each ABI version and each per-thread twin is a wrapper of its own, with the
 * driver's own arguments. */
#include "gpu/entries_work.h"

/* Columns: function, parameters, arguments, device (-1: the current one). */
#define RETRIED(X)                                                                                 \
	X(cuModuleLoad, (struct CUmod_st * *module, const char *path), (module, path), -1)         \
	X(cuModuleLoadData, (struct CUmod_st * *module, const void *image), (module, image), -1)   \
	X(cuModuleLoadDataEx,                                                                      \
	  (struct CUmod_st * *module, const void *image, unsigned int count, int *options,         \
	   void **values),                                                                         \
	  (module, image, count, options, values), -1)                                             \
	X(cuModuleLoadFatBinary, (struct CUmod_st * *module, const void *image), (module, image),  \
	  -1)                                                                                      \
	X(cuLibraryLoadData,                                                                       \
	  (struct CUlib_st * *library, const void *code, int *jit, void **jit_values,              \
	   unsigned int jit_count, int *options, void **values, unsigned int count),               \
	  (library, code, jit, jit_values, jit_count, options, values, count), -1)                 \
	X(cuLibraryLoadFromFile,                                                                   \
	  (struct CUlib_st * *library, const char *path, int *jit, void **jit_values,              \
	   unsigned int jit_count, int *options, void **values, unsigned int count),               \
	  (library, path, jit, jit_values, jit_count, options, values, count), -1)                 \
	X(cuLinkComplete, (struct CUlinkState_st * state, void **cubin, size_t *bytes),            \
	  (state, cubin, bytes), -1)                                                               \
	X(cuGraphInstantiate,                                                                      \
	  (struct CUgraphExec_st * *exec, struct CUgraph_st * graph,                               \
	   struct CUgraphNode_st * *node, char *log, size_t bytes),                                \
	  (exec, graph, node, log, bytes), -1)                                                     \
	X(cuGraphInstantiate_v2,                                                                   \
	  (struct CUgraphExec_st * *exec, struct CUgraph_st * graph,                               \
	   struct CUgraphNode_st * *node, char *log, size_t bytes),                                \
	  (exec, graph, node, log, bytes), -1)                                                     \
	X(cuGraphInstantiateWithFlags,                                                             \
	  (struct CUgraphExec_st * *exec, struct CUgraph_st * graph, unsigned long long flags),    \
	  (exec, graph, flags), -1)                                                                \
	X(cuGraphInstantiateWithParams,                                                            \
	  (struct CUgraphExec_st * *exec, struct CUgraph_st * graph, void *parameters),            \
	  (exec, graph, parameters), -1)                                                           \
	X(cuGraphInstantiateWithParams_ptsz,                                                       \
	  (struct CUgraphExec_st * *exec, struct CUgraph_st * graph, void *parameters),            \
	  (exec, graph, parameters), -1)                                                           \
	X(cuGraphUpload, (struct CUgraphExec_st * exec, struct CUstream_st * stream),              \
	  (exec, stream), -1)                                                                      \
	X(cuGraphUpload_ptsz, (struct CUgraphExec_st * exec, struct CUstream_st * stream),         \
	  (exec, stream), -1)                                                                      \
	X(cuLaunchKernel,                                                                          \
	  (struct CUfunc_st * function, unsigned int grid_x, unsigned int grid_y,                  \
	   unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,  \
	   unsigned int shared_bytes, struct CUstream_st *stream, void **parameters,               \
	   void **extra),                                                                          \
	  (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,      \
	   parameters, extra),                                                                     \
	  -1)                                                                                      \
	X(cuLaunchKernel_ptsz,                                                                     \
	  (struct CUfunc_st * function, unsigned int grid_x, unsigned int grid_y,                  \
	   unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,  \
	   unsigned int shared_bytes, struct CUstream_st *stream, void **parameters,               \
	   void **extra),                                                                          \
	  (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,      \
	   parameters, extra),                                                                     \
	  -1)                                                                                      \
	X(cuLaunchKernelEx,                                                                        \
	  (const void *config, struct CUfunc_st *function, void **parameters, void **extra),       \
	  (config, function, parameters, extra), -1)                                               \
	X(cuLaunchKernelEx_ptsz,                                                                   \
	  (const void *config, struct CUfunc_st *function, void **parameters, void **extra),       \
	  (config, function, parameters, extra), -1)                                               \
	X(cuLaunchCooperativeKernel,                                                               \
	  (struct CUfunc_st * function, unsigned int grid_x, unsigned int grid_y,                  \
	   unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,  \
	   unsigned int shared_bytes, struct CUstream_st *stream, void **parameters),              \
	  (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,      \
	   parameters),                                                                            \
	  -1)                                                                                      \
	X(cuLaunchCooperativeKernel_ptsz,                                                          \
	  (struct CUfunc_st * function, unsigned int grid_x, unsigned int grid_y,                  \
	   unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,  \
	   unsigned int shared_bytes, struct CUstream_st *stream, void **parameters),              \
	  (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,      \
	   parameters),                                                                            \
	  -1)                                                                                      \
	X(cuStreamCreate, (struct CUstream_st * *stream, unsigned int flags), (stream, flags), -1) \
	X(cuStreamCreateWithPriority,                                                              \
	  (struct CUstream_st * *stream, unsigned int flags, int priority),                        \
	  (stream, flags, priority), -1)                                                           \
	X(cuEventCreate, (struct CUevent_st * *event, unsigned int flags), (event, flags), -1)     \
	X(cuCtxSetLimit, (int limit, size_t value), (limit, value), -1)                            \
	X(cuMemPoolCreate, (struct CUmemPoolHandle_st * *pool, const void *properties),            \
	  (pool, properties), -1)

/* Apart from the wrappers, which stay as short as the call. */
#define X(name, parameters, arguments, device_)                                                    \
	static MT_COLD int again_##name parameters                                                 \
	{                                                                                          \
		int kept_errno = errno;                                                            \
		int result = mt_cuda_is_on()                                                       \
				     ? mt_cuda_retry(device_, 0, name, MT_ARGUMENTS arguments)     \
				     : MT_CU_OUT_OF_MEMORY;                                        \
                                                                                                   \
		errno = kept_errno;                                                                \
		return result;                                                                     \
	}                                                                                          \
	int name parameters                                                                        \
	{                                                                                          \
		int result = mt_cuda_call(name, MT_ARGUMENTS arguments);                           \
                                                                                                   \
		return mt_likely(result != MT_CU_OUT_OF_MEMORY) ? result : again_##name arguments; \
	}
#define MT_ARGUMENTS(...) __VA_ARGS__
RETRIED(X)
