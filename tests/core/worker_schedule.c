/* worker_schedule.c [idle|nice] -- the first thread to allocate much is pinned to one CPU and, as
 * root, runs under SCHED_IDLE or at nice -5: prints how main and the shim's thread, which it
 * starts, are scheduled: CPUs, policy, nice value. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HELD_BYTES (64u << 20)

static const char *way = "";

static void *grow(void *unused)
{
	const struct sched_param none = {0};
	cpu_set_t mask, first;
	int cpu = 0;

	sched_getaffinity(0, sizeof(mask), &mask);
	while (!CPU_ISSET(cpu, &mask))
		cpu++;
	CPU_ZERO(&first);
	CPU_SET(cpu, &first);
	sched_setaffinity(0, sizeof(first), &first);
	if (strcmp(way, "idle") == 0)
		sched_setscheduler(0, SCHED_IDLE, &none);
	if (strcmp(way, "nice") == 0)
		setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), -5);
	memset(malloc(HELD_BYTES), 1, HELD_BYTES);
	return unused;
}

static void tell(const char *name, pid_t id)
{
	cpu_set_t mask;

	CPU_ZERO(&mask);
	sched_getaffinity(id, sizeof(mask), &mask);
	printf("%s %d CPUs, policy %d, nice %d\n", name, CPU_COUNT(&mask), sched_getscheduler(id),
	       getpriority(PRIO_PROCESS, (id_t)id));
}

static pid_t find_worker(void)
{
	char path[300], name[32] = "";
	pid_t found = 0;
	DIR *folder = opendir("/proc/self/task");

	for (struct dirent *entry; folder && (entry = readdir(folder));) {
		FILE *comm;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		comm = fopen(path, "r");
		if (comm && fgets(name, sizeof(name), comm) && strcmp(name, "mtshim\n") == 0)
			found = atoi(entry->d_name);
		if (comm)
			fclose(comm);
	}
	if (folder)
		closedir(folder);
	return found;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	pid_t worker = 0;

	if (argc > 1)
		way = argv[1];
	pthread_create(&thread, NULL, grow, NULL);
	pthread_join(thread, NULL);
	for (int tries = 0; tries < 500 && !(worker = find_worker()); tries++)
		usleep(10000);
	if (!worker)
		return 1;
	tell("main", getpid());
	tell("worker", worker);
	return 0;
}
