/* account/device.h -- which memory of which device the program holds that is not the pool's, by kind and by record.
 * Every figure is the sum of its records: a free without a record changes nothing, so no counter can fall under zero.
 * Any thread; lock rank 16, held over nothing. Allocates nothing (its tables are mapped). */
#ifndef MT_DEVICE_H
#define MT_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Kinds of device memory, in the order of the stats file. */
#define MT_DEVICE_KINDS(X)                                      \
	X(direct, "cuMemAlloc past the pool")                   \
	X(pitch, "cuMemAllocPitch")                             \
	X(managed, "cuMemAllocManaged")                         \
	X(async, "cuMemAllocAsync, cuMemAllocFromPoolAsync")    \
	X(vmm, "cuMemCreate")                                   \
	X(array, "arrays and mipmapped arrays")                 \
	X(pinned, "page-locked host memory")                    \
	X(imported, "opened from another process")

enum mt_device_kind {
#define X(name, text) MT_DEVICE_##name,
	MT_DEVICE_KINDS(X)
#undef X
	MT_DEVICE_KIND_COUNT
};

struct mt_device_usage {
	uint64_t live_bytes[MT_DEVICE_KIND_COUNT];
	uint64_t peak_bytes[MT_DEVICE_KIND_COUNT];
	uint64_t live_count[MT_DEVICE_KIND_COUNT];
	uint64_t alloc_count[MT_DEVICE_KIND_COUNT];
};

/* Room for one record, taken before the driver is called, so that nothing can fail after it. False: no room could be mapped; the
 * allocation then goes unrecorded. Each true is followed by exactly one of mt_device_add, mt_device_cancel. */
bool mt_device_reserve(void);
void mt_device_cancel(void);

/* key is the pointer or handle, unique within its kind. A key that is still recorded is replaced (its free was not seen). */
void mt_device_add(enum mt_device_kind kind, uint64_t key, int device, uint64_t bytes);

/* Forgets a record; its bytes, 0 where there is none. MT_DEVICE_KIND_COUNT for kind: whichever kind of device pointer
 * (not array, vmm, pinned) has this key. */
uint64_t mt_device_remove(enum mt_device_kind kind, uint64_t key);

/* A device's contexts are gone; with them direct, pitch, managed and array records. */
void mt_device_forget(int device);

void mt_device_usage(int device, struct mt_device_usage *out);
void mt_device_reset_peak(void);
void mt_device_fork_child(void);

#endif
