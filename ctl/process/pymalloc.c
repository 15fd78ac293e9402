#include "ctl/process/pymalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ctl/process/smaps.h"

#define BATCH  1024
#define WINDOW 4096u /* entries of the pagemap that are read at once */
/* Documentation/admin-guide/mm/pagemap.rst */
#define PRESENT       ((uint64_t)1 << 63)
#define CLASSES_COUNT 32u /* of 16 bytes each, up to 512 */
#define CLASS_BYTES   16u

/* Pools of 16 kB first. If none is found, pools of 4 kB, of older Pythons. */
static const uint64_t pool_sizes[] = {16384, 4096};

struct batch {
	pid_t pid;
	uint64_t pool_bytes; /* of one pool */
	struct iovec remote[BATCH];
	unsigned char headers[BATCH][MT_PYMALLOC_HEADER_BYTES];
	size_t count;
	bool refused;
	int pagemap;
	uint64_t page_bytes, entries_from; /* the address of the first */
	size_t entries_count;
	uint64_t entries[WINDOW];
};

static uint32_t word_at(const unsigned char *header, size_t offset)
{
	uint32_t word;

	memcpy(&word, header + offset, sizeof(word));
	return word;
}

bool mt_pymalloc_parse_header(const unsigned char *header, uint64_t pool_bytes,
			      uint64_t *out_live_bytes)
{
	uint64_t count = word_at(header, 0), class = word_at(header, 36),
		 block = (class + 1) * CLASS_BYTES;
	uint64_t next = word_at(header, 40), last = word_at(header, 44);

	if (class >= CLASSES_COUNT || last != pool_bytes - block ||
	    next < MT_PYMALLOC_HEADER_BYTES + block || next > pool_bytes ||
	    (next - MT_PYMALLOC_HEADER_BYTES) % block != 0)
		return false;
	if (count > (pool_bytes - MT_PYMALLOC_HEADER_BYTES) / block)
		return false;
	*out_live_bytes = count * block;
	return true;
}

/* A read of a page that is not resident would create page tables for reserved memory, or swap the
 * page in. Addresses must rise from call to call. */
static bool is_resident(struct batch *batch, uint64_t address)
{
	uint64_t page = address / batch->page_bytes,
		 first = batch->entries_from / batch->page_bytes;
	ssize_t got;

	if (page < first || page >= first + batch->entries_count) {
		got = pread(batch->pagemap, batch->entries, sizeof(batch->entries),
			    (off_t)(page * sizeof(uint64_t)));
		batch->entries_from = page * batch->page_bytes;
		batch->entries_count = got > 0 ? (size_t)got / sizeof(uint64_t) : 0;
		first = page;
	}
	return page < first + batch->entries_count && (batch->entries[page - first] & PRESENT);
}

/* process_vm_readv(2) ends at a page that cannot be read. The rest is read again behind it. */
static void read_batch(struct batch *batch, struct mt_pymalloc *sum)
{
	for (size_t first = 0; first < batch->count && !batch->refused; first++) {
		struct iovec local = {batch->headers[first],
				      (batch->count - first) * MT_PYMALLOC_HEADER_BYTES};
		ssize_t got = process_vm_readv(batch->pid, &local, 1, batch->remote + first,
					       batch->count - first, 0);
		size_t whole = got > 0 ? (size_t)got / MT_PYMALLOC_HEADER_BYTES : 0;

		batch->refused = got < 0 && errno == EPERM;
		for (size_t i = first; i < first + whole; i++) {
			uint64_t live;

			if (!mt_pymalloc_parse_header(batch->headers[i], batch->pool_bytes, &live))
				continue;
			sum->pools_count++;
			sum->pools_bytes += batch->pool_bytes;
			sum->live_bytes += live;
		}
		first += whole;
	}
	batch->count = 0;
}

static bool scan(char *maps, struct batch *batch, struct mt_pymalloc *sum)
{
	uint64_t pool_bytes = batch->pool_bytes;
	struct mt_maps_line line;

	while (mt_maps_next(&maps, &line)) {
		/* private, writable, anonymous, without a name */
		if (strcmp(line.permissions, "rw-p") != 0 || line.inode || *line.name)
			continue;
		for (uint64_t at = (line.start + pool_bytes - 1) & ~(pool_bytes - 1);
		     at + pool_bytes <= line.end; at += pool_bytes) {
			if (!is_resident(batch, at))
				continue;
			batch->remote[batch->count++] =
				(struct iovec){(void *)(uintptr_t)at, MT_PYMALLOC_HEADER_BYTES};
			if (batch->count == BATCH)
				read_batch(batch, sum);
		}
	}
	read_batch(batch, sum);
	return !batch->refused;
}

bool mt_pymalloc_read(const struct mt_process *process, struct mt_pymalloc *out)
{
	struct batch *batch = mt_error_check_memory(calloc(1, sizeof(*batch)));
	char path[64];
	bool known = false;

	memset(out, 0, sizeof(*out));
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)process->pid);
	batch->pagemap = open(path, O_RDONLY | O_CLOEXEC);
	batch->pid = process->pid;
	batch->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; batch->pagemap >= 0 && i < sizeof(pool_sizes) / sizeof(pool_sizes[0]) &&
			   !out->pools_count;
	     i++) {
		char *maps = mt_process_maps(process->pid);

		batch->pool_bytes = pool_sizes[i];
		batch->refused = false;
		batch->entries_count = 0;
		known = maps && scan(maps, batch, out);
		free(maps);
	}
	if (batch->pagemap >= 0)
		close(batch->pagemap);
	free(batch);
	return known;
}
