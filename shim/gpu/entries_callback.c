/* gpu/entries_callback.c -- functions of the program's that run on the host once a stream has come
 * to them, alone or in a graph. */
#include "gpu/entries_work.h"

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

int cuStreamAddCallback(struct CUstream_st *stream, void (*call)(struct CUstream_st *, int, void *),
			void *data, unsigned int flags)
{
	before_callback();
	return mt_cuda_call(cuStreamAddCallback, stream, call, data, flags);
}

int cuStreamAddCallback_ptsz(struct CUstream_st *stream,
			     void (*call)(struct CUstream_st *, int, void *), void *data,
			     unsigned int flags)
{
	before_callback();
	return mt_cuda_call(cuStreamAddCallback_ptsz, stream, call, data, flags);
}

/* Whether the graph has a host function is not known. */
int cuGraphLaunch(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
	int kept_errno, result;

	before_callback();
	result = mt_cuda_call(cuGraphLaunch, exec, stream);
	kept_errno = errno;
	if (mt_unlikely(result == MT_CU_OUT_OF_MEMORY))
		result = mt_cuda_retry(-1, 0, cuGraphLaunch, exec, stream);
	errno = kept_errno;
	return result;
}

int cuGraphLaunch_ptsz(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
	int kept_errno, result;

	before_callback();
	result = mt_cuda_call(cuGraphLaunch_ptsz, exec, stream);
	kept_errno = errno;
	if (mt_unlikely(result == MT_CU_OUT_OF_MEMORY))
		result = mt_cuda_retry(-1, 0, cuGraphLaunch_ptsz, exec, stream);
	errno = kept_errno;
	return result;
}
