/* ctl/output/json_lines.h -- a file to which JSON objects are appended, a line each. Every line is
 * written at once and whole: whoever is killed leaves a file that can be read to its last line.
 * What cannot be written (a full disk) is said once on stderr, counted, and its count is the first
 * line that can be written again: {"kind": "lost", "lines_count": N}. */
#ifndef MT_CTL_OUTPUT_JSON_LINES_H
#define MT_CTL_OUTPUT_JSON_LINES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "ctl/output/error.h"

struct mt_json_lines {
	int fd;    /* closed by exec, and never 0, 1 or 2 */
	bool said; /* that lines are lost */
	uint64_t lost_count;
	const char *path; /* the caller's */
};

/* Empties a file that is there; a new one is for its owner alone. Errors are those of
 * mt_outfile_open. */
enum mt_err mt_json_lines_open(const char *path, struct mt_json_lines *out, struct mt_why *why);

/* Takes the object over. */
void mt_json_lines_write(struct mt_json_lines *lines, json_t *object);

void mt_json_lines_close(struct mt_json_lines *lines);

#endif
