/* other_pages.c -- preloaded before a copy of the library that calls this in sysconf's stead: pages
 * are of 64 KiB, as on many machines with aarch64. A jemalloc that was built for smaller ones
 * refuses to start. */
#include <unistd.h>

long mtpages(int name);

long mtpages(int name)
{
	return name == _SC_PAGESIZE ? 65536 : sysconf(name);
}
