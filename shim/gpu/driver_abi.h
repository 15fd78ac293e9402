/* gpu/driver_abi.h -- the part of the CUDA Driver API's binary interface that the shim calls or
 * wraps, declared again so that the build needs no CUDA header. Tags and values are those of cuda.h
 * (13.0); a test compares them if that is installed. Every function of the driver returns an
 * int: an enum mt_cu_result, or an unknown code that is handed on. A device pointer is 64 bits wide
 * on every platform that we build for. */
#ifndef MT_GPU_DRIVER_ABI_H
#define MT_GPU_DRIVER_ABI_H

#include <stddef.h>
#include <stdint.h>

enum mt_cu_result {
	MT_CU_SUCCESS = 0,
	MT_CU_INVALID_VALUE = 1,
	MT_CU_OUT_OF_MEMORY = 2,
	MT_CU_NOT_INITIALIZED = 3,
	MT_CU_DEINITIALIZED = 4,
	MT_CU_INVALID_CONTEXT = 201,
	MT_CU_PEER_ACCESS_ALREADY_ENABLED = 704,
	MT_CU_CONTEXT_IS_DESTROYED = 709,
	MT_CU_NOT_FOUND = 500,
	MT_CU_NOT_READY = 600,
	MT_CU_ILLEGAL_ADDRESS = 700,
	MT_CU_NOT_PERMITTED = 800, /* in a host function, on a thread of the driver */
	MT_CU_NOT_SUPPORTED = 801
};

/* Opaque to the shim. */
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgreenCtx_st;
struct CUmemPoolHandle_st;
struct CUarray_st;
struct CUmipmappedArray_st;

enum mt_cu_capture_mode { MT_CU_CAPTURE_RELAXED = 2 };
enum mt_cu_capture_status { MT_CU_CAPTURE_NONE = 0 };
enum mt_cu_event_flags { MT_CU_EVENT_DISABLE_TIMING = 2 };
enum mt_cu_stream_flags { MT_CU_STREAM_NON_BLOCKING = 1 };

enum mt_cu_pointer_attribute {
	MT_CU_POINTER_P2P_TOKENS = 5,
	MT_CU_POINTER_SYNC_MEMOPS = 6,
	MT_CU_POINTER_DEVICE_ORDINAL = 9,
	MT_CU_POINTER_RANGE_START_ADDR = 11,
	MT_CU_POINTER_RANGE_SIZE = 12,
	MT_CU_POINTER_MAPPING_SIZE = 18
};

/* Of the default pools; uint64_t. */
enum mt_cu_mempool_attribute { MT_CU_MEMPOOL_RESERVED_MEM_CURRENT = 5 };
enum mt_cu_graph_mem_attribute { MT_CU_GRAPH_MEM_RESERVED_MEM_CURRENT = 2 };

enum mt_cu_device_attribute {
	MT_CU_DEVICE_PCI_BUS_ID = 33,
	MT_CU_DEVICE_PCI_DEVICE_ID = 34,
	MT_CU_DEVICE_PCI_DOMAIN_ID = 50
};

enum mt_cu_location_type { MT_CU_LOCATION_DEVICE = 1 };
struct mt_cu_location {
	int type; /* of a device, id is its ordinal */
	int id;
};

/* CUmemAllocationProp: the shim reads the location only. */
struct mt_cu_allocation_prop {
	int type;
	int requested_handle_types;
	struct mt_cu_location location;
	void *win32_handle_metadata;
	unsigned char flags[8];
};

/* CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR: read to know the bytes of an array. */
struct mt_cu_array_descriptor {
	size_t width;
	size_t height;
	int format;
	unsigned int channels;
};
struct mt_cu_array3d_descriptor {
	size_t width;
	size_t height;
	size_t depth;
	int format;
	unsigned int channels;
	unsigned int flags;
};

struct mt_cu_ipc_handle {
	char reserved[64];
};

#endif
