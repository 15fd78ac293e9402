/* libraries.c WAY PLUGIN [NUMBER] -- a library that comes and goes, and memory that passes between
 * it and the program:
 *   cycle      NUMBER times: opened, used by this thread and another, closed, its blocks freed
 *     afterwards
 *   threads    two threads, NUMBER times each
 *   deep       opened with RTLD_DEEPBIND: blocks of libc, of the library and of the program, each
 *     freed by somebody else
 *   space      opened in a namespace of its own (dlmopen), where libc and its heap are others: what
 *     it makes, it frees
 *   unload     opened and closed, then waited for: who would still run its code crashes
 * Prints what it saw; for cycle how much larger it is than after the first tenth. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plugin {
	void *handle;
	char *(*give)(unsigned);
	void (*take)(char *);
	int (*copy)(const char *);
	void (*forget)(void);
};

static const char *path;
static long number;

static void *find(void *handle, const char *name)
{
	void *found = dlsym(handle, name);

	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(3);
	}
	return found;
}

static void find_all(struct plugin *plugin)
{
	if (!plugin->handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(3);
	}
	*(void **)&plugin->give = find(plugin->handle, "plugin_give");
	*(void **)&plugin->take = find(plugin->handle, "plugin_take");
	*(void **)&plugin->copy = find(plugin->handle, "plugin_copy");
	*(void **)&plugin->forget = find(plugin->handle, "plugin_forget");
}

static long rss_kb(void)
{
	char text[128] = "";
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (file && fgets(text, sizeof(text), file))
		sscanf(text, "%*d %ld", &pages);
	if (file)
		fclose(file);
	return pages * sysconf(_SC_PAGESIZE) / 1024;
}

static void *use_in_thread(void *argument)
{
	struct plugin *plugin = argument;

	for (unsigned i = 0; i < 20; i++)
		plugin->take(plugin->give(i));
	plugin->forget();
	return NULL;
}

static int one_cycle(unsigned round, int with_thread)
{
	struct plugin plugin = {.handle = dlopen(path, RTLD_NOW)};
	char *blocks[30];
	pthread_t thread;

	find_all(&plugin);
	if (with_thread && pthread_create(&thread, NULL, use_in_thread, &plugin) != 0)
		return 0;
	for (unsigned i = 0; i < 30; i++)
		blocks[i] = plugin.give(round * 30 + i);
	plugin.forget();
	if (with_thread)
		pthread_join(thread, NULL);
	if (dlclose(plugin.handle) != 0)
		return 0;
	for (unsigned i = 0; i < 30; i++) {
		char text[32];

		snprintf(text, sizeof(text), "block %u", round * 30 + i);
		if (strcmp(blocks[i], text) != 0)
			return 0;
		free(blocks[i]);
	}
	return 1;
}

static int cycle(void)
{
	long well = 0, early = 0;

	for (long i = 0; i < number; i++) {
		well += one_cycle((unsigned)i, 1);
		if (i == number / 10)
			early = rss_kb();
	}
	printf("%ld well, grown: %s\n", well, rss_kb() - early < 4096 ? "no" : "yes");
	return 0;
}

static void *cycle_in_thread(void *well)
{
	for (long i = 0; i < number; i++)
		*(long *)well += one_cycle((unsigned)i, 0);
	return NULL;
}

static int threads(void)
{
	long well[2] = {0};
	pthread_t other[2];

	for (unsigned i = 0; i < 2; i++)
		if (pthread_create(&other[i], NULL, cycle_in_thread, &well[i]) != 0)
			return 2;
	for (unsigned i = 0; i < 2; i++)
		pthread_join(other[i], NULL);
	printf("%ld well\n", well[0] + well[1]);
	return 0;
}

static int deep(void)
{
	struct plugin plugin = {.handle = dlopen(path, RTLD_NOW | RTLD_DEEPBIND)};
	int well = 0;

	find_all(&plugin);
	for (unsigned i = 0; i < 200; i++) {
		free(plugin.give(i));             /* the library's, freed here */
		plugin.take(malloc(1 + i * 100)); /* ours, freed there */
		plugin.take(strdup("libc's"));
		free(realloc(plugin.give(i), 20000));
		well += plugin.copy("a text"); /* libc's, freed there */
	}
	plugin.forget();
	printf("%d well, closed: %d\n", well, dlclose(plugin.handle) == 0);
	return 0;
}

static int space(void)
{
	struct plugin plugin = {.handle = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL)};
	int well = 0;

	find_all(&plugin);
	for (unsigned i = 0; i < 200; i++) {
		plugin.take(plugin.give(i));
		free(malloc(1 + i * 100));
		well += plugin.copy("a text");
	}
	plugin.forget();
	printf("%d well, closed: %d\n", well, dlclose(plugin.handle) == 0);
	return 0;
}

static void *allocate(void *unused)
{
	free(malloc(100));
	return unused;
}

/* The end of a thread is the last that would run a destructor of the library's. */
static int unload(void)
{
	pthread_t thread;

	for (unsigned i = 0; i < 3; i++) {
		void *handle = dlopen(path, RTLD_NOW);

		if (!handle) {
			fprintf(stderr, "%s\n", dlerror());
			return 3;
		}
		usleep(200000);
		dlclose(handle);
		for (unsigned k = 0; k < 50; k++)
			free(malloc(100000 + k));
		usleep(200000);
	}
	if (pthread_create(&thread, NULL, allocate, NULL) != 0 || pthread_join(thread, NULL) != 0)
		return 2;
	puts("lives on");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} ways[] = {
		{"cycle", cycle}, {"threads", threads}, {"deep", deep},
		{"space", space}, {"unload", unload},
	};

	path = argc > 2 ? argv[2] : "";
	number = argc > 3 ? atol(argv[3]) : 0;
	for (unsigned i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(argv[1], ways[i].name) == 0)
			return ways[i].run();
	return 2;
}
