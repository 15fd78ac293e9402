/* other_pages.c -- preloaded before the library: sysconf says that pages are of 64 KiB, as on many
 * machines with aarch64. A jemalloc that was built for smaller ones refuses to start. */
#include <dlfcn.h>
#include <unistd.h>

long sysconf(int name)
{
	static long (*next)(int);

	if (name == _SC_PAGESIZE)
		return 65536;
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "sysconf");
	return next(name);
}
