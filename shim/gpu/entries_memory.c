/* gpu/entries_memory.c -- what allocates and frees memory, and questions about it. The pool serves
 * cuMemAlloc and cuMemFree. All else is the driver's: recorded by kind, and tried again while the
 * pool gives back if the driver is out of memory. */
#include "gpu/wrapper.h"

#include "gpu/capture.h"
#include "gpu/oom.h"
#include "gpu/unpooled.h"
#include "sys/atomic.h"

#define ARGUMENTS(...) __VA_ARGS__

/* ---- devices ---- */

/* Most machines have one device: then there is no need to ask at every call. */
bool mt_entries_has_one_device(void)
{
	static _Atomic int known; /* devices, 0 while unknown; counter, no ordering */
	int count = mt_load_relaxed(&known);

	if (mt_unlikely(count == 0) && mt_wrapper_call(cuDeviceGetCount, &count) == MT_CU_SUCCESS)
		mt_store_relaxed(&known, count);
	return count == 1;
}

int mt_entries_current_device(void)
{
	int device = 0;

	if (mt_entries_has_one_device() ||
	    mt_wrapper_call(cuCtxGetDevice, &device) != MT_CU_SUCCESS)
		return 0;
	return device;
}

int mt_entries_device_of(uint64_t dptr)
{
	int device = 0;

	if (mt_entries_has_one_device())
		return 0;
	if (mt_wrapper_call(cuPointerGetAttribute, &device, MT_CU_POINTER_DEVICE_ORDINAL, dptr) ==
		    MT_CU_SUCCESS &&
	    device >= 0)
		return device;
	return mt_entries_current_device();
}

/* ---- what wrappers begin and end with ---- */

/* Returns a record for what the driver is about to allocate; NULL: it goes unrecorded. */
static struct mt_unpooled_record *begin(void)
{
	mt_context_register(); /* its work may use the pool's blocks, even if it has none */
	return mt_unpooled_reserve();
}

static MT_COLD void report(const char *function, int result, uint64_t bytes, int device)
{
	size_t free_bytes = 0;
	size_t total_bytes = 0;

	if (device < 0)
		device = mt_entries_current_device();
	if (result == MT_CU_SUCCESS)
		mt_oom_note_success(bytes, device);
	if (result != MT_CU_OUT_OF_MEMORY)
		return;
	if (!mt_capture_is_open() &&
	    mt_wrapper_call(cuMemGetInfo_v2, &free_bytes, &total_bytes) != MT_CU_SUCCESS)
		free_bytes = total_bytes = 0;
	mt_oom_note(function, bytes, device, free_bytes, total_bytes);
}

/* Before the program sees the result: an out-of-memory error is reported with the device's figures
 * (-1: the current device); a success may end a pending one. */
static void note(const char *function, int result, uint64_t bytes, int device)
{
	if (mt_unlikely(result == MT_CU_OUT_OF_MEMORY || mt_oom_is_pending()))
		report(function, result, bytes, device);
}

/* What the driver has allocated by one call. */
struct made {
	const char *function;
	bool is_node;
	uint64_t asked_bytes;  /* of the device's memory; 0: unknown, or none */
	struct mt_unpooled is; /* its device: that was named; -1: the current one */
};

/* Fills in device and context. Memory that stays when its context ends has none. */
static struct mt_unpooled complete(struct mt_unpooled is)
{
	bool outlives = is.kind == MT_UNPOOLED_async || is.kind == MT_UNPOOLED_vmm;
	struct CUctx_st *context = NULL;

	if (!outlives && mt_wrapper_call(cuCtxGetCurrent, &context) == MT_CU_SUCCESS)
		is.context = (uint64_t)(uintptr_t)context;
	if (is.device < 0)
		is.device = mt_entries_device_of(is.key);
	return is;
}

static int end(struct mt_unpooled_record *record, int result, const struct made *made)
{
	if (made->is.kind == MT_UNPOOLED_pinned && result == MT_CU_OUT_OF_MEMORY)
		mt_pool_note_ooms(mt_entries_current_device(), 1);
	else if (made->is.kind == MT_UNPOOLED_imported && result == MT_CU_OUT_OF_MEMORY)
		report(made->function, result, 0, -1);
	else if (made->is.kind < MT_UNPOOLED_pinned && !made->is_node)
		note(made->function, result, made->asked_bytes, made->is.device);
	if (record && result == MT_CU_SUCCESS && !made->is_node) {
		record->is = complete(made->is);
		mt_unpooled_add(record);
	} else if (record) {
		mt_unpooled_cancel(record);
	}
	return result;
}

/* After the driver's free. taken: the record from before it; NULL: none. */
static int end_free(int result, struct mt_unpooled_record *taken)
{
	if (taken && result != MT_CU_SUCCESS)
		mt_unpooled_add(taken);
	else if (taken)
		mt_unpooled_cancel(taken);
	return result;
}

/* ---- cuMemAlloc and cuMemFree ---- */

int cuMemAlloc_v2(uint64_t *dptr, size_t bytes)
{
	MT_WRAPPER_KEEP_ERRNO;
	int result;

	if (mt_unlikely(!mt_wrapper_is_on()))
		return mt_wrapper_call(cuMemAlloc_v2, dptr, bytes);
	result = mt_pool_alloc(dptr, bytes);
	/* the pool has tried again already */
	note("cuMemAlloc", result, bytes, -1);
	return result;
}

int cuMemFree_v2(uint64_t dptr)
{
	MT_WRAPPER_KEEP_ERRNO;
	struct mt_unpooled_record *taken;
	int result;

	if (mt_unlikely(!mt_wrapper_is_on()))
		return mt_wrapper_call(cuMemFree_v2, dptr);
	if (mt_likely(mt_pool_free(dptr, &result)))
		return result;
	/* managed, pitched and async memory may be freed by this too */
	taken = mt_unpooled_take(MT_UNPOOLED_direct, dptr);
	return end_free(mt_wrapper_call(cuMemFree_v2, dptr), taken);
}

/* ---- arrays. The size follows from the description: the driver does not tell it before 12.x, and
 * rounds by rules of its own. So the size is a lower bound. ---- */

/* Source: cuda.h, CUDA_ARRAY3D_*. */
#define SPARSE           0x40u
#define DEFERRED_MAPPING 0x80u

/* Bits of a channel by CUarray_format. Compressed and planar formats, those of graphics and video,
 * count as 0 bytes. */
static uint64_t bits_of(int format, unsigned int channels)
{
	static const unsigned char bits[0x21] = {
		[0x01] = 8,  [0x02] = 16, [0x03] = 32, [0x08] = 8,
		[0x09] = 16, [0x0a] = 32, [0x10] = 16, [0x20] = 32};

	return (unsigned int)format < sizeof(bits) ? (uint64_t)bits[format] * channels : 0;
}

/* An extent of 0: the array lacks this dimension. */
static uint64_t extent(uint64_t elements)
{
	return elements ? elements : 1;
}

/* Returns the bytes; 0 for an unknown format. */
static uint64_t array_bytes(const struct mt_cu_array_descriptor *descriptor)
{
	return extent(descriptor->width) * extent(descriptor->height) *
	       bits_of(descriptor->format, descriptor->channels) / 8;
}

/* Of a mipmapped array the first level, three quarters of it or more. 0 also for an array without
 * memory of its own (sparse, deferred mapping). */
static uint64_t array3d_bytes(const struct mt_cu_array3d_descriptor *descriptor)
{
	if (descriptor->flags & (SPARSE | DEFERRED_MAPPING))
		return 0;
	return extent(descriptor->width) * extent(descriptor->height) * extent(descriptor->depth) *
	       bits_of(descriptor->format, descriptor->channels) / 8;
}

/* ---- what else the driver allocates and frees ---- */

/* A capture allocates a node of its graph, with memory only while the graph runs. The query has no
 * effect on the capture; the legacy stream cannot capture. */
static bool is_capturing(struct CUstream_st *stream, bool is_ptsz)
{
	int status = MT_CU_CAPTURE_NONE;

	if (!mt_capture_is_open() || (!stream && !is_ptsz))
		return false;
	if (is_ptsz)
		(void)mt_wrapper_call(cuStreamIsCapturing_ptsz, stream, &status);
	else
		(void)mt_wrapper_call(cuStreamIsCapturing, stream, &status);
	return status != MT_CU_CAPTURE_NONE;
}

/* Of memory of another process. */
static uint64_t range_bytes(uint64_t dptr)
{
	uint64_t base = 0;
	size_t bytes = 0;

	return mt_wrapper_call(cuMemGetAddressRange_v2, &base, &bytes, dptr) == MT_CU_SUCCESS
		       ? bytes
		       : 0;
}

#define X(symbol, parameters, version, arguments, text, of_kind, is_valid, on_device, asked,       \
	  its_key, its_bytes, is_of_graph)                                                         \
	int symbol parameters                                                                      \
	{                                                                                          \
		MT_WRAPPER_KEEP_ERRNO;                                                             \
		struct made made = {.function = #text, .is.kind = MT_UNPOOLED_##of_kind};          \
		struct mt_unpooled_record *record;                                                 \
		int result;                                                                        \
                                                                                                   \
		if (!mt_wrapper_is_on() || !(is_valid))                                            \
			return mt_wrapper_call(symbol, ARGUMENTS arguments);                       \
		made.is.device = on_device;                                                        \
		made.asked_bytes = asked;                                                          \
		record = begin();                                                                  \
		result = mt_wrapper_try(made.is.device, made.asked_bytes, symbol,                  \
					ARGUMENTS arguments);                                      \
		if (result == MT_CU_SUCCESS) {                                                     \
			made.is.key = (uint64_t)(uintptr_t)(its_key);                              \
			made.is.bytes = its_bytes;                                                 \
			made.is_node = is_of_graph;                                                \
		}                                                                                  \
		return end(record, result, &made);                                                 \
	}
MT_DRIVER_ALLOCATIONS(X)
#undef X

#define X(symbol, parameters, version, arguments, kind)                                            \
	int symbol parameters                                                                      \
	{                                                                                          \
		MT_WRAPPER_KEEP_ERRNO;                                                             \
		struct mt_unpooled_record *taken;                                                  \
                                                                                                   \
		if (!mt_wrapper_is_on())                                                           \
			return mt_wrapper_call(symbol, freed);                                     \
		taken = mt_unpooled_take(MT_UNPOOLED_##kind, (uint64_t)(uintptr_t)freed);          \
		return end_free(mt_wrapper_try(-1, 0, symbol, freed), taken);                      \
	}
MT_DRIVER_FREES(X)
#undef X

/* The driver also frees memory of cuMemAlloc in stream order: a block of the pool is the driver's
 * from here on. *out_taken: its record for end_free. Returns false for a block that the
 * program has freed already. */
static bool before_free_async(uint64_t dptr, struct mt_unpooled_record **out_taken)
{
	size_t bytes = 0;
	bool is_cached = false;

	if (mt_pool_range(dptr, &bytes, &is_cached)) {
		if (is_cached || !mt_pool_disown(dptr))
			return false;
		*out_taken = mt_unpooled_reserve();
		if (*out_taken)
			(*out_taken)->is = complete((struct mt_unpooled){.device = -1,
									 .kind = MT_UNPOOLED_direct,
									 .key = dptr,
									 .bytes = bytes});
		return true;
	}
	*out_taken = mt_unpooled_take(MT_UNPOOLED_async, dptr);
	return true;
}

#define X(name)                                                                                    \
	int name(uint64_t dptr, struct CUstream_st *stream)                                        \
	{                                                                                          \
		MT_WRAPPER_KEEP_ERRNO;                                                             \
		struct mt_unpooled_record *taken;                                                  \
                                                                                                   \
		if (!mt_wrapper_is_on())                                                           \
			return mt_wrapper_call(name, dptr, stream);                                \
		if (!before_free_async(dptr, &taken))                                              \
			return MT_CU_INVALID_VALUE;                                                \
		return end_free(mt_wrapper_call(name, dptr, stream), taken);                       \
	}
X(cuMemFreeAsync)
X(cuMemFreeAsync_ptsz)
#undef X

/* ---- physical memory without an address, of cuMemCreate ---- */

int cuMemRelease(unsigned long long handle)
{
	MT_WRAPPER_KEEP_ERRNO;
	struct mt_unpooled_record *memory;
	int result;

	if (!mt_wrapper_is_on())
		return mt_wrapper_call(cuMemRelease, handle);
	memory = mt_unpooled_release_begin(handle);
	result = mt_wrapper_call(cuMemRelease, handle);
	mt_unpooled_release_end(memory, result == MT_CU_SUCCESS);
	return result;
}

/* Memory stays, also without a handle, while it is mapped. */
int cuMemMap(uint64_t dptr, size_t bytes, size_t offset, unsigned long long handle,
	     unsigned long long flags)
{
	MT_WRAPPER_KEEP_ERRNO;
	struct mt_unpooled_record *record;
	int result;

	if (!mt_wrapper_is_on())
		return mt_wrapper_call(cuMemMap, dptr, bytes, offset, handle, flags);
	record = mt_unpooled_reserve();
	result = mt_wrapper_try(-1, 0, cuMemMap, dptr, bytes, offset, handle, flags);
	if (record && result == MT_CU_SUCCESS)
		mt_unpooled_map(record, dptr, bytes, handle);
	else if (record)
		mt_unpooled_cancel(record);
	return result;
}

int cuMemUnmap(uint64_t dptr, size_t bytes)
{
	MT_WRAPPER_KEEP_ERRNO;
	int result = mt_wrapper_call(cuMemUnmap, dptr, bytes);

	if (result == MT_CU_SUCCESS && mt_wrapper_is_on())
		mt_unpooled_unmap(dptr, bytes);
	return result;
}

/* ---- questions about memory, answered as if there were no pool: what it caches is free, a block
 * is as large as the program asked for, and a freed block is no memory ---- */

struct block {
	uint64_t base;
	size_t bytes; /* as the program asked */
	/* no memory to the program: it has freed the block, or the address lies behind the size
	 * that it asked for */
	bool is_absent;
};

#define READ_TRIES 3

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	MT_WRAPPER_KEEP_ERRNO;
	int result = MT_CU_SUCCESS;
	uint64_t most, withheld = 0;
	bool is_exact = false;
	int device;

	if (!mt_wrapper_is_on() || !free_bytes)
		return mt_wrapper_call(cuMemGetInfo_v2, free_bytes, total_bytes);
	device = mt_entries_current_device();
	for (unsigned i = 0; i < READ_TRIES && !is_exact && result == MT_CU_SUCCESS; i++) {
		uint32_t releases = mt_pool_read_begin(device);

		result = mt_wrapper_call(cuMemGetInfo_v2, free_bytes, total_bytes);
		withheld = mt_pool_withheld_bytes(device);
		is_exact = mt_pool_read_end(device, releases);
	}
	if (result != MT_CU_SUCCESS)
		return result;
	most = total_bytes ? *total_bytes : SIZE_MAX;
	*free_bytes += withheld;
	if (*free_bytes > most)
		*free_bytes = most;
	return result;
}

/* Finds the block that contains this address. Returns false for memory that is not the pool's. */
static bool find_block(uint64_t dptr, struct block *out)
{
	if (!mt_pool_is_used())
		return false;
	out->base = dptr;
	if (mt_pool_range(out->base, &out->bytes, &out->is_absent))
		return true;
	/* A block is a whole allocation of the driver, which therefore knows where the address
	 * begins. It tells that in any context, also in one that an error has ended. */
	if (mt_wrapper_call(cuPointerGetAttribute, &out->base, MT_CU_POINTER_RANGE_START_ADDR,
			    dptr) != MT_CU_SUCCESS ||
	    !mt_pool_range(out->base, &out->bytes, &out->is_absent))
		return false;
	out->is_absent |= dptr - out->base >= out->bytes;
	return true;
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t dptr)
{
	MT_WRAPPER_KEEP_ERRNO;
	struct block block;
	uint64_t its_base;
	int result;

	if (!mt_wrapper_is_on() || (!base && !bytes) || !find_block(dptr, &block))
		return mt_wrapper_call(cuMemGetAddressRange_v2, base, bytes, dptr);
	/* the driver's errors count */
	result = mt_wrapper_call(cuMemGetAddressRange_v2, &its_base, NULL, dptr);
	if (result == MT_CU_SUCCESS && block.is_absent) {
		result = MT_CU_NOT_FOUND;
	} else if (result == MT_CU_SUCCESS) {
		if (base)
			*base = block.base;
		if (bytes)
			*bytes = block.bytes;
	}
	return result;
}

/* Puts the size that the program asked for in the place of the driver's. A mapping that holds more
 * than the block keeps its size. */
static void correct_size(int attribute, size_t *size, const struct block *block)
{
	size_t driver_bytes = 0;

	if (attribute == MT_CU_POINTER_MAPPING_SIZE &&
	    (mt_wrapper_call(cuPointerGetAttribute, &driver_bytes, MT_CU_POINTER_RANGE_SIZE,
			     block->base) != MT_CU_SUCCESS ||
	     driver_bytes != *size))
		return;
	if (attribute == MT_CU_POINTER_RANGE_SIZE || attribute == MT_CU_POINTER_MAPPING_SIZE)
		*size = block->bytes;
}

int cuPointerGetAttribute(void *data, int attribute, uint64_t dptr)
{
	MT_WRAPPER_KEEP_ERRNO;
	struct block block;
	bool is_block;
	int result;

	if (!mt_wrapper_is_on() || !data)
		return mt_wrapper_call(cuPointerGetAttribute, data, attribute, dptr);
	is_block = find_block(dptr, &block);
	if (is_block && block.is_absent)
		return MT_CU_INVALID_VALUE;
	/* These tokens let other devices and processes reach the memory. */
	if (is_block && attribute == MT_CU_POINTER_P2P_TOKENS)
		mt_pool_mark_non_recyclable(block.base);
	result = mt_wrapper_call(cuPointerGetAttribute, data, attribute, dptr);
	if (result == MT_CU_SUCCESS && is_block)
		correct_size(attribute, data, &block);
	return result;
}

int cuPointerGetAttributes(unsigned int count, int *attributes, void **data, uint64_t dptr)
{
	/* no memory of the driver: it replies as for freed memory */
	static const char nobodys;
	MT_WRAPPER_KEEP_ERRNO;
	struct block block;
	bool is_block;
	int result;

	if (!mt_wrapper_is_on() || !attributes || !data)
		return mt_wrapper_call(cuPointerGetAttributes, count, attributes, data, dptr);
	is_block = find_block(dptr, &block);
	if (is_block && block.is_absent) {
		dptr = (uint64_t)(uintptr_t)&nobodys;
		is_block = false;
	}
	for (unsigned int i = 0; is_block && i < count; i++)
		if (attributes[i] == MT_CU_POINTER_P2P_TOKENS)
			mt_pool_mark_non_recyclable(block.base);
	result = mt_wrapper_call(cuPointerGetAttributes, count, attributes, data, dptr);
	for (unsigned int i = 0; result == MT_CU_SUCCESS && is_block && i < count; i++)
		if (data[i])
			correct_size(attributes[i], data[i], &block);
	return result;
}

/* ---- functions after which another process, another device or a network card knows a block. Such
 * a block is never handed out again; its free goes to the driver. The mark comes before the call,
 * so that the block cannot be reused in between. A block that the program has freed is not
 * exported: to the program it is no memory. ---- */

/* Returns false if the program has freed the memory, or the address lies behind what it asked
 * for. */
static bool mark_non_recyclable(uint64_t dptr)
{
	MT_WRAPPER_KEEP_ERRNO;
	struct block block;
	bool is_block = find_block(dptr, &block);
	bool is_freed = is_block && block.is_absent;

	if (is_block && !is_freed)
		mt_pool_mark_non_recyclable(block.base);
	return !is_freed;
}

#define X(name, parameters, version, arguments, exports)                                           \
	int name parameters                                                                        \
	{                                                                                          \
		if (!mt_wrapper_is_on())                                                           \
			return mt_wrapper_call(name, ARGUMENTS arguments);                         \
		if ((exports) && !mark_non_recyclable(dptr))                                       \
			return MT_CU_INVALID_VALUE;                                                \
		return mt_wrapper_try(-1, 0, name, ARGUMENTS arguments);                           \
	}
MT_DRIVER_EXPORTS(X)
#undef X
