/* pressure_hoard.c -- a program that holds little, and whose heap is large: ROUNDS times it fills
 * SMALL MB with small blocks, drops all but one in fifty, which it keeps until the next round, and
 * then takes BIG MB in large blocks, at so many MB a second (0: in one block), while the small
 * ones' pages lie free. Each of the two has room under the limit that the test sets, both together
 * have not, unless the free pages go back.
 *
 *   pressure_hoard SMALL BIG ROUNDS MB_PER_SECOND [late]     prints "round N" after each, "well" at
 *     the end, and then
 * stays until its stdin ends
 *
 * late: all on one CPU, and other threads of the process get it only when this one does not want
 * it. */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MB          (1024ul * 1024)
#define SMALL_BYTES 5000
#define BIG_BYTES   (1 * MB)
#define KEPT        50
#define MOST_BLOCKS (1u << 18)

static char *kept[MOST_BLOCKS];
static unsigned kept_count;
static char *blocks[MOST_BLOCKS];

static char *take(size_t bytes)
{
	char *block = malloc(bytes);

	if (!block) {
		printf("no memory\n");
		exit(3);
	}
	memset(block, 1, bytes);
	return block;
}

static void nap(unsigned long us)
{
	struct timespec span = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&span, NULL);
}

static void hoard(unsigned long mb)
{
	unsigned count = mb * MB / SMALL_BYTES;

	while (kept_count)
		free(kept[--kept_count]);
	for (unsigned i = 0; i < count; i++)
		blocks[i] = take(SMALL_BYTES);
	for (unsigned i = 0; i < count; i++) {
		if (i % KEPT == 0)
			kept[kept_count++] = blocks[i];
		else
			free(blocks[i]);
	}
}

static void grow(unsigned long mb, unsigned long mb_per_second)
{
	if (!mb_per_second) {
		free(take(mb * MB));
		return;
	}
	for (unsigned i = 0; i < mb; i++) {
		blocks[i] = take(BIG_BYTES);
		nap(1000000 / mb_per_second);
	}
	for (unsigned i = 0; i < mb; i++)
		free(blocks[i]);
}

static void make_others_late(void)
{
	struct sched_param none = {0};
	struct dirent *entry;
	DIR *tasks;
	cpu_set_t cpus;

	free(take(1));
	nap(300000); /* until they are there, and know the limit */
	tasks = opendir("/proc/self/task");
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	while (tasks && (entry = readdir(tasks))) {
		pid_t tid = atoi(entry->d_name);

		if (tid && (sched_setaffinity(tid, sizeof(cpus), &cpus) ||
			    (tid != getpid() && sched_setscheduler(tid, SCHED_IDLE, &none))))
			exit(4);
	}
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	if (argc > 5)
		make_others_late();
	for (int i = 1; i <= atoi(argv[3]); i++) {
		hoard(strtoul(argv[1], NULL, 10));
		grow(strtoul(argv[2], NULL, 10), strtoul(argv[4], NULL, 10));
		printf("round %d\n", i);
		fflush(stdout);
	}
	printf("well\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
