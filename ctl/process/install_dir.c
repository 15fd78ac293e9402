#include "ctl/process/install_dir.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

const char *mt_install_dir_searched(void)
{
	return *MT_LIBDIR ? "beside mtctl, in ../lib or in " MT_LIBDIR
			  : "beside mtctl or in ../lib";
}
