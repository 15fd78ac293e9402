/* gpu/entries_capture.c -- begin and end of stream captures: the gate of gpu/capture.h closes
 * before the driver knows of the capture and opens when it has ended, or when it could not begin.
 */
#include "gpu/entries_work.h"
#include "gpu/capture.h"

static int after_begin(int kept_errno, struct CUstream_st *stream, bool is_ptsz, int result)
{
	mt_capture_after_begin(mt_driver(), stream, is_ptsz, result);
	errno = kept_errno;
	return result;
}

/* Closes the gate; false: the call is handed on as it is. */
static bool before_begin(void)
{
	if (!mt_cuda_is_on())
		return false;
	mt_pool_fence_freed();
	mt_capture_before_begin();
	return true;
}

#define ARGUMENTS(...) __VA_ARGS__
#define X(name, parameters, version, arguments, is_ptsz)                                           \
	int name parameters                                                                        \
	{                                                                                          \
		int kept_errno = errno;                                                            \
                                                                                                   \
		if (!before_begin())                                                               \
			return mt_cuda_call(name, ARGUMENTS arguments);                            \
		return after_begin(kept_errno, (struct CUstream_st *)(uintptr_t)a, is_ptsz,        \
				   mt_cuda_call(name, ARGUMENTS arguments));                       \
	}
MT_DRIVER_CAPTURE_BEGINS(X)
#undef X

static int after_end(int kept_errno, struct CUstream_st *stream, bool is_ptsz, int result)
{
	mt_capture_after_end(mt_driver(), stream, is_ptsz, result);
	errno = kept_errno;
	return result;
}

#define END(name, parameters, arguments, is_ptsz)                                                  \
	int name parameters                                                                        \
	{                                                                                          \
		int kept_errno = errno;                                                            \
                                                                                                   \
		if (!mt_cuda_is_on())                                                              \
			return mt_cuda_call(name, ARGUMENTS arguments);                            \
		return after_end(kept_errno, stream, is_ptsz,                                      \
				 mt_cuda_call(name, ARGUMENTS arguments));                         \
	}
END(cuStreamEndCapture, (struct CUstream_st * stream, struct CUgraph_st **graph), (stream, graph),
    false)
END(cuStreamEndCapture_ptsz, (struct CUstream_st * stream, struct CUgraph_st **graph),
    (stream, graph), true)
END(cuStreamEndCaptureToCig, (struct CUstream_st * stream), (stream), false)
END(cuStreamEndCaptureToCig_ptsz, (struct CUstream_st * stream), (stream), true)

/* A capture into a command list of a graphics API. The work runs when the program submits that
 * list, and no event sees it: nothing is pooled any more, as with green contexts. */
#define X(name, is_ptsz)                                                                           \
	int name(struct CUstream_st *stream, void *params)                                         \
	{                                                                                          \
		int kept_errno = errno;                                                            \
                                                                                                   \
		if (!before_begin())                                                               \
			return mt_cuda_call(name, stream, params);                                 \
		mt_pool_note_green_context();                                                      \
		return after_begin(kept_errno, stream, is_ptsz,                                    \
				   mt_cuda_call(name, stream, params));                            \
	}
X(cuStreamBeginCaptureToCig, false)
X(cuStreamBeginCaptureToCig_ptsz, true)
#undef X

/* ---- a stream that is destroyed while it captures ---- */

/* Only a success ends the capture, and another thread may get the handle for a new stream before we
 * know. Handles 0, 1 and 2 are the default streams, which cannot be destroyed. */
static bool stream_dies(struct CUstream_st *stream)
{
	int kept_errno = errno;
	bool is_ours = (uintptr_t)stream > 2 && mt_cuda_is_on();

	if (is_ours)
		mt_capture_stream_destroy_begin(stream);
	errno = kept_errno;
	return is_ours;
}

static int stream_died(struct CUstream_st *stream, int result)
{
	int kept_errno = errno;

	mt_capture_stream_destroy_end(stream, result);
	errno = kept_errno;
	return result;
}

#define X(name)                                                                                    \
	int name(struct CUstream_st *stream)                                                       \
	{                                                                                          \
		if (!stream_dies(stream))                                                          \
			return mt_cuda_call(name, stream);                                         \
		return stream_died(stream, mt_cuda_call(name, stream));                            \
	}
X(cuStreamDestroy)
X(cuStreamDestroy_v2)
#undef X
