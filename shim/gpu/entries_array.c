#include "gpu/entries_array.h"

#include <stddef.h>

/* Source: cuda.h, CUDA_ARRAY3D_*. */
#define LAYERED          0x01u
#define CUBEMAP          0x04u
#define SPARSE           0x40u
#define DEFERRED_MAPPING 0x80u

/* Bits of an element by CUarray_format, of one channel or of all of them; of a block-compressed
 * format, bits of an element in the mean of its 4 x 4 block, which is never halved. Planar formats:
 * bits of a pixel over all planes. */
struct format {
	unsigned char format;
	unsigned char bits;
	unsigned char is_per_channel;
};

static const struct format formats[] = {
	{0x01, 8, 1},
	{0x02, 16, 1},
	{0x03, 32, 1},
	{0x08, 8, 1},
	{0x09, 16, 1},
	{0x0a, 32, 1},
	{0x10, 16, 1},
	{0x20, 32, 1},
	{0x50, 32, 0},
	/* normalised integers: 1, 2, 4 channels of 8 and of 16 bits */
	{0xc0, 8, 0},
	{0xc1, 16, 0},
	{0xc2, 32, 0},
	{0xc3, 16, 0},
	{0xc4, 32, 0},
	{0xc5, 64, 0},
	{0xc6, 8, 0},
	{0xc7, 16, 0},
	{0xc8, 32, 0},
	{0xc9, 16, 0},
	{0xca, 32, 0},
	{0xcb, 64, 0},
	/* BC1 and BC4: 8 bytes a block; the others 16 */
	{0x91, 4, 0},
	{0x92, 4, 0},
	{0x93, 8, 0},
	{0x94, 8, 0},
	{0x95, 8, 0},
	{0x96, 8, 0},
	{0x97, 4, 0},
	{0x98, 4, 0},
	{0x99, 8, 0},
	{0x9a, 8, 0},
	{0x9b, 8, 0},
	{0x9c, 8, 0},
	{0x9d, 8, 0},
	{0x9e, 8, 0},
	/* 4:2:0 */
	{0xb0, 12, 0},
	{0x9f, 24, 0},
	{0xa1, 24, 0},
	/* 4:2:2 */
	{0xa2, 16, 0},
	{0xa3, 32, 0},
	{0xa4, 32, 0},
	{0xa5, 16, 0},
	{0xa6, 32, 0},
	{0xa7, 32, 0},
	/* 4:4:4 */
	{0xa8, 32, 0},
	{0xa9, 32, 0},
	{0xb1, 64, 0},
	{0xb2, 24, 0},
	{0xb3, 48, 0},
	{0xb4, 24, 0},
	{0xb5, 48, 0},
};

static uint64_t element_bits(int format, unsigned int channels)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i].format == format)
			return (uint64_t)formats[i].bits *
			       (formats[i].is_per_channel ? channels : 1);
	return 0;
}

/* An extent of 0 means that the array has not this dimension. */
static uint64_t extent(uint64_t elements)
{
	return elements ? elements : 1;
}

static uint64_t halved(uint64_t elements)
{
	return elements > 1 ? elements / 2 : elements;
}

uint64_t mt_cuda_array_bytes(const struct mt_cu_array_descriptor *descriptor)
{
	return extent(descriptor->width) * extent(descriptor->height) *
	       element_bits(descriptor->format, descriptor->channels) / 8;
}

uint64_t mt_cuda_array3d_bytes(const struct mt_cu_array3d_descriptor *descriptor,
			       unsigned int levels)
{
	uint64_t bits = element_bits(descriptor->format, descriptor->channels);
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
			break; /* the driver clamps the count of levels so */
		width = halved(width);
		height = halved(height);
		if (!(descriptor->flags & (LAYERED | CUBEMAP)))
			depth = halved(depth);
	}
	return sum;
}
