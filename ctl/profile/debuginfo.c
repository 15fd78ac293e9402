/* ctl/profile/debuginfo.c -- see debuginfo.h. */
#include "ctl/profile/debuginfo.h"

#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "ctl/output/error.h"
#include "ctl/output/text.h"
#include "ctl/process/read_file.h"

#define ROOT "/usr/lib/debug"

#define FUNCTIONS(X)                                                                               \
	X(dwfl_module_build_id) X(dwelf_elf_gnu_build_id) X(elf_version) X(elf_begin) X(elf_end)

static struct {
#define X(name) __typeof__(name) *name;
	FUNCTIONS(X)
#undef X
	bool whole;
} lib;

/* What identifies the file of a module. */
struct wanted {
	const unsigned char *id;
	int id_bytes; /* 0 or less: no build ID */
	GElf_Word crc;
};

void mt_debuginfo_load(void *libdw)
{
	lib.whole = true;
#define X(name) lib.whole = (*(void **)(void *)&lib.name = dlsym(libdw, #name)) && lib.whole;
	FUNCTIONS(X)
#undef X
	if (lib.whole)
		lib.whole = lib.elf_version(EV_CURRENT) != EV_NONE;
}

static bool has_id(int fd, const struct wanted *wanted)
{
	Elf *elf = lib.elf_begin(fd, ELF_C_READ_MMAP, NULL);
	const void *id = NULL;
	ssize_t bytes = elf ? lib.dwelf_elf_gnu_build_id(elf, &id) : -1;
	bool same = bytes > 0 && bytes == wanted->id_bytes &&
		    memcmp(id, wanted->id, (size_t)bytes) == 0;

	if (elf)
		lib.elf_end(elf);
	return same;
}

static bool has_crc(int fd, const struct wanted *wanted)
{
	unsigned char block[32768];
	uLong crc = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t got;

	for (; (got = pread(fd, block, sizeof(block), at)) > 0; at += got)
		crc = crc32(crc, block, (uInt)got);
	return got == 0 && at > 0 && crc == wanted->crc;
}

/* Returns -1 where it is missing, is no regular file, or belongs to another module. */
static int try_path(const char *path, const struct wanted *wanted)
{
	int fd = mt_read_file_open(path);

	if (fd < 0 || (wanted->id_bytes > 0 ? has_id(fd, wanted) : has_crc(fd, wanted)))
		return fd;
	close(fd);
	return -1;
}

/* ROOT/.build-id/12/3456.debug */
static int try_id(const struct wanted *wanted, char *path, size_t path_bytes)
{
	size_t used = (size_t)snprintf(path, path_bytes, "%s/.build-id/", ROOT);

	if (wanted->id_bytes < 2 || wanted->id_bytes > 64)
		return -1;
	for (int i = 0; i < wanted->id_bytes; i++)
		used += (size_t)snprintf(path + used, path_bytes - used, "%02x%s", wanted->id[i],
					 i ? "" : "/");
	snprintf(path + used, path_bytes - used, ".debug");
	return try_path(path, wanted);
}

int mt_debuginfo_find(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
		      const char *file, const char *link, GElf_Word crc, char **out_path)
{
	static const char *const places[][2] = {{"", ""}, {"", "/.debug"}, {ROOT, ""}};
	struct wanted wanted = {.crc = crc};
	int folder = file ? (int)(mt_text_basename(file) - file) - 1 : -1, fd;
	char path[2 * PATH_MAX];
	GElf_Addr where;

	(void)userdata;
	(void)name;
	(void)base;
	if (!lib.whole)
		return -1;
	wanted.id_bytes = lib.dwfl_module_build_id(module, &wanted.id, &where);
	fd = try_id(&wanted, path, sizeof(path));
	for (size_t i = 0; fd < 0 && i < sizeof(places) / sizeof(places[0]); i++) {
		if (folder < 0 || !link || strchr(link, '/'))
			break;
		snprintf(path, sizeof(path), "%s%.*s%s/%.255s", places[i][0], folder, file,
			 places[i][1], link);
		fd = try_path(path, &wanted);
	}
	if (fd >= 0)
		*out_path = mt_error_check_memory(strdup(path));
	return fd;
}
