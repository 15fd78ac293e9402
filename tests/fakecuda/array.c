/* array.c -- memory in other shapes: pitched, managed, arrays. Managed memory is charged as if all
 * of it were on the device. */
#include "internal.h"

struct CUarray_st {
	struct fake_object object;
	struct fake_block *block;
	uint64_t block_id; /* its context may have ended */
};
struct CUmipmappedArray_st {
	struct fake_object object;
	struct fake_block *block;
	uint64_t block_id;
};

enum { PITCH = 512 };

int cuMemAllocPitch_v2(uint64_t *dptr, size_t *pitch, size_t width, size_t height,
		       unsigned int element_bytes)
{
	const size_t row = (width + PITCH - 1) / PITCH * PITCH;
	struct CUctx_st *context;
	struct fake_block *block;
	int result = fake_enter(FN_cuMemAllocPitch_v2, &context);

	if (result != OK)
		return result;
	if (dptr == NULL || pitch == NULL || width == 0 || height == 0 ||
	    (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
		return fake_leave(INVALID_VALUE);
	if (row < width || row > SIZE_MAX / height)
		return fake_leave(OUT_OF_MEMORY);
	block = fake_block_new(FAKECUDA_PITCH, context, row * height, true, &result);
	if (block != NULL) {
		*dptr = block->base;
		*pitch = row;
	}
	return fake_leave(result);
}

int cuMemAllocManaged(uint64_t *dptr, size_t bytes, unsigned int flags)
{
	struct CUctx_st *context;
	struct fake_block *block;
	int result = fake_enter(FN_cuMemAllocManaged, &context);

	if (result != OK)
		return result;
	if (dptr == NULL || (flags != 1 && flags != 2))
		return fake_leave(INVALID_VALUE);
	block = fake_block_new(FAKECUDA_MANAGED, context, bytes, true, &result);
	if (block != NULL)
		*dptr = block->base;
	return fake_leave(result);
}

/* Bytes of a channel; 0 for a format that is none of the plain ones. */
static size_t format_bytes(int format)
{
	switch (format) {
	case 0x01: /* unsigned and signed, 8 bits */
	case 0x08:
		return 1;
	case 0x02:
	case 0x09:
	case 0x10: /* half */
		return 2;
	case 0x03:
	case 0x0a:
	case 0x20: /* float */
		return 4;
	default:
		return 0;
	}
}

/* 0: not a shape, or too large to be told. */
static size_t shape_bytes(const struct fake_array3d_desc *desc, unsigned int levels)
{
	size_t width = desc->width, height = desc->height, depth = desc->depth, total = 0, plane;
	const size_t element = format_bytes(desc->format) * desc->channels;

	if (width == 0 || element == 0 ||
	    (desc->channels != 1 && desc->channels != 2 && desc->channels != 4) ||
	    width > (1u << 20) || height > (1u << 20) || depth > (1u << 14))
		return 0;
	while (levels-- > 0) {
		plane = width * (height ? height : 1) * element;
		total += plane * (depth ? depth : 1);
		width = width > 1 ? width / 2 : 1;
		height = height > 1 ? height / 2 : height;
		depth = depth > 1 ? depth / 2 : depth;
	}
	return total;
}

static int create(enum fake_fn fn, enum fake_type type, void **out,
		  const struct fake_array3d_desc *desc, unsigned int levels)
{
	struct CUarray_st *array;
	struct CUctx_st *context;
	struct fake_block *block;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	if (out == NULL || desc == NULL || levels == 0)
		return fake_leave(INVALID_VALUE);
	block = fake_block_new(FAKECUDA_ARRAY, context, shape_bytes(desc, levels), true, &result);
	if (block == NULL)
		return fake_leave(result);
	array = fake_object_new(type, sizeof(*array));
	if (array == NULL) {
		fake_block_free(block);
		return fake_leave(OUT_OF_MEMORY);
	}
	array->block = block;
	array->block_id = block->id;
	*out = array;
	return fake_leave(OK);
}

int cuArrayCreate_v2(struct CUarray_st **array, const struct fake_array_desc *desc)
{
	const struct fake_array3d_desc whole = {.width = desc ? desc->width : 0,
						.height = desc ? desc->height : 0,
						.format = desc ? desc->format : 0,
						.channels = desc ? desc->channels : 0};

	return create(FN_cuArrayCreate_v2, FAKE_ARRAY_OBJECT, (void **)array, &whole, 1);
}

int cuArray3DCreate_v2(struct CUarray_st **array, const struct fake_array3d_desc *desc)
{
	return create(FN_cuArray3DCreate_v2, FAKE_ARRAY_OBJECT, (void **)array, desc, 1);
}

int cuMipmappedArrayCreate(struct CUmipmappedArray_st **array, const struct fake_array3d_desc *desc,
			   unsigned int levels)
{
	return create(FN_cuMipmappedArrayCreate, FAKE_MIPMAP, (void **)array, desc, levels);
}

static int destroy(enum fake_fn fn, enum fake_type type, struct CUarray_st *array)
{
	const int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (!fake_object_is(type, array)) {
		fake_ledger.refused_frees++;
		return fake_leave(INVALID_HANDLE);
	}
	if (array->block->id == array->block_id)
		fake_block_free(array->block);
	fake_object_free(type, array);
	return fake_leave(OK);
}

int cuArrayDestroy(struct CUarray_st *array)
{
	return destroy(FN_cuArrayDestroy, FAKE_ARRAY_OBJECT, array);
}

int cuMipmappedArrayDestroy(struct CUmipmappedArray_st *array)
{
	return destroy(FN_cuMipmappedArrayDestroy, FAKE_MIPMAP, (struct CUarray_st *)array);
}
