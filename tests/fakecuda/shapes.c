/* shapes.c -- copies between contexts and copies and fills of rows. */
#include "internal.h"

static int on_cuMemcpyPeer(enum fake_fn fn, uint64_t dst, struct CUctx_st *dst_context,
			   uint64_t src, struct CUctx_st *src_context, size_t bytes)
{
	(void)dst_context;
	(void)src_context;
	return fake_copy_sync(
		fn, &(struct fake_work){
			    .kind = WORK_COPY, .dst = dst, .src = src, .bytes = bytes, .rows = 1});
}
FAKE_TWINS(cuMemcpyPeer, _ptds,
	   (uint64_t dst, struct CUctx_st *dst_context, uint64_t src, struct CUctx_st *src_context,
	    size_t bytes),
	   dst, dst_context, src, src_context, bytes)

static int on_cuMemcpyPeerAsync(enum fake_fn fn, uint64_t dst, struct CUctx_st *dst_context,
				uint64_t src, struct CUctx_st *src_context, size_t bytes,
				struct CUstream_st *stream)
{
	(void)dst_context;
	(void)src_context;
	return fake_copy_async(
		fn,
		&(struct fake_work){
			.kind = WORK_COPY, .dst = dst, .src = src, .bytes = bytes, .rows = 1},
		stream);
}
FAKE_TWINS(cuMemcpyPeerAsync, _ptsz,
	   (uint64_t dst, struct CUctx_st *dst_context, uint64_t src, struct CUctx_st *src_context,
	    size_t bytes, struct CUstream_st *stream),
	   dst, dst_context, src, src_context, bytes, stream)

/* Arrays have no address here: 0, which is refused. */
static uint64_t side(int type, const void *host, uint64_t device, size_t x, size_t y, size_t pitch)
{
	const uint64_t base = type == 1                ? (uint64_t)(uintptr_t)host
			      : type == 2 || type == 4 ? device
						       : 0;

	return base ? base + y * pitch + x : 0;
}

static struct fake_work rows(const struct fake_copy2d *copy)
{
	struct fake_work work = {.kind = WORK_COPY};

	if (copy == NULL)
		return (struct fake_work){.kind = WORK_COPY, .bytes = 1, .rows = 1};
	work.src_pitch = copy->src_pitch ? copy->src_pitch : copy->width;
	work.dst_pitch = copy->dst_pitch ? copy->dst_pitch : copy->width;
	work.src = side(copy->src_type, copy->src_host, copy->src_device, copy->src_x, copy->src_y,
			work.src_pitch);
	work.dst = side(copy->dst_type, copy->dst_host, copy->dst_device, copy->dst_x, copy->dst_y,
			work.dst_pitch);
	work.bytes = copy->width;
	work.rows = copy->height;
	return work;
}

static int on_cuMemcpy2D_v2(enum fake_fn fn, const struct fake_copy2d *copy)
{
	const struct fake_work work = rows(copy);

	return fake_copy_sync(fn, &work);
}
FAKE_TWINS(cuMemcpy2D_v2, _ptds, (const struct fake_copy2d *copy), copy)

static int on_cuMemcpy2DUnaligned_v2(enum fake_fn fn, const struct fake_copy2d *copy)
{
	return on_cuMemcpy2D_v2(fn, copy);
}
FAKE_TWINS(cuMemcpy2DUnaligned_v2, _ptds, (const struct fake_copy2d *copy), copy)

static int on_cuMemcpy2DAsync_v2(enum fake_fn fn, const struct fake_copy2d *copy,
				 struct CUstream_st *stream)
{
	const struct fake_work work = rows(copy);

	return fake_copy_async(fn, &work, stream);
}
FAKE_TWINS(cuMemcpy2DAsync_v2, _ptsz, (const struct fake_copy2d *copy, struct CUstream_st *stream),
	   copy, stream)

static int fill_rows(enum fake_fn fn, uint64_t dptr, size_t pitch, uint32_t value,
		     unsigned int width, size_t count, size_t height)
{
	return fake_fill(fn,
			 (struct fake_work){.dst = dptr,
					    .dst_pitch = pitch,
					    .value = value,
					    .width = width,
					    .bytes = count,
					    .rows = height},
			 NULL);
}

static int on_cuMemsetD2D8_v2(enum fake_fn fn, uint64_t dptr, size_t pitch, unsigned char value,
			      size_t width, size_t height)
{
	return fill_rows(fn, dptr, pitch, value, 1, width, height);
}
FAKE_TWINS(cuMemsetD2D8_v2, _ptds,
	   (uint64_t dptr, size_t pitch, unsigned char value, size_t width, size_t height), dptr,
	   pitch, value, width, height)

static int on_cuMemsetD2D32_v2(enum fake_fn fn, uint64_t dptr, size_t pitch, unsigned int value,
			       size_t width, size_t height)
{
	return fill_rows(fn, dptr, pitch, value, 4, width, height);
}
FAKE_TWINS(cuMemsetD2D32_v2, _ptds,
	   (uint64_t dptr, size_t pitch, unsigned int value, size_t width, size_t height), dptr,
	   pitch, value, width, height)
