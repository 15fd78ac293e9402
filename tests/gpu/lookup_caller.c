/* Who asks decides what RTLD_NEXT and RTLD_DEFAULT mean: an object that asks, in its constructor
 * and when told, and says what it is told. The program (-DWHO=1) is linked to one library (2) and
 * opens another (3) RTLD_LOCAL; a fourth is preloaded. Every one defines ompt_start_tool, as an
 * OpenMP runtime, a tool and a program do: the runtime asks for the next one. -DOLD: bound to the
 * version of dlsym with which libc began. What is printed must not depend on the shim. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef OLD
#if defined(__x86_64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5\n.symver dlvsym, dlvsym@GLIBC_2.2.5");
#else
__asm__(".symver dlsym, dlsym@GLIBC_2.17\n.symver dlvsym, dlvsym@GLIBC_2.17");
#endif
#endif

#define PASTE(a, b) a##b
#define NAME(a, b)  PASTE(a, b)

int ompt_start_tool(void);
int NAME(only_in_, WHO)(void);
void NAME(look_, WHO)(const char *when);
extern void look_2(const char *when);

int ompt_start_tool(void)
{
	return WHO;
}

int NAME(only_in_, WHO)(void)
{
	return 10 * WHO;
}

static void say(const char *when, const char *what, void *found)
{
	const char *error = dlerror();
	Dl_info info;

	printf("%d %s %s: %s %s\n", WHO, when, what,
	       found && dladdr(found, &info) ? strrchr(info.dli_fname, '/') : "none",
	       error ? error : "");
}

#define LOOK(handle, name) say(when, #handle " " name, dlsym(handle, name))

void NAME(look_, WHO)(const char *when)
{
	for (int i = 0; i < 2; i++) {
		LOOK(RTLD_NEXT, "ompt_start_tool");
		LOOK(RTLD_DEFAULT, "ompt_start_tool");
		LOOK(RTLD_DEFAULT, "only_in_1");
		LOOK(RTLD_NEXT, "only_in_2");
		LOOK(RTLD_DEFAULT, "only_in_3");
		LOOK(RTLD_NEXT, "only_in_4");
		LOOK(RTLD_NEXT, "strtol");
		LOOK(RTLD_NEXT, "c");
		LOOK(RTLD_DEFAULT, "");
		LOOK(RTLD_DEFAULT, "cuMemAlloc_v2");
		LOOK(RTLD_NEXT, "cuMemAlloc_v2");
		LOOK(RTLD_DEFAULT, "cuGetProcAddress");
		LOOK(RTLD_DEFAULT, "cudnnCreate");
		LOOK(RTLD_NEXT, "cublasCreate_v2");
		LOOK(RTLD_NEXT, "cu");
		LOOK(dlopen(NULL, RTLD_LAZY), "cuMemFree_v2");
		LOOK(dlopen(NULL, RTLD_LAZY), "only_in_2");
		say(when, "dlvsym", dlvsym(RTLD_NEXT, "strtol", BASE));
		say(when, "dlvsym of no version", dlvsym(RTLD_DEFAULT, "strtol", "NONE_1"));
		say(when, "dlvsym of the driver's",
		    dlvsym(RTLD_DEFAULT, "cuMemAlloc_v2", "NONE_1"));
	}
}

__attribute__((constructor)) static void begin(void)
{
	NAME(look_, WHO)("in a constructor");
}

#if WHO == 1
int main(int argc, char **argv)
{
	void *other = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
	void (*look)(const char *);

	*(void **)&look = dlsym(other, "look_3");
	look_1("in main");
	look_2("in main");
	look("in main");
	say("in main", "a handle", dlsym(other, "ompt_start_tool"));
	say("in main", "what a handle lacks", dlsym(other, "cuMemAlloc_v2"));
	return 0;
}
#endif
