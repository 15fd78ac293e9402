/* gpu/entries_context.c -- contexts that begin and end, peers, and green contexts.
 *
 * Other threads, above all the worker's, use the pool's blocks and events of a context, and may not
 * once the driver has ended it. A fence that is queried after the pool has forgotten the context
 * and before the driver has waited for it would miss work that still runs. So each end lies inside
 * the capture gate: closed, it waits for the calls of the pool in flight and lets no further one
 * begin. Where the end is certain, the pool forgets the context before it; where only the driver
 * knows (a counted context), after it. */
#include <stdatomic.h>

#include "gpu/entries.h"
#include "gpu/capture.h"
#include "gpu/context.h"
#include "gpu/wait.h"

/* What else than the pool holds something of a context that ends. */
static void forget(struct CUctx_st *context)
{
	mt_capture_forget_context(context);
	mt_unpooled_forget_context((uint64_t)(uintptr_t)context);
}

static int release(int device)
{
	int result = mt_cuda_call(cuDevicePrimaryCtxRelease_v2, device);

	return result == MT_CU_NOT_FOUND ? mt_cuda_call(cuDevicePrimaryCtxRelease, device) : result;
}

static bool is_active(int device)
{
	unsigned int flags = 0;
	int active = 0;

	/* Unknown counts as active: nothing is forgotten then. */
	return mt_cuda_call(cuDevicePrimaryCtxGetState, device, &flags, &active) != MT_CU_SUCCESS ||
	       active;
}

/* No two contexts of a process have the same id, even with the same handle; 0: the driver cannot
 * tell (before 12.0). */
static unsigned long long id_of(struct CUctx_st *context)
{
	unsigned long long id = 0;

	return mt_cuda_call(cuCtxGetId, context, &id) == MT_CU_SUCCESS ? id : 0;
}

/* The driver has ended the context. */
static void note_ended(struct CUctx_st *context)
{
	mt_context_destroyed(context);
	forget(context);
}

/* Returns the primary context of a device; NULL: it is not active. The gate is closed. Retaining is
 * the only way to its handle; of an active context it creates nothing. The retain is released
 * again. If another thread of the program has released the context meanwhile, which it then saw
 * alive, our release ends it. */
static struct CUctx_st *primary_of(int device)
{
	struct CUctx_st *primary = NULL;
	unsigned long long id;
	unsigned int flags = 0;
	int active = 0;

	if (mt_cuda_call(cuDevicePrimaryCtxGetState, device, &flags, &active) != MT_CU_SUCCESS ||
	    !active || mt_cuda_call(cuDevicePrimaryCtxRetain, &primary, device) != MT_CU_SUCCESS)
		return NULL;
	id = id_of(primary);
	(void)release(device);
	if (is_active(device) && id_of(primary) == id)
		return primary;
	note_ended(primary);
	return NULL;
}

/* Returns whether the driver knows this context, and its device. */
static bool is_context(struct CUctx_st *context, int *out_device)
{
	struct CUctx_st *popped = NULL;
	bool known;

	if (mt_cuda_call(cuCtxPushCurrent_v2, context) != MT_CU_SUCCESS)
		return false;
	known = mt_cuda_call(cuCtxGetDevice, out_device) == MT_CU_SUCCESS;
	(void)mt_cuda_call(cuCtxPopCurrent_v2, &popped);
	return known;
}

/* Freed blocks get their fence before: with the gate closed they could not. */
static void close_gate(void)
{
	mt_pool_fence_freed();
	mt_capture_gate_close();
}

/* ---- contexts that the program creates: cuCtxCreate to cuCtxDestroy ---- */

static void note_created(int result, struct CUctx_st *const *context, int device)
{
	MT_CUDA_KEEP_ERRNO;

	if (result == MT_CU_SUCCESS && context && mt_cuda_is_on())
		mt_context_created(*context, device);
}

/* Where no context is current, as before the first one, the device's other contexts give back. */
#define CREATE(name, device, ...)                                                                  \
	({                                                                                         \
		int created_ = mt_cuda_call(name, __VA_ARGS__);                                    \
                                                                                                   \
		if (mt_unlikely(created_ == MT_CU_OUT_OF_MEMORY) && mt_cuda_is_on()) {             \
			MT_CUDA_KEEP_ERRNO;                                                        \
                                                                                                   \
			created_ = mt_cuda_retry((int)(device), 0, name, __VA_ARGS__);             \
		}                                                                                  \
		created_;                                                                          \
	})

#define ARGUMENTS(...) __VA_ARGS__
#define X(name, parameters, version, arguments, context, device)                                   \
	int name parameters                                                                        \
	{                                                                                          \
		int result = CREATE(name, device, ARGUMENTS arguments);                            \
                                                                                                   \
		note_created(result, (struct CUctx_st **)(uintptr_t)(context), (int)(device));     \
		return result;                                                                     \
	}
MT_DRIVER_CONTEXT_CREATES(X)
#undef X

/* Returns whether the driver will destroy this: a context that it knows and that is not a primary
 * one. The gate is closed. */
static bool can_be_destroyed(struct CUctx_st *context)
{
	int device = 0;

	return mt_context_is_own(context) ||
	       (is_context(context, &device) && primary_of(device) != context);
}

/* What the shim has done to a context that the driver destroys. */
struct ending {
	enum { UNKNOWN, FORGOTTEN, PAUSED } as;
	struct mt_block *cached; /* of a forgotten context */
};

/* The driver's destroy may give the same handle and addresses to another thread as soon as it
 * returns. Returns whether the gate is closed. Beside a capture the driver may refuse: then nothing
 * is forgotten before. */
static bool before_destroy(struct CUctx_st *context, struct ending *out_ending)
{
	MT_CUDA_KEEP_ERRNO;

	*out_ending = (struct ending){UNKNOWN, NULL};
	/* In a host function the driver refuses, and would not let the context be registered again.
	 */
	if (!context || !mt_cuda_is_on() || !mt_context_may_call())
		return false;
	close_gate();
	if (mt_capture_is_any()) {
		mt_context_pause(context);
		out_ending->as = PAUSED;
	} else if (can_be_destroyed(context)) {
		out_ending->cached = mt_context_destroy_begin(context);
		forget(context);
		out_ending->as = FORGOTTEN;
	}
	return true;
}

static int after_destroy(struct CUctx_st *context, const struct ending *ending, int result)
{
	MT_CUDA_KEEP_ERRNO;

	/* Refused: its work counts in fences again. */
	if (ending->as == FORGOTTEN && result != MT_CU_SUCCESS)
		mt_context_register(context);
	else if (ending->as == PAUSED && result != MT_CU_SUCCESS)
		mt_context_resume(context);
	else if (ending->as == PAUSED)
		note_ended(context);
	mt_capture_gate_open();
	if (ending->as == FORGOTTEN)
		mt_context_destroy_end(context, ending->cached, result == MT_CU_SUCCESS);
	return result;
}

#define X(name)                                                                                    \
	int name(struct CUctx_st *context)                                                         \
	{                                                                                          \
		struct ending ending;                                                              \
                                                                                                   \
		if (!before_destroy(context, &ending))                                             \
			return mt_cuda_call(name, context);                                        \
		return after_destroy(context, &ending, mt_cuda_call(name, context));               \
	}
X(cuCtxDestroy)
X(cuCtxDestroy_v2)
#undef X

/* cuCtxAttach counts a context up, and the driver alone knows the count: any detach may be the
 * last. */
int cuCtxDetach(struct CUctx_st *context)
{
	MT_CUDA_KEEP_ERRNO;
	unsigned long long id;
	int device = 0;
	int result;

	if (!context || !mt_cuda_is_on())
		return mt_cuda_call(cuCtxDetach, context);
	close_gate();
	id = id_of(context);
	mt_context_pause(context);
	result = mt_cuda_call(cuCtxDetach, context);
	if (result == MT_CU_SUCCESS && (!is_context(context, &device) || id_of(context) != id))
		note_ended(context);
	else
		mt_context_resume(context);
	mt_capture_gate_open();
	return result;
}

/* ---- primary contexts: the driver counts them and does not tell the count. Where the program has
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

int cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
	int result = mt_cuda_call(cuDevicePrimaryCtxRetain, context, device);

	if (mt_unlikely(result == MT_CU_OUT_OF_MEMORY) && mt_cuda_is_on())
		result = mt_cuda_retry(device, 0, cuDevicePrimaryCtxRetain, context, device);
	if (result == MT_CU_SUCCESS && count_of(device))
		atomic_fetch_add_explicit(&count_of(device)->retained, 1, memory_order_seq_cst);
	return result;
}

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

struct primary_end {
	bool is_gated;
	bool is_not_last;
	struct CUctx_st *context; /* NULL: nothing to end */
	int device;
	unsigned long long id;
};

static void close_gate_for_primary(struct primary_end *end)
{
	unsigned int flags = 0;
	int active = 0;

	if (!mt_cuda_is_on() ||
	    mt_cuda_call(cuDevicePrimaryCtxGetState, end->device, &flags, &active) !=
		    MT_CU_SUCCESS ||
	    !active)
		return;
	close_gate();
	end->is_gated = true;
	end->context = primary_of(end->device);
	if (end->context) {
		end->id = id_of(end->context);
		mt_context_pause(end->context);
	}
}

static struct primary_end before_release(int device)
{
	struct primary_end end = {.device = device};
	struct primary_count *count = count_of(device);

	if (count) {
		atomic_fetch_add_explicit(&count->releasing, 1, memory_order_seq_cst);
		end.is_not_last = count_release(count) > 0;
		if (end.is_not_last)
			return end;
		atomic_fetch_sub_explicit(&count->releasing, 1, memory_order_seq_cst);
	}
	close_gate_for_primary(&end);
	for (unsigned round = 0;
	     count && atomic_load_explicit(&count->releasing, memory_order_seq_cst) > 0; round++)
		mt_wait_round(round);
	return end;
}

/* Another thread may have retained the next context already: active, with the same handle, but
 * another id. */
static bool is_over(const struct primary_end *end)
{
	return !is_active(end->device) || (end->context && id_of(end->context) != end->id);
}

static int after_primary(const struct primary_end *end, int result, bool was_end)
{
	if (end->context && was_end)
		note_ended(end->context);
	else if (end->context)
		mt_context_resume(end->context);
	if (end->is_gated)
		mt_capture_gate_open();
	return result;
}

static int after_release(const struct primary_end *end, int result)
{
	if (!end->is_not_last)
		return after_primary(end, result, result == MT_CU_SUCCESS && is_over(end));
	if (result != MT_CU_SUCCESS)
		atomic_fetch_add_explicit(&count_of(end->device)->retained, 1,
					  memory_order_seq_cst);
	atomic_fetch_sub_explicit(&count_of(end->device)->releasing, 1, memory_order_seq_cst);
	return result;
}

/* A reset ends the context, however often it is retained. */
static struct primary_end before_reset(int device)
{
	struct primary_end end = {.device = device};

	close_gate_for_primary(&end);
	return end;
}

static int after_reset(const struct primary_end *end, int result)
{
	if (result == MT_CU_SUCCESS && count_of(end->device))
		atomic_store_explicit(&count_of(end->device)->retained, 0, memory_order_seq_cst);
	return after_primary(end, result, result == MT_CU_SUCCESS);
}

#define X(name, before, after)                                                                     \
	int name(int device)                                                                       \
	{                                                                                          \
		MT_CUDA_KEEP_ERRNO;                                                                \
		const struct primary_end end = before(device);                                     \
                                                                                                   \
		return after(&end, mt_cuda_call(name, device));                                    \
	}
X(cuDevicePrimaryCtxRelease, before_release, after_release)
X(cuDevicePrimaryCtxRelease_v2, before_release, after_release)
X(cuDevicePrimaryCtxReset, before_reset, after_reset)
X(cuDevicePrimaryCtxReset_v2, before_reset, after_reset)
#undef X

/* ---- peers ---- */

int cuCtxEnablePeerAccess(struct CUctx_st *peer, unsigned int flags)
{
	MT_CUDA_KEEP_ERRNO;
	int result = mt_cuda_try(-1, 0, cuCtxEnablePeerAccess, peer, flags);
	struct CUctx_st *user = NULL;

	if ((result == MT_CU_SUCCESS || result == MT_CU_PEER_ACCESS_ALREADY_ENABLED) &&
	    mt_cuda_is_on() && mt_cuda_call(cuCtxGetCurrent, &user) == MT_CU_SUCCESS) {
		mt_context_note_peers(user, peer);
	}
	return result;
}

/* ---- green contexts ---- */

/* Before the call: from its return on, work may run that no event of the pool sees. */
static void note_green(void)
{
	MT_CUDA_KEEP_ERRNO;

	if (mt_cuda_is_on())
		mt_pool_note_green_context();
}

int cuGreenCtxCreate(struct CUgreenCtx_st **green, void *description, int device,
		     unsigned int flags)
{
	note_green();
	return CREATE(cuGreenCtxCreate, device, green, description, device, flags);
}

int cuCtxFromGreenCtx(struct CUctx_st **context, struct CUgreenCtx_st *green)
{
	note_green();
	return mt_cuda_call(cuCtxFromGreenCtx, context, green);
}
