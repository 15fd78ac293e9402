/* gpu/entries_stream.c -- functions of the driver that may take device memory without being asked
 * for any (code, streams, events, graphs, stacks), that copy between devices, and captures that
 * begin and end. If the driver is out of memory
 * the call is made again while the pool gives back (gpu/release.c); the first call costs one
 * compare. Each ABI version and each per-thread twin has a wrapper, with the driver's own
 * arguments. */
#include "gpu/wrapper.h"
#include "gpu/capture.h"

#define ARGUMENTS(...) __VA_ARGS__

/* `again_` is a function of its own, so that the wrapper stays as short as the call. */
#define WRAPPER(before, name, parameters, arguments)                                               \
	static MT_COLD int again_##name parameters                                                 \
	{                                                                                          \
		MT_CUDA_KEEP_ERRNO;                                                                \
                                                                                                   \
		return mt_cuda_is_on() ? mt_cuda_retry(-1, 0, name, ARGUMENTS arguments)           \
				       : MT_CU_OUT_OF_MEMORY;                                      \
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

	mt_context_register(NULL);
	for (int one = 0; to == MT_ANY && one < MT_POOL_DEVICES; one++)
		for (int other = 0; other < one; other++)
			note_use_of(one, other);
	note_use_of(here, there);
	note_use_of(here, origin);
	note_use_of(there, origin);
}

static void before_copy(uint64_t to, uint64_t from)
{
	MT_CUDA_KEEP_ERRNO;

	if (mt_unlikely(!mt_cuda_has_one_device()) && mt_cuda_is_on())
		note_copy(to, from);
}

#define X(name, parameters, version, arguments, to, from)                                          \
	WRAPPER(before_copy(to, from), name, parameters, arguments)
MT_DRIVER_COPIES(X)
#undef X

/* ---- captures: the gate of gpu/capture.h closes before the driver knows of the capture, and opens
 * when it has ended, or when it could not begin ---- */

/* Closes the gate; false: the call is handed on as it is. */
static bool before_begin(void)
{
	if (!mt_cuda_is_on())
		return false;
	mt_capture_gate_close();
	return true;
}

#define X(name, parameters, version, arguments, stream, is_ptsz)                                   \
	int name parameters                                                                        \
	{                                                                                          \
		MT_CUDA_KEEP_ERRNO;                                                                \
		bool is_on = before_begin();                                                       \
		int result = mt_cuda_call(name, ARGUMENTS arguments);                              \
                                                                                                   \
		if (is_on)                                                                         \
			mt_capture_after_begin(mt_driver(),                                        \
					       (struct CUstream_st *)(uintptr_t)(stream), is_ptsz, \
					       result);                                            \
		return result;                                                                     \
	}
MT_DRIVER_CAPTURE_BEGINS(X)
#undef X

#define END(name, parameters, arguments, is_ptsz)                                                  \
	int name parameters                                                                        \
	{                                                                                          \
		MT_CUDA_KEEP_ERRNO;                                                                \
		bool is_on = mt_cuda_is_on();                                                      \
		int result = mt_cuda_call(name, ARGUMENTS arguments);                              \
                                                                                                   \
		if (is_on)                                                                         \
			mt_capture_after_end(mt_driver(), stream, is_ptsz, result);                \
		return result;                                                                     \
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
		MT_CUDA_KEEP_ERRNO;                                                                \
		bool is_on = before_begin();                                                       \
		int result;                                                                        \
                                                                                                   \
		if (is_on)                                                                         \
			mt_pool_note_green_context();                                              \
		result = mt_cuda_call(name, stream, params);                                       \
		if (is_on)                                                                         \
			mt_capture_after_begin(mt_driver(), stream, is_ptsz, result);              \
		return result;                                                                     \
	}
X(cuStreamBeginCaptureToCig, false)
X(cuStreamBeginCaptureToCig_ptsz, true)
#undef X

/* ---- a stream that is destroyed while it captures ---- */

/* Only a success ends the capture, and another thread may get the handle for a new stream before we
 * know. Handles 0, 1 and 2 are the default streams, which cannot be destroyed. */
#define X(name)                                                                                    \
	int name(struct CUstream_st *stream)                                                       \
	{                                                                                          \
		MT_CUDA_KEEP_ERRNO;                                                                \
		struct mt_capture *taken;                                                          \
		int result;                                                                        \
                                                                                                   \
		if ((uintptr_t)stream <= 2 || !mt_cuda_is_on())                                    \
			return mt_cuda_call(name, stream);                                         \
		taken = mt_capture_stream_destroy_begin(stream);                                   \
		result = mt_cuda_call(name, stream);                                               \
		mt_capture_stream_destroy_end(taken, result);                                      \
		return result;                                                                     \
	}
X(cuStreamDestroy)
X(cuStreamDestroy_v2)
#undef X
