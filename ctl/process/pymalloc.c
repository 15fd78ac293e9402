#include "ctl/process/pymalloc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/process/smaps.h"

#define WINDOW 4096u /* entries of the pagemap that are read at once */
/* Documentation/admin-guide/mm/pagemap.rst */
#define PRESENT       ((uint64_t)1 << 63)
#define CLASSES_COUNT 32u /* of 16 bytes each, up to 512 */
#define CLASS_BYTES   16u

/* Pools of 16 kB first. If none is found, pools of 4 kB, of older Pythons. */
static const uint64_t pool_sizes[] = {16384, 4096};

struct reader {
	uint64_t pool_bytes;               /* of one pool */
	int pagemap, memory;               /* descriptors of /proc/PID/pagemap and mem */
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
static bool is_resident(struct reader *reader, uint64_t address)
{
	uint64_t page = address / reader->page_bytes,
		 first = reader->entries_from / reader->page_bytes;
	ssize_t got;

	if (page < first || page >= first + reader->entries_count) {
		got = pread(reader->pagemap, reader->entries, sizeof(reader->entries),
			    (off_t)(page * sizeof(uint64_t)));
		reader->entries_from = page * reader->page_bytes;
		reader->entries_count = got > 0 ? (size_t)got / sizeof(uint64_t) : 0;
		first = page;
	}
	return page < first + reader->entries_count && (reader->entries[page - first] & PRESENT);
}

/* Not by process_vm_readv(2): from Linux 5.19 on it gives the process a copy of a page that it
 * shares with a forked one. */
static void read_pool(const struct reader *reader, uint64_t address, struct mt_pymalloc *sum)
{
	unsigned char header[MT_PYMALLOC_HEADER_BYTES];
	uint64_t live;

	if (pread(reader->memory, header, sizeof(header), (off_t)address) != sizeof(header) ||
	    !mt_pymalloc_parse_header(header, reader->pool_bytes, &live))
		return;
	sum->pools_count++;
	sum->pools_bytes += reader->pool_bytes;
	sum->live_bytes += live;
}

static void scan(char *maps, struct reader *reader, struct mt_pymalloc *sum)
{
	uint64_t pool_bytes = reader->pool_bytes;
	struct mt_maps_line line;

	while (mt_maps_next(&maps, &line)) {
		/* private, writable, anonymous, without a name */
		if (strcmp(line.permissions, "rw-p") != 0 || line.inode || *line.name)
			continue;
		for (uint64_t at = (line.start + pool_bytes - 1) & ~(pool_bytes - 1);
		     at + pool_bytes <= line.end; at += pool_bytes)
			if (is_resident(reader, at))
				read_pool(reader, at, sum);
	}
}

static int open_of(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

bool mt_pymalloc_read(const struct mt_process *process, struct mt_pymalloc *out)
{
	struct reader *reader = mt_error_check_memory(calloc(1, sizeof(*reader)));
	bool known = false;

	memset(out, 0, sizeof(*out));
	reader->pagemap = open_of(process->pid, "pagemap");
	reader->memory = open_of(process->pid, "mem");
	reader->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; reader->pagemap >= 0 && reader->memory >= 0 &&
			   i < sizeof(pool_sizes) / sizeof(pool_sizes[0]) && !out->pools_count;
	     i++) {
		char *maps = mt_process_maps(process->pid);

		reader->pool_bytes = pool_sizes[i];
		reader->entries_count = 0;
		known = maps != NULL;
		if (maps)
			scan(maps, reader, out);
		free(maps);
	}
	if (reader->pagemap >= 0)
		close(reader->pagemap);
	if (reader->memory >= 0)
		close(reader->memory);
	free(reader);
	return known;
}
