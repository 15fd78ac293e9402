/* gpu/entries_context.c -- contexts that begin, end, see each other's memory, or are green.
 *
 * What the pool holds of a context (blocks, events) is touched by other threads too, the worker's
 * above all, and may not be touched once the driver has ended the context. And a fence that is
 * asked between the pool's forgetting and the driver's waiting would miss work that still runs. So
 * each end stands inside the capture gate: raised, it waits for calls of the pool in flight and
 * lets no further one begin. Where the end is certain, the pool forgets the context before it;
 * where only the driver knows (a counted context), after it. */
#include <stdatomic.h>

#include "gpu/entries_work.h"
#include "gpu/capture.h"
#include "gpu/context.h"
#include "gpu/wait.h"

/* What others than the pool hold of a context that ends. */
static void forget(struct CUctx_st *context)
{
	mt_capture_context_dies(context);
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

	/* Not to be known is as good as alive: nothing is forgotten then. */
	return mt_cuda_call(cuDevicePrimaryCtxGetState, device, &flags, &active) != MT_CU_SUCCESS ||
	       active;
}

/* No two contexts of a process have the same, even if one after the other has the same handle; 0
 * where the driver cannot tell (before 12.0). */
static unsigned long long id_of(struct CUctx_st *context)
{
	unsigned long long id = 0;

	return mt_cuda_call(cuCtxGetId, context, &id) == MT_CU_SUCCESS ? id : 0;
}

/* The driver has ended it. */
static void ended(struct CUctx_st *context)
{
	mt_pool_context_ended(context);
	forget(context);
}

/* The primary context of a device, NULL where it is not active; the gate is closed. Retaining it is
 * the only way to its handle; a context that is active is not made by that. What is retained is
 * released again, and if the program has released it meanwhile in another thread, which then saw it
 * alive, that is its end. */
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
	ended(primary);
	return NULL;
}

/* Whether the driver knows this context; its device. */
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

/* What has been freed gets its fence before: with the gate closed it could not. */
static void close_gate(void)
{
	mt_pool_fence_freed();
	mt_capture_close();
}

/* ---- contexts of the program's own: cuCtxCreate to cuCtxDestroy ---- */

/* Where no context is current, as before the first one, the device's other contexts have what there
 * is to give back. */
#define try_create(name, ...)                                                                      \
	({                                                                                         \
		int created_ = mt_cuda_call(name, __VA_ARGS__);                                    \
                                                                                                   \
		if (mt_unlikely(created_ == MT_CU_OUT_OF_MEMORY) && mt_cuda_is_on()) {             \
			int kept_ = errno;                                                         \
                                                                                                   \
			created_ = mt_cuda_retry(device, 0, name, __VA_ARGS__);                    \
			errno = kept_;                                                             \
		}                                                                                  \
		created_;                                                                          \
	})

static int after_create(int result, struct CUctx_st *const *context, int device)
{
	int kept_errno = errno;

	if (result == MT_CU_SUCCESS && context && mt_cuda_is_on())
		mt_pool_context_made(*context, device);
	errno = kept_errno;
	return result;
}

int cuCtxCreate(struct CUctx_st **context, unsigned int flags, int device)
{
	return after_create(try_create(cuCtxCreate, context, flags, device), context, device);
}

int cuCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device)
{
	return after_create(try_create(cuCtxCreate_v2, context, flags, device), context, device);
}

int cuCtxCreate_v3(struct CUctx_st **context, void *affinity, int count, unsigned int flags,
		   int device)
{
	return after_create(try_create(cuCtxCreate_v3, context, affinity, count, flags, device),
			    context, device);
}

int cuCtxCreate_v4(struct CUctx_st **context, void *parameters, unsigned int flags, int device)
{
	return after_create(try_create(cuCtxCreate_v4, context, parameters, flags, device), context,
			    device);
}

/* For programs that draw, or decode; the driver makes it current. */
int cuGLCtxCreate(struct CUctx_st **context, unsigned int flags, int device)
{
	return after_create(mt_cuda_call(cuGLCtxCreate, context, flags, device), context, device);
}

int cuGLCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device)
{
	return after_create(mt_cuda_call(cuGLCtxCreate_v2, context, flags, device), context,
			    device);
}

int cuVDPAUCtxCreate(struct CUctx_st **context, unsigned int flags, int device, uint32_t vdpau,
		     void *get_address)
{
	return after_create(
		mt_cuda_call(cuVDPAUCtxCreate, context, flags, device, vdpau, get_address), context,
		device);
}

int cuVDPAUCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device, uint32_t vdpau,
			void *get_address)
{
	return after_create(
		mt_cuda_call(cuVDPAUCtxCreate_v2, context, flags, device, vdpau, get_address),
		context, device);
}

/* Whether the driver will destroy this: a context that it knows, and not a primary one, which it
 * refuses. The gate is closed. */
static bool can_be_destroyed(struct CUctx_st *context)
{
	int device = 0;

	return mt_pool_has_made(context) ||
	       (is_context(context, &device) && primary_of(device) != context);
}

/* What a context is to us while the driver destroys it. */
struct ending {
	enum { UNKNOWN, FORGOTTEN, RESTS } as;
	struct mt_block *cached; /* of one that is forgotten */
};

/* Before the driver's destroy, which may give the same handle and addresses to another thread as
 * soon as it returns. True: the gate is closed. Beside a capture the driver may refuse: what is
 * cached in it is not forgotten. */
static bool before_destroy(struct CUctx_st *context, struct ending *out_ending)
{
	int kept_errno = errno;

	*out_ending = (struct ending){UNKNOWN, NULL};
	/* In a host function the driver refuses, and would not let the context be made known again.
	 */
	if (!context || !mt_cuda_is_on() || !mt_context_may_call()) {
		errno = kept_errno;
		return false;
	}
	close_gate();
	if (mt_capture_is_any()) {
		mt_pool_context_rests(context);
		out_ending->as = RESTS;
	} else if (can_be_destroyed(context)) {
		out_ending->cached = mt_pool_context_dies(context);
		forget(context);
		out_ending->as = FORGOTTEN;
	}
	errno = kept_errno;
	return true;
}

static int after_destroy(struct CUctx_st *context, const struct ending *ending, int result)
{
	int kept_errno = errno;

	/* Refused after all: what it runs counts in fences again. */
	if (ending->as == FORGOTTEN && result != MT_CU_SUCCESS)
		mt_pool_know(context);
	else if (ending->as == RESTS && result != MT_CU_SUCCESS)
		mt_pool_context_goes_on(context);
	else if (ending->as == RESTS)
		ended(context);
	mt_capture_open();
	if (ending->as == FORGOTTEN)
		mt_pool_context_died(context, ending->cached, result == MT_CU_SUCCESS);
	errno = kept_errno;
	return result;
}

int cuCtxDestroy(struct CUctx_st *context)
{
	struct ending ending;

	if (!before_destroy(context, &ending))
		return mt_cuda_call(cuCtxDestroy, context);
	return after_destroy(context, &ending, mt_cuda_call(cuCtxDestroy, context));
}

int cuCtxDestroy_v2(struct CUctx_st *context)
{
	struct ending ending;

	if (!before_destroy(context, &ending))
		return mt_cuda_call(cuCtxDestroy_v2, context);
	return after_destroy(context, &ending, mt_cuda_call(cuCtxDestroy_v2, context));
}

/* ---- references to a context: cuCtxAttach and cuCtxDetach ---- */

int cuCtxAttach(struct CUctx_st **context, unsigned int flags)
{
	int kept_errno = errno;
	int result = mt_cuda_call(cuCtxAttach, context, flags);

	if (result == MT_CU_SUCCESS && context && mt_cuda_is_on())
		mt_pool_context_attached(*context);
	errno = kept_errno;
	return result;
}

/* It may be the last one, which the driver alone knows. */
static int detach_gated(struct CUctx_st *context)
{
	unsigned long long id;
	int device = 0;
	int result;

	close_gate();
	mt_pool_await_detaches(context);
	id = id_of(context);
	mt_pool_context_rests(context);
	result = mt_cuda_call(cuCtxDetach, context);
	if (result == MT_CU_SUCCESS && (!is_context(context, &device) || id_of(context) != id))
		ended(context);
	else
		mt_pool_context_goes_on(context);
	mt_capture_open();
	return result;
}

int cuCtxDetach(struct CUctx_st *context)
{
	int kept_errno = errno;
	int result;

	if (!context || !mt_cuda_is_on())
		return mt_cuda_call(cuCtxDetach, context);
	if (mt_pool_detach_begin(context)) {
		result = mt_cuda_call(cuCtxDetach, context);
		mt_pool_detach_end(context, result);
	} else {
		result = detach_gated(context);
	}
	errno = kept_errno;
	return result;
}

/* ---- primary contexts: counted by the driver, and it does not tell the count. Where the program
 * has retained one more often than it has released it, a release is not the last: nothing ends, and
 * nothing is waited for. Else the gate stays closed over the call, and whether that was the end is
 * asked afterwards. ---- */

/* What was retained past us is not counted: the driver's count is as high or higher. */
static struct primary_count {
	_Atomic uint32_t retained;
	/* in flight, of those that are not the last: the last is called after them */
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

/* One less; what is left. */
static uint32_t uncount(struct primary_count *count)
{
	uint32_t retained = atomic_load_explicit(&count->retained, memory_order_seq_cst);

	while (retained > 0 &&
	       !atomic_compare_exchange_weak_explicit(&count->retained, &retained, retained - 1,
						      memory_order_seq_cst, memory_order_seq_cst))
		;
	return retained > 0 ? retained - 1 : 0;
}

struct primary_end {
	int kept_errno;
	bool is_gated;
	bool is_not_last;
	struct CUctx_st *context; /* NULL: nothing of ours to end */
	int device;
	unsigned long long id;
};

static void close_for_primary(struct primary_end *end)
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
		mt_pool_context_rests(end->context);
	}
}

static struct primary_end before_release(int device)
{
	struct primary_end end = {.kept_errno = errno, .device = device};
	struct primary_count *count = count_of(device);

	if (count) {
		atomic_fetch_add_explicit(&count->releasing, 1, memory_order_seq_cst);
		end.is_not_last = uncount(count) > 0;
		if (end.is_not_last)
			return end;
		atomic_fetch_sub_explicit(&count->releasing, 1, memory_order_seq_cst);
	}
	close_for_primary(&end);
	for (unsigned round = 0;
	     count && atomic_load_explicit(&count->releasing, memory_order_seq_cst) > 0; round++)
		mt_wait_round(round);
	return end;
}

/* Another thread may have retained the next one already: active again, under the same handle, but
 * another. */
static bool is_over(const struct primary_end *end)
{
	return !is_active(end->device) || (end->context && id_of(end->context) != end->id);
}

static int after_primary(const struct primary_end *end, int result, bool was_end)
{
	if (end->context && was_end)
		ended(end->context);
	else if (end->context)
		mt_pool_context_goes_on(end->context);
	if (end->is_gated)
		mt_capture_open();
	errno = end->kept_errno;
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
	errno = end->kept_errno;
	return result;
}

int cuDevicePrimaryCtxRelease(int device)
{
	const struct primary_end end = before_release(device);

	return after_release(&end, mt_cuda_call(cuDevicePrimaryCtxRelease, device));
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	const struct primary_end end = before_release(device);

	return after_release(&end, mt_cuda_call(cuDevicePrimaryCtxRelease_v2, device));
}

/* A reset ends everything of the context, whoever else has retained it. */
static struct primary_end before_reset(int device)
{
	struct primary_end end = {.kept_errno = errno, .device = device};

	close_for_primary(&end);
	return end;
}

static int after_reset(const struct primary_end *end, int result)
{
	if (result == MT_CU_SUCCESS && count_of(end->device))
		atomic_store_explicit(&count_of(end->device)->retained, 0, memory_order_seq_cst);
	return after_primary(end, result, result == MT_CU_SUCCESS);
}

int cuDevicePrimaryCtxReset(int device)
{
	const struct primary_end end = before_reset(device);

	return after_reset(&end, mt_cuda_call(cuDevicePrimaryCtxReset, device));
}

int cuDevicePrimaryCtxReset_v2(int device)
{
	const struct primary_end end = before_reset(device);

	return after_reset(&end, mt_cuda_call(cuDevicePrimaryCtxReset_v2, device));
}

/* ---- contexts that see each other's memory ---- */

int cuCtxEnablePeerAccess(struct CUctx_st *peer, unsigned int flags)
{
	int kept_errno = errno;
	int result = mt_cuda_call(cuCtxEnablePeerAccess, peer, flags);
	struct CUctx_st *user = NULL;

	if ((result == MT_CU_SUCCESS || result == MT_CU_PEER_ACCESS_ALREADY_ENABLED) &&
	    mt_cuda_is_on() && mt_cuda_call(cuCtxGetCurrent, &user) == MT_CU_SUCCESS)
		mt_pool_peer(user, peer);
	errno = kept_errno;
	return result;
}

/* Work that was enqueued while it could still see the memory may run on: nothing is taken back. */
int cuCtxDisablePeerAccess(struct CUctx_st *peer)
{
	return mt_cuda_call(cuCtxDisablePeerAccess, peer);
}

/* ---- green contexts ---- */

int cuGreenCtxCreate(struct CUgreenCtx_st **green, void *description, int device,
		     unsigned int flags)
{
	int kept_errno = errno;

	/* Before the call: from its return on, work may run that no event of the pool's sees. */
	if (mt_cuda_is_on())
		mt_pool_green(device);
	errno = kept_errno;
	return try_create(cuGreenCtxCreate, green, description, device, flags);
}

int cuCtxFromGreenCtx(struct CUctx_st **context, struct CUgreenCtx_st *green)
{
	int kept_errno = errno;
	int result = mt_cuda_call(cuCtxFromGreenCtx, context, green);
	struct CUctx_st *popped = NULL;
	int device = 0;

	if (result != MT_CU_SUCCESS || !context || !mt_cuda_is_on() ||
	    mt_cuda_call(cuCtxPushCurrent_v2, *context) != MT_CU_SUCCESS)
		return result;
	if (mt_cuda_call(cuCtxGetDevice, &device) == MT_CU_SUCCESS)
		mt_pool_green(device);
	(void)mt_cuda_call(cuCtxPopCurrent_v2, &popped);
	errno = kept_errno;
	return result;
}
