/* ctl/output/json.h -- short functions over jansson: members are set without a check in each line,
 * since mtctl ends when memory runs out. Text must be clean (mt_text_clean): JSON is UTF-8, and
 * text of processes may not be. */
#ifndef MT_CTL_OUTPUT_JSON_H
#define MT_CTL_OUTPUT_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "ctl/output/error.h"

/* Takes the value over, as json_object_set_new(3) does. */
void mt_json_set(json_t *object, const char *name, json_t *value);
void mt_json_set_text(json_t *object, const char *name, const char *text);

/* Returns an integer. JSON integers are signed here, so a value above INT64_MAX becomes INT64_MAX.
 */
json_t *mt_json_u64(uint64_t value);
void mt_json_set_u64(json_t *object, const char *name, uint64_t value);
/* Set null if the value is not known, or the text is empty. */
void mt_json_set_u64_if(json_t *object, const char *name, bool is_known, uint64_t value);
void mt_json_set_text_or_null(json_t *object, const char *name, const char *text);
void mt_json_set_bool(json_t *object, const char *name, bool value);
void mt_json_append(json_t *array, json_t *value);
/* Appends an empty object, which the array owns. */
json_t *mt_json_append_object(json_t *array);

/* Read a member; *out is unchanged if it is missing. mt_json_get_u64 returns false unless it is a
 * whole number from 0 to `most`; mt_json_get_text copies the text, cleaned and cut to fit. */
bool mt_json_get_u64(const json_t *object, const char *name, uint64_t most, uint64_t *out);
void mt_json_get_text(const json_t *object, const char *name, char *out, size_t out_bytes);

/* Returns the value on one line, which the caller frees, and frees the value. */
char *mt_json_take_text(json_t *value);

/* Prints the value to stdout, on one line or indented, and frees it. Reals have 15 digits: 106.31,
 * not 106.31000000000000227. */
void mt_json_print(json_t *value, bool indented);

/* A file of JSON objects, one a line. Each line is written by one write(2), so that a killed
 * process leaves a file that is valid up to its last line. Lines that cannot be written (a full
 * disk) are counted, with one message on stderr. The next line that can be written is their count:
 * {"kind": "lost", "lines_count": N}. */

struct mt_json_lines {
	int fd;      /* close-on-exec, and never 0, 1 or 2 */
	bool warned; /* that lines are lost */
	uint64_t lost_count;
	const char *path; /* owned by the caller */
};

/* Opens the file and empties it. A new file has mode 0600. Returns the errors of mt_outfile_open.
 */
enum mt_err mt_json_lines_open(const char *path, struct mt_json_lines *out,
			       struct mt_error_reason *why);

/* Writes one line. Takes the object over. */
void mt_json_lines_write(struct mt_json_lines *lines, json_t *object);

/* Returns whether it is a regular file, and every line was written: it can be read again. */
bool mt_json_lines_is_file(const struct mt_json_lines *lines);

void mt_json_lines_close(struct mt_json_lines *lines);

#endif
