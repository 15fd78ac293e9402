#include "ctl/process/install_dir.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seen from mtctl's own folder. MT_MULTIARCH is Debian's name for the machine; other distributions
 * leave it empty. */
static const char *const libraries[] = {"/../lib", "/../lib/" MT_MULTIARCH, "/../lib64"};

/* The folder of mtctl itself, without a slash at its end. */
static bool own_folder(char *out, size_t out_bytes)
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

/* realpath, so that the answer is absolute wherever a program goes. */
static bool try_path(const char *folder, const char *below, const char *name, char *out,
		     size_t out_bytes)
{
	char path[2 * PATH_MAX], resolved[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s%s/%s", folder, *below ? "/" : "", below, name);
	if (access(path, R_OK) != 0 || !realpath(path, resolved))
		return false;
	return (size_t)snprintf(out, out_bytes, "%s", resolved) < out_bytes;
}

bool mt_install_dir_find(const char *name, const char *below, char *out, size_t out_bytes)
{
	char own[PATH_MAX], folder[PATH_MAX + 64];

	if (own_folder(own, sizeof(own))) {
		if (try_path(own, "", name, out, out_bytes))
			return true;
		for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
			snprintf(folder, sizeof(folder), "%s%s", own, libraries[i]);
			if (try_path(folder, below, name, out, out_bytes))
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
