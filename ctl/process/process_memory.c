/* ctl/process/process_memory.c -- the part of process.h that reads files which the kernel writes
 * under the mmap_lock of the process. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/process/clock.h"
#include "ctl/process/process_probe.h"
#include "ctl/process/watchdog.h"

/* a process may have a million mappings: 750 MB of smaps */
#define SMAPS_MAX ((size_t)1 << 30)
#define MAPS_MAX  ((size_t)64 << 20)
/* the kernel walks the page tables of a large process for seconds */
#define COMPUTES_MAX_MS 10000u

#define PIECE_BYTES 65536u

struct request {
	char path[64];
	size_t max_bytes;
};

/* Writes errno first, 0 for none, so that a file that cannot be read differs from an empty one.
 * Reads the whole file before it writes: the kernel takes the mmap_lock for each piece, and the
 * process could delay each of them a little. */
static void copy(const void *argument, int to)
{
	const struct request *request = argument;
	size_t room = PIECE_BYTES, used = 0;
	char *text = mt_error_check_memory(malloc(room));
	int fd = open(request->path, O_RDONLY | O_CLOEXEC), failed;
	ssize_t got = fd < 0 ? -1 : read(fd, text, PIECE_BYTES);

	failed = got < 0 ? errno : 0;
	for (; got > 0 && used < request->max_bytes; got = read(fd, text + used, PIECE_BYTES)) {
		used += (size_t)got;
		if (room - used < PIECE_BYTES)
			text = mt_error_check_memory(realloc(text, room *= 2));
	}
	mt_watchdog_write(to, &failed, sizeof(failed));
	mt_watchdog_write(to, text, used);
}

/* Returns the first bytes of the file; NULL with errno. */
static char *read_file(pid_t pid, const char *file, size_t max_bytes, unsigned max_ms,
		       size_t *length)
{
	struct request request = {.max_bytes = max_bytes};
	const struct mt_watchdog watchdog = {copy, &request, sizeof(int) + max_bytes, max_ms, 0};
	struct mt_watchdog_end end = {.is_stuck = true};
	uint64_t from_ns = mt_clock_now_ns();
	int failed = ETIMEDOUT;
	size_t bytes = 0;
	struct stat status;
	char *text = NULL;

	snprintf(request.path, sizeof(request.path), "/proc/%d", (int)pid);
	if (stat(request.path, &status) != 0)
		return NULL;
	snprintf(request.path, sizeof(request.path), "/proc/%d/%s", (int)pid, file);
	if (mt_process_budget_is_left(status.st_uid))
		text = mt_watchdog_run(&watchdog, &bytes, &end);
	mt_process_budget_spend(status.st_uid, end.is_stuck ? mt_clock_now_ns() - from_ns
							    : end.waited_ms * UINT64_C(1000000));
	if (!end.is_stuck && bytes >= sizeof(failed))
		memcpy(&failed, text, sizeof(failed));
	if (failed) {
		free(text);
		errno = failed;
		return NULL;
	}
	*length = bytes - sizeof(failed);
	memmove(text, text + sizeof(failed), *length + 1);
	return text;
}

/* Returns NULL with EFBIG instead of a part of the file. */
static char *read_whole(pid_t pid, const char *file, size_t max_bytes, unsigned max_ms)
{
	size_t length;
	char *text = read_file(pid, file, max_bytes + 1, max_ms, &length);

	if (!text || length <= max_bytes)
		return text;
	free(text);
	errno = EFBIG;
	return NULL;
}

char *mt_process_read_memory(pid_t pid, const char *file, size_t *length)
{
	return read_file(pid, file, MT_PROCESS_MEMORY_MAX, COMPUTES_MAX_MS, length);
}

char *mt_process_maps(pid_t pid)
{
	return read_whole(pid, "maps", MAPS_MAX, COMPUTES_MAX_MS);
}

static uint64_t smaps_until_ns = UINT64_MAX;

void mt_process_smaps_until(uint64_t until_ns)
{
	smaps_until_ns = until_ns;
}

char *mt_process_smaps(pid_t pid, const char *file)
{
	uint64_t now_ns = mt_clock_now_ns();
	uint64_t left_ms = now_ns < smaps_until_ns ? (smaps_until_ns - now_ns) / 1000000u : 0;

	errno = ETIMEDOUT;
	if (!left_ms)
		return NULL;
	return read_whole(pid, file, SMAPS_MAX,
			  left_ms < COMPUTES_MAX_MS ? (unsigned)left_ms : COMPUTES_MAX_MS);
}

/* Skips NULs, of which there may be millions. */
static const char *skip_empty(const char *at, const char *end)
{
	static const char zeros[4096];

	while ((size_t)(end - at) >= sizeof(zeros) && memcmp(at, zeros, sizeof(zeros)) == 0)
		at += sizeof(zeros);
	while (at < end && !*at)
		at++;
	return at;
}

bool mt_process_find_variable(const char *list, size_t length, const char *name, char *out,
			      size_t out_bytes)
{
	size_t name_length = strlen(name);
	const char *entry = skip_empty(list, list + length);

	for (; entry < list + length; entry = skip_empty(entry + strlen(entry), list + length)) {
		if (strncmp(entry, name, name_length) != 0 || entry[name_length] != '=')
			continue;
		if (strlen(entry + name_length + 1) >= out_bytes)
			return false;
		strcpy(out, entry + name_length + 1);
		return true;
	}
	return false;
}

bool mt_process_environ(pid_t pid, const char *name, char *out, size_t out_bytes)
{
	size_t length = 0;
	char *list = mt_process_read_memory(pid, "environ", &length);
	bool found = list && mt_process_find_variable(list, length, name, out, out_bytes);

	free(list);
	return found;
}
