/* gpu/entries_launch.c -- functions of the driver that may take device memory without being asked
 * for any (code, streams, events, graphs, stacks), and those that run a function of the program on
 * the host. Where the driver is out of memory the call is made again while the pool gives back
 * (gpu/shortage.h); the first call costs one compare. Each ABI version and each per-thread twin has
 * a wrapper, with the driver's own arguments. */
#include "gpu/entries_work.h"

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

#define X(name, parameters, arguments) WRAPPER((void)0, name, parameters, arguments)
MT_DRIVER_RETRIED(X)
#undef X

/* A function on the host may wait for the program, and a fence recorded later would wait for it. */
static void fence_freed(void)
{
	int kept_errno = errno;

	if (mt_cuda_is_on())
		mt_pool_fence_freed();
	errno = kept_errno;
}

#define X(name, parameters, arguments) WRAPPER(fence_freed(), name, parameters, arguments)
MT_DRIVER_HOST_CALLS(X)
