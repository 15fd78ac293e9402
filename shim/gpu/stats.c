#include "gpu/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "sys/os.h"
#include "gpu/driver.h"
#include "gpu/capture.h"
#include "core/config.h"
#include "core/publish.h"
#include "sys/format.h"
#include "sys/saturating.h"

#define PATH_BYTES 512
#define NVML_NS    (5 * MT_NS_PER_S) /* how long a reply of NVML counts: it takes milliseconds */

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
		if (others.live_bytes[kind])
			return true;
	return false;
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
		    (mt_driver_primary_state(driver, device) == 1 || has_allocations(device)))
			out[found++] = device;
	return found;
}

/* ---- figures of one device ---- */

static void read_pools(const struct mt_driver *driver, int device, struct mt_gpu_device *out)
{
	struct CUmemPoolHandle_st *pool = NULL;
	uint64_t value = 0;

	if (driver->cuDeviceGetDefaultMemPool && driver->cuMemPoolGetAttribute &&
	    driver->cuDeviceGetDefaultMemPool(&pool, device) == MT_CU_SUCCESS &&
	    driver->cuMemPoolGetAttribute(pool, MT_CU_MEMPOOL_RESERVED_MEM_CURRENT, &value) ==
		    MT_CU_SUCCESS)
		out->async_reserved_bytes = value;
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

int mt_gpu_stats_read(struct mt_gpu_device *out, int limit)
{
	const struct mt_driver *driver = mt_driver_usable();
	int devices[MT_POOL_DEVICES];
	int count;

	if (!driver)
		return 0;
	if (!mt_capture_gate_enter())
		return -1;
	count = list_devices(driver, devices, limit < MT_POOL_DEVICES ? limit : MT_POOL_DEVICES);
	for (int i = 0; i < count; i++)
		read_device(driver, devices[i], &out[i]);
	mt_capture_gate_leave();
	for (int i = 0; i < count; i++)
		(void)mt_pool_read_memory(devices[i], &out[i].free_bytes, &out[i].total_bytes);
	return count;
}

bool mt_gpu_stats_trim_pools(int device)
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
			(void)driver->cuMemPoolTrimTo(pool, 0);
		if (driver->cuDeviceGraphMemTrim)
			(void)driver->cuDeviceGraphMemTrim(devices[i]);
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

_Static_assert((int)MT_DEVICES_COUNT <= (int)MT_POOL_DEVICES, "each has figures of its own");

/* ---- one row ---- */

static void fill_nvml(struct mt_stats_device *to, const struct mt_nvml_usage *nvml)
{
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
	if (nvml->own_known)
		to->unattributed_bytes = mt_sat_sub(nvml->own_bytes, nvml->held_bytes);
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
#define X(name, text) to->name##_live_bytes = others->live_bytes[MT_UNPOOLED_##name];
	MT_UNPOOLED_KINDS(X)
#undef X
	to->async_reserved_bytes = device->async_reserved_bytes;
	to->graph_reserved_bytes = device->graph_reserved_bytes;
	to->free_bytes = device->free_bytes;
	to->total_bytes = device->total_bytes;
	fill_nvml(to, nvml);
	(void)mt_format(to->name, sizeof(to->name), "%s", device->name);
	(void)mt_format(to->pci, sizeof(to->pci), "%s", device->pci);
}

static void fill_now(struct mt_stats_device *to, const struct mt_gpu_device *device,
		     const struct mt_nvml_usage *nvml)
{
	struct mt_unpooled_usage others;
	struct mt_pool_usage pool;

	mt_pool_usage(device->ordinal, &pool);
	mt_unpooled_usage(device->ordinal, &others);
	mt_gpu_stats_fill(to, device, &pool, &others, nvml);
}

uint64_t mt_gpu_stats_held_bytes(const struct mt_gpu_device *device)
{
	static const struct mt_nvml_usage unknown;
	struct mt_stats_device row;

	fill_now(&row, device, &unknown);
	/* For async allocations the driver keeps more than is live. */
	return row.reserved_bytes + row.direct_live_bytes + row.pitch_live_bytes +
	       row.vmm_live_bytes + row.array_live_bytes +
	       mt_max_u64(row.async_live_bytes, row.async_reserved_bytes) +
	       row.graph_reserved_bytes;
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

/* The last reply about the device, if that is less than NVML_NS old; NULL: none. On the driver
 * thread: the worker, which writes `seen`, waits for it. */
static const struct mt_nvml_usage *find_reply(const struct mt_gpu_device *device)
{
	for (int i = 0; i < seen.count; i++)
		if (seen.devices[i].ordinal == device->ordinal &&
		    mt_os_now_ns() - seen.nvml[i].read_ns < NVML_NS)
			return &seen.nvml[i];
	return NULL;
}

static void look_job(void)
{
	memset(&job_seen, 0, sizeof(job_seen));
	job_seen.count = mt_gpu_stats_read(job_seen.devices, MT_DEVICES_COUNT);
	for (int i = 0; i < job_seen.count; i++) {
		const struct mt_gpu_device *device = &job_seen.devices[i];
		const struct mt_nvml_usage *last = find_reply(device);

		if (last)
			job_seen.nvml[i] = *last;
		else if (device->pci[0])
			mt_nvml_read(device->pci, &job_seen.nvml[i]);
		if (!last)
			job_seen.nvml[i].held_bytes = mt_gpu_stats_held_bytes(device);
	}
}

static void fill_rows(void)
{
	static const char *const modes[] = {"undecided", "account", "pool"};

	for (int i = 0; i < seen.count; i++) {
		uint64_t read_ns = seen.nvml[i].read_ns;

		fill_now(&rows[i], &seen.devices[i], &seen.nvml[i]);
		rows[i].nvml_age_ms = read_ns ? (mt_os_now_ns() - read_ns) / MT_NS_PER_MS : 0;
		(void)mt_format(rows[i].mode, sizeof(rows[i].mode), "%s",
				modes[mt_pool_mode_of(seen.devices[i].ordinal)]);
	}
}

void mt_gpu_stats_publish(bool full)
{
	struct mt_stats_snapshot *to;

	/* During a capture nothing is read: the last figures stay. */
	if (full && !mt_capture_is_open() && mt_driver_thread_run(look_job) && job_seen.count >= 0)
		seen = job_seen;
	fill_rows();
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

/* ---- the list of the blocks ---- */

static enum mt_blocks_state state_of(const struct mt_block *block)
{
	if (block->state == MT_BLOCK_LIVE)
		return block->is_non_recyclable ? MT_BLOCKS_EXPORTED : MT_BLOCKS_LIVE;
	return block->state == MT_BLOCK_IDLE ? MT_BLOCKS_IDLE : MT_BLOCKS_PENDING;
}

bool mt_gpu_stats_copy_block(struct mt_block *block, struct mt_blocks_entry *out)
{
	struct mt_context *context = mt_block_context(block);
	uint64_t now_ns = mt_os_coarse_ns();
	int device, last = (int)MT_BLOCKS_DEVICES - 1;
	bool is_block;

	if (!context)
		return false;
	mt_lock_lock(&context->lock);
	device = mt_context_ordinal(context);
	is_block = mt_block_context(block) == context && block->state >= MT_BLOCK_LIVE;
	if (is_block)
		*out = (struct mt_blocks_entry){
			.base = mt_block_base(block),
			.held_bytes = block->bytes,
			.asked_bytes = block->asked_bytes,
			.age_ms = (uint32_t)mt_min_u64(
				mt_sat_sub(now_ns, block->since_ns) / MT_NS_PER_MS, UINT32_MAX),
			.context = (uint16_t)(context - mt_pool.contexts),
			.device = (uint8_t)(device >= 0 && device < last ? device : last),
			.state = (uint8_t)state_of(block),
		};
	mt_lock_unlock(&context->lock);
	return is_block;
}

/* ---- its file ---- */

/* One snapshot being written. */
struct writer {
	struct mt_blocks_head head;
	uint32_t filled; /* entries of `buffer` */
	uint64_t sum;
	uint64_t offset; /* in the file: where the buffer goes */
	int fd;
	bool has_failed;
};

static struct mt_blocks_entry buffer[256]; /* worker thread */
static uint64_t placed_ns;                 /* 0: there is no file of ours */

static bool flush(struct writer *writer)
{
	size_t bytes = writer->filled * sizeof(struct mt_blocks_entry);

	writer->sum = mt_stats_checksum(writer->sum, buffer, bytes);
	if (!mt_os_write_whole(writer->fd, buffer, bytes, &writer->offset))
		return false;
	writer->filled = 0;
	return true;
}

static void add_block(struct mt_block *block, void *to)
{
	struct writer *writer = to;
	struct mt_blocks_entry entry;

	if (writer->has_failed || !mt_gpu_stats_copy_block(block, &entry))
		return;
	if (writer->head.entries_count == MT_BLOCKS_MAX) {
		writer->head.left_out_count++;
		return;
	}
	buffer[writer->filled++] = entry;
	writer->head.entries_count++;
	if (writer->filled == sizeof(buffer) / sizeof(buffer[0]))
		writer->has_failed = !flush(writer);
}

/* The entries first; the head when its figures are known. */
static enum mt_err write_blocks(struct writer *writer)
{
	uint64_t began_ns = mt_os_now_ns(), head_offset = 0;

	if (!mt_pool_is_up())
		return MT_ERR_NOT_AVAILABLE;
	mt_blocks_each(add_block, writer);
	writer->head.duration_ns = mt_os_now_ns() - began_ns;
	if (writer->has_failed || !flush(writer))
		return MT_ERR_SYSTEM;
	writer->head.entries_sum = writer->sum;
	writer->head.checksum = mt_stats_checksum(MT_CHECKSUM_START, &writer->head,
						  offsetof(struct mt_blocks_head, checksum));
	return mt_os_write_whole(writer->fd, &writer->head, sizeof(writer->head), &head_offset)
		       ? MT_ERR_OK
		       : MT_ERR_SYSTEM;
}

static enum mt_err write_file(const char *path)
{
	struct writer writer = {
		.head =
			{
				.magic = MT_BLOCKS_MAGIC,
				.version = MT_BLOCKS_VERSION,
				.head_bytes = sizeof(struct mt_blocks_head),
				.entry_bytes = sizeof(struct mt_blocks_entry),
				.time_ns = mt_os_realtime_ns(),
				.decay_ms = mt_config()->cuda_decay_ms,
			},
		.sum = MT_CHECKSUM_START,
		.offset = sizeof(struct mt_blocks_head),
	};
	enum mt_err answer = MT_ERR_SYSTEM;

	writer.fd = mt_os_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (writer.fd >= 0) {
		answer = write_blocks(&writer);
		mt_os_close(writer.fd);
	}
	return answer;
}

enum mt_err mt_gpu_stats_write_blocks(void)
{
	char path[PATH_BYTES];
	int kept = errno;
	enum mt_err answer = mt_publish_begin_dump(path, sizeof(path));
	enum mt_err placed;

	if (answer == MT_ERR_OK) {
		answer = write_file(path);
		placed = mt_publish_end_dump(MT_DUMP_BLOCKS, answer == MT_ERR_OK);
		answer = answer == MT_ERR_OK ? placed : answer;
	}
	if (answer == MT_ERR_OK)
		placed_ns = mt_os_now_ns();
	errno = kept;
	return answer;
}

uint64_t mt_gpu_stats_tick(uint64_t now_ns)
{
	return mt_publish_expire_dump(MT_DUMP_BLOCKS, &placed_ns, now_ns);
}
