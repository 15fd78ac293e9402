/* ctl/cmd/record_summary.h -- what `mtctl record` prints at its end. */
#ifndef MT_CTL_CMD_RECORD_SUMMARY_H
#define MT_CTL_CMD_RECORD_SUMMARY_H

#include <stdbool.h>

/* Reads the recording again, and prints the figures that `mtctl compare` has of it, and the next
 * command to type, on stderr. with_shim: the program ran under the shim. argv: the program; NULL: a
 * running process was watched. Prints nothing where the recording has no samples. */
void mt_record_summary(const char *path, bool with_shim, char **argv);

#endif
