/* ctl/process/shim_detect.c -- see shim_detect.h. */
#include "ctl/process/shim_detect.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ctl/process/process.h"

#define MAPS_BYTES   32768
#define MAPS_MOST    ((size_t)16 << 20)
#define QUERIES_MOST 20000u

/* A file called libmtshim.so, also once it was replaced ("(deleted)"). */
static bool name_is_shim(const char *name, size_t length, bool *out_deleted)
{
	const char deleted[] = " (deleted)";
	size_t deleted_length = strlen(deleted), shim_length = strlen("/" MT_SHIM_NAME);

	*out_deleted = length > deleted_length &&
		       strncmp(name + length - deleted_length, deleted, deleted_length) == 0;
	if (*out_deleted)
		length -= deleted_length;
	return length >= shim_length &&
	       strncmp(name + length - shim_length, "/" MT_SHIM_NAME, shim_length) == 0;
}

/* One line of maps: an executable mapping of it. */
static bool line_is_shim(const char *line, size_t length, bool *out_deleted)
{
	const char *blank = memchr(line, ' ', length);

	return name_is_shim(line, length, out_deleted) && blank && blank + 3 < line + length &&
	       blank[3] == 'x';
}

/* Stops at the first: the maps of a large program are long, and every line of them costs the kernel
 * a path. */
static bool maps_have_shim(int fd, bool *out_deleted)
{
	/* of more than the longest line: a path of 4096 bytes, each of them written as \012 */
	static char text[MAPS_BYTES];
	size_t used = 0, all = 0;
	ssize_t got;

	while (all < MAPS_MOST && (got = read(fd, text + used, sizeof(text) - used)) > 0) {
		char *line = text, *end;

		used += (size_t)got;
		all += (size_t)got;
		for (; (end = memchr(line, '\n', used - (size_t)(line - text))); line = end + 1)
			if (line_is_shim(line, (size_t)(end - line), out_deleted))
				return true;
		used -= (size_t)(line - text);
		memmove(text, line, used);
	}
	return false;
}

/* Of linux/fs.h, which may be older than the kernel. */
struct query {
	uint64_t size, flags, address, start, end, vma_flags, page_size, offset, inode;
	uint32_t major, minor, name_bytes, id_bytes;
	uint64_t name, id;
};

/* The executable mapping of a file at the address or the next one; errno, 0 where there is one. */
static int ask_kernel(int fd, uint64_t address, char *name, size_t name_bytes, struct query *out)
{
	*out = (struct query){
		.size = sizeof(*out), .flags = 0x04 | 0x10 | 0x20, .address = address};
	out->name = (uint64_t)(uintptr_t)name;
	out->name_bytes = (uint32_t)name_bytes;
	return ioctl(fd, _IOWR('f', 17, *out), out) == 0 ? 0 : errno;
}

/* The same from Linux 6.11 on, a third of the work. A mapping whose path is longer than any name
 * that can be opened is passed over: asked for without its name. false: the kernel has no such
 * request. */
static bool query_has_shim(int fd, bool *out, bool *out_deleted)
{
	struct query query = {0};
	char name[4096];
	int failed = 0;

	*out = false;
	for (unsigned asked = 0; asked < QUERIES_MOST && !failed && !*out; asked++) {
		uint64_t address = query.end;

		failed = ask_kernel(fd, address, name, sizeof(name), &query);
		if (failed == ENAMETOOLONG)
			failed = ask_kernel(fd, address, NULL, 0, &query);
		else if (!failed)
			*out = name_is_shim(name, strnlen(name, sizeof(name)), out_deleted);
	}
	return !failed || failed == ENOENT;
}

bool mt_shim_detect(int fd, bool *out_deleted)
{
	bool shimmed = false;

	if (query_has_shim(fd, &shimmed, out_deleted))
		return shimmed;
	return maps_have_shim(fd, out_deleted);
}
