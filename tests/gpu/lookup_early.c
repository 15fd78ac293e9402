/* dlsym before anybody is ready. As a library (-DLIBRARY): an ifunc resolver asks, which the loader
 * runs before it has relocated the libraries that were preloaded. As a program: from
 * DT_PREINIT_ARRAY, before any constructor, and from an ifunc resolver of its own. Prints what was
 * found. */
#include <dlfcn.h>
#include <stdio.h>

static int yes(void)
{
	return 1;
}

static int no(void)
{
	return 0;
}

static int (*resolve(void))(void)
{
	/* Names that exist: the message of a failure would be allocated, and malloc is not
	 * relocated yet either. */
	return dlsym(RTLD_DEFAULT, "strtol") && dlsym(RTLD_NEXT, "strtol") &&
			       dlsym(RTLD_DEFAULT, "cuserid") && dlsym(RTLD_DEFAULT, "malloc")
		       ? yes
		       : no;
}

static int early(void) __attribute__((ifunc("resolve")));

#ifdef LIBRARY
int library_early(void);

int library_early(void)
{
	return early();
}
#else
extern int library_early(void);
static int preinit_saw;

static void preinit(int argc, char **argv, char **environment)
{
	(void)argc;
	(void)argv;
	(void)environment;
	preinit_saw =
		dlsym(RTLD_NEXT, "strtol") != NULL && dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL;
}

__attribute__((section(".preinit_array"), used)) static void (*const at_preinit)(int, char **,
										 char **) = preinit;

int main(void)
{
	printf("library %d, program %d, preinit %d\n", library_early(), early(), preinit_saw);
	return 0;
}
#endif
