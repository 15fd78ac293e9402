/* last_thread.c MOMENT -- main ends by pthread_exit, and a worker goes on; prints what it saw, and
 * ends by itself.
 *   full         the worker fills the table of descriptors, waits, and says so
 *   destructor   the worker ends at once, and a key destructor of main's has more to say
 *   signals      which threads that are not the program's would take its signals
 *   plain        the worker says a line later
 *   alone        no worker: an exit handler says which thread runs it
 * Compiled with -DOWN_MALLOC the program has a malloc of its own, bound before anybody else's. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define DESCRIPTORS 64

#ifdef OWN_MALLOC
static _Atomic size_t used;
static alignas(64) char area[64 << 20];

void *malloc(size_t size)
{
	size_t *block = (size_t *)(area + atomic_fetch_add(&used, (size + 31) / 16 * 16));

	block[0] = size;
	return block + 2;
}

void free(void *block)
{
	(void)block;
}

void *calloc(size_t count, size_t size)
{
	return malloc(count * size); /* never used before */
}

void *realloc(void *block, size_t size)
{
	void *fresh = malloc(size);

	if (block)
		memcpy(fresh, block, ((size_t *)block)[-2] < size ? ((size_t *)block)[-2] : size);
	return fresh;
}
#endif

static void *say_late(void *unused)
{
	(void)unused;
	usleep(300000);
	puts("the worker is done");
	return NULL;
}

static void *fill_table(void *unused)
{
	int last = -1;
	int fd;

	(void)unused;
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		last = fd;
	usleep(1500000); /* longer than anybody waits for a descriptor */
	puts("the worker is done");
	for (fd = 3; fd <= last; fd++)
		close(fd);
	return NULL;
}

static void *end_at_once(void *unused)
{
	return unused;
}

static pthread_key_t end_key;

/* In the second round of destructors, as those do that find others at work. */
static void speak_at_the_end(void *round)
{
	if (*(int *)round == 2) {
		usleep(500000);
		puts("main's destructor is done");
		return;
	}
	++*(int *)round;
	pthread_setspecific(end_key, round);
}

static int takes_signals(const char *tid)
{
	char path[64];
	char line[256];
	unsigned long long blocked = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%.16s/status", tid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, "SigBlk:", 7) == 0)
			blocked = strtoull(line + 7, NULL, 16);
	fclose(file);
	return !(blocked >> (SIGTERM - 1) & 1);
}

static void *look_at_threads(void *unused)
{
	int count = 0;
	DIR *folder;

	(void)unused;
	usleep(300000);
	folder = opendir("/proc/self/task");
	for (struct dirent *entry; folder && (entry = readdir(folder));)
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != getpid() &&
		    atoi(entry->d_name) != gettid())
			count += takes_signals(entry->d_name);
	if (folder)
		closedir(folder);
	printf("%d other threads take signals\n", count);
	return NULL;
}

static void say_which_thread(void)
{
	puts(gettid() == getpid() ? "the main thread runs it" : "another thread runs it");
}

int main(int argc, char **argv)
{
	const char *moment = argc > 1 ? argv[1] : "";
	struct rlimit most = {DESCRIPTORS, DESCRIPTORS};
	static int round = 1;
	void *(*work)(void *) = say_late;
	pthread_t thread;

	if (strcmp(moment, "full") == 0) {
		/* for pthread_exit, which could not open it later */
		dlopen("libgcc_s.so.1", RTLD_NOW);
		setrlimit(RLIMIT_NOFILE, &most);
		work = fill_table;
	} else if (strcmp(moment, "signals") == 0) {
		work = look_at_threads;
	} else if (strcmp(moment, "destructor") == 0) {
		work = end_at_once;
		pthread_key_create(&end_key, speak_at_the_end);
		pthread_setspecific(end_key, &round);
	} else if (strcmp(moment, "alone") == 0) {
		atexit(say_which_thread);
		usleep(300000); /* until threads that are not the program's have begun */
		pthread_exit(NULL);
	}
	pthread_create(&thread, NULL, work, NULL);
	pthread_detach(thread);
	pthread_exit(NULL);
}
