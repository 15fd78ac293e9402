/* heap_first.c -- a library whose constructor is the first to touch the heap, from a place no
 * program's main sees: before the shim's own constructor when it is loaded first, inside dlsym, and
 * in an ifunc-free early path. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *kept[500];

__attribute__((constructor(101))) static void early(void)
{
	for (unsigned i = 0; i < 500; i++) {
		size_t bytes = i < 490 ? 1 + i * 7 : (size_t)i * 10000;
		kept[i] = i % 3 == 0   ? calloc(1, bytes)
			  : i % 3 == 1 ? malloc(bytes)
				       : realloc(malloc(3), bytes);
		if (!kept[i])
			_exit(90);
		memset(kept[i], (int)i, bytes);
	}
	if (!dlsym(RTLD_DEFAULT, "malloc") || dlsym(RTLD_DEFAULT, "no_such_name_anywhere") ||
	    !dlerror())
		_exit(91);
}

__attribute__((destructor(101))) static void late(void)
{
	for (unsigned i = 0; i < 500; i++) {
		if (kept[i][0] != (char)i)
			_exit(92);
		free(kept[i]);
	}
	free(malloc(100000));
}
