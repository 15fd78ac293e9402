/* -DLIBRARY: linked to libcuda, and opened RTLD_LOCAL by the program: only its own scope has the
 * driver. Prints for three questions to RTLD_DEFAULT whose the answer is: the library asks, then
 * the program. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void say(const char *name, void *found)
{
	const char *error = dlerror();
	Dl_info info;

	printf("%s %s%s\n", name,
	       found && dladdr(found, &info) ? strrchr(info.dli_fname, '/') + 1 : "none",
	       error ? " with a message" : "");
}

#ifdef LIBRARY
extern int cuInit(unsigned flags);
void ask(void);

void ask(void)
{
	say("mine", (void *)cuInit);
#else
static void ask(void)
{
#endif
	say("cuMemAlloc_v2", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	say("cuGetProcAddress_v2", dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2"));
	say("cuStreamWaitEvent", dlsym(RTLD_DEFAULT, "cuLaunchHostFunc"));
}

#ifndef LIBRARY
int main(int argc, char **argv)
{
	void *library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
	void (*ask_there)(void);

	*(void **)&ask_there = dlsym(library, "ask");
	ask_there();
	ask();
	return 0;
}
#endif
