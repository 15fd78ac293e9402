#include "ctl/process/runtime.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/text.h"
#include "ctl/process/process.h"
#include "ctl/process/read_file.h"
#include "ctl/process/watchdog.h"

#define FILE_MAX    ((size_t)16 << 20) /* glibc has 2 MB */
#define BANNER_MAX  160u
#define READ_MAX_MS 2000u

/* "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36." */
static const char mark[] = "GNU C Library (";

bool mt_runtime_libc(const char *bytes, size_t length, char *out, size_t out_bytes)
{
	const char *at = memmem(bytes, length, mark, strlen(mark));
	char banner[BANNER_MAX + 1], package[80], version[16];
	size_t left;

	if (!at)
		return false;
	at += strlen(mark);
	left = length - (size_t)(at - bytes);
	snprintf(banner, sizeof(banner), "%.*s", (int)(left < BANNER_MAX ? left : BANNER_MAX), at);
	if (sscanf(banner, "%79[^)]) %*s release version %15[0-9.]", package, version) != 2)
		return false;
	if (version[strlen(version) - 1] == '.')
		version[strlen(version) - 1] = '\0';
	snprintf(out, out_bytes, "glibc %s (%s)", version, package);
	mt_text_clean(out, out_bytes);
	return true;
}

bool mt_runtime_python(const char *base, char *version, size_t version_bytes)
{
	const char *at = strncmp(base, "libpython", 9) == 0 ? base + 9
			 : strncmp(base, "python", 6) == 0  ? base + 6
							    : NULL;
	size_t length = at ? strspn(at, "0123456789.") : 0;

	if (!at || (*at && !length))
		return false;
	while (length && at[length - 1] == '.')
		length--;
	if (length > strlen(version) && length < version_bytes)
		snprintf(version, version_bytes, "%.*s", (int)length, at);
	return true;
}

static void read_file(const void *argument, int to)
{
	char found[sizeof(((struct mt_runtime *)NULL)->libc)] = "";
	size_t length = 0;
	char *bytes = mt_read_file_max(argument, FILE_MAX, &length);

	if (bytes)
		(void)mt_runtime_libc(bytes, length, found, sizeof(found));
	mt_watchdog_write(to, found, sizeof(found));
}

/* `path` as the process sees it. */
static void read_libc(pid_t pid, const char *path, struct mt_runtime *out)
{
	char place[PATH_MAX];

	if ((size_t)snprintf(place, sizeof(place), "/proc/%d/root%s", (int)pid, path) >=
	    sizeof(place))
		return;
	if (mt_watchdog_value(read_file, place, READ_MAX_MS, out->libc, sizeof(out->libc)))
		mt_text_clean(out->libc, sizeof(out->libc));
}

void mt_runtime_read(pid_t pid, struct mt_runtime *out)
{
	char *maps = mt_process_maps(pid), *rest = maps;
	const char *line;

	*out = (struct mt_runtime){.libc = ""};
	while ((line = strsep(&rest, "\n"))) {
		const char *path = strchr(line, '/');
		const char *base = path ? mt_text_basename(path) : "";

		(void)mt_runtime_python(base, out->python, sizeof(out->python));
		if (!*out->libc && strstr(line, " r-xp ") &&
		    (strcmp(base, "libc.so.6") == 0 || strncmp(base, "libc-2.", 7) == 0))
			read_libc(pid, path, out);
	}
	free(maps);
}
