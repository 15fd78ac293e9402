/* loads_library.c -- loads the library that is its argument, whose constructor says "well". */
#include <dlfcn.h>

int main(int argc, char **argv)
{
	return argc != 2 || !dlopen(argv[1], RTLD_NOW);
}
