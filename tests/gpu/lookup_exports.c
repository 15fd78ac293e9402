/* For each name on standard input: where dlsym by handle, dlsym by RTLD_DEFAULT, and
 * cuGetProcAddress in both ABIs (without the suffix, for both kinds of default stream) lead.
 * argv[1]: the driver. A pointer of the driver is told by its offset, one of the shim's by its
 * symbol. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int (*old_query)(const char *, void **, int, uint64_t);
typedef int (*new_query)(const char *, void **, int, uint64_t, int *);

static void say(const char *road, const char *name, const char *driver, void *found)
{
	Dl_info info;

	if (!found || !dladdr(found, &info))
		printf("%s %s none\n", road, name);
	else if (strcmp(info.dli_fname, driver) == 0)
		printf("%s %s driver %#zx\n", road, name,
		       (size_t)((char *)found - (char *)info.dli_fbase));
	else
		printf("%s %s shim %s\n", road, name,
		       info.dli_sname && info.dli_saddr == found ? info.dli_sname : "?");
}

static void cut(char *name)
{
	static const char *const ends[] = {"_ptsz", "_ptds", "_v2", "_v3", "_v4"};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t length = strlen(name), end = strlen(ends[i]);

		if (length > end && strcmp(name + length - end, ends[i]) == 0)
			name[length - end] = '\0';
	}
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "libcuda.so.1";
	void *driver = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	static const int versions[] = {2000, 3020, 11020, 12000, 13000};
	old_query old;
	new_query fresh;
	char name[128];

	if (!driver)
		return 1;
	*(void **)&old = dlsym(driver, "cuGetProcAddress");
	*(void **)&fresh = dlsym(driver, "cuGetProcAddress_v2");
	while (scanf("%127s", name) == 1) {
		say("dlsym", name, path, dlsym(driver, name));
		say("default", name, path, dlsym(RTLD_DEFAULT, name));
		cut(name);
		for (size_t i = 0; i < 10; i++) {
			void *found = NULL;
			int status = 99;

			if (old && old(name, &found, versions[i / 2], i % 2 ? 2 : 0) == 0)
				say("old", name, path, found);
			found = NULL;
			if (fresh) {
				int result = fresh(name, &found, versions[i / 2], i % 2 ? 2 : 0,
						   &status);

				printf("%d %d ", result, status);
				say("new", name, path, result == 0 ? found : NULL);
			}
		}
	}
	return 0;
}
