/* A preloaded library whose dlsym calls libc's, instead of jumping to it: to libc the asker is then
 * always this library. It knows one name more. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#ifdef __aarch64__
#define BASE "GLIBC_2.17"
#else
#define BASE "GLIBC_2.2.5"
#endif

void *dlsym(void *handle, const char *name)
{
	static void *(*next)(void *, const char *);
	void *found;

	if (!next)
		*(void **)(void *)&next = dlvsym(RTLD_NEXT, "dlsym", BASE);
	if (strcmp(name, "mt_test_sentinel") == 0)
		return (void *)0x5eed;
	found = next(handle, name);
	__asm__ volatile("" : "+r"(found));
	return found;
}
