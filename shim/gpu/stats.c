#include "gpu/stats.h"

#include <string.h>

#include "sys/loader.h"
#include "sys/os.h"
#include "gpu/driver.h"
#include "gpu/capture.h"
#include "gpu/thread.h"
#include "gpu/frameworks.h"
#include "core/publish.h"
#include "sys/format.h"
#include "sys/saturating.h"

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
	mt_driver_read_pci(device, out->pci);
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

/* Replies of the driver and of NVML at the last read; worker thread. */
static struct seen {
	int count;
	struct mt_gpu_device devices[MT_DEVICES_COUNT];
	struct mt_nvml_usage nvml[MT_DEVICES_COUNT];
} seen, job_seen;

static struct mt_stats_device rows[MT_DEVICES_COUNT];
static struct mt_gpu_stats_unattributed unattributed[MT_DEVICES_COUNT]; /* by row */

_Static_assert((int)MT_DEVICES_COUNT <= (int)MT_POOL_DEVICES, "each has figures of its own");

/* ---- one row ---- */

/* For async allocations the driver keeps more than is live. */
uint64_t mt_gpu_stats_held_bytes(const struct mt_stats_device *row)
{
	return row->reserved_bytes + row->direct_live_bytes + row->pitch_live_bytes +
	       row->vmm_live_bytes + row->array_live_bytes +
	       mt_max_u64(row->async_live_bytes, row->async_reserved_bytes) +
	       row->graph_reserved_bytes;
}

static void fill_nvml(struct mt_stats_device *to, const struct mt_nvml_usage *nvml)
{
	uint64_t ours = mt_gpu_stats_held_bytes(to);

	/* Of a divided device NVML shows the whole, and the driver our part: the free memory of the
	 * one says nothing of the other. */
	if (!to->free_bytes && nvml->total_bytes &&
	    nvml->total_bytes - to->total_bytes / 8 <= to->total_bytes)
		to->free_bytes =
			nvml->free_bytes < to->total_bytes ? nvml->free_bytes : to->total_bytes;
	to->others_known = nvml->others_known;
	to->others_bytes = nvml->others_bytes;
	to->others_count = nvml->others_count;
	to->process_known = nvml->own_known;
	to->process_bytes = nvml->own_bytes;
	if (nvml->own_known && nvml->own_bytes > ours)
		to->unattributed_bytes = nvml->own_bytes - ours;
}

void mt_gpu_stats_fill(struct mt_stats_device *to, const struct mt_gpu_device *device,
		       const struct mt_pool_usage *pool, const struct mt_unpooled_usage *others,
		       const struct mt_nvml_usage *nvml)
{
	memset(to, 0, sizeof(*to));
	to->ordinal = (uint64_t)device->ordinal;
#define X(name) to->name = pool->name;
	MT_POOL_FIGURES(X)
#undef X
	to->largest_idle_bytes = pool->largest_idle_bytes;
#define X(name, text)                                                                              \
	to->name##_live_bytes = others->live_bytes[MT_UNPOOLED_##name];                            \
	to->name##_peak_bytes = others->peak_bytes[MT_UNPOOLED_##name];
	MT_UNPOOLED_KINDS(X)
#undef X
	to->async_reserved_bytes = device->async_reserved_bytes;
	to->async_used_bytes = device->async_used_bytes;
	to->graph_reserved_bytes = device->graph_reserved_bytes;
	to->free_bytes = device->free_bytes;
	to->total_bytes = device->total_bytes;
	fill_nvml(to, nvml);
	(void)mt_format(to->name, sizeof(to->name), "%s", device->name);
	(void)mt_format(to->pci, sizeof(to->pci), "%s", device->pci);
}

void mt_gpu_stats_date(struct mt_stats_device *row, struct mt_gpu_stats_unattributed *last,
		       uint64_t read_ns, uint64_t now_ns)
{
	if (last->read_ns != read_ns || last->ordinal != row->ordinal)
		*last = (struct mt_gpu_stats_unattributed){.ordinal = row->ordinal,
							   .read_ns = read_ns,
							   .unattributed_bytes =
								   row->unattributed_bytes};
	row->unattributed_bytes = last->unattributed_bytes;
	row->nvml_age_ms = read_ns ? (now_ns - read_ns) / MT_NS_PER_MS : 0;
}

/* ---- the sum ---- */

/* Adds a row to the summed figures. Pure. */
static void add_row(struct mt_stats_snapshot *to, const struct mt_stats_device *from)
{
#define X(name) to->gpu_##name += from->name;
	MT_POOL_FIGURES(X)
#undef X
	to->gpu_async_reserved_bytes += from->async_reserved_bytes;
	to->gpu_graph_reserved_bytes += from->graph_reserved_bytes;
	to->gpu_process_bytes += from->process_bytes;
	to->gpu_unattributed_bytes += from->unattributed_bytes;
	to->gpu_free_bytes += from->free_bytes;
	to->gpu_total_bytes += from->total_bytes;
	to->gpu_other_bytes += from->direct_live_bytes + from->pitch_live_bytes +
			       from->managed_live_bytes + from->async_live_bytes +
			       from->vmm_live_bytes + from->array_live_bytes;
	to->gpu_pinned_bytes += from->pinned_live_bytes;
	to->gpu_imported_bytes += from->imported_live_bytes;
	to->gpu_process_known =
		(to->gpu_devices_count == 0 || to->gpu_process_known) && from->process_known;
	to->gpu_devices_count++;
}

/* ---- publish ---- */

static void look_job(void)
{
	memset(&job_seen, 0, sizeof(job_seen));
	job_seen.count = mt_gpu_read(job_seen.devices, MT_DEVICES_COUNT);
	for (int i = 0; i < job_seen.count; i++)
		if (job_seen.devices[i].pci[0])
			(void)mt_nvml_read(job_seen.devices[i].pci, false, &job_seen.nvml[i]);
}

static const char *mode_text(int device)
{
	static const char *const texts[] = {"undecided", "account", "pool"};

	return texts[mt_pool_mode_of(device)];
}

static void fill_rows(void)
{
	struct mt_pool_usage pool;
	struct mt_unpooled_usage others;

	for (int i = 0; i < seen.count; i++) {
		mt_pool_usage(seen.devices[i].ordinal, &pool);
		mt_unpooled_usage(seen.devices[i].ordinal, &others);
		mt_gpu_stats_fill(&rows[i], &seen.devices[i], &pool, &others, &seen.nvml[i]);
		mt_gpu_stats_date(&rows[i], &unattributed[i], seen.nvml[i].read_ns, mt_os_now_ns());
		(void)mt_format(rows[i].mode, sizeof(rows[i].mode), "%s",
				mode_text(seen.devices[i].ordinal));
	}
}

/* The loaded objects are read only if there are new ones. */
static void tell_how(void)
{
	static unsigned long long loads_seen;
	static const char *text;
	unsigned long long loads = mt_elf_load_count();

	if (!text || loads != loads_seen)
		text = mt_frameworks_look().text;
	loads_seen = loads;
	mt_publish_set_cuda(text, (uint32_t)mt_driver_version());
}

void mt_gpu_stats_publish(bool full)
{
	struct mt_stats_snapshot *to;

	/* During a capture nothing is read: the last figures stay. */
	if (full && !mt_capture_is_open() && mt_gpu_thread_run(look_job) &&
	    (job_seen.count || !mt_capture_is_open()))
		seen = job_seen;
	fill_rows();
	if (full)
		tell_how();
	mt_publish_set_devices(rows, (uint32_t)seen.count);
	to = mt_publish_lock();
	/* The sums stand together in figures.def. */
	memset(&to->gpu_devices_count, 0,
	       offsetof(struct mt_stats_snapshot, gpu_flush_count) -
		       offsetof(struct mt_stats_snapshot, gpu_devices_count));
	for (int i = 0; i < seen.count; i++)
		add_row(to, &rows[i]);
	to->gpu_capturing = mt_capture_is_open();
	mt_publish_unlock();
}

uint32_t mt_gpu_stats_rows(const struct mt_stats_device **out)
{
	*out = rows;
	return (uint32_t)seen.count;
}

uint64_t mt_gpu_stats_live_bytes(void)
{
	struct mt_pool_usage pool;
	struct mt_unpooled_usage others;
	uint64_t bytes = 0;

	for (int device = 0; device < (int)MT_DEVICES_COUNT; device++) {
		mt_pool_usage(device, &pool);
		mt_unpooled_usage(device, &others);
		bytes += pool.allocated_bytes + mt_unpooled_device_bytes(&others);
	}
	return bytes;
}

void mt_gpu_stats_fork_child(void)
{
	memset(&seen, 0, sizeof(seen));
	mt_nvml_fork_child();
}
