/* copy.c -- copies and fills. Copies between host and device are done when the call returns, those
 * within the device are only queued; asynchronous ones from pageable host memory take their bytes
 * at the call, those to it are waited for, as a real driver does. */
#include <string.h>

#include "internal.h"

static bool is_pageable(uint64_t address)
{
	return !fake_address_is_ours(address) &&
	       fake_host_at((const void *)(uintptr_t)address) == NULL;
}

/* A call that waits conflicts with captures: one that forbids unsafe calls, or one that the legacy
 * stream would wait for. */
static int refuse_sync(struct CUstream_st *stream)
{
	if (stream == stream->context->legacy && fake_capture_blocks_legacy(stream->context)) {
		fake_capture_spoil_context(stream->context);
		return CAPTURE_IMPLICIT;
	}
	if (stream->capture) {
		fake_capture_spoil(stream->capture);
		return CAPTURE_UNSUPPORTED;
	}
	return fake_capture_forbids(true) ? CAPTURE_UNSUPPORTED : OK;
}

static int wait_for(struct CUstream_st *stream)
{
	struct CUctx_st *root = stream->context->root;

	fake_wait_stream(stream);
	return fake_context_check(root) == OK ? root->sticky : CONTEXT_IS_DESTROYED;
}

static size_t extent(const struct fake_work *work, size_t pitch)
{
	return work->rows == 0 ? 0 : (work->rows - 1) * pitch + work->bytes;
}

/* Known at the call to be wrong: addresses of ours that are not there. */
static bool is_valid(const struct CUctx_st *context, const struct fake_work *work)
{
	return work->dst != 0 && work->src != 0 &&
	       fake_may_touch(context, work->dst, extent(work, work->dst_pitch), true) &&
	       fake_may_touch(context, work->src, extent(work, work->src_pitch), true);
}

int fake_copy_sync(enum fake_fn fn, const struct fake_work *work)
{
	struct CUctx_st *context;
	struct CUstream_st *stream;
	bool waits;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	if (work->bytes == 0 || work->rows == 0)
		return fake_leave(OK);
	if (!is_valid(context, work))
		return fake_leave(INVALID_VALUE);
	result = fake_stream_of(context, NULL, fn, &stream);
	if (result == OK)
		result = refuse_sync(stream);
	/* The work's end may end the blocks as well: look first. */
	waits = !fake_block_at(work->dst) || !fake_block_at(work->src);
	if (result == OK)
		result = fake_submit(stream, work);
	return fake_leave(result == OK && waits ? wait_for(stream) : result);
}

static int copy_sync(enum fake_fn fn, uint64_t dst, uint64_t src, size_t bytes)
{
	return fake_copy_sync(
		fn, &(struct fake_work){
			    .kind = WORK_COPY, .dst = dst, .src = src, .bytes = bytes, .rows = 1});
}

static uint64_t number(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

static int on_cuMemcpy(enum fake_fn fn, uint64_t dst, uint64_t src, size_t bytes)
{
	return copy_sync(fn, dst, src, bytes);
}
FAKE_TWINS(cuMemcpy, _ptds, (uint64_t dst, uint64_t src, size_t bytes), dst, src, bytes)

static int on_cuMemcpyHtoD_v2(enum fake_fn fn, uint64_t dst, const void *src, size_t bytes)
{
	return copy_sync(fn, dst, number(src), bytes);
}
FAKE_TWINS(cuMemcpyHtoD_v2, _ptds, (uint64_t dst, const void *src, size_t bytes), dst, src, bytes)

static int on_cuMemcpyDtoH_v2(enum fake_fn fn, void *dst, uint64_t src, size_t bytes)
{
	return copy_sync(fn, number(dst), src, bytes);
}
FAKE_TWINS(cuMemcpyDtoH_v2, _ptds, (void *dst, uint64_t src, size_t bytes), dst, src, bytes)

static int on_cuMemcpyDtoD_v2(enum fake_fn fn, uint64_t dst, uint64_t src, size_t bytes)
{
	return copy_sync(fn, dst, src, bytes);
}
FAKE_TWINS(cuMemcpyDtoD_v2, _ptds, (uint64_t dst, uint64_t src, size_t bytes), dst, src, bytes)

int fake_copy_async(enum fake_fn fn, const struct fake_work *given, struct CUstream_st *handle)
{
	struct fake_work work = *given;
	struct CUctx_st *context;
	struct CUstream_st *stream;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	if (work.bytes == 0 || work.rows == 0)
		return fake_leave(OK);
	if (!is_valid(context, &work))
		return fake_leave(INVALID_VALUE);
	result = fake_stream_of(context, handle, fn, &stream);
	if (result != OK)
		return fake_leave(result);
	if (!stream->capture && is_pageable(work.src)) {
		work.staged = fake_alloc(extent(&work, work.src_pitch));
		memcpy(work.staged, (const void *)(uintptr_t)work.src,
		       extent(&work, work.src_pitch));
	}
	result = fake_submit(stream, &work);
	if (result == OK && !stream->capture && is_pageable(work.dst))
		result = wait_for(stream);
	return fake_leave(result);
}

static int copy_async(enum fake_fn fn, uint64_t dst, uint64_t src, size_t bytes,
		      struct CUstream_st *stream)
{
	return fake_copy_async(
		fn,
		&(struct fake_work){
			.kind = WORK_COPY, .dst = dst, .src = src, .bytes = bytes, .rows = 1},
		stream);
}

static int on_cuMemcpyAsync(enum fake_fn fn, uint64_t dst, uint64_t src, size_t bytes,
			    struct CUstream_st *stream)
{
	return copy_async(fn, dst, src, bytes, stream);
}
FAKE_TWINS(cuMemcpyAsync, _ptsz,
	   (uint64_t dst, uint64_t src, size_t bytes, struct CUstream_st *stream), dst, src, bytes,
	   stream)

static int on_cuMemcpyHtoDAsync_v2(enum fake_fn fn, uint64_t dst, const void *src, size_t bytes,
				   struct CUstream_st *stream)
{
	return copy_async(fn, dst, number(src), bytes, stream);
}
FAKE_TWINS(cuMemcpyHtoDAsync_v2, _ptsz,
	   (uint64_t dst, const void *src, size_t bytes, struct CUstream_st *stream), dst, src,
	   bytes, stream)

static int on_cuMemcpyDtoHAsync_v2(enum fake_fn fn, void *dst, uint64_t src, size_t bytes,
				   struct CUstream_st *stream)
{
	return copy_async(fn, number(dst), src, bytes, stream);
}
FAKE_TWINS(cuMemcpyDtoHAsync_v2, _ptsz,
	   (void *dst, uint64_t src, size_t bytes, struct CUstream_st *stream), dst, src, bytes,
	   stream)

static int on_cuMemcpyDtoDAsync_v2(enum fake_fn fn, uint64_t dst, uint64_t src, size_t bytes,
				   struct CUstream_st *stream)
{
	return copy_async(fn, dst, src, bytes, stream);
}
FAKE_TWINS(cuMemcpyDtoDAsync_v2, _ptsz,
	   (uint64_t dst, uint64_t src, size_t bytes, struct CUstream_st *stream), dst, src, bytes,
	   stream)

/* ---- fills: queued only, also those without a stream of their own ---- */

int fake_fill(enum fake_fn fn, struct fake_work work, struct CUstream_st *handle)
{
	struct CUctx_st *context;
	struct CUstream_st *stream;
	int result;

	work.kind = WORK_FILL;
	work.bytes *= work.width;
	result = fake_enter(fn, &context);
	if (result != OK)
		return result;
	if (work.bytes == 0 || work.rows == 0)
		return fake_leave(OK);
	if (!fake_address_is_ours(work.dst) || work.dst % work.width != 0 ||
	    !fake_may_touch(context, work.dst, (work.rows - 1) * work.dst_pitch + work.bytes, true))
		return fake_leave(INVALID_VALUE);
	result = fake_stream_of(context, handle, fn, &stream);
	return fake_leave(result == OK ? fake_submit(stream, &work) : result);
}

static int fill_flat(enum fake_fn fn, uint64_t dptr, uint32_t value, unsigned int width,
		     size_t count, struct CUstream_st *stream)
{
	return fake_fill(
		fn,
		(struct fake_work){
			.dst = dptr, .value = value, .width = width, .bytes = count, .rows = 1},
		stream);
}

static int on_cuMemsetD8_v2(enum fake_fn fn, uint64_t dptr, unsigned char value, size_t count)
{
	return fill_flat(fn, dptr, value, 1, count, NULL);
}
FAKE_TWINS(cuMemsetD8_v2, _ptds, (uint64_t dptr, unsigned char value, size_t count), dptr, value,
	   count)

static int on_cuMemsetD16_v2(enum fake_fn fn, uint64_t dptr, unsigned short value, size_t count)
{
	return fill_flat(fn, dptr, value, 2, count, NULL);
}
FAKE_TWINS(cuMemsetD16_v2, _ptds, (uint64_t dptr, unsigned short value, size_t count), dptr, value,
	   count)

static int on_cuMemsetD32_v2(enum fake_fn fn, uint64_t dptr, unsigned int value, size_t count)
{
	return fill_flat(fn, dptr, value, 4, count, NULL);
}
FAKE_TWINS(cuMemsetD32_v2, _ptds, (uint64_t dptr, unsigned int value, size_t count), dptr, value,
	   count)

static int on_cuMemsetD8Async(enum fake_fn fn, uint64_t dptr, unsigned char value, size_t count,
			      struct CUstream_st *stream)
{
	return fill_flat(fn, dptr, value, 1, count, stream);
}
FAKE_TWINS(cuMemsetD8Async, _ptsz,
	   (uint64_t dptr, unsigned char value, size_t count, struct CUstream_st *stream), dptr,
	   value, count, stream)

static int on_cuMemsetD16Async(enum fake_fn fn, uint64_t dptr, unsigned short value, size_t count,
			       struct CUstream_st *stream)
{
	return fill_flat(fn, dptr, value, 2, count, stream);
}
FAKE_TWINS(cuMemsetD16Async, _ptsz,
	   (uint64_t dptr, unsigned short value, size_t count, struct CUstream_st *stream), dptr,
	   value, count, stream)

static int on_cuMemsetD32Async(enum fake_fn fn, uint64_t dptr, unsigned int value, size_t count,
			       struct CUstream_st *stream)
{
	return fill_flat(fn, dptr, value, 4, count, stream);
}
FAKE_TWINS(cuMemsetD32Async, _ptsz,
	   (uint64_t dptr, unsigned int value, size_t count, struct CUstream_st *stream), dptr,
	   value, count, stream)
