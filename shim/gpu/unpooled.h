/* gpu/unpooled.h -- the memory that the program holds of the driver beside the pool: one record for
 * each allocation, by kind and device. Every figure is the sum of its records: a free without a
 * record changes nothing, so that no figure falls below zero. Any thread may call; one lock
 * (unpooled), held over no call to the driver. Never calls malloc: records lie in a slab. */
#ifndef MT_GPU_UNPOOLED_H
#define MT_GPU_UNPOOLED_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/blocks.h"
#include "gpu/driver.def"

/* Kinds of memory, in the order of the stats file. Columns: name, functions. */
#define MT_UNPOOLED_KINDS(X)                                                                       \
	X(direct, "cuMemAlloc past the pool")                                                      \
	X(pitch, "cuMemAllocPitch")                                                                \
	X(managed, "cuMemAllocManaged")                                                            \
	X(async, "cuMemAllocAsync, cuMemAllocFromPoolAsync")                                       \
	X(vmm, "cuMemCreate")                                                                      \
	X(array, "arrays and mipmapped arrays")                                                    \
	X(pinned, "page-locked host memory")                                                       \
	X(imported, "opened from another process")

enum mt_unpooled_kind {
#define X(name, text) MT_UNPOOLED_##name,
	MT_UNPOOLED_KINDS(X) MT_UNPOOLED_KIND_COUNT
#undef X
};

/* Of one device. */
struct mt_unpooled_usage {
	uint64_t live_bytes[MT_UNPOOLED_KIND_COUNT];
};

/* One allocation, as its wrapper describes it. */
struct mt_unpooled {
	enum mt_unpooled_kind kind;
	int device;
	/* the pointer or handle, unique among device pointers, and among handles of its kind */
	uint64_t key;
	uint64_t bytes;
	uint64_t context; /* whose end is its end; 0: outlives every context (async, vmm) */
};

/* Its record. The caller writes `is` alone; the rest belongs to unpooled.c. */
struct mt_unpooled_record {
	struct mt_pointer_node node; /* its key is that of `is` */
	struct mt_unpooled is;
	/* Memory of cuMemCreate: its handle, without which it is in no table, and its mappings. */
	uint32_t uses;
	struct mt_unpooled_record *mapped; /* of a mapping: its memory; else NULL */
};

/* A record, taken before the driver is called, so that nothing can fail after it. NULL: there is no
 * memory for one; the allocation then goes unrecorded. Exactly one of mt_unpooled_add,
 * mt_unpooled_map and mt_unpooled_cancel follows. */
struct mt_unpooled_record *mt_unpooled_reserve(void);
void mt_unpooled_cancel(struct mt_unpooled_record *record);

/* Counts what the record says. A record with the same key is replaced: its free was not seen. */
void mt_unpooled_add(struct mt_unpooled_record *record);

/* Around the driver's free: takes a record out, so that the next owner of the same key is not
 * mistaken for it. NULL: there is none. mt_unpooled_end_free follows, which ends it if the driver
 * has freed the memory, and else puts it back; it returns the driver's result. Any kind of device
 * pointer stands for all of them, since cuMemFree takes them all. */
struct mt_unpooled_record *mt_unpooled_take(enum mt_unpooled_kind kind, uint64_t key);
int mt_unpooled_end_free(struct mt_unpooled_record *taken, int result);

/* Memory of cuMemCreate lasts as long as its handle or one mapping of it is left. A handle that is
 * retained from a mapping does not count: NCCL releases it while the mapping is there. After the
 * driver's cuMemMap and cuMemUnmap, which may concern several mappings. */
void mt_unpooled_map(struct mt_unpooled_record *record, uint64_t dptr, uint64_t bytes,
		     uint64_t handle);
void mt_unpooled_unmap(uint64_t dptr, uint64_t bytes);

/* A context is gone, and with it what was its own. device: whose primary context it
 * was (-1: of none), and with it went what the process had in the device's memory pools. Source:
 * cudaDeviceReset, which destroys all allocations on the device. Looks at all records under the
 * lock. */
void mt_unpooled_forget_context(uint64_t context, int device);

/* Devices beyond the last of MT_POOL_DEVICES share its figures. */
void mt_unpooled_usage(int device, struct mt_unpooled_usage *out);

/* Returns the live bytes of all kinds that are on the device: not page-locked host memory, and not
 * what other processes own. Pure. */
static inline uint64_t mt_unpooled_device_bytes(const struct mt_unpooled_usage *usage)
{
	uint64_t sum = 0;

	for (int kind = 0; kind < MT_UNPOOLED_pinned; kind++)
		sum += usage->live_bytes[kind];
	return sum;
}

/* Return the bytes of an array by its description: a lower bound, since the driver rounds by rules
 * of its own, and does not tell the size before 12.x. 0 for an unknown format, and for an array
 * without memory of its own (sparse, deferred mapping). Of a mipmapped array the first level, three
 * quarters of it or more. Pure. */
uint64_t mt_unpooled_array_bytes(const struct mt_cu_array_descriptor *descriptor);
uint64_t mt_unpooled_array3d_bytes(const struct mt_cu_array3d_descriptor *descriptor);

#endif
