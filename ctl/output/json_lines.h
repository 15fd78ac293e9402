/* ctl/output/json_lines.h -- a file of JSON objects, one a line. Each line is written by one
 * write(2), so that a killed process leaves a file that is valid up to its last line. Lines that
 * cannot be written (a full disk) are counted, with one message on stderr. The next line that can
 * be written is their count: {"kind": "lost", "lines_count": N}. One thread may call. */
#ifndef MT_CTL_OUTPUT_JSON_LINES_H
#define MT_CTL_OUTPUT_JSON_LINES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "ctl/output/error.h"

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
