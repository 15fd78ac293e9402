/* heap/no_driver.c -- in the place of gpu/lookup.c if the library is built without gpu/
 * (CUDA=0). */
#include "heap/dlsym.h"

#include <stddef.h>

void *mt_dlsym_replace_driver(void *handle, const char *name, const char *version,
			      const void *caller)
{
	(void)handle;
	(void)name;
	(void)version;
	(void)caller;
	return NULL;
}
