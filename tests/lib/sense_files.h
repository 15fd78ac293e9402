/* sense_files.h -- a root of its own for each test, below which it writes the files of /proc and
 * /sys that it needs. In memory where that may be had: some tests write thousands of files. */
#ifndef SENSE_FILES_H
#define SENSE_FILES_H

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

static char root[1024];

static UNUSED void begin(void)
{
	const char *place = getenv("TMPDIR");

	snprintf(root, sizeof(root), "%s/mtshim-sense-XXXXXX", place ? place : "/tmp");
	cr_assert_not_null(mkdtemp(root));
}

static UNUSED void end(void)
{
	char command[sizeof(root) + 16];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	cr_assert_eq(system(command), 0);
}

static UNUSED const char *in_root(const char *path)
{
	static char paths[4][8192];
	static unsigned next;
	char *out = paths[next++ % 4];

	snprintf(out, sizeof(paths[0]), "%s%s", root, path);
	return out;
}

static UNUSED void make_folders(const char *path)
{
	char part[8192];

	snprintf(part, sizeof(part), "%s", in_root(path));
	for (char *at = part + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		(void)mkdir(part, 0755);
		*at = '/';
	}
}

static UNUSED void put_bytes(const char *path, const void *bytes, size_t length)
{
	FILE *file;

	make_folders(path);
	file = fopen(in_root(path), "w");
	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(fwrite(bytes, 1, length, file), length);
	cr_assert_eq(fclose(file), 0);
}

static UNUSED __attribute__((format(printf, 2, 3))) void put(const char *path, const char *format,
							     ...)
{
	static char text[65536];
	va_list list;
	int length;

	va_start(list, format);
	length = vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	cr_assert(length >= 0 && (size_t)length < sizeof(text));
	put_bytes(path, text, (size_t)length);
}

static UNUSED void drop(const char *path)
{
	char command[8300];

	snprintf(command, sizeof(command), "rm -rf '%s'", in_root(path));
	cr_assert_eq(system(command), 0);
}

#endif
