#include "ctl/process/preload.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ctl/output/text.h"
#include "ctl/process/obstacle.h"
#include "ctl/process/read_file.h"
#include "ctl/process/smaps.h"

/* ---- install dir ---- */

/* Relative to the directory of mtctl. MT_MULTIARCH is the name of the architecture on Debian, "" on
 * other distributions. */
static const char *const libraries[] = {"/../lib", "/../lib/" MT_MULTIARCH, "/../lib64"};

/* The directory of mtctl, without a slash at its end. */
static bool own_directory(char *out, size_t out_bytes)
{
	ssize_t length = readlink("/proc/self/exe", out, out_bytes - 1);
	char *slash;

	if (length <= 0)
		return false;
	out[length] = '\0';
	slash = strrchr(out, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

/* realpath(3) makes the path absolute, so that it stays valid after a chdir(2). */
static bool try_path(const char *directory, const char *below, const char *name, char *out,
		     size_t out_bytes)
{
	char path[2 * PATH_MAX], resolved[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s%s/%s", directory, *below ? "/" : "", below, name);
	if (access(path, R_OK) != 0 || !realpath(path, resolved))
		return false;
	return (size_t)snprintf(out, out_bytes, "%s", resolved) < out_bytes;
}

bool mt_install_dir_find(const char *name, const char *below, char *out, size_t out_bytes)
{
	char own[PATH_MAX], directory[PATH_MAX + 64];

	if (own_directory(own, sizeof(own))) {
		if (try_path(own, "", name, out, out_bytes))
			return true;
		for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
			snprintf(directory, sizeof(directory), "%s%s", own, libraries[i]);
			if (try_path(directory, below, name, out, out_bytes))
				return true;
		}
	}
	return *MT_LIBDIR && try_path(MT_LIBDIR, below, name, out, out_bytes);
}

/* ---- preload ---- */

#define SEPARATORS " :" /* ld.so(8) */

/* Makes the path absolute, so that it stays valid after a chdir(2). */
static bool resolve(const char *path, char *out, size_t out_bytes)
{
	char resolved[PATH_MAX];

	if (access(path, R_OK) != 0 || !realpath(path, resolved))
		return false;
	snprintf(out, out_bytes, "%s", resolved);
	return true;
}

enum mt_err mt_preload_find(char *out, size_t out_bytes, struct mt_error_reason *why)
{
	const char *named = getenv("MTSHIM_LIBRARY");

	/* ${LIB} and the like are the loader's to expand: it says if the file is not there */
	if (named && (strstr(named, "$LIB") || strstr(named, "${")) &&
	    !strpbrk(named, SEPARATORS)) {
		snprintf(out, out_bytes, "%s", named);
		return MT_ERR_OK;
	}
	if (named && *named && !resolve(named, out, out_bytes))
		return mt_error_because(why, MT_ERR_UNKNOWN, "MTSHIM_LIBRARY=%.200s: no such file",
					named);
	if (!(named && *named) && !mt_install_dir_find(MT_SHIM_NAME, "", out, out_bytes))
		return mt_error_because(why, MT_ERR_UNKNOWN,
					"no " MT_SHIM_NAME " %s; MTSHIM_LIBRARY may name it",
					*MT_LIBDIR ? "beside mtctl, in ../lib or in " MT_LIBDIR
						   : "beside mtctl or in ../lib");
	if (strpbrk(out, SEPARATORS "$"))
		return mt_error_because(why, MT_ERR_INVALID,
					"%.200s: the loader cannot preload a path with a blank, a "
					"colon or a dollar sign",
					out);
	return MT_ERR_OK;
}

#define HEAD_BYTES 4096u

static const char mark[] = "@(#)" MT_SHIM_NAME " ";

static bool is_marked(const char *head, size_t length)
{
	return length > SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0 &&
	       memmem(head, length, mark, strlen(mark));
}

bool mt_preload_is_shim(const char *entry)
{
	bool is_found = strcmp(mt_text_basename(entry), MT_SHIM_NAME) == 0;
	size_t length = 0;
	char *head;

	if (is_found || !strchr(entry, '/')) /* else the loader searches for it */
		return is_found;
	head = mt_read_file_first(entry, HEAD_BYTES, &length);
	is_found = head && is_marked(head, length);
	free(head);
	return is_found;
}

/* Returns a value of LD_PRELOAD: the library, then the entries of `existing` (may be NULL) without
 * any other copy of the shim. The caller frees. */
static char *preload_list(const char *library, const char *existing)
{
	char *rest = mt_error_check_memory(strdup(existing ? existing : "")), *saved = NULL, *list;
	size_t room = strlen(library) + strlen(rest) + 2;

	list = mt_error_check_memory(calloc(1, room));
	strcpy(list, library);
	for (char *entry = strtok_r(rest, SEPARATORS, &saved); entry;
	     entry = strtok_r(NULL, SEPARATORS, &saved))
		if (!mt_preload_is_shim(entry))
			strcat(strcat(list, ":"), entry);
	free(rest);
	return list;
}

enum mt_exit mt_preload_prepare(const char *program)
{
	enum mt_obstacle obstacle = MT_OBSTACLE_NONE;
	char library[PATH_MAX], path[PATH_MAX];
	struct mt_error_reason why;
	char *list;

	if (mt_preload_find(library, sizeof(library), &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_CANNOT_RUN, &why);
	if (mt_obstacle_find_command(program, path, sizeof(path)))
		obstacle = mt_obstacle_of_file(path, getuid(), getgid());
	list = preload_list(library, getenv("LD_PRELOAD"));
	if (setenv("LD_PRELOAD", list, 1) != 0)
		mt_error_check_memory(NULL);
	free(list);
	if (obstacle != MT_OBSTACLE_NONE)
		mt_error_say("%.200s: %s. It runs all the same", program,
			     mt_obstacle_text(obstacle));
	return MT_EXIT_OK;
}

const char *mt_preload_allocator(const char *path)
{
	static const char *const names[] = {"jemalloc", "tcmalloc", "mimalloc",
					    "hoard",    "snmalloc", "scudo"};
	const char *base = mt_text_basename(path);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(base, "lib", 3) == 0 && strncmp(base + 3, names[i], length) == 0)
			return names[i];
	}
	return NULL;
}

/* ---- library ---- */

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

/* The answer for a file is kept: all processes map the same ones. */
static bool file_is_marked(pid_t pid, const struct mt_maps_line *mapping)
{
	static struct {
		dev_t device;
		uint64_t inode; /* 0: none yet */
		bool is_marked;
	} known[1024], *file;
	char path[PATH_MAX + 32], *head;
	size_t length = 0;

	file = &known[mapping->inode % (sizeof(known) / sizeof(known[0]))];
	if (file->inode == mapping->inode && file->device == mapping->device)
		return file->is_marked;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, mapping->name);
	head = mt_read_file_first(path, HEAD_BYTES, &length);
	if (!head)
		return false;
	file->device = mapping->device;
	file->inode = mapping->inode;
	file->is_marked = is_marked(head, length);
	free(head);
	return file->is_marked;
}

/* Reads the memory of the process: the file may be gone, or on a file system that does not answer.
 * What a process has written to its own says nothing of others. If it may not be read, the file. */
static bool has_mark(pid_t pid, const struct mt_maps_line *mapping)
{
	char head[HEAD_BYTES];
	struct iovec to = {head, sizeof(head)},
		     from = {(void *)(uintptr_t)mapping->start, sizeof(head)};
	ssize_t got = process_vm_readv(pid, &to, 1, &from, 1, 0);

	if (got < 0 && errno == EPERM)
		return file_is_marked(pid, mapping);
	return got > 0 && is_marked(head, (size_t)got);
}

bool mt_library_is_at(pid_t pid, const struct mt_maps_line *mapping, bool *out_deleted)
{
	*out_deleted = mt_text_ends_with(mapping->name, " (deleted)");
	if (mt_text_ends_with(mapping->name, "/" MT_SHIM_NAME) ||
	    mt_text_ends_with(mapping->name, "/" MT_SHIM_NAME " (deleted)"))
		return true;
	/* it is linked with -z noseparate-code: its code begins with the head of the file */
	return !mapping->offset && *mapping->name == '/' && has_mark(pid, mapping);
}

bool mt_library_is_rewritten(const struct mt_process *process, uint64_t woke_ns)
{
	char *maps = mt_process_maps(process->pid), *rest = maps, seen_by_it[PATH_MAX + 32];
	struct mt_maps_line line;
	struct stat status;
	bool found = false;

	while (!found && mt_maps_next(&rest, &line))
		found = line.start == process->library_start;
	if (found)
		snprintf(seen_by_it, sizeof(seen_by_it), "/proc/%d/root%s", (int)process->pid,
			 line.name);
	free(maps);
	return found && stat(seen_by_it, &status) == 0 && status.st_ino == line.inode &&
	       (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec >
		       woke_ns;
}
