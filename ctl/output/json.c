#include "ctl/output/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/output/outfile.h"
#include "ctl/output/text.h"

void mt_json_set(json_t *object, const char *name, json_t *value)
{
	/* jansson refuses NULL, which is no memory or text that is not UTF-8 */
	if (json_object_set_new(object, name, value) != 0)
		mt_error_check_memory(NULL);
}

void mt_json_set_text(json_t *object, const char *name, const char *text)
{
	mt_json_set(object, name, json_string(text));
}

json_t *mt_json_u64(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

void mt_json_set_u64(json_t *object, const char *name, uint64_t value)
{
	mt_json_set(object, name, mt_json_u64(value));
}

void mt_json_set_u64_if(json_t *object, const char *name, bool is_known, uint64_t value)
{
	mt_json_set(object, name, is_known ? mt_json_u64(value) : json_null());
}

void mt_json_set_text_or_null(json_t *object, const char *name, const char *text)
{
	mt_json_set(object, name, *text ? json_string(text) : json_null());
}

void mt_json_set_bool(json_t *object, const char *name, bool value)
{
	mt_json_set(object, name, json_boolean(value));
}

void mt_json_append(json_t *array, json_t *value)
{
	if (json_array_append_new(array, value) != 0)
		mt_error_check_memory(NULL);
}

json_t *mt_json_append_object(json_t *array)
{
	json_t *object = json_object();

	mt_json_append(array, object);
	return object;
}

bool mt_json_get_u64(const json_t *object, const char *name, uint64_t most, uint64_t *out)
{
	const json_t *value = json_object_get(object, name);
	json_int_t number = json_integer_value(value);

	if (!json_is_integer(value) || number < 0 || (uint64_t)number > most)
		return false;
	*out = (uint64_t)number;
	return true;
}

void mt_json_get_text(const json_t *object, const char *name, char *out, size_t out_bytes)
{
	const char *text = json_string_value(json_object_get(object, name));

	if (!text)
		return;
	snprintf(out, out_bytes, "%s", text);
	mt_text_clean(out, out_bytes);
}

char *mt_json_take_text(json_t *value)
{
	char *text = mt_error_check_memory(json_dumps(value, JSON_COMPACT));

	json_decref(value);
	return text;
}

void mt_json_print(json_t *value, bool indented)
{
	json_dumpf(value, stdout,
		   JSON_REAL_PRECISION(15) | (indented ? JSON_INDENT(2) : JSON_COMPACT));
	putchar('\n');
	json_decref(value);
}

/* ---- json lines ---- */

/* If one of the first three descriptors is closed, open(2) returns its number, and the program
 * would write into the file. */
static int keep_above_stderr(int fd)
{
	int moved, saved;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	saved = errno;
	close(fd);
	errno = saved;
	return moved;
}

enum mt_err mt_json_lines_open(const char *path, struct mt_json_lines *out,
			       struct mt_error_reason *why)
{
	int fd = -1;
	/* 0600: the file contains command lines */
	enum mt_err error = mt_outfile_open(path, 0600, &fd, why);

	if (error)
		return error;
	fd = keep_above_stderr(fd);
	/* O_APPEND: a user who truncates the file while it is written gets no hole. */
	if (fd < 0 || fcntl(fd, F_SETFL, O_APPEND) != 0)
		error = mt_error_because(why, MT_ERR_SYSTEM, "%.200s: %s", path, strerror(errno));
	if (error && fd >= 0)
		close(fd);
	if (!error)
		*out = (struct mt_json_lines){.fd = fd, .path = path};
	return error;
}

/* Removes a part of a line, so that the next one begins on a new line. */
static void take_back(int fd, size_t bytes)
{
	struct stat status;
	int saved = errno;

	if (bytes && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	    status.st_size >= (off_t)bytes && ftruncate(fd, status.st_size - (off_t)bytes) != 0)
		(void)!write(fd, "\n", 1);
	errno = saved;
}

/* Takes the object over. */
static bool write_line(int fd, json_t *object)
{
	char *text = mt_json_take_text(object);
	size_t bytes = strlen(text), done;

	text[bytes] = '\n'; /* replaces the NUL, for one write(2) */
	done = mt_outfile_write(fd, text, bytes + 1);
	free(text);
	if (done <= bytes)
		take_back(fd, done);
	return done > bytes;
}

static bool write_count_of_lost(struct mt_json_lines *lines)
{
	json_t *object = json_object();

	mt_json_set_text(object, "kind", "lost");
	mt_json_set_u64(object, "lines_count", lines->lost_count);
	return write_line(lines->fd, object);
}

void mt_json_lines_write(struct mt_json_lines *lines, json_t *object)
{
	if (lines->lost_count && !write_count_of_lost(lines)) {
		json_decref(object);
		lines->lost_count++;
		return;
	}
	lines->lost_count = 0;
	if (write_line(lines->fd, object))
		return;
	lines->lost_count = 1;
	if (!lines->warned)
		mt_error_say(
			"%s: %s; the program goes on, and what cannot be written is not recorded",
			lines->path, strerror(errno));
	lines->warned = true;
}

bool mt_json_lines_is_file(const struct mt_json_lines *lines)
{
	struct stat status;

	return !lines->warned && fstat(lines->fd, &status) == 0 && S_ISREG(status.st_mode);
}

void mt_json_lines_close(struct mt_json_lines *lines)
{
	if (lines->lost_count)
		mt_error_say("%s: %s could not be written", lines->path,
			     mt_text_counted(lines->lost_count, "line", "lines").text);
	close(lines->fd);
	lines->fd = -1;
}
