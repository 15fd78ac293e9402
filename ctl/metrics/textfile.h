/* ctl/metrics/textfile.h -- puts a file for node_exporter's textfile collector in its place, whole
 * or not at all: a temporary file beside it, then a rename. The collector reads what ends in .prom,
 * which the temporary one does not. */
#ifndef MT_CTL_METRICS_TEXTFILE_H
#define MT_CTL_METRICS_TEXTFILE_H

#include <stddef.h>

#include "ctl/output/error.h"

struct mt_textfile {
	const char *directory, *name;
};

/* INVALID: the name has a slash, begins with a point or does not end in .prom. */
enum mt_err mt_textfile_check(const struct mt_textfile *file, struct mt_why *why);

/* Mode 0644. FOREIGN: a directory in which anybody may replace anybody's files, or what is there
 * already is a link, no regular file or another user's. SYSTEM: the file system says no. */
enum mt_err mt_textfile_write(const struct mt_textfile *file, const char *text, size_t bytes,
			      struct mt_why *why);

/* Figures that nobody renews any more must not stay there. */
void mt_textfile_remove(const struct mt_textfile *file);

#endif
