#include "ctl/process/cow_sharing.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#define CANDIDATES   512u
#define COMPARED_MIN 12u
#define WORDS_MIN    16u
/* the first 4 kB of a page are compared */
#define PAGE_WORDS 512u
/* Documentation/admin-guide/mm/pagemap.rst */
#define PRESENT   ((uint64_t)1 << 63)
#define EXCLUSIVE ((uint64_t)1 << 56)

/* One of the two processes, with its pagemap. */
struct side {
	pid_t pid;
	int pagemap;
	uint64_t page[PAGE_WORDS];
};

bool mt_cow_sharing_alike(const uint64_t *one, const uint64_t *other, size_t words, bool *out_tells)
{
	size_t filled = 0, same = 0;

	for (size_t i = 0; i < words; i++) {
		filled += one[i] || other[i];
		same += one[i] && one[i] == other[i];
	}
	*out_tells = filled >= WORDS_MIN;
	return same * 2 >= filled;
}

static bool is_own(const struct side *side, uint64_t address, uint64_t page_bytes)
{
	uint64_t entry;

	return pread(side->pagemap, &entry, sizeof(entry),
		     (off_t)(address / page_bytes * sizeof(entry))) == sizeof(entry) &&
	       (entry & PRESENT) && (entry & EXCLUSIVE);
}

static bool read_page(struct side *side, uint64_t address)
{
	struct iovec local = {side->page, sizeof(side->page)};
	struct iovec remote = {(void *)(uintptr_t)address, sizeof(side->page)};

	return process_vm_readv(side->pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof(side->page);
}

static bool is_anon(const struct mt_smaps_mapping *mapping)
{
	return mapping->kind == MT_SMAPS_ANON && !mapping->is_shared;
}

static bool maps(const struct mt_smaps *smaps, uint64_t address)
{
	for (size_t i = 0; i < smaps->count; i++)
		if (address >= smaps->list[i].start && address < smaps->list[i].end)
			return is_anon(&smaps->list[i]);
	return false;
}

/* Candidates are spread by the private bytes of a mapping, so that large mappings that are nearly
 * empty get few. */
static void compare(struct side *child, const struct mt_smaps *child_smaps, struct side *parent,
		    const struct mt_smaps *parent_smaps, unsigned *out_compared,
		    unsigned *out_alike)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), own_bytes = 0;

	for (size_t i = 0; i < child_smaps->count; i++)
		if (is_anon(&child_smaps->list[i]))
			own_bytes += child_smaps->list[i].sizes.private_dirty_bytes;
	for (size_t i = 0; i < child_smaps->count && own_bytes; i++) {
		const struct mt_smaps_mapping *mapping = &child_smaps->list[i];
		uint64_t share = is_anon(mapping) ? mapping->sizes.private_dirty_bytes *
							    CANDIDATES / own_bytes
						  : 0;
		uint64_t step =
			share ? (mapping->end - mapping->start) / share / page_bytes * page_bytes
			      : 0;

		if (share)
			step = step ? step : page_bytes;
		for (uint64_t at = mapping->start; step && at < mapping->end; at += step) {
			bool alike, tells;

			if (!is_own(child, at, page_bytes) || !maps(parent_smaps, at) ||
			    !is_own(parent, at, page_bytes) || !read_page(child, at) ||
			    !read_page(parent, at))
				continue;
			alike = mt_cow_sharing_alike(child->page, parent->page, PAGE_WORDS, &tells);
			*out_compared += tells;
			*out_alike += tells && alike;
		}
	}
}

static int open_pagemap(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

bool mt_cow_sharing_share(pid_t child, const struct mt_smaps *child_smaps, pid_t parent,
			  const struct mt_smaps *parent_smaps, double *out_share)
{
	struct side ours = {.pid = child, .pagemap = open_pagemap(child)};
	struct side theirs = {.pid = parent, .pagemap = open_pagemap(parent)};
	unsigned compared = 0, alike = 0;

	if (ours.pagemap >= 0 && theirs.pagemap >= 0)
		compare(&ours, child_smaps, &theirs, parent_smaps, &compared, &alike);
	if (ours.pagemap >= 0)
		close(ours.pagemap);
	if (theirs.pagemap >= 0)
		close(theirs.pagemap);
	if (compared < COMPARED_MIN)
		return false;
	*out_share = (double)alike / compared;
	return true;
}
