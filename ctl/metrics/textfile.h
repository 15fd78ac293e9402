/* ctl/metrics/textfile.h -- writes a file for node_exporter's textfile collector atomically: a
 * temporary file beside it, then a rename. The collector reads only names that end with .prom,
 * which the temporary one does not. */
#ifndef MT_CTL_METRICS_TEXTFILE_H
#define MT_CTL_METRICS_TEXTFILE_H

#include <stddef.h>

#include "ctl/output/error.h"

struct mt_textfile {
	const char *directory, *name;
};

/* Checks the name. INVALID: it has a slash, begins with a point or does not end with .prom. */
enum mt_err mt_textfile_check(const struct mt_textfile *file, struct mt_error_reason *why);

/* Writes the file with mode 0644. FOREIGN: anybody may replace files in the directory, or the
 * existing file is a link, no regular file, or another user's. SYSTEM: an error of the file system.
 */
enum mt_err mt_textfile_write(const struct mt_textfile *file, const char *text, size_t bytes,
			      struct mt_error_reason *why);

/* Removes the file: figures that are not updated must not stay. */
void mt_textfile_remove(const struct mt_textfile *file);

#endif
