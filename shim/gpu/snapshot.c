#include "gpu/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "core/config.h"
#include "sys/os.h"
#include "sys/saturating.h"
#include "gpu/context.h"
#include "core/dump_layout.h"
#include "core/stats_layout.h"
#include "core/publish.h"

#define PATH_BYTES     512
#define BUFFER_ENTRIES 4096u /* 128 kB: one write */
#define BUFFER_BYTES   (BUFFER_ENTRIES * sizeof(struct mt_blocks_entry))
/* ---- a copy of the blocks ---- */

MT_COLD bool mt_block_list_start(struct mt_block_walk *walk)
{
	if (mt_pool_is_up())
		*walk = mt_blocks_walk_start();
	return mt_pool_is_up();
}

static enum mt_blocks_state state_of(const struct mt_block *block)
{
	if (block->state == MT_BLOCK_LIVE)
		return block->is_non_recyclable ? MT_BLOCKS_EXPORTED : MT_BLOCKS_LIVE;
	return block->state == MT_BLOCK_PENDING ? MT_BLOCKS_PENDING : MT_BLOCKS_IDLE;
}

/* The block's context is locked, so that the record does not change. */
static struct mt_blocks_entry describe(const struct mt_block *block,
				       const struct mt_context *context, uint64_t now_ns)
{
	uint64_t age_ms = mt_sat_sub(now_ns, block->since_ns) / MT_NS_PER_MS;
	int device = mt_context_ordinal(context), last = (int)MT_BLOCKS_DEVICES - 1;

	return (struct mt_blocks_entry){
		.base = mt_block_base(block),
		.held_bytes = block->bytes,
		.asked_bytes = block->asked_bytes,
		.age_ms = (uint32_t)mt_min_u64(age_ms, UINT32_MAX),
		.context = (uint16_t)(context - mt_pool.contexts),
		.device = (uint8_t)(device >= 0 && device < last ? device : last),
		.state = (uint8_t)state_of(block),
	};
}

/* Returns false for a spare record, and one that leaves. */
static bool copy(struct mt_block *block, struct mt_blocks_entry *out)
{
	struct mt_context *context = mt_block_context(block);
	uint64_t now_ns = mt_os_coarse_ns();
	bool is_block;

	if (!context)
		return false;
	mt_lock_lock(&context->lock);
	is_block = mt_block_context(block) == context && block->state != MT_BLOCK_UNUSED &&
		   block->state != MT_BLOCK_LEAVING;
	if (is_block)
		*out = describe(block, context, now_ns);
	mt_lock_unlock(&context->lock);
	return is_block;
}

MT_COLD bool mt_block_list_next(struct mt_block_walk *walk, struct mt_blocks_entry *out)
{
	struct mt_block *block;

	while ((block = mt_blocks_walk_next(walk)))
		if (copy(block, out))
			return true;
	return false;
}

/* ---- the file ---- */

/* One snapshot being written. */
struct writer {
	struct mt_blocks_head head;
	struct mt_blocks_entry *buffer;
	uint32_t filled;
	uint64_t sum;
	uint64_t offset; /* in the file: where the buffer goes */
	int fd;
};

static uint64_t placed_ns; /* 0: there is no file of ours */

static bool flush(struct writer *writer)
{
	size_t bytes = writer->filled * sizeof(struct mt_blocks_entry);

	writer->sum = mt_checksum(writer->sum, writer->buffer, bytes);
	if (!mt_os_write_whole(writer->fd, writer->buffer, bytes, &writer->offset))
		return false;
	writer->filled = 0;
	return true;
}

static bool add(struct writer *writer, const struct mt_blocks_entry *entry)
{
	if (writer->head.entries_count == MT_BLOCKS_MAX) {
		writer->head.left_out_count++;
		return true;
	}
	writer->buffer[writer->filled++] = *entry;
	writer->head.entries_count++;
	return writer->filled < BUFFER_ENTRIES || flush(writer);
}

/* The entries first; the head when its figures are known. */
static enum mt_err write_blocks(struct writer *writer)
{
	uint64_t began_ns = mt_os_now_ns(), head_offset = 0;
	struct mt_blocks_entry entry;
	struct mt_block_walk walk;

	if (!mt_block_list_start(&walk))
		return MT_ERR_NOT_AVAILABLE;
	while (mt_block_list_next(&walk, &entry))
		if (!add(writer, &entry))
			return MT_ERR_SYSTEM;
	writer->head.duration_ns = mt_os_now_ns() - began_ns;
	if (!flush(writer))
		return MT_ERR_SYSTEM;
	writer->head.entries_sum = writer->sum;
	writer->head.checksum = mt_checksum(MT_CHECKSUM_START, &writer->head,
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

	writer.buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (writer.buffer == MAP_FAILED)
		return MT_ERR_NO_MEMORY;
	/* a child could not unmap it */
	(void)madvise(writer.buffer, BUFFER_BYTES, MADV_DONTFORK);
	writer.fd = mt_os_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (writer.fd >= 0) {
		answer = write_blocks(&writer);
		mt_os_close(writer.fd);
	}
	munmap(writer.buffer, BUFFER_BYTES);
	return answer;
}

enum mt_err mt_gpu_snapshot_write(void)
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

uint64_t mt_gpu_snapshot_tick(uint64_t now_ns)
{
	return mt_publish_expire_dump(MT_DUMP_BLOCKS, &placed_ns, now_ns);
}

void mt_gpu_snapshot_fork_child(void)
{
	placed_ns = 0;
}
