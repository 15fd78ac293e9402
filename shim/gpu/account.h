/* gpu/account.h -- which memory of which device the program holds that is not the pool's, by kind
 * and by record. Every figure is the sum of its records: a free without a record changes nothing,
 * so no counter can fall under zero. Any thread; one lock (device), held over nothing. Allocates
 * nothing (its tables are mapped). */
#ifndef MT_GPU_ACCOUNT_H
#define MT_GPU_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

/* Kinds of device memory, in the order of the stats file. */
#define MT_DEVICE_KINDS(X)                                                                         \
	X(direct, "cuMemAlloc past the pool")                                                      \
	X(pitch, "cuMemAllocPitch")                                                                \
	X(managed, "cuMemAllocManaged")                                                            \
	X(async, "cuMemAllocAsync, cuMemAllocFromPoolAsync")                                       \
	X(vmm, "cuMemCreate")                                                                      \
	X(array, "arrays and mipmapped arrays")                                                    \
	X(pinned, "page-locked host memory")                                                       \
	X(imported, "opened from another process")

enum mt_device_kind {
#define X(name, text) MT_DEVICE_##name,
	MT_DEVICE_KINDS(X) MT_DEVICE_KIND_COUNT
#undef X
};

struct mt_device_usage {
	uint64_t live_bytes[MT_DEVICE_KIND_COUNT];
	uint64_t peak_bytes[MT_DEVICE_KIND_COUNT];
	uint64_t live_count[MT_DEVICE_KIND_COUNT];
	uint64_t alloc_count[MT_DEVICE_KIND_COUNT];
};

/* Devices with figures of their own; those beyond share the last. */
#define MT_DEVICE_DEVICES 16

struct mt_device_record {
	enum mt_device_kind kind;
	int device;
	/* the pointer or handle, unique among device pointers, and among handles of its kind */
	uint64_t key;
	uint64_t bytes;
	uint64_t context; /* whose end is its end; 0: outlives every context (async, vmm) */
};

/* Room for one record, taken before the driver is called, so that nothing can fail after it. False:
 * no room could be mapped; the allocation then goes unrecorded. Each true is followed by exactly
 * one of mt_device_add, mt_device_cancel. */
bool mt_device_reserve(void);
void mt_device_cancel(void);

/* A key that is still recorded is replaced (its free was not seen). */
void mt_device_add(const struct mt_device_record *record);

/* Around the driver's free: takes a record out, so that the next owner of the same key is not
 * mistaken for it, and keeps its room. Each true is followed by exactly one of mt_device_cancel (it
 * is freed) and mt_device_put_back (the driver refused; counts as no allocation). Any kind of
 * device pointer stands for all of them, since cuMemFree takes them all. */
bool mt_device_take(enum mt_device_kind kind, uint64_t key, struct mt_device_record *out);
void mt_device_put_back(const struct mt_device_record *record);

/* Memory of cuMemCreate lasts as long as one handle or one mapping of it is left. After the
 * driver's cuMemRetainAllocationHandle, cuMemMap (with room from mt_device_reserve, which this uses
 * up or gives back) and cuMemUnmap, which may concern several mappings. */
void mt_device_retained(uint64_t handle);
void mt_device_map(uint64_t dptr, uint64_t bytes, uint64_t handle);
void mt_device_unmap(uint64_t dptr, uint64_t bytes);

/* Around the driver's cuMemRelease, after which the handle may be given to other memory at once.
 * The number that the first answers (0: not known) is handed to the second; is_done: the driver has
 * not refused. */
uint64_t mt_device_release(uint64_t handle);
void mt_device_released(uint64_t handle, uint64_t number, bool is_done);

/* A context is gone, and with it what was its own. */
void mt_device_forget(uint64_t context);

void mt_device_usage(int device, struct mt_device_usage *out);
void mt_device_reset_peak(void);

/* The child holds nothing: its records belong to a driver that does not answer there. */
void mt_device_fork_child(void);

#endif
