/* gpu/entries_context.c -- contexts that begin and end, peers, green contexts; streams: what may
 * take device memory there, copies between devices, captures. Each ABI version and each per-thread
 * twin has a wrapper, with the driver's own arguments.
 *
 * Other threads, above all the worker's, use the pool's blocks and events of a context, and may not
 * once the driver has ended it. A fence that is queried after the pool has forgotten the context
 * and before the driver has waited for it would miss work that still runs. So each end lies inside
 * the capture gate: closed, it waits for the calls of the pool in flight and lets no further one
 * begin. The pool pauses in the context before the driver's call, and forgets it after it. */
#include <stdatomic.h>

#include "gpu/wrapper.h"
#include "gpu/capture.h"
#include "gpu/unpooled.h"

#define ARGUMENTS(...) __VA_ARGS__

/* A wrapper that makes the call again while the pool gives back on the device (-1: the current
 * one), if the driver is out of memory (gpu/release.c): the first call costs one compare. before,
 * after: expressions; `result` is the driver's. again_NAME is a function of its own, so that the
 * wrapper stays as short as the call. */
#define RETRIED_WRAPPER(name, parameters, arguments, on_device, before, after)                     \
	static MT_COLD int again_##name parameters                                                 \
	{                                                                                          \
		MT_WRAPPER_KEEP_ERRNO;                                                             \
                                                                                                   \
		return mt_wrapper_is_on()                                                          \
			       ? mt_wrapper_retry(on_device, 0, name, ARGUMENTS arguments)         \
			       : MT_CU_OUT_OF_MEMORY;                                              \
	}                                                                                          \
	int name parameters                                                                        \
	{                                                                                          \
		int result;                                                                        \
                                                                                                   \
		before;                                                                            \
		result = mt_wrapper_call(name, ARGUMENTS arguments);                               \
		if (mt_unlikely(result == MT_CU_OUT_OF_MEMORY))                                    \
			result = again_##name arguments;                                           \
		after;                                                                             \
		return result;                                                                     \
	}

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

	return mt_wrapper_call(cuCtxGetId, context, &id) == MT_CU_SUCCESS ? id : 0;
}

/* Returns the primary context of a device; NULL: it is not active. The gate is closed. If another
 * thread of the program has released it meanwhile, which then saw it alive, it ends here. */
static struct CUctx_st *primary_of(int device)
{
	struct CUctx_st *primary = mt_context_primary(device);

	if (!primary || is_active(device))
		return primary;
	mt_context_ended(primary, MT_ANY_INIT);
	return NULL;
}

/* ---- the end of a context. Its handle and addresses may be another context's as soon as the
 * driver's call returns: `init` tells the two apart. ---- */

struct ending {
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

static void finish(const struct ending *ending, bool is_over)
{
	if (ending->context && is_over) {
		mt_context_ended(ending->context, ending->init);
		mt_capture_forget_context(ending->context);
		mt_unpooled_forget_context((uint64_t)(uintptr_t)ending->context);
	} else if (ending->context) {
		mt_context_resume(ending->context);
	}
	if (ending->is_gated)
		mt_capture_gate_open();
}

/* ---- contexts that the program creates: cuCtxCreate to cuCtxDestroy ---- */

static void note_created(int result, struct CUctx_st *const *context, int device)
{
	MT_WRAPPER_KEEP_ERRNO;

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
#define X(name, is_last)                                                                           \
	int name(struct CUctx_st *context)                                                         \
	{                                                                                          \
		MT_WRAPPER_KEEP_ERRNO;                                                             \
		struct ending ending;                                                              \
		int result;                                                                        \
                                                                                                   \
		if (!context || !mt_wrapper_is_on() || !mt_context_may_call())                     \
			return mt_wrapper_call(name, context);                                     \
		mt_capture_gate_close();                                                           \
		ending = begin_end(context);                                                       \
		result = mt_wrapper_call(name, context);                                           \
		finish(&ending, result == MT_CU_SUCCESS && (is_last));                             \
		return result;                                                                     \
	}
X(cuCtxDestroy, true)
X(cuCtxDestroy_v2, true)
X(cuCtxDetach, id_of(context) != ending.id)
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
		atomic_fetch_add_explicit(&count_of(device)->retained, 1, memory_order_seq_cst);
}

RETRIED_WRAPPER(cuDevicePrimaryCtxRetain, (struct CUctx_st * *context, int device),
		(context, device), device, (void)0, count_retain(device, result))

/* Counts one down; returns what is left. */
static uint32_t count_release(struct primary_count *count)
{
	uint32_t retained = atomic_load_explicit(&count->retained, memory_order_seq_cst);

	while (retained > 0 &&
	       !atomic_compare_exchange_weak_explicit(&count->retained, &retained, retained - 1,
						      memory_order_seq_cst, memory_order_seq_cst))
		;
	return retained > 0 ? retained - 1 : 0;
}

static struct ending pause_primary(int device)
{
	if (!mt_wrapper_is_on() || !is_active(device))
		return (struct ending){.is_gated = false};
	mt_capture_gate_close();
	return begin_end(primary_of(device));
}

/* Counts a release that is not the last; false: it may be. finish_counted follows true. */
static bool begin_counted(struct primary_count *count)
{
	if (!count)
		return false;
	atomic_fetch_add_explicit(&count->releasing, 1, memory_order_seq_cst);
	if (count_release(count) > 0)
		return true;
	atomic_fetch_sub_explicit(&count->releasing, 1, memory_order_seq_cst);
	return false;
}

static void finish_counted(struct primary_count *count, int result)
{
	if (result != MT_CU_SUCCESS)
		atomic_fetch_add_explicit(&count->retained, 1, memory_order_seq_cst);
	atomic_fetch_sub_explicit(&count->releasing, 1, memory_order_seq_cst);
}

static struct ending before_last(int device)
{
	struct primary_count *count = count_of(device);
	struct ending ending = pause_primary(device);

	for (unsigned round = 0;
	     count && atomic_load_explicit(&count->releasing, memory_order_seq_cst) > 0; round++)
		mt_driver_wait_round(round);
	return ending;
}

/* Another thread may have retained the next context already: active, with the same handle, but
 * another id. */
static void after_last(const struct ending *ending, int device, int result)
{
	bool is_over =
		!is_active(device) || (ending->context && id_of(ending->context) != ending->id);

	finish(ending, result == MT_CU_SUCCESS && is_over);
	if (ending->context && result == MT_CU_SUCCESS && is_over)
		mt_unpooled_forget_async(device);
}

#define X(name)                                                                                    \
	int name(int device)                                                                       \
	{                                                                                          \
		MT_WRAPPER_KEEP_ERRNO;                                                             \
		bool is_counted = begin_counted(count_of(device));                                 \
		struct ending ending = {.is_gated = false};                                        \
		int result;                                                                        \
                                                                                                   \
		if (!is_counted)                                                                   \
			ending = before_last(device);                                              \
		result = mt_wrapper_call(name, device);                                            \
		if (is_counted)                                                                    \
			finish_counted(count_of(device), result);                                  \
		else                                                                               \
			after_last(&ending, device, result);                                       \
		return result;                                                                     \
	}
X(cuDevicePrimaryCtxRelease)
X(cuDevicePrimaryCtxRelease_v2)
#undef X

/* A reset ends the context, however often it is retained. */
#define X(name)                                                                                    \
	int name(int device)                                                                       \
	{                                                                                          \
		MT_WRAPPER_KEEP_ERRNO;                                                             \
		struct ending ending = pause_primary(device);                                      \
		int result = mt_wrapper_call(name, device);                                        \
                                                                                                   \
		if (result == MT_CU_SUCCESS && count_of(device))                                   \
			atomic_store_explicit(&count_of(device)->retained, 0,                      \
					      memory_order_seq_cst);                               \
		finish(&ending, result == MT_CU_SUCCESS);                                          \
		if (ending.context && result == MT_CU_SUCCESS)                                     \
			mt_unpooled_forget_async(device);                                          \
		return result;                                                                     \
	}
X(cuDevicePrimaryCtxReset)
X(cuDevicePrimaryCtxReset_v2)
#undef X

/* ---- peers ---- */

int cuCtxEnablePeerAccess(struct CUctx_st *peer, unsigned int flags)
{
	MT_WRAPPER_KEEP_ERRNO;
	int result = mt_wrapper_try(-1, 0, cuCtxEnablePeerAccess, peer, flags);

	if ((result == MT_CU_SUCCESS || result == MT_CU_PEER_ACCESS_ALREADY_ENABLED) &&
	    mt_wrapper_is_on())
		mt_context_join_devices();
	return result;
}

/* ---- green contexts ---- */

/* Before the call: from its return on, work may run that no event of the pool sees. No event is
 * being recorded then, and none is any more. */
static void note_green(void)
{
	MT_WRAPPER_KEEP_ERRNO;

	if (!mt_wrapper_is_on())
		return;
	mt_capture_gate_close();
	mt_pool_note_green_context();
	mt_capture_gate_open();
}

RETRIED_WRAPPER(cuGreenCtxCreate,
		(struct CUgreenCtx_st * *green, void *description, int device, unsigned int flags),
		(green, description, device, flags), device, note_green(), (void)0)

int cuCtxFromGreenCtx(struct CUctx_st **context, struct CUgreenCtx_st *green)
{
	note_green();
	return mt_wrapper_call(cuCtxFromGreenCtx, context, green);
}

/* ---- what may take device memory without being asked for any: code, streams, events, graphs,
 * stacks ---- */

#define X(name, parameters, version, arguments)                                                    \
	RETRIED_WRAPPER(name, parameters, arguments, -1, (void)0, (void)0)
MT_DRIVER_RETRIED(X)
#undef X

/* ---- copies between devices ---- */

#define MT_ANY UINT64_MAX

static MT_COLD void note_copy(uint64_t to, uint64_t from)
{
	int here = mt_entries_current_device();

	if (to == MT_ANY || (to && mt_entries_device_of(to) != here) ||
	    (from && mt_entries_device_of(from) != here))
		mt_context_join_devices();
}

static void before_copy(uint64_t to, uint64_t from)
{
	MT_WRAPPER_KEEP_ERRNO;

	if (mt_unlikely(!mt_entries_has_one_device()) && mt_wrapper_is_on())
		note_copy(to, from);
}

#define X(name, parameters, version, arguments, to, from)                                          \
	RETRIED_WRAPPER(name, parameters, arguments, -1, before_copy(to, from), (void)0)
MT_DRIVER_COPIES(X)
#undef X

/* ---- captures: the gate of gpu/capture.h closes before the driver knows of the capture, and opens
 * when it has ended, or when it could not begin ---- */

/* Closes the gate; false: the call is handed on as it is. */
static bool before_begin(void)
{
	if (!mt_wrapper_is_on())
		return false;
	mt_capture_gate_close();
	return true;
}

#define X(name, parameters, version, arguments, stream, is_ptsz)                                   \
	int name parameters                                                                        \
	{                                                                                          \
		MT_WRAPPER_KEEP_ERRNO;                                                             \
		bool is_on = before_begin();                                                       \
		int result = mt_wrapper_call(name, ARGUMENTS arguments);                           \
                                                                                                   \
		if (is_on)                                                                         \
			mt_capture_after_begin(mt_driver(),                                        \
					       (struct CUstream_st *)(uintptr_t)(stream), is_ptsz, \
					       result);                                            \
		return result;                                                                     \
	}
MT_DRIVER_CAPTURE_BEGINS(X)
#undef X

#define X(name, is_ptsz)                                                                           \
	int name(struct CUstream_st *stream, struct CUgraph_st **graph)                            \
	{                                                                                          \
		MT_WRAPPER_KEEP_ERRNO;                                                             \
		bool is_on = mt_wrapper_is_on();                                                   \
		int result = mt_wrapper_call(name, stream, graph);                                 \
                                                                                                   \
		if (is_on)                                                                         \
			mt_capture_after_end(mt_driver(), stream, is_ptsz, result);                \
		return result;                                                                     \
	}
X(cuStreamEndCapture, false)
X(cuStreamEndCapture_ptsz, true)
#undef X

/* A capture into a command list of a graphics API, which the program submits later. */
#define X(name)                                                                                    \
	int name(struct CUstream_st *stream, void *params)                                         \
	{                                                                                          \
		note_green();                                                                      \
		return mt_wrapper_call(name, stream, params);                                      \
	}
X(cuStreamBeginCaptureToCig)
X(cuStreamBeginCaptureToCig_ptsz)
#undef X

/* ---- a stream that is destroyed while it captures ---- */

/* Only a success ends the capture, and another thread may get the handle for a new stream before we
 * know. Handles 0, 1 and 2 are the default streams, which cannot be destroyed. */
#define X(name)                                                                                    \
	int name(struct CUstream_st *stream)                                                       \
	{                                                                                          \
		MT_WRAPPER_KEEP_ERRNO;                                                             \
		struct mt_capture *taken;                                                          \
		int result;                                                                        \
                                                                                                   \
		if ((uintptr_t)stream <= 2 || !mt_wrapper_is_on())                                 \
			return mt_wrapper_call(name, stream);                                      \
		taken = mt_capture_stream_destroy_begin(stream);                                   \
		result = mt_wrapper_call(name, stream);                                            \
		mt_capture_stream_destroy_end(taken, result);                                      \
		return result;                                                                     \
	}
X(cuStreamDestroy)
X(cuStreamDestroy_v2)
#undef X
