/* gpu/entries.c -- the wrappers of the driver's functions: what allocates and frees memory, and
 * questions about it; contexts that begin and end, peers, green contexts; streams: what may take
 * device memory there, copies between devices, captures. The pool serves cuMemAlloc and cuMemFree.
 * All else is the driver's: recorded by kind, and tried again while the pool gives back if the
 * driver is out of memory. Each ABI version and each per-thread twin has a wrapper, with the
 * driver's own arguments.
 *
 * Threads of the program. A wrapper hands its call on as it is if the shim does nothing
 * (mt_wrapper_is_on), keeps errno, and hands NULL outputs to the driver. It keeps no state and no
 * policy, and holds no lock over a call to the driver but the capture gate. */
#include "gpu/lookup.h"

#include <errno.h>

#include "gpu/capture.h"
#include "gpu/context.h"
#include "gpu/driver.h"
#include "gpu/oom.h"
#include "gpu/pool.h"
#include "gpu/unpooled.h"
#include "sys/atomic.h"
#include "sys/attr.h"

#define ARGUMENTS(...) __VA_ARGS__

/* Keeps errno as it is here: restored at the end of the function. */
static inline void restore_errno(const int *kept)
{
	errno = *kept;
}
#define KEEP_ERRNO const int kept_errno __attribute__((cleanup(restore_errno))) = errno

/* No cancellation to the end of the function: in a call of the driver a cancelled thread would
 * leave the gate of captures closed, or its release counted, for which others wait. */
static inline void allow_cancel(const int *before)
{
	mt_driver_allow_cancel(*before);
}
#define FORBID_CANCEL                                                                              \
	const int cancel_state __attribute__((cleanup(allow_cancel))) = mt_driver_forbid_cancel()

/* Calls the driver's own function, as an expression. Without a driver, or with one that lacks the
 * function, the result is a code. */
#define call_driver(name, ...)                                                                     \
	({                                                                                         \
		const struct mt_driver *driver_ = mt_driver();                                     \
                                                                                                   \
		driver_ ? (driver_->name ? driver_->name(__VA_ARGS__) : MT_CU_NOT_FOUND)           \
			: MT_CU_NOT_INITIALIZED;                                                   \
	})

/* After the driver was out of memory: makes the same call again while the pool has something to
 * give back on the device (-1: the current one). bytes: the size asked for; 0: unknown. */
#define retry(on_device, bytes, name, ...)                                                         \
	mt_pool_again(on_device, bytes, call_driver(name, __VA_ARGS__))

/* Calls the driver's own function, and after out of memory retry. */
#define try_driver(on_device, bytes, name, ...)                                                    \
	({                                                                                         \
		int result_ = call_driver(name, __VA_ARGS__);                                      \
                                                                                                   \
		if (mt_unlikely(result_ == MT_CU_OUT_OF_MEMORY))                                   \
			result_ = retry(on_device, bytes, name, __VA_ARGS__);                      \
		result_;                                                                           \
	})

/* A wrapper that makes the call again while the pool gives back on the device (-1: the current
 * one), if the driver is out of memory (gpu/release.c): the first call costs one compare. before,
 * after: expressions; `result` is the driver's. again_NAME is a function of its own, so that the
 * wrapper stays as short as the call. */
#define RETRIED_WRAPPER(name, parameters, arguments, on_device, before, after)                     \
	static MT_COLD int again_##name parameters                                                 \
	{                                                                                          \
		KEEP_ERRNO;                                                                        \
                                                                                                   \
		return mt_wrapper_is_on() ? retry(on_device, 0, name, ARGUMENTS arguments)         \
					  : MT_CU_OUT_OF_MEMORY;                                   \
	}                                                                                          \
	int name parameters                                                                        \
	{                                                                                          \
		int result;                                                                        \
                                                                                                   \
		before;                                                                            \
		result = call_driver(name, ARGUMENTS arguments);                                   \
		if (mt_unlikely(result == MT_CU_OUT_OF_MEMORY))                                    \
			result = again_##name arguments;                                           \
		after;                                                                             \
		return result;                                                                     \
	}

/* ---- devices ---- */

/* Returns whether the machine has one device, as most have: then there is no need to ask at every
 * call. */
static bool has_one_device(void)
{
	static _Atomic int known; /* devices, 0 while unknown; counter, no ordering */
	int count = mt_load_relaxed(&known);

	if (mt_unlikely(count == 0) && call_driver(cuDeviceGetCount, &count) == MT_CU_SUCCESS)
		mt_store_relaxed(&known, count);
	return count == 1;
}

/* Returns the current device; 0 if there is none. */
static int current_device(void)
{
	int device = 0;

	if (has_one_device() || call_driver(cuCtxGetDevice, &device) != MT_CU_SUCCESS)
		return 0;
	return device;
}

/* Returns the device of an address; the current one if the driver does not know the address. */
static int device_of(uint64_t dptr)
{
	int device = 0;

	if (has_one_device())
		return 0;
	if (call_driver(cuPointerGetAttribute, &device, MT_CU_POINTER_DEVICE_ORDINAL, dptr) ==
		    MT_CU_SUCCESS &&
	    device >= 0)
		return device;
	return current_device();
}

/* ---- what wrappers begin and end with ---- */

static MT_COLD void report(const char *function, int result, uint64_t bytes, int device)
{
	size_t free_bytes = 0;
	size_t total_bytes = 0;

	if (device < 0)
		device = current_device();
	if (result == MT_CU_SUCCESS)
		mt_oom_note_success(bytes, device);
	if (result != MT_CU_OUT_OF_MEMORY)
		return;
	if (!mt_capture_is_open() &&
	    call_driver(cuMemGetInfo_v2, &free_bytes, &total_bytes) != MT_CU_SUCCESS)
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

	if (!outlives && call_driver(cuCtxGetCurrent, &context) == MT_CU_SUCCESS)
		is.context = (uint64_t)(uintptr_t)context;
	if (is.device < 0)
		is.device = device_of(is.key);
	return is;
}

static int end(struct mt_unpooled_record *record, int result, const struct made *made)
{
	if (made->is.kind == MT_UNPOOLED_pinned && result == MT_CU_OUT_OF_MEMORY)
		mt_add_relaxed(&mt_pool_device(current_device())->ooms, 1);
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

/* ---- cuMemAlloc and cuMemFree ---- */

int cuMemAlloc_v2(uint64_t *dptr, size_t bytes)
{
	KEEP_ERRNO;
	int result;

	if (mt_unlikely(!mt_wrapper_is_on()))
		return call_driver(cuMemAlloc_v2, dptr, bytes);
	result = mt_pool_alloc(dptr, bytes);
	/* the pool has tried again already */
	note("cuMemAlloc", result, bytes, -1);
	return result;
}

int cuMemFree_v2(uint64_t dptr)
{
	KEEP_ERRNO;
	struct mt_unpooled_record *taken;
	int result;

	if (mt_unlikely(!mt_wrapper_is_on()))
		return call_driver(cuMemFree_v2, dptr);
	if (mt_likely(mt_pool_free(dptr, &result)))
		return result;
	/* managed, pitched and async memory may be freed by this too */
	taken = mt_unpooled_take(MT_UNPOOLED_direct, dptr);
	return mt_unpooled_end_free(taken, call_driver(cuMemFree_v2, dptr));
}

/* ---- what else the driver allocates and frees ---- */

/* A capture allocates a node of its graph, with memory only while the graph runs. The legacy stream
 * cannot capture. */
static bool is_capturing(struct CUstream_st *stream, bool is_ptsz)
{
	return mt_capture_is_open() && (stream || is_ptsz) &&
	       mt_capture_status(mt_driver(), stream, is_ptsz) > MT_CU_CAPTURE_NONE;
}

/* Of memory of another process. */
static uint64_t range_bytes(uint64_t dptr)
{
	uint64_t base = 0;
	size_t bytes = 0;

	return call_driver(cuMemGetAddressRange_v2, &base, &bytes, dptr) == MT_CU_SUCCESS ? bytes
											  : 0;
}

#define X(symbol, parameters, version, arguments, text, of_kind, is_valid, on_device, asked,       \
	  its_key, its_bytes, of_stream, is_ptsz)                                                  \
	int symbol parameters                                                                      \
	{                                                                                          \
		KEEP_ERRNO;                                                                        \
		struct made made = {.function = #text, .is.kind = MT_UNPOOLED_##of_kind};          \
		struct mt_unpooled_record *record;                                                 \
		int result;                                                                        \
                                                                                                   \
		if (!mt_wrapper_is_on() || !(is_valid))                                            \
			return call_driver(symbol, ARGUMENTS arguments);                           \
		made.is.device = on_device;                                                        \
		made.asked_bytes = asked;                                                          \
		/* its work may use the pool's blocks, even if it has none */                      \
		mt_context_register();                                                             \
		record = mt_unpooled_reserve();                                                    \
		result =                                                                           \
			try_driver(made.is.device, made.asked_bytes, symbol, ARGUMENTS arguments); \
		if (result == MT_CU_SUCCESS) {                                                     \
			made.is.key = (uint64_t)(uintptr_t)(its_key);                              \
			made.is.bytes = its_bytes;                                                 \
			made.is_node = is_capturing(of_stream, is_ptsz);                           \
		}                                                                                  \
		return end(record, result, &made);                                                 \
	}
MT_DRIVER_ALLOCATIONS(X)
#undef X

#define X(symbol, parameters, version, arguments, kind)                                            \
	int symbol parameters                                                                      \
	{                                                                                          \
		KEEP_ERRNO;                                                                        \
		struct mt_unpooled_record *taken;                                                  \
                                                                                                   \
		if (!mt_wrapper_is_on())                                                           \
			return call_driver(symbol, freed);                                         \
		taken = mt_unpooled_take(MT_UNPOOLED_##kind, (uint64_t)(uintptr_t)freed);          \
		return mt_unpooled_end_free(taken, try_driver(-1, 0, symbol, freed));              \
	}
MT_DRIVER_FREES(X)
#undef X

/* The driver also frees memory of cuMemAlloc in stream order: a block of the pool is the driver's
 * from here on. *out_taken: its record. Returns false for a block that the program has
 * freed already. */
static bool before_free_async(uint64_t dptr, struct mt_unpooled_record **out_taken)
{
	struct mt_unpooled is = {.device = -1, .kind = MT_UNPOOLED_direct, .key = dptr};
	struct mt_unpooled_record *record;
	bool is_cached = false;

	if (mt_pool_range(dptr, &is.bytes, &is_cached)) {
		if (is_cached || !mt_pool_disown(dptr))
			return false;
		record = mt_unpooled_reserve();
		if (record) {
			record->is = complete(is);
			mt_unpooled_add(record);
		}
	}
	*out_taken = mt_unpooled_take(MT_UNPOOLED_async, dptr);
	return true;
}

#define X(name, parameters, version, ...)                                                          \
	int name parameters                                                                        \
	{                                                                                          \
		KEEP_ERRNO;                                                                        \
		struct mt_unpooled_record *taken;                                                  \
                                                                                                   \
		if (!mt_wrapper_is_on())                                                           \
			return call_driver(name, dptr, stream);                                    \
		if (!before_free_async(dptr, &taken))                                              \
			return MT_CU_INVALID_VALUE;                                                \
		return mt_unpooled_end_free(taken, call_driver(name, dptr, stream));               \
	}
MT_DRIVER_ASYNC_FREES(X)
#undef X

/* ---- physical memory without an address, of cuMemCreate ---- */

/* Memory stays, also without a handle, while it is mapped. */
int cuMemMap(uint64_t dptr, size_t bytes, size_t offset, unsigned long long handle,
	     unsigned long long flags)
{
	KEEP_ERRNO;
	struct mt_unpooled_record *record;
	int result;

	if (!mt_wrapper_is_on())
		return call_driver(cuMemMap, dptr, bytes, offset, handle, flags);
	record = mt_unpooled_reserve();
	result = try_driver(-1, 0, cuMemMap, dptr, bytes, offset, handle, flags);
	if (record && result == MT_CU_SUCCESS)
		mt_unpooled_map(record, dptr, bytes, handle);
	else if (record)
		mt_unpooled_cancel(record);
	return result;
}

int cuMemUnmap(uint64_t dptr, size_t bytes)
{
	KEEP_ERRNO;
	int result = call_driver(cuMemUnmap, dptr, bytes);

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
	KEEP_ERRNO;
	int result = MT_CU_SUCCESS;
	uint64_t most, withheld = 0;
	bool is_exact = false;
	int device;

	if (!mt_wrapper_is_on() || !free_bytes)
		return call_driver(cuMemGetInfo_v2, free_bytes, total_bytes);
	device = current_device();
	for (unsigned i = 0; i < READ_TRIES && !is_exact && result == MT_CU_SUCCESS; i++) {
		uint32_t releases = mt_pool_read_begin(device);

		result = call_driver(cuMemGetInfo_v2, free_bytes, total_bytes);
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
	if (call_driver(cuPointerGetAttribute, &out->base, MT_CU_POINTER_RANGE_START_ADDR, dptr) !=
		    MT_CU_SUCCESS ||
	    !mt_pool_range(out->base, &out->bytes, &out->is_absent))
		return false;
	out->is_absent |= dptr - out->base >= out->bytes;
	return true;
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t dptr)
{
	KEEP_ERRNO;
	struct block block;
	uint64_t its_base;
	int result;

	if (!mt_wrapper_is_on() || (!base && !bytes) || !find_block(dptr, &block))
		return call_driver(cuMemGetAddressRange_v2, base, bytes, dptr);
	/* the driver's errors count */
	result = call_driver(cuMemGetAddressRange_v2, &its_base, NULL, dptr);
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
	    (call_driver(cuPointerGetAttribute, &driver_bytes, MT_CU_POINTER_RANGE_SIZE,
			 block->base) != MT_CU_SUCCESS ||
	     driver_bytes != *size))
		return;
	if (attribute == MT_CU_POINTER_RANGE_SIZE || attribute == MT_CU_POINTER_MAPPING_SIZE)
		*size = block->bytes;
}

int cuPointerGetAttribute(void *data, int attribute, uint64_t dptr)
{
	KEEP_ERRNO;
	struct block block;
	bool is_block;
	int result;

	if (!mt_wrapper_is_on() || !data)
		return call_driver(cuPointerGetAttribute, data, attribute, dptr);
	is_block = find_block(dptr, &block);
	if (is_block && block.is_absent)
		return MT_CU_INVALID_VALUE;
	/* These tokens let other devices and processes reach the memory. */
	if (is_block && attribute == MT_CU_POINTER_P2P_TOKENS)
		mt_pool_mark_non_recyclable(block.base);
	result = call_driver(cuPointerGetAttribute, data, attribute, dptr);
	if (result == MT_CU_SUCCESS && is_block)
		correct_size(attribute, data, &block);
	return result;
}

int cuPointerGetAttributes(unsigned int count, int *attributes, void **data, uint64_t dptr)
{
	/* no memory of the driver: it replies as for freed memory */
	static const char nobodys;
	KEEP_ERRNO;
	struct block block;
	bool is_block;
	int result;

	if (!mt_wrapper_is_on() || !attributes || !data)
		return call_driver(cuPointerGetAttributes, count, attributes, data, dptr);
	is_block = find_block(dptr, &block);
	if (is_block && block.is_absent) {
		dptr = (uint64_t)(uintptr_t)&nobodys;
		is_block = false;
	}
	for (unsigned int i = 0; is_block && i < count; i++)
		if (attributes[i] == MT_CU_POINTER_P2P_TOKENS)
			mt_pool_mark_non_recyclable(block.base);
	result = call_driver(cuPointerGetAttributes, count, attributes, data, dptr);
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
	KEEP_ERRNO;
	struct block block;
	bool is_block = find_block(dptr, &block);

	if (is_block && !block.is_absent)
		mt_pool_mark_non_recyclable(block.base);
	return !is_block || !block.is_absent;
}

/* dptr: an address as the function takes it, a number or a pointer. */
#define X(name, parameters, version, arguments, exports)                                           \
	int name parameters                                                                        \
	{                                                                                          \
		if (!mt_wrapper_is_on())                                                           \
			return call_driver(name, ARGUMENTS arguments);                             \
		if ((exports) && !mark_non_recyclable((uint64_t)(uintptr_t)dptr))                  \
			return MT_CU_INVALID_VALUE;                                                \
		return try_driver(-1, 0, name, ARGUMENTS arguments);                               \
	}
MT_DRIVER_EXPORTS(X)
#undef X

/* ---- the end of a context. Its handle and addresses may be another context's as soon as the
 * driver's call returns: `init` tells the two apart. ---- */

/* Other threads, above all the worker's, use the pool's blocks and events of a context, and may not
 * once the driver has ended it. A fence that is queried after the pool has forgotten the context
 * and before the driver has waited for it would miss work that still runs. So each end lies inside
 * the capture gate: closed, it waits for the calls of the pool in flight and lets no further one
 * begin. The pool pauses in the context before the driver's call, and forgets it after it. */

/* Unknown counts as active: nothing is forgotten then. */
static bool is_active(int device)
{
	return mt_driver_primary_state(mt_driver(), device) != 0;
}

/* No two contexts of a process have the same id, even with the same handle; 0: the driver cannot
 * tell (before 12.0). */
static unsigned long long id_of(struct CUctx_st *context)
{
	unsigned long long id = 0;

	return call_driver(cuCtxGetId, context, &id) == MT_CU_SUCCESS ? id : 0;
}

struct ending {
	struct primary_count *counted; /* a release that is not the last: nothing ends */
	bool is_gated;
	struct CUctx_st *context; /* NULL: nothing ends */
	unsigned long long id;
	uint32_t init;
};

/* The gate is closed. Lets no call of the pool begin in the context. */
static struct ending begin_end(struct CUctx_st *context)
{
	return (struct ending){.is_gated = true,
			       .context = context,
			       .id = context ? id_of(context) : 0,
			       .init = context ? mt_context_pause(context) : MT_NO_INIT};
}

/* device: whose primary context it is; -1: of none. */
static void finish(const struct ending *ending, int device, bool is_over)
{
	if (ending->context && is_over) {
		mt_context_ended(ending->context, ending->init);
		mt_capture_forget_context(ending->context);
		mt_unpooled_forget_context((uint64_t)(uintptr_t)ending->context, device);
	} else if (ending->context) {
		mt_context_resume(ending->context);
	}
	if (ending->is_gated)
		mt_capture_gate_open();
}

/* ---- contexts that the program creates: cuCtxCreate to cuCtxDestroy ---- */

static void note_created(int result, struct CUctx_st *const *context, int device)
{
	KEEP_ERRNO;
	FORBID_CANCEL;

	if (result == MT_CU_SUCCESS && context && mt_wrapper_is_on())
		mt_context_created(*context, device);
}

#define X(name, parameters, version, arguments, context, device)                                   \
	RETRIED_WRAPPER(                                                                           \
		name, parameters, arguments, (int)(device), (void)0,                               \
		note_created(result, (struct CUctx_st **)(uintptr_t)(context), (int)(device)))
MT_DRIVER_CONTEXT_CREATES(X)
#undef X

/* In a host function the driver refuses. cuCtxAttach counts a context up, and the driver alone
 * knows the count: any detach may be the last. */
#define X(name, parameters, version, is_last)                                                      \
	int name parameters                                                                        \
	{                                                                                          \
		KEEP_ERRNO;                                                                        \
		FORBID_CANCEL;                                                                     \
		struct ending ending;                                                              \
		int result;                                                                        \
                                                                                                   \
		if (!context || !mt_wrapper_is_on() || !mt_context_may_call())                     \
			return call_driver(name, context);                                         \
		mt_capture_gate_close();                                                           \
		ending = begin_end(context);                                                       \
		result = call_driver(name, context);                                               \
		finish(&ending, -1, result == MT_CU_SUCCESS && (is_last));                         \
		return result;                                                                     \
	}
MT_DRIVER_CONTEXT_ENDS(X)
#undef X

/* ---- primary contexts: the driver counts them and does not tell the count. If the program has
 * retained a context more often than it has released it, a release is not the last: nothing ends,
 * and nothing is waited for. Else the gate stays closed over the call, and the driver is asked
 * afterwards. ---- */

/* Retains past the shim are not counted: the driver's count is as high or higher. */
static struct primary_count {
	_Atomic uint32_t retained;
	/* calls in flight that are not the last; the last comes after them */
	_Atomic uint32_t releasing;
} counts[MT_POOL_DEVICES];

static struct primary_count *count_of(int device)
{
	return device >= 0 && device < MT_POOL_DEVICES ? &counts[device] : NULL;
}

static void count_retain(int device, int result)
{
	if (result == MT_CU_SUCCESS && count_of(device))
		atomic_fetch_add(&count_of(device)->retained, 1);
}

RETRIED_WRAPPER(cuDevicePrimaryCtxRetain, (struct CUctx_st * *context, int device),
		(context, device), device, (void)0, count_retain(device, result))

/* If another thread of the program has released the primary context meanwhile, which then saw it
 * alive, it ends here. */
static struct ending pause_primary(int device)
{
	struct CUctx_st *primary;

	if (!mt_wrapper_is_on() || !is_active(device))
		return (struct ending){.is_gated = false};
	mt_capture_gate_close();
	primary = mt_context_primary(device);
	if (primary && !is_active(device)) {
		mt_context_ended(primary, MT_ANY_INIT);
		primary = NULL;
	}
	return begin_end(primary);
}

/* Counts one down. If nothing is left the release may be the last. */
static struct ending begin_release(int device)
{
	struct primary_count *count = count_of(device);
	uint32_t retained;
	struct ending ending;

	if (count) {
		atomic_fetch_add(&count->releasing, 1);
		retained = mt_load_seq(&count->retained);
		while (retained > 0 && !atomic_compare_exchange_weak_explicit(
					       &count->retained, &retained, retained - 1,
					       memory_order_seq_cst, memory_order_seq_cst))
			;
		if (retained > 1)
			return (struct ending){.counted = count};
		atomic_fetch_sub(&count->releasing, 1);
	}
	ending = pause_primary(device);
	for (unsigned round = 0; count && mt_load_seq(&count->releasing) > 0; round++)
		mt_driver_wait_round(round);
	return ending;
}

/* Another thread may have retained the next context already: active, with the same handle, but
 * another id. */
static void finish_release(const struct ending *ending, int device, int result)
{
	if (ending->counted) {
		if (result != MT_CU_SUCCESS)
			atomic_fetch_add(&ending->counted->retained, 1);
		atomic_fetch_sub(&ending->counted->releasing, 1);
		return;
	}
	finish(ending, device,
	       result == MT_CU_SUCCESS &&
		       (!is_active(device) ||
			(ending->context && id_of(ending->context) != ending->id)));
}

#define X(name, parameters, version)                                                               \
	int name parameters                                                                        \
	{                                                                                          \
		KEEP_ERRNO;                                                                        \
		FORBID_CANCEL;                                                                     \
		struct ending ending;                                                              \
		int result;                                                                        \
                                                                                                   \
		if (!mt_wrapper_is_on()) /* a forked child: calls in flight are the parent's */    \
			return call_driver(name, device);                                          \
		ending = begin_release(device);                                                    \
		result = call_driver(name, device);                                                \
		finish_release(&ending, device, result);                                           \
		return result;                                                                     \
	}
MT_DRIVER_PRIMARY_RELEASES(X)
#undef X

/* A reset ends the context, however often it is retained. */
#define X(name, parameters, version)                                                               \
	int name parameters                                                                        \
	{                                                                                          \
		KEEP_ERRNO;                                                                        \
		FORBID_CANCEL;                                                                     \
		struct ending ending = pause_primary(device);                                      \
		int result = call_driver(name, device);                                            \
                                                                                                   \
		if (result == MT_CU_SUCCESS && count_of(device))                                   \
			mt_store_seq(&count_of(device)->retained, 0);                              \
		finish(&ending, device, result == MT_CU_SUCCESS);                                  \
		return result;                                                                     \
	}
MT_DRIVER_PRIMARY_RESETS(X)
#undef X

/* ---- green contexts ---- */

/* Before the call: from its return on, work may run that no event of the pool sees, and that may
 * use the blocks of every device. No event is being recorded then, and none is any more. What is
 * cached was freed before: its fences cover all work that may use it. The next tick releases it,
 * since here it would make the program wait. */
static void note_green(void)
{
	KEEP_ERRNO;
	FORBID_CANCEL;

	if (!mt_wrapper_is_on())
		return;
	mt_capture_gate_close();
	mt_store_relaxed(&mt_pool.is_mixed, true);
	mt_capture_gate_open();
}

#define X(name, parameters, version, arguments, device)                                            \
	RETRIED_WRAPPER(name, parameters, arguments, device, note_green(), (void)0)
MT_DRIVER_UNSEEN(X)
#undef X

/* ---- what may take device memory without being asked for any: code, streams, events, graphs,
 * stacks ---- */

#define X(name, parameters, version, arguments)                                                    \
	RETRIED_WRAPPER(name, parameters, arguments, -1, (void)0, (void)0)
MT_DRIVER_RETRIED(X)
#undef X

/* ---- peer access, and copies between devices ---- */

#define MT_ANY UINT64_MAX

static void before_copy(uint64_t to, uint64_t from)
{
	KEEP_ERRNO;
	int here;

	if (mt_likely(has_one_device()) || !mt_wrapper_is_on())
		return;
	here = current_device();
	if (to == MT_ANY || (to && device_of(to) != here) || (from && device_of(from) != here))
		mt_context_join_devices();
}

#define X(name, parameters, version, arguments, to, from)                                          \
	RETRIED_WRAPPER(name, parameters, arguments, -1, before_copy(to, from), (void)0)
MT_DRIVER_COPIES(X)
#undef X

/* ---- captures: the gate of gpu/capture.h closes before the driver knows of the capture, and opens
 * when it has ended, or when it could not begin ---- */

#define X(name, parameters, version, arguments, stream, is_ptsz)                                   \
	int name parameters                                                                        \
	{                                                                                          \
		KEEP_ERRNO;                                                                        \
		FORBID_CANCEL;                                                                     \
		bool is_on = mt_wrapper_is_on();                                                   \
		int result;                                                                        \
                                                                                                   \
		if (is_on)                                                                         \
			mt_capture_gate_close();                                                   \
		result = call_driver(name, ARGUMENTS arguments);                                   \
                                                                                                   \
		if (is_on)                                                                         \
			mt_capture_after_begin(mt_driver(),                                        \
					       (struct CUstream_st *)(uintptr_t)(stream), is_ptsz, \
					       result);                                            \
		return result;                                                                     \
	}
MT_DRIVER_CAPTURE_BEGINS(X)
#undef X

#define X(name, parameters, version, is_ptsz)                                                      \
	int name parameters                                                                        \
	{                                                                                          \
		KEEP_ERRNO;                                                                        \
		bool is_on = mt_wrapper_is_on();                                                   \
		int result = call_driver(name, stream, graph);                                     \
                                                                                                   \
		if (is_on)                                                                         \
			mt_capture_after_end(mt_driver(), stream, is_ptsz, result);                \
		return result;                                                                     \
	}
MT_DRIVER_CAPTURE_ENDS(X)
#undef X

/* ---- a stream that is destroyed while it captures ---- */

/* Only a success ends the capture, and another thread may get the handle for a new stream before we
 * know. Handles 0, 1 and 2 are the default streams, which cannot be destroyed. */
#define X(name, parameters, version)                                                               \
	int name parameters                                                                        \
	{                                                                                          \
		KEEP_ERRNO;                                                                        \
		struct mt_capture *taken;                                                          \
		int result;                                                                        \
                                                                                                   \
		if ((uintptr_t)stream <= 2 || !mt_wrapper_is_on())                                 \
			return call_driver(name, stream);                                          \
		taken = mt_capture_stream_destroy_begin(stream);                                   \
		result = call_driver(name, stream);                                                \
		mt_capture_stream_destroy_end(taken, result);                                      \
		return result;                                                                     \
	}
MT_DRIVER_STREAM_DESTROYS(X)
#undef X
