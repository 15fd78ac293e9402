/* late_plugin.c -- a library whose constructor and destructor allocate enough to wake the shim up:
 * the worker's thread then starts while the loader's lock is held, inside dlopen or dlclose of its
 * program. */
#include <stdlib.h>
#include <string.h>

static char *held[3000];

static void grow(void)
{
	for (unsigned i = 0; i < 3000; i++) {
		held[i] = malloc(20000);
		if (!held[i])
			abort();
		memset(held[i], 1, 20000);
	}
	for (unsigned i = 0; i < 3000; i++)
		free(held[i]);
}

__attribute__((constructor)) static void on_load(void)
{
	grow();
}

__attribute__((destructor)) static void on_unload(void)
{
	grow();
}
