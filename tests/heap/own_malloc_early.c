/* A library of the program own_malloc.c: its constructor runs before a preloaded library's, and
 * allocates. */
#include <stdlib.h>

__attribute__((constructor)) static void early(void)
{
	free(malloc(1));
}
