/* fuzz_kernel.c -- what the kernel says: cgroups and their mounts, PSI, meminfo, loadavg, and of a
 * process stat, status, cmdline, environ, maps and smaps, as the shim reads them (shim/pressure)
 * and as mtctl does. The kernel is no attacker; but the names in there are other people's, and its
 * next version's lines are nobody's yet.
 *
 * Parts of an input: %%/proc/... and %%/sys/...: files, of which those of mtctl's process are in
 * /proc/42. %%cgroup PATH, %%limit_mb N, %%pct N, %%watch PATH: settings. %%psi,
 * %%loadavg, %%stat, %%library, %%smaps, %%rollup, %%pool_header: texts. */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernel.h"

/* ---- /proc and /sys of mtctl are those of the input (fuzz.mk: --wrap) ---- */

int __real_open(const char *path, int flags, ...);
int __real_access(const char *path, int mode);
DIR *__real_opendir(const char *path);
int __wrap_open(const char *path, int flags, ...);
int __wrap_access(const char *path, int mode);
DIR *__wrap_opendir(const char *path);

static bool looks_at_input;

/* A descriptor is opened again by its number there. */
static const char *place(const char *path, char *out, size_t room)
{
	bool is_ours = strcmp(path, "/proc") == 0 || strncmp(path, "/proc/", 6) == 0 ||
		       strncmp(path, "/sys/", 5) == 0;

	if (!looks_at_input || !is_ours || strncmp(path, "/proc/self/fd/", 14) == 0)
		return path;
	snprintf(out, room, "%s%s", fuzz_root(), path);
	return out;
}

int __wrap_open(const char *path, int flags, ...)
{
	char moved[8192];
	va_list list;
	mode_t mode;

	va_start(list, flags);
	mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
	va_end(list);
	return __real_open(place(path, moved, sizeof(moved)), flags, mode);
}

int __wrap_access(const char *path, int mode)
{
	char moved[8192];

	return __real_access(place(path, moved, sizeof(moved)), mode);
}

DIR *__wrap_opendir(const char *path)
{
	char moved[8192];

	return __real_opendir(place(path, moved, sizeof(moved)));
}

/* ---- one input ---- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

static void take(const struct fuzz_part *part, struct kernel_options *options)
{
	const char *rest;

	if (*part->name == '/') {
		(void)fuzz_root_put(part->name, part->text, part->bytes);
	} else if (fuzz_is(part, "cgroup", &rest)) {
		options->cgroup = rest;
	} else if (fuzz_is(part, "watch", &rest)) {
		options->watch = rest;
	} else if (fuzz_is(part, "limit_mb", &rest)) {
		options->limit_mb = fuzz_number(rest) % (16 << 20);
	} else if (fuzz_is(part, "pct", &rest)) {
		options->exact_pct = fuzz_number(rest) % 101;
	} else {
		kernel_shim_text(part);
		kernel_ctl_text(part);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct kernel_options options = {.cgroup = "", .watch = "", .exact_pct = 50};
	struct fuzz_parts parts;

	fuzz_root_keep("/proc"); /* mtctl keeps its descriptor of it */
	fuzz_cut(data, bytes, &parts);
	for (size_t i = 0; i < parts.count; i++)
		take(&parts.list[i], &options);
	kernel_shim(&options);
	looks_at_input = true;
	kernel_ctl(&options);
	looks_at_input = false;
	fuzz_root_clear();
	fuzz_drop(&parts);
	return 0;
}
