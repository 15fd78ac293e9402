/* cuda_owners.c -- whose function the driver's answers are. Reads names on stdin, one a line, and
 * prints for each and for each way of asking: the way, the result and symbolStatus, the file that
 * the answer lies in, and its symbol there.
 * Usage: cuda_owners dlsym | proc | proc_old. dlsym: dlsym and dlvsym. proc: cuGetProcAddress_v2 as
 *   the runtime uses
 * it: found by one dlsym, then asked for itself at 11030 and at 12000, and each answer asked for
 * every name. proc_old: the one with four arguments that drivers 11.3 to 11.8 have. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int ask_old(const char *name, void **function, int version, uint64_t flags);
typedef int ask_new(const char *name, void **function, int version, uint64_t flags, int *status);

static const int versions[] = {11030, 12000, 13000};

static void say(const char *way, const char *name, int result, int status, void *found)
{
	Dl_info info = {0};

	if (found != NULL)
		dladdr(found, &info);
	const char *file = info.dli_fname != NULL ? strrchr(info.dli_fname, '/') : NULL;
	printf("%s %s %d %d %s %s %d\n", way, name, result, status,
	       found == NULL  ? "none"
	       : file != NULL ? file + 1
			      : "?",
	       info.dli_sname != NULL ? info.dli_sname : "?",
	       found != NULL && info.dli_saddr == found);
}

static void ask_all_new(ask_new *ask, const char *way, const char *name)
{
	char title[64];

	for (int v = 0; v < 3; v++) {
		for (unsigned flags = 0; flags < 3; flags++) {
			void *found = NULL;
			int status = -1;
			int result = ask(name, &found, versions[v], flags, &status);

			snprintf(title, sizeof(title), "%s-%d-%u", way, versions[v], flags);
			say(title, name, result, status, result == 0 ? found : NULL);
		}
	}
}

static void ask_all_old(ask_old *ask, const char *name)
{
	char title[64];

	for (unsigned flags = 0; flags < 3; flags++) {
		void *found = NULL;
		int result = ask(name, &found, 11080, flags);

		snprintf(title, sizeof(title), "old-%u", flags);
		say(title, name, result, -1, result == 0 ? found : NULL);
	}
}

static void look_up(void *handle, const char *name)
{
	void *found = dlsym(handle, name);

	say("dlsym", name, dlerror() != NULL, -1, found);
	found = dlsym(RTLD_DEFAULT, name);
	say("default", name, dlerror() != NULL, -1, found);
	found = dlvsym(handle, name, "NO_SUCH_VERSION");
	say("dlvsym", name, dlerror() != NULL, -1, found);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "dlsym";
	void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	char name[256];
	ask_new *first = NULL, *new = NULL;
	ask_old *old = NULL, *old_of_new = NULL;

	if (handle == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	if (strcmp(way, "proc") == 0) {
		first = (ask_new *)dlsym(handle, "cuGetProcAddress_v2");
		if (first == NULL ||
		    first("cuGetProcAddress", (void **)&new, 12000, 0, NULL) != 0 ||
		    first("cuGetProcAddress", (void **)&old_of_new, 11030, 0, NULL) != 0)
			return 3;
		say("itself", "12000", 0, 0, (void *)new);
		say("itself", "11030", 0, 0, (void *)old_of_new);
	}
	if (strcmp(way, "proc_old") == 0 &&
	    (old = (ask_old *)dlsym(handle, "cuGetProcAddress")) == NULL)
		return 3;
	while (scanf("%255s", name) == 1) {
		if (old != NULL) {
			ask_all_old(old, name);
		} else if (first != NULL) {
			ask_all_new(new, "new", name);
			ask_all_old(old_of_new, name);
		} else {
			look_up(handle, name);
		}
	}
	return 0;
}
