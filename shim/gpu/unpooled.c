#include "gpu/unpooled.h"

#include <string.h>

#include "gpu/context.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/lock.h"

/* One name space for all device pointers, one for each sort of handle, and one for mappings by
 * address. */
enum space { SPACE_POINTER, SPACE_VMM, SPACE_ARRAY, SPACE_PINNED, SPACE_MAPPING, SPACE_COUNT };

static struct mt_lock unpooled_lock = MT_LOCK(unpooled); /* everything below */
static struct mt_pointer_table tables[SPACE_COUNT];
static struct mt_slab records = MT_SLAB(struct mt_unpooled_record);
static struct mt_unpooled_usage usage[MT_POOL_DEVICES];

static struct mt_unpooled_usage *usage_of(int device)
{
	return &usage[mt_pool_device(device) - mt_pool.devices];
}

static enum space space_of_kind(enum mt_unpooled_kind kind)
{
	switch (kind) {
	case MT_UNPOOLED_vmm:
		return SPACE_VMM;
	case MT_UNPOOLED_array:
		return SPACE_ARRAY;
	case MT_UNPOOLED_pinned:
		return SPACE_PINNED;
	default:
		return SPACE_POINTER;
	}
}

static enum space space_of(const struct mt_unpooled_record *record)
{
	return record->mapped ? SPACE_MAPPING : space_of_kind(record->is.kind);
}

/* ---- records; the lock is held but for reserve and cancel ---- */

static struct mt_unpooled_record *find(enum space space, uint64_t key)
{
	return (struct mt_unpooled_record *)mt_pointer_table_find(&tables[space], key);
}

static void take_out(struct mt_unpooled_record *record)
{
	(void)mt_pointer_table_remove(&tables[space_of(record)], &record->node);
}

/* A use of the memory is over, which may be its end. That of a mapping ends a use of its memory. */
static void end_use(struct mt_unpooled_record *record)
{
	uint64_t *live_bytes = &usage_of(record->is.device)->live_bytes[record->is.kind];

	mt_assert(record->uses > 0);
	if (--record->uses > 0)
		return;
	if (record->mapped) {
		end_use(record->mapped);
	} else {
		mt_assert(*live_bytes >= record->is.bytes);
		*live_bytes -= record->is.bytes;
	}
	mt_slab_free(&records, record);
}

/* One that has the key already is stale. */
static void put_in(struct mt_unpooled_record *record)
{
	struct mt_unpooled_record *stale;

	mt_store_relaxed(&record->node.key, record->is.key);
	stale = (struct mt_unpooled_record *)mt_pointer_table_insert(&tables[space_of(record)],
								     &record->node);
	if (stale)
		end_use(stale);
}

struct mt_unpooled_record *mt_unpooled_reserve(void)
{
	struct mt_unpooled_record *record;
	bool is_mapped = true;

	mt_lock_lock(&unpooled_lock);
	for (int space = 0; space < SPACE_COUNT; space++)
		is_mapped = is_mapped && mt_pointer_table_map(&tables[space]);
	mt_lock_unlock(&unpooled_lock);
	record = is_mapped ? mt_slab_alloc(&records) : NULL;
	if (record)
		*record = (struct mt_unpooled_record){.uses = 1};
	return record;
}

void mt_unpooled_cancel(struct mt_unpooled_record *record)
{
	mt_slab_free(&records, record);
}

void mt_unpooled_add(struct mt_unpooled_record *record)
{
	mt_lock_lock(&unpooled_lock);
	put_in(record);
	usage_of(record->is.device)->live_bytes[record->is.kind] += record->is.bytes;
	mt_lock_unlock(&unpooled_lock);
}

struct mt_unpooled_record *mt_unpooled_take(enum mt_unpooled_kind kind, uint64_t key)
{
	struct mt_unpooled_record *record;

	mt_lock_lock(&unpooled_lock);
	record = find(space_of_kind(kind), key);
	if (record)
		take_out(record);
	mt_lock_unlock(&unpooled_lock);
	return record;
}

int mt_unpooled_end_free(struct mt_unpooled_record *taken, int result)
{
	if (!taken)
		return result;
	mt_lock_lock(&unpooled_lock);
	if (result == MT_CU_SUCCESS)
		end_use(taken);
	else
		put_in(taken);
	mt_lock_unlock(&unpooled_lock);
	return result;
}

/* ---- memory of cuMemCreate: its handle and its mappings ---- */

void mt_unpooled_map(struct mt_unpooled_record *record, uint64_t dptr, uint64_t bytes,
		     uint64_t handle)
{
	struct mt_unpooled_record *memory;

	mt_lock_lock(&unpooled_lock);
	memory = find(SPACE_VMM, handle);
	record->is = (struct mt_unpooled){.key = dptr, .bytes = bytes};
	record->mapped = memory;
	if (memory) {
		memory->uses++;
		put_in(record);
	} else {
		mt_slab_free(&records, record);
	}
	mt_lock_unlock(&unpooled_lock);
}

void mt_unpooled_unmap(uint64_t dptr, uint64_t bytes)
{
	uint64_t end = dptr + bytes;
	struct mt_unpooled_record *mapping;

	mt_lock_lock(&unpooled_lock);
	while (dptr < end && (mapping = find(SPACE_MAPPING, dptr)) != NULL) {
		dptr += mapping->is.bytes;
		take_out(mapping);
		end_use(mapping);
	}
	mt_lock_unlock(&unpooled_lock);
}

/* ---- the end of a context, figures, fork ---- */

static bool end_if_gone(struct mt_pointer_node *node, void *gone)
{
	struct mt_unpooled_record *record = (struct mt_unpooled_record *)node;
	const struct mt_unpooled *of = gone;
	bool is_of = record->is.context == of->context ||
		     (record->is.kind == MT_UNPOOLED_async && record->is.device == of->device);

	if (is_of)
		end_use(record);
	return is_of;
}

void mt_unpooled_forget_context(uint64_t context, int device)
{
	struct mt_unpooled gone = {.context = context, .device = device};

	if (context == 0)
		return;
	mt_lock_lock(&unpooled_lock);
	for (int space = 0; space < SPACE_COUNT; space++)
		mt_pointer_table_remove_if(&tables[space], end_if_gone, &gone);
	mt_lock_unlock(&unpooled_lock);
}

void mt_unpooled_usage(int device, struct mt_unpooled_usage *out)
{
	mt_lock_lock(&unpooled_lock);
	*out = *usage_of(device);
	mt_lock_unlock(&unpooled_lock);
}

/* ---- the size of an array ---- */

/* Source: cuda.h, CUDA_ARRAY3D_*. */
#define SPARSE           0x40u
#define DEFERRED_MAPPING 0x80u

/* Bits of a channel by CUarray_format. Compressed and planar formats, those of graphics and video,
 * count as 0 bytes. */
static uint64_t bits_of(int format, unsigned int channels)
{
	static const unsigned char bits[0x21] = {
		[0x01] = 8,  [0x02] = 16, [0x03] = 32, [0x08] = 8,
		[0x09] = 16, [0x0a] = 32, [0x10] = 16, [0x20] = 32};

	return (unsigned int)format < sizeof(bits) ? (uint64_t)bits[format] * channels : 0;
}

/* An extent of 0: the array lacks this dimension. */
static uint64_t extent(uint64_t elements)
{
	return elements ? elements : 1;
}

uint64_t mt_unpooled_array3d_bytes(const struct mt_cu_array3d_descriptor *descriptor)
{
	if (descriptor->flags & (SPARSE | DEFERRED_MAPPING))
		return 0;
	return extent(descriptor->width) * extent(descriptor->height) * extent(descriptor->depth) *
	       bits_of(descriptor->format, descriptor->channels) / 8;
}

uint64_t mt_unpooled_array_bytes(const struct mt_cu_array_descriptor *descriptor)
{
	return mt_unpooled_array3d_bytes(
		&(struct mt_cu_array3d_descriptor){.width = descriptor->width,
						   .height = descriptor->height,
						   .format = descriptor->format,
						   .channels = descriptor->channels});
}
