#include "gpu/devices.h"

#include <string.h>

#include "gpu/unpooled.h"
#include "gpu/driver.h"
#include "gpu/capture.h"
#include "gpu/device_memory.h"
#include "sys/format.h"

/* ---- which devices ---- */

static bool has_allocations(int device)
{
	struct mt_pool_usage pool;
	struct mt_unpooled_usage others;

	mt_pool_usage(device, &pool);
	if (pool.reserved_bytes || pool.alloc_count)
		return true;
	mt_unpooled_usage(device, &others);
	for (int kind = 0; kind < MT_UNPOOLED_KIND_COUNT; kind++)
		if (others.alloc_count[kind])
			return true;
	return false;
}

static bool has_primary_context(const struct mt_driver *driver, int device)
{
	unsigned int flags;
	int active = 0;

	return driver->cuDevicePrimaryCtxGetState &&
	       driver->cuDevicePrimaryCtxGetState(device, &flags, &active) == MT_CU_SUCCESS &&
	       active;
}

/* Lists the devices in use as the driver's handles; returns how many. */
static int list_devices(const struct mt_driver *driver, int *out, int limit)
{
	int count = 0;
	int found = 0;
	int device;

	if (!driver->cuDeviceGetCount || !driver->cuDeviceGet ||
	    driver->cuDeviceGetCount(&count) != MT_CU_SUCCESS)
		return 0;
	for (int ordinal = 0; ordinal < count && found < limit; ordinal++)
		if (driver->cuDeviceGet(&device, ordinal) == MT_CU_SUCCESS &&
		    (has_primary_context(driver, device) || has_allocations(device)))
			out[found++] = device;
	return found;
}

/* ---- figures of one device ---- */

void mt_gpu_read_pci(int device, char out[MT_PCI_BYTES])
{
	static const char hex[] = "0123456789abcdef";
	const struct mt_driver *driver = mt_driver_usable();
	int domain = 0, bus = 0, slot = 0;

	out[0] = '\0';
	if (!driver || !driver->cuDeviceGetAttribute ||
	    driver->cuDeviceGetAttribute(&domain, MT_CU_DEVICE_PCI_DOMAIN_ID, device) !=
		    MT_CU_SUCCESS ||
	    driver->cuDeviceGetAttribute(&bus, MT_CU_DEVICE_PCI_BUS_ID, device) != MT_CU_SUCCESS ||
	    driver->cuDeviceGetAttribute(&slot, MT_CU_DEVICE_PCI_DEVICE_ID, device) !=
		    MT_CU_SUCCESS)
		return;
	(void)mt_format(out, MT_PCI_BYTES, "%c%c%c%c:%c%c:%c%c.0", hex[domain >> 12 & 15],
			hex[domain >> 8 & 15], hex[domain >> 4 & 15], hex[domain & 15],
			hex[bus >> 4 & 15], hex[bus & 15], hex[slot >> 4 & 15], hex[slot & 15]);
}

static void read_pools(const struct mt_driver *driver, int device, struct mt_gpu_device *out)
{
	struct CUmemPoolHandle_st *pool = NULL;
	uint64_t value = 0;

	if (driver->cuDeviceGetDefaultMemPool && driver->cuMemPoolGetAttribute &&
	    driver->cuDeviceGetDefaultMemPool(&pool, device) == MT_CU_SUCCESS) {
		if (driver->cuMemPoolGetAttribute(pool, MT_CU_MEMPOOL_RESERVED_MEM_CURRENT,
						  &value) == MT_CU_SUCCESS)
			out->async_reserved_bytes = value;
		if (driver->cuMemPoolGetAttribute(pool, MT_CU_MEMPOOL_USED_MEM_CURRENT, &value) ==
		    MT_CU_SUCCESS)
			out->async_used_bytes = value;
	}
	if (driver->cuDeviceGetGraphMemAttribute &&
	    driver->cuDeviceGetGraphMemAttribute(device, MT_CU_GRAPH_MEM_RESERVED_MEM_CURRENT,
						 &value) == MT_CU_SUCCESS)
		out->graph_reserved_bytes = value;
}

static void read_device(const struct mt_driver *driver, int device, struct mt_gpu_device *out)
{
	size_t total = 0;

	memset(out, 0, sizeof(*out));
	out->ordinal = device;
	if (driver->cuDeviceGetName &&
	    driver->cuDeviceGetName(out->name, (int)sizeof(out->name), device) != MT_CU_SUCCESS)
		out->name[0] = '\0';
	out->name[sizeof(out->name) - 1] = '\0';
	mt_gpu_read_pci(device, out->pci);
	if (driver->cuDeviceTotalMem_v2 &&
	    driver->cuDeviceTotalMem_v2(&total, device) == MT_CU_SUCCESS)
		out->total_bytes = total;
	read_pools(driver, device, out);
}

int mt_gpu_read(struct mt_gpu_device *out, int limit)
{
	const struct mt_driver *driver = mt_driver_usable();
	int devices[MT_POOL_DEVICES];
	int count;

	if (!driver || !mt_capture_gate_enter())
		return 0;
	count = list_devices(driver, devices, limit < MT_POOL_DEVICES ? limit : MT_POOL_DEVICES);
	for (int i = 0; i < count; i++)
		read_device(driver, devices[i], &out[i]);
	mt_capture_gate_leave();
	/* This enters the gate itself. */
	for (int i = 0; i < count; i++)
		(void)mt_device_memory_read(devices[i], &out[i].free_bytes, &out[i].total_bytes);
	return count;
}

uint64_t mt_gpu_used_bytes(void)
{
	const struct mt_driver *driver = mt_driver_usable();
	int devices[MT_POOL_DEVICES];
	uint64_t used = 0;
	int count;

	if (!driver || !mt_capture_gate_enter())
		return 0;
	count = list_devices(driver, devices, MT_POOL_DEVICES);
	mt_capture_gate_leave();
	for (int i = 0; i < count; i++) {
		uint64_t free_bytes, total;

		if (mt_device_memory_read(devices[i], &free_bytes, &total) && total > free_bytes)
			used += total - free_bytes;
	}
	return used;
}

bool mt_gpu_trim_driver_pools(int device)
{
	const struct mt_driver *driver = mt_driver_usable();
	struct CUmemPoolHandle_st *pool;
	int devices[MT_POOL_DEVICES];
	int count;

	if (!driver || !mt_capture_gate_enter())
		return false;
	count = list_devices(driver, devices, MT_POOL_DEVICES);
	for (int i = 0; i < count; i++) {
		if (device != MT_ANY_DEVICE && devices[i] != device)
			continue;
		if (driver->cuDeviceGetDefaultMemPool && driver->cuMemPoolTrimTo &&
		    driver->cuDeviceGetDefaultMemPool(&pool, devices[i]) == MT_CU_SUCCESS)
			mt_driver_note(driver->cuMemPoolTrimTo(pool, 0));
		if (driver->cuDeviceGraphMemTrim)
			mt_driver_note(driver->cuDeviceGraphMemTrim(devices[i]));
	}
	mt_capture_gate_leave();
	return true;
}
