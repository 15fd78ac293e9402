/* rollup.h -- what the kernel says of a test program's own memory. */
#ifndef MT_TEST_ROLLUP_H
#define MT_TEST_ROLLUP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the figure that follows key in /proc/self/smaps_rollup, in kB; -1: there is none. key:
 * with its colon, such as "Rss:". */
static inline long rollup_kb(const char *key)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kb = -1;

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, key, strlen(key)) == 0)
			kb = atol(line + strlen(key));
	if (file)
		fclose(file);
	return kb;
}

#endif
