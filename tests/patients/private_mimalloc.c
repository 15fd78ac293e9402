/* private_mimalloc.c -- a plugin with an allocator of its own, as some Python wheels bring one
 * along: its memory grows and shrinks with none of it going through malloc. */
#include <dlfcn.h>

#include "patient.h"

enum { BLOCKS = 40 * 1024, BLOCK_BYTES = 4000 };

int main(void)
{
	void *plugin = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);

	if (plugin == NULL)
		plugin = dlopen("libmimalloc.so.3", RTLD_NOW | RTLD_LOCAL);
	if (plugin == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 3;
	}
	void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(plugin, "mi_malloc");
	void (*release)(void *) = (void (*)(void *))dlsym(plugin, "mi_free");
	void **table = must(malloc(BLOCKS * sizeof(*table)));

	for (size_t i = 0; i < BLOCKS; i++)
		table[i] = memset(must(allocate(BLOCK_BYTES)), 'x', BLOCK_BYTES);
	ready();
	for (size_t i = 0; goes_on(20); i++) {
		release(table[i % BLOCKS]);
		table[i % BLOCKS] = memset(must(allocate(BLOCK_BYTES)), 'y', BLOCK_BYTES);
	}
	return 0;
}
