#include "ctl/process/smaps.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ctl/output/text.h"

struct field {
	const char *word;
	size_t offset;
};

static const struct field fields[] = {
#define X(name, word) {word, offsetof(struct mt_smaps_sizes, name)},
	MT_SMAPS_FIELDS(X)
#undef X
};

#define FIELDS_COUNT (sizeof(fields) / sizeof(fields[0]))

static uint64_t *size_at(struct mt_smaps_sizes *sizes, size_t number)
{
	return (uint64_t *)(void *)((char *)sizes + fields[number].offset);
}

/* "Rss:                1672 kB". */
static void parse_size(const char *line, struct mt_smaps_sizes *out)
{
	const char *colon = strchr(line, ':');
	size_t length = colon ? (size_t)(colon - line) : 0;
	uint64_t kilobytes;

	if (!colon || sscanf(colon + 1, "%" SCNu64 " kB", &kilobytes) != 1 ||
	    kilobytes > UINT64_MAX / 1024)
		return;
	for (size_t i = 0; i < FIELDS_COUNT; i++) {
		if (strlen(fields[i].word) != length || memcmp(fields[i].word, line, length) != 0)
			continue;
		*size_at(out, i) = kilobytes * 1024;
		return;
	}
}

static bool begins_with(const char *text, const char *begin)
{
	return strncmp(text, begin, strlen(begin)) == 0;
}

enum mt_smaps_kind mt_smaps_kind_of(const char *name, bool is_shared)
{
	static const char *const shm[] = {"/dev/shm/", "/memfd:", "/SYSV", "/dev/zero",
					  "[anon_shmem:"};
	static const char *const special[] = {"[vdso]",    "[vvar",     "[vsyscall]",
					      "[uprobes]", "[sigpage]", "[vectors]"};

	if (!is_shared && begins_with(name, "/dev/zero"))
		return MT_SMAPS_ANON; /* private memory, as mmap(2) of MAP_ANONYMOUS */
	for (size_t i = 0; i < sizeof(shm) / sizeof(shm[0]); i++)
		if (begins_with(name, shm[i]))
			return MT_SMAPS_SHM;
	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		if (begins_with(name, special[i]))
			return MT_SMAPS_SPECIAL;
	if (*name == '/' || is_shared)
		/* shared, with another name: memory of a device, the ring of a socket */
		return MT_SMAPS_FILE;
	return MT_SMAPS_ANON;
}

/* "55918fa83000-55918fa86000 r--p 00000000 fe:00 248030 /usr/bin/sed". */
static bool parse_line(char *line, struct mt_maps_line *out)
{
	unsigned high, low;
	int name_at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &out->start, &out->end, out->permissions, &out->offset, &high, &low, &out->inode,
		   &name_at) != 7 ||
	    !name_at || out->end <= out->start || strlen(out->permissions) != 4)
		return false;
	out->device = makedev(high, low);
	out->name = line + name_at;
	return true;
}

bool mt_maps_next(char **text, struct mt_maps_line *out)
{
	char *line;

	while ((line = strsep(text, "\n")))
		if (parse_line(line, out))
			return true;
	return false;
}

/* A header begins with a lower-case hexadecimal digit and a size with a capital. */
static bool parse_header(char *line, struct mt_smaps_mapping *out)
{
	struct mt_maps_line head;

	memset(out, 0, sizeof(*out));
	if (!parse_line(line, &head))
		return false;
	out->start = head.start;
	out->end = head.end;
	out->is_writable = head.permissions[1] == 'w';
	out->is_shared = head.permissions[3] == 's';
	snprintf(out->name, sizeof(out->name), "%s", head.name);
	mt_text_clean(out->name, sizeof(out->name));
	out->kind = mt_smaps_kind_of(out->name, out->is_shared);
	return true;
}

/* The PSS of the mappings of one kind. */
static uint64_t pss_of(const struct mt_smaps *smaps, enum mt_smaps_kind kind)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < smaps->count; i++)
		if (smaps->list[i].kind == kind)
			sum += smaps->list[i].sizes.pss_bytes;
	return sum;
}

void mt_smaps_parse(char *text, struct mt_smaps *out)
{
	struct mt_smaps_mapping *now = NULL, fresh;
	char *line;

	memset(out, 0, sizeof(*out));
	while ((line = strsep(&text, "\n"))) {
		if (isupper((unsigned char)*line)) {
			if (now)
				parse_size(line, &now->sizes);
			continue;
		}
		now = NULL; /* sizes after a line that is not valid are ignored */
		if (!parse_header(line, &fresh))
			continue;
		out->list = mt_error_make_room(out->list, out->count, sizeof(*out->list));
		now = &out->list[out->count++];
		*now = fresh;
		if (strcmp(now->name, "[vdso]") == 0)
			out->vdso = now->start;
	}
	for (size_t i = 0; i < out->count; i++)
		for (size_t field = 0; field < FIELDS_COUNT; field++)
			*size_at(&out->total, field) += *size_at(&out->list[i].sizes, field);
	out->total.pss_anon_bytes = pss_of(out, MT_SMAPS_ANON);
	out->total.pss_file_bytes = pss_of(out, MT_SMAPS_FILE);
	out->total.pss_shmem_bytes = pss_of(out, MT_SMAPS_SHM);
}

bool mt_smaps_parse_total(const char *text, struct mt_smaps_sizes *out)
{
	char *copy = mt_error_check_memory(strdup(text)), *rest = copy, *line;
	struct mt_smaps_sizes sizes = {0};
	bool known = false;

	while ((line = strsep(&rest, "\n"))) {
		known |= begins_with(line, "Rss:");
		parse_size(line, &sizes);
	}
	free(copy);
	if (known)
		*out = sizes;
	return known;
}

/* The files of a kernel thread, and of a process that is ending, are empty. */
static enum mt_err read_text(const struct mt_process *process, const char *file, char **out,
			     struct mt_error_reason *why)
{
	char *text = mt_process_smaps(process->pid, file);

	if (!text && (errno == EACCES || errno == EPERM || errno == EFBIG || errno == ETIMEDOUT))
		return mt_error_because(
			why, errno == EACCES || errno == EPERM ? MT_ERR_FOREIGN : MT_ERR_SYSTEM,
			"/proc/%d/%s: %s", (int)process->pid, file, strerror(errno));
	if (!text || !*text || !mt_process_is_alive(process)) {
		free(text);
		return mt_error_because(why, MT_ERR_UNKNOWN,
					"/proc/%d/%s cannot be read: the process has ended",
					(int)process->pid, file);
	}
	*out = text;
	return MT_ERR_OK;
}

enum mt_err mt_smaps_read(const struct mt_process *process, struct mt_smaps *out,
			  struct mt_error_reason *why)
{
	char *text;
	enum mt_err error = read_text(process, "smaps", &text, why);

	if (error)
		return error;
	mt_smaps_parse(text, out);
	free(text);
	return MT_ERR_OK;
}

enum mt_err mt_smaps_read_total(const struct mt_process *process, struct mt_smaps_sizes *out,
				struct mt_error_reason *why)
{
	struct mt_smaps smaps;
	char *text;
	bool known;
	enum mt_err error = read_text(process, "smaps_rollup", &text, why);

	if (!error) {
		known = mt_smaps_parse_total(text, out);
		free(text);
		if (known)
			return MT_ERR_OK;
	}
	if (error == MT_ERR_FOREIGN || (error && !mt_process_is_alive(process)))
		return error;
	error = mt_smaps_read(process, &smaps, why); /* before Linux 4.14 there is no rollup */
	if (error)
		return error;
	*out = smaps.total;
	mt_smaps_free(&smaps);
	return MT_ERR_OK;
}

void mt_smaps_free(struct mt_smaps *smaps)
{
	free(smaps->list);
	memset(smaps, 0, sizeof(*smaps));
}

/* ---- copy-on-write ---- */

/* Anonymous mappings of parent and child that overlap. Both split and join their mappings after the
 * fork. */
struct overlap {
	uint64_t end;
	uint64_t parent_bytes, shared_bytes, private_bytes;
};

static bool is_private_anon(const struct mt_smaps_mapping *mapping)
{
	return mapping->kind == MT_SMAPS_ANON && !mapping->is_shared;
}

static const struct mt_smaps_mapping *next_anon(const struct mt_smaps *smaps, size_t *place)
{
	while (*place < smaps->count && !is_private_anon(&smaps->list[*place]))
		(*place)++;
	return *place < smaps->count ? &smaps->list[*place] : NULL;
}

static void close_overlap(const struct overlap *overlap, struct mt_smaps_fork *out)
{
	uint64_t parent = overlap->parent_bytes, shared = overlap->shared_bytes;
	uint64_t beyond = parent > shared ? parent - shared : 0;

	out->shared_bytes += shared;
	out->private_bytes += overlap->private_bytes;
	out->copied_bytes += overlap->private_bytes < beyond ? overlap->private_bytes : beyond;
}

void mt_smaps_compare(const struct mt_smaps *child, const struct mt_smaps *parent,
		      struct mt_smaps_fork *out)
{
	size_t child_place = 0, parent_place = 0;
	struct overlap overlap = {0};

	memset(out, 0, sizeof(*out));
	out->is_fork = child->vdso && child->vdso == parent->vdso;
	if (!out->is_fork)
		return;
	for (;;) {
		const struct mt_smaps_mapping *ours = next_anon(child, &child_place);
		const struct mt_smaps_mapping *theirs = next_anon(parent, &parent_place);
		bool is_ours = ours && (!theirs || ours->start < theirs->start);
		const struct mt_smaps_mapping *next = is_ours ? ours : theirs;

		if (!next)
			break;
		if (next->start >= overlap.end) {
			close_overlap(&overlap, out);
			overlap = (struct overlap){0};
		}
		overlap.end = next->end > overlap.end ? next->end : overlap.end;
		if (is_ours) {
			overlap.shared_bytes +=
				next->sizes.shared_clean_bytes + next->sizes.shared_dirty_bytes;
			overlap.private_bytes +=
				next->sizes.private_clean_bytes + next->sizes.private_dirty_bytes;
			child_place++;
		} else {
			overlap.parent_bytes += next->sizes.anonymous_bytes;
			parent_place++;
		}
	}
	close_overlap(&overlap, out);
}

/* ---- copy-on-write by content ---- */

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
	const struct mt_smaps *smaps;
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

static bool maps(const struct mt_smaps *smaps, uint64_t address)
{
	for (size_t i = 0; i < smaps->count; i++)
		if (address >= smaps->list[i].start && address < smaps->list[i].end)
			return is_private_anon(&smaps->list[i]);
	return false;
}

/* Candidates are spread by the private bytes of a mapping, so that large mappings that are nearly
 * empty get few. */
static void compare(struct side *child, struct side *parent, unsigned *out_compared,
		    unsigned *out_alike)
{
	const struct mt_smaps *smaps = child->smaps;
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), own_bytes = 0;

	for (size_t i = 0; i < smaps->count; i++)
		if (is_private_anon(&smaps->list[i]))
			own_bytes += smaps->list[i].sizes.private_dirty_bytes;
	for (size_t i = 0; i < smaps->count && own_bytes; i++) {
		const struct mt_smaps_mapping *mapping = &smaps->list[i];
		uint64_t share = is_private_anon(mapping) ? mapping->sizes.private_dirty_bytes *
								    CANDIDATES / own_bytes
							  : 0;
		uint64_t step =
			share ? (mapping->end - mapping->start) / share / page_bytes * page_bytes
			      : 0;

		if (share)
			step = step ? step : page_bytes;
		for (uint64_t at = mapping->start; step && at < mapping->end; at += step) {
			bool alike, tells;

			if (!is_own(child, at, page_bytes) || !maps(parent->smaps, at) ||
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
	struct side ours = {child, child_smaps, open_pagemap(child), {0}};
	struct side theirs = {parent, parent_smaps, open_pagemap(parent), {0}};
	unsigned compared = 0, alike = 0;

	if (ours.pagemap >= 0 && theirs.pagemap >= 0)
		compare(&ours, &theirs, &compared, &alike);
	if (ours.pagemap >= 0)
		close(ours.pagemap);
	if (theirs.pagemap >= 0)
		close(theirs.pagemap);
	if (compared < COMPARED_MIN)
		return false;
	*out_share = (double)alike / compared;
	return true;
}
