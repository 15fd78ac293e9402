/* A program to be built with a sanitizer: asks for the next of something that its runtime does not
 * wrap. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	void *block = malloc(100);

	puts(block && dlsym(RTLD_NEXT, "strtod") && !dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")
		     ? "found"
		     : "not found");
	free(block);
	return 0;
}
