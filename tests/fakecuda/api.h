/* api.h -- the CUDA Driver API as the stand-in declares it, from its own table: for its files, and
 * for tests that link with it. test_cuda_abi.py compares it with a cuda.h where one is installed.
 */
#ifndef FAKE_API_H
#define FAKE_API_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

enum fake_result {
	OK = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	DEINITIALIZED = 4,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	PEER_ACCESS_UNSUPPORTED = 217,
	INVALID_SOURCE = 300,
	FILE_NOT_FOUND = 301,
	INVALID_HANDLE = 400,
	ILLEGAL_STATE = 401,
	NOT_FOUND = 500,
	NOT_READY = 600,
	ILLEGAL_ADDRESS = 700,
	PEER_ACCESS_ALREADY_ENABLED = 704,
	PEER_ACCESS_NOT_ENABLED = 705,
	PRIMARY_CONTEXT_ACTIVE = 708,
	CONTEXT_IS_DESTROYED = 709,
	HOST_MEMORY_ALREADY_REGISTERED = 712,
	HOST_MEMORY_NOT_REGISTERED = 713,
	NOT_PERMITTED = 800,
	NOT_SUPPORTED = 801,
	CAPTURE_UNSUPPORTED = 900,
	CAPTURE_INVALIDATED = 901,
	CAPTURE_MERGE = 902,
	CAPTURE_UNMATCHED = 903,
	CAPTURE_UNJOINED = 904,
	CAPTURE_ISOLATION = 905,
	CAPTURE_IMPLICIT = 906,
	CAPTURED_EVENT = 907,
	CAPTURE_WRONG_THREAD = 908
};

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;
struct CUmod_st;
struct CUfunc_st;
struct CUlib_st;
struct CUkern_st;
struct CUlinkState_st;
struct CUarray_st;
struct CUmipmappedArray_st;
struct CUmemPoolHandle_st;
struct CUgreenCtx_st;
struct CUextMemory_st;

struct CUdevResourceDesc_st;

struct fake_uuid {
	char bytes[16];
};
struct fake_array_desc {
	size_t width, height;
	int format;
	unsigned int channels;
};
struct fake_array3d_desc {
	size_t width, height, depth;
	int format;
	unsigned int channels, flags;
};
struct fake_ipc_handle {
	char bytes[64];
};
struct fake_location {
	int type, id;
};
struct fake_allocation_prop {
	int type, handle_types;
	struct fake_location location;
	void *win32;
	struct {
		unsigned char compression, rdma;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
};
struct fake_access {
	struct fake_location location;
	int flags; /* 1: read, 3: read and write */
};
struct fake_pool_props {
	int type, handle_types;
	struct fake_location location;
	void *win32;
	size_t max_bytes;
	unsigned short usage;
	unsigned char reserved[54];
};
struct fake_resource {
	int type; /* 1: multiprocessors */
	unsigned char padding[92];
	unsigned int count, least, aligned;
	unsigned char rest[36];
};
struct fake_copy2d {
	size_t src_x, src_y;
	int src_type; /* 1: host, 2: device, 3: array, 4: unified */
	const void *src_host;
	uint64_t src_device;
	struct CUarray_st *src_array;
	size_t src_pitch;
	size_t dst_x, dst_y;
	int dst_type;
	void *dst_host;
	uint64_t dst_device;
	struct CUarray_st *dst_array;
	size_t dst_pitch;
	size_t width, height;
};

#include "functions.def"

#ifndef FAKE_API_TYPES_ONLY
#define N(symbol, base, since, needs, parameters) FAKE_EXPORT int symbol parameters;
#define Z(symbol, base, since, needs, parameters)                                                  \
	FAKE_EXPORT int symbol parameters;                                                         \
	FAKE_EXPORT int symbol##_ptsz parameters;
#define D(symbol, base, since, needs, parameters)                                                  \
	FAKE_EXPORT int symbol parameters;                                                         \
	FAKE_EXPORT int symbol##_ptds parameters;
FAKE_FUNCTIONS(N, Z, D)
#undef N
#undef Z
#undef D
#endif

#endif
