/* entry/cuda_callback.c -- functions of the program's that run on the host once a stream has come to them. */
#include "entry/cuda_work.h"

static void before_callback(void)
{
	int kept_errno = errno;

	if (mt_cuda_is_on())
		mt_pool_fence_freed();
	errno = kept_errno;
}

int cuLaunchHostFunc(struct CUstream_st *stream, void (*call)(void *), void *data)
{
	before_callback();
	return mt_cuda_call(cuLaunchHostFunc, stream, call, data);
}

int cuLaunchHostFunc_ptsz(struct CUstream_st *stream, void (*call)(void *), void *data)
{
	before_callback();
	return mt_cuda_call(cuLaunchHostFunc_ptsz, stream, call, data);
}

int cuStreamAddCallback(struct CUstream_st *stream, void (*call)(struct CUstream_st *, int, void *), void *data,
			unsigned int flags)
{
	before_callback();
	return mt_cuda_call(cuStreamAddCallback, stream, call, data, flags);
}

int cuStreamAddCallback_ptsz(struct CUstream_st *stream, void (*call)(struct CUstream_st *, int, void *), void *data,
			     unsigned int flags)
{
	before_callback();
	return mt_cuda_call(cuStreamAddCallback_ptsz, stream, call, data, flags);
}
