/* Two libcuda.so.1 of different files: whose is the answer for each? The shim serves the first
 * alone. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		void *driver = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		void *found = driver ? dlsym(driver, "cuMemAlloc_v2") : NULL;
		Dl_info info;

		if (!found || !dladdr(found, &info))
			puts("none");
		else if (strcmp(info.dli_fname, argv[i]) == 0)
			puts("driver");
		else
			puts(strstr(info.dli_fname, "mtshim") ? "shim" : info.dli_fname);
	}
	return 0;
}
