/* late_places.c PLACE [PLUGIN] -- grows past the threshold for the first time in an awkward place,
 * and says so:
 *   dlopen      in a constructor, under the loader's lock
 *   key         in a thread's key destructor, the thread being the only one that ever allocated
 *     much
 *   atexit      in an atexit handler
 *   forked      in a child of a process that was asleep
 *   thread      in a thread that ends at once
 * Afterwards waits until the process has a thread of the shim's and no other but this one, says how
 * many, then ends. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void grow(void)
{
	static char *blocks[3000];

	for (unsigned i = 0; i < 3000; i++) {
		blocks[i] = malloc(20000);
		memset(blocks[i], 1, 20000);
	}
	for (unsigned i = 0; i < 3000; i++)
		free(blocks[i]);
}

static bool is_of_the_shim(const char *task)
{
	char path[300], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = 0;
	fclose(file);
	return strncmp(name, "mtshim", 6) == 0;
}

static int threads_count(int *of_the_shim)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = 0;

	*of_the_shim = 0;
	for (struct dirent *entry; (entry = readdir(tasks));) {
		if (entry->d_name[0] == '.')
			continue;
		count++;
		*of_the_shim += is_of_the_shim(entry->d_name);
	}
	closedir(tasks);
	return count;
}

/* pthread_join returns before the kernel has taken the thread off its list: for a moment it is
 * counted with the others. */
static void show(const char *place)
{
	int count = 0, of_the_shim = 0;

	for (unsigned i = 0; i < 100; i++) {
		count = threads_count(&of_the_shim);
		if (count == 2 && of_the_shim == 1)
			break;
		usleep(50000);
	}
	printf("%s: %d threads\n", place, count);
	fflush(stdout);
}

static void in_destructor(void *value)
{
	(void)value;
	grow();
}

static void *in_thread(void *key)
{
	if (key)
		pthread_setspecific(*(pthread_key_t *)key, key);
	else
		grow();
	return NULL;
}

static void at_exit(void)
{
	grow();
	show("atexit");
}

int main(int argc, char **argv)
{
	const char *place = argc > 1 ? argv[1] : "";
	pthread_key_t key;
	pthread_t thread;
	int status = 0, of_the_shim;

	if (strcmp(place, "dlopen") == 0) {
		void *handle = dlopen(argv[2], RTLD_NOW);
		if (!handle || dlclose(handle) != 0)
			return 2;
	} else if (strcmp(place, "key") == 0) {
		pthread_key_create(&key, in_destructor);
		pthread_create(&thread, NULL, in_thread, &key);
		pthread_join(thread, NULL);
	} else if (strcmp(place, "thread") == 0) {
		pthread_create(&thread, NULL, in_thread, NULL);
		pthread_join(thread, NULL);
	} else if (strcmp(place, "atexit") == 0) {
		atexit(at_exit);
		return 0;
	} else if (strcmp(place, "forked") == 0) {
		pid_t child = fork();
		if (child == 0) {
			grow();
			show("child");
			_exit(0);
		}
		waitpid(child, &status, 0);
		printf("parent: %d threads\n", threads_count(&of_the_shim));
		return status;
	} else {
		return 2;
	}
	show(place);
	return 0;
}
