/* ctl/process/library.c -- see library.h. */
#include "ctl/process/library.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ctl/output/text.h"
#include "ctl/process/read_file.h"

static const char mark[] = "@(#)" MT_SHIM_NAME " ";

bool mt_library_version(const char *path, char *out, size_t out_bytes)
{
	size_t length = 0, left;
	char *bytes = mt_read_file(path, &length);
	const char *at = bytes ? memmem(bytes, length, mark, strlen(mark)) : NULL;

	if (at) {
		at += strlen(mark);
		left = length - (size_t)(at - bytes);
		snprintf(out, out_bytes, "%.*s", (int)strnlen(at, left < 64 ? left : 64), at);
		mt_text_clean(out, out_bytes);
	}
	free(bytes);
	return at != NULL;
}

/* A line of maps: "55d0-55e0 r-xp 00000000 fe:00 123 /path/libmtshim.so". */
static bool parse_line(const char *line, char *path, uint64_t *out_inode)
{
	const char *from = strchr(line, '/');
	char permissions[8];

	if (!from || !mt_text_ends_with(line, "/" MT_SHIM_NAME) || strlen(from) >= PATH_MAX ||
	    sscanf(line, "%*s %7s %*s %*s %" SCNu64, permissions, out_inode) != 2 ||
	    permissions[2] != 'x')
		return false;
	strcpy(path, from);
	return true;
}

static bool find_mapping(pid_t pid, char *path, uint64_t *out_inode)
{
	char *maps = mt_process_maps(pid), *rest = maps;
	const char *line;
	bool found = false;

	while (!found && (line = strsep(&rest, "\n")))
		found = parse_line(line, path, out_inode);
	free(maps);
	return found;
}

bool mt_library_is_rewritten(const struct mt_process *process, uint64_t woke_ns)
{
	char path[PATH_MAX], seen_by_it[PATH_MAX + 32];
	struct stat status;
	uint64_t inode;

	if (!find_mapping(process->pid, path, &inode))
		return false;
	snprintf(seen_by_it, sizeof(seen_by_it), "/proc/%d/root%s", (int)process->pid, path);
	return stat(seen_by_it, &status) == 0 && status.st_ino == inode &&
	       (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec >
		       woke_ns;
}
