/* gpu/entries_launch.c -- the driver's functions that may take device memory without being asked
 * for any (code, streams, events, graphs, stacks), and those that run a function of the program on
 * the host. Each is the driver's own. Where the driver is out of memory the call is made again
 * while the pool gives back (gpu/shortage.h); the first call pays one compare for it. Each ABI
 * version and each per-thread twin is a wrapper of its own, with the driver's own arguments. */
#include "gpu/entries_work.h"

#define ARGUMENTS(...) __VA_ARGS__

/* `again` is apart from the wrapper, which stays as short as the call. */
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

/* A function on the host may wait for the program: a fence recorded later would wait for it. */
static void fence_freed(void)
{
	int kept_errno = errno;

	if (mt_cuda_is_on())
		mt_pool_fence_freed();
	errno = kept_errno;
}

#define X(name, parameters, arguments) WRAPPER(fence_freed(), name, parameters, arguments)
MT_DRIVER_HOST_CALLS(X)
