/* abi.h -- what only tests use of the CUDA Driver API, compared with cuda.h as driver.def is. */
#ifndef GPU_ABI_H
#define GPU_ABI_H

#include "gpu/driver.def"

struct CUgraphNode_st;
struct CUmod_st;
struct CUfunc_st;
struct CUgraphExec_st;

enum {
	MT_CU_ILLEGAL_STATE = 401,
	MT_CU_STREAM_CAPTURE_UNSUPPORTED = 900,
	MT_CU_STREAM_CAPTURE_INVALIDATED = 901,
	MT_CU_STREAM_CAPTURE_WRONG_THREAD = 908
};
enum { MT_CU_CAPTURE_GLOBAL = 0, MT_CU_CAPTURE_THREAD_LOCAL = 1 };
enum { MT_CU_CAPTURE_ACTIVE = 1 };
enum { MT_CU_POINTER_CONTEXT = 1, MT_CU_POINTER_MEMORY_TYPE = 2 };

#endif
