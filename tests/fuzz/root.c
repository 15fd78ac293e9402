/* root.c -- the directory of fuzz.h: files of /proc and /sys as an input has them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#define FILES_MOST 24u
#define MADE_MOST  256u /* files, and the directories above them */
#define PATH_MOST  200u

struct made {
	char path[PATH_MOST + 128];
	bool is_directory;
};

static struct made made[MADE_MOST];
static size_t made_count, files_count;
static char root[128];

static char kept[PATH_MOST + 128];

static void remove_root(void)
{
	fuzz_root_clear();
	if (*kept)
		(void)rmdir(kept);
	(void)rmdir(root);
}

const char *fuzz_root(void)
{
	/* the runner's, who removes what a crash leaves there */
	const char *given = getenv("FUZZ_ROOT");

	if (!*root) {
		snprintf(root, sizeof(root), "%s/mtshim-fuzz-XXXXXX",
			 given                           ? given
			 : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
							 : "/tmp");
		if (!mkdtemp(root) || atexit(remove_root) != 0)
			abort();
	}
	return root;
}

/* Nothing in it leads out of the directory, or is the same as nothing. */
static bool is_plain(const char *path)
{
	size_t length = strlen(path);

	if (*path != '/' || length < 2 || length > PATH_MOST || path[length - 1] == '/' ||
	    strstr(path, "//"))
		return false;
	for (const char *slash = path; slash; slash = strchr(slash + 1, '/'))
		if (slash[1] == '.' && (slash[2] == '/' || !slash[2] ||
					(slash[2] == '.' && (slash[3] == '/' || !slash[3]))))
			return false;
	return true;
}

static bool note(const char *path, bool is_directory)
{
	if (made_count == MADE_MOST)
		return false;
	strcpy(made[made_count].path, path);
	made[made_count++].is_directory = is_directory;
	return true;
}

static bool make_folders(char *full)
{
	for (char *slash = full + strlen(fuzz_root()) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		if (mkdir(full, 0700) == 0 && !note(full, true)) {
			(void)rmdir(full);
			*slash = '/';
			return false;
		}
		*slash = '/';
	}
	return true;
}

bool fuzz_root_put(const char *path, const void *bytes, size_t count)
{
	char full[PATH_MOST + 128];
	bool written;
	int fd;

	if (!is_plain(path) || files_count == FILES_MOST || made_count == MADE_MOST)
		return false;
	snprintf(full, sizeof(full), "%s%s", fuzz_root(), path);
	if (!make_folders(full))
		return false;
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	if (!note(full, false)) {
		close(fd);
		(void)unlink(full);
		return false;
	}
	files_count++;
	written = !count || write(fd, bytes, count) == (ssize_t)count;
	close(fd);
	return written;
}

void fuzz_root_clear(void)
{
	while (made_count > 0) {
		const struct made *last = &made[--made_count];

		(void)(last->is_directory ? rmdir(last->path) : unlink(last->path));
	}
	files_count = 0;
}

void fuzz_root_keep(const char *path)
{
	if (*kept)
		return;
	snprintf(kept, sizeof(kept), "%s%s", fuzz_root(), path);
	if (mkdir(kept, 0700) != 0)
		abort();
}
