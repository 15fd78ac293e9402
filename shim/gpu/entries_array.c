/* gpu/entries_array.c -- arrays and mipmapped arrays. The size follows from the description: the
 * driver does not tell it before 12.x, and rounds by rules of its own. So the size is a lower
 * bound. */
#include "gpu/entries_work.h"

/* Source: cuda.h, CUDA_ARRAY3D_*. */
#define LAYERED          0x01u
#define CUBEMAP          0x04u
#define SPARSE           0x40u
#define DEFERRED_MAPPING 0x80u

/* Bits of an element by CUarray_format, 0 where not known: of one channel ... */
static const unsigned char channel_bits[256] = {[0x01] = 8,  [0x02] = 16, [0x03] = 32, [0x08] = 8,
						[0x09] = 16, [0x0a] = 32, [0x10] = 16, [0x20] = 32};

/* ... or of all channels. Of a block-compressed format: bits of an element in the mean of its 4 x 4
 * block, which is never halved. Planar formats: bits of a pixel over all planes. */
static const unsigned char element_bits[256] = {
	[0x50] = 32, [0xc0] = 8,  [0xc1] = 16, [0xc2] = 32, [0xc3] = 16, [0xc4] = 32, [0xc5] = 64,
	[0xc6] = 8,  [0xc7] = 16, [0xc8] = 32, [0xc9] = 16, [0xca] = 32, [0xcb] = 64, [0x91] = 4,
	[0x92] = 4,  [0x93] = 8,  [0x94] = 8,  [0x95] = 8,  [0x96] = 8,  [0x97] = 4,  [0x98] = 4,
	[0x99] = 8,  [0x9a] = 8,  [0x9b] = 8,  [0x9c] = 8,  [0x9d] = 8,  [0x9e] = 8,  [0xb0] = 12,
	[0x9f] = 24, [0xa1] = 24, [0xa2] = 16, [0xa3] = 32, [0xa4] = 32, [0xa5] = 16, [0xa6] = 32,
	[0xa7] = 32, [0xa8] = 32, [0xa9] = 32, [0xb1] = 64, [0xb2] = 24, [0xb3] = 48, [0xb4] = 24,
	[0xb5] = 48};

static uint64_t bits_of(int format, unsigned int channels)
{
	unsigned char place = (unsigned char)format;

	if (format != place)
		return 0;
	return channel_bits[place] ? (uint64_t)channel_bits[place] * channels : element_bits[place];
}

/* An extent of 0: the array lacks this dimension. */
static uint64_t extent(uint64_t elements)
{
	return elements ? elements : 1;
}

static uint64_t halved(uint64_t elements)
{
	return elements > 1 ? elements / 2 : elements;
}

/* Returns the bytes; 0 for an unknown format. */
static uint64_t array_bytes(const struct mt_cu_array_descriptor *descriptor)
{
	return extent(descriptor->width) * extent(descriptor->height) *
	       bits_of(descriptor->format, descriptor->channels) / 8;
}

/* Returns the sum over the levels, each half as wide, high and deep as the one before; layers stay.
 * 0 also for an array without memory of its own (sparse, deferred mapping). */
static uint64_t array3d_bytes(const struct mt_cu_array3d_descriptor *descriptor,
			      unsigned int levels)
{
	uint64_t bits = bits_of(descriptor->format, descriptor->channels);
	uint64_t width = extent(descriptor->width);
	uint64_t height = extent(descriptor->height);
	uint64_t depth = extent(descriptor->depth);
	uint64_t sum = 0;

	if (descriptor->flags & (SPARSE | DEFERRED_MAPPING))
		return 0;
	for (unsigned int level = 0; level < (levels ? levels : 1); level++) {
		sum += width * height * depth * bits / 8;
		if (width == 1 && height == 1 &&
		    (depth == 1 || descriptor->flags & (LAYERED | CUBEMAP)))
			break; /* the driver clamps the number of levels in the same way */
		width = halved(width);
		height = halved(height);
		if (!(descriptor->flags & (LAYERED | CUBEMAP)))
			depth = halved(depth);
	}
	return sum;
}

static int end_array(const struct mt_cuda_work *work, int result, const char *function,
		     const void *array, uint64_t bytes)
{
	struct mt_unpooled is = {.kind = MT_UNPOOLED_array};

	mt_cuda_note(function, result, bytes, -1);
	if (result == MT_CU_SUCCESS)
		is = mt_cuda_describe(MT_UNPOOLED_array, (uint64_t)(uintptr_t)array, bytes);
	return mt_cuda_end(work, result, &is);
}

#define CREATE(symbol, function, bytes, parameters, ...)                                           \
	int symbol parameters                                                                      \
	{                                                                                          \
		struct mt_cuda_work work;                                                          \
		int result;                                                                        \
                                                                                                   \
		if (!mt_cuda_is_on() || !array || !descriptor)                                     \
			return mt_cuda_call(symbol, __VA_ARGS__);                                  \
		work = mt_cuda_begin();                                                            \
		result = mt_cuda_try(-1, bytes, symbol, __VA_ARGS__);                              \
		return end_array(&work, result, function, result == MT_CU_SUCCESS ? *array : NULL, \
				 bytes);                                                           \
	}

CREATE(cuArrayCreate_v2, "cuArrayCreate", array_bytes(descriptor),
       (struct CUarray_st * *array, const struct mt_cu_array_descriptor *descriptor), array,
       descriptor)
CREATE(cuArray3DCreate_v2, "cuArray3DCreate", array3d_bytes(descriptor, 1),
       (struct CUarray_st * *array, const struct mt_cu_array3d_descriptor *descriptor), array,
       descriptor)
CREATE(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", array3d_bytes(descriptor, levels),
       (struct CUmipmappedArray_st * *array, const struct mt_cu_array3d_descriptor *descriptor,
	unsigned int levels),
       array, descriptor, levels)

MT_CUDA_FREE_WRAPPER(cuArrayDestroy, struct CUarray_st *, MT_UNPOOLED_array)

MT_CUDA_FREE_WRAPPER(cuMipmappedArrayDestroy, struct CUmipmappedArray_st *, MT_UNPOOLED_array)
