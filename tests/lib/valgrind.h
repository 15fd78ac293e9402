/* valgrind.h -- whether the test runs under valgrind, which makes fork of a clone that shares its
 * memory, and ends the process where it can map nothing for itself. */
#ifndef MT_VALGRIND_H
#define MT_VALGRIND_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool is_under_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && strstr(preloaded, "vgpreload");
}

#endif
