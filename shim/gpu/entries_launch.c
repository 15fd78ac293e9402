/* gpu/entries_launch.c -- functions of the driver that may take device memory without being asked
 * for any (code, streams, events, graphs, stacks), and those that run a function of the program on
 * the host. Where the driver is out of memory the call is made again while the pool gives back
 * (gpu/shortage.h); the first call costs one compare. Each ABI version and each per-thread twin has
 * a wrapper, with the driver's own arguments. */
#include "gpu/entries_work.h"
#include "gpu/context.h"

#define ARGUMENTS(...) __VA_ARGS__

/* `again_` is a function of its own, so that the wrapper stays as short as the call. */
#define WRAPPER(before, name, parameters, arguments)                                               \
	static MT_COLD int again_##name parameters                                                 \
	{                                                                                          \
		int kept_errno = errno;                                                            \
		int result = MT_CU_OUT_OF_MEMORY;                                                  \
                                                                                                   \
		if (mt_cuda_is_on())                                                               \
			result = mt_cuda_retry(-1, 0, name, ARGUMENTS arguments);                  \
		errno = kept_errno;                                                                \
		return result;                                                                     \
	}                                                                                          \
	int name parameters                                                                        \
	{                                                                                          \
		int result;                                                                        \
                                                                                                   \
		before;                                                                            \
		result = mt_cuda_call(name, ARGUMENTS arguments);                                  \
		return mt_likely(result != MT_CU_OUT_OF_MEMORY) ? result : again_##name arguments; \
	}

#define X(name, parameters, version, arguments) WRAPPER((void)0, name, parameters, arguments)
MT_DRIVER_RETRIED(X)
#undef X

/* ---- copies between devices ---- */

#define MT_ANY UINT64_MAX

static void note_use_of(int one, int other)
{
	mt_context_note_use(one, other);
	mt_context_note_use(other, one);
}

/* The contexts of the current device and of both pointers' may use each other's blocks. */
static MT_COLD void note_copy(uint64_t to, uint64_t from)
{
	int here = mt_cuda_current_device();
	int there = to ? mt_cuda_device_of(to) : here;
	int origin = from ? mt_cuda_device_of(from) : here;

	mt_context_register_current();
	for (int one = 0; to == MT_ANY && one < MT_POOL_DEVICES; one++)
		for (int other = 0; other < one; other++)
			note_use_of(one, other);
	note_use_of(here, there);
	note_use_of(here, origin);
	note_use_of(there, origin);
}

static void before_copy(uint64_t to, uint64_t from)
{
	int kept_errno = errno;

	if (mt_unlikely(!mt_cuda_has_one_device()) && mt_cuda_is_on())
		note_copy(to, from);
	errno = kept_errno;
}

#define X(name, parameters, version, arguments, to, from)                                          \
	WRAPPER(before_copy(to, from), name, parameters, arguments)
MT_DRIVER_COPIES(X)
#undef X

/* A function on the host may wait for the program, and a fence recorded later would wait for it. */
static void fence_freed(void)
{
	int kept_errno = errno;

	if (mt_cuda_is_on())
		mt_pool_fence_freed();
	errno = kept_errno;
}

#define X(name, parameters, version, arguments) WRAPPER(fence_freed(), name, parameters, arguments)
MT_DRIVER_HOST_CALLS(X)
