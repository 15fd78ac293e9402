/* hostile_crowd.c LIBRARY COUNT TRICK [FOLDER] -- COUNT processes that look shimmed (an executable
 * mapping of LIBRARY),
 * each of which costs who looks at them as much as it can: hold   one memory for all, whose
 *   mmap_lock one thread holds
 * for reading for seconds, while another waits to write stats  a stats file without a byte env
 *   an environment of 64
 * MB that nobody has ever touched maps   10,000 executable mappings, below that of the library, of
 *   a file in FOLDER
 * whose path is 31 kB long in maps none   nothing of its own
 * repeat  a memory of 60,000 mappings, and a thread that holds its mmap_lock for a part of a second
 *   again and again
 * Says "ready" and waits for the end of its input. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sparse_environment.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#define HELD_BYTES ((size_t)96 << 30)

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void *populate(void *unused)
{
	char *all = mmap(NULL, HELD_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			 -1, 0);

	(void)unused;
	madvise(all, HELD_BYTES, MADV_NOHUGEPAGE);
	for (;;) {
		if (madvise(all, HELD_BYTES, MADV_POPULATE_READ) != 0)
			fail("MADV_POPULATE_READ");
		madvise(all, HELD_BYTES, MADV_DONTNEED);
	}
	return NULL;
}

static void *write_mappings(void *unused)
{
	(void)unused;
	for (;;) {
		munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
		usleep(200);
	}
	return NULL;
}

static void hold(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, write_mappings, NULL);
	pthread_create(&thread, NULL, populate, NULL);
}

static char *held;
static size_t held_bytes = (size_t)1 << 30;

static void *protect(void *unused)
{
	(void)unused;
	for (;;) {
		mprotect(held, held_bytes, PROT_NONE);
		mprotect(held, held_bytes, PROT_READ);
	}
	return NULL;
}

static void hold_repeatedly(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	char *many = mmap(NULL, (size_t)60000 * 4096, PROT_READ, flags, -1, 0);
	pthread_t thread;

	held = mmap(NULL, held_bytes, PROT_READ, flags, -1, 0);
	if (many == MAP_FAILED || held == MAP_FAILED)
		fail("mmap");
	for (int i = 0; i < 60000; i += 2)
		if (mprotect(many + (size_t)i * 4096, 4096, PROT_READ | PROT_WRITE) != 0)
			fail("mprotect");
	madvise(held, held_bytes, MADV_NOHUGEPAGE);
	if (madvise(held, held_bytes, MADV_POPULATE_READ) != 0)
		fail("MADV_POPULATE_READ");
	pthread_create(&thread, NULL, protect, NULL);
}

static void make_stats(void)
{
	char path[200];
	struct stat status;
	uint64_t fields[STAT_FIELDS] = {0};

	read_stat_fields(fields);
	stat("/proc/self/ns/pid", &status);
	snprintf(path, sizeof(path), "/dev/shm/mtshim-%u", (unsigned)getuid());
	(void)mkdir(path, 0700);
	snprintf(path, sizeof(path), "/dev/shm/mtshim-%u/%d-%lu-%lu.stats", (unsigned)getuid(),
		 (int)getpid(), (unsigned long)fields[22], (unsigned long)status.st_ino);
	if (open(path, O_CREAT | O_WRONLY, 0600) < 0)
		fail(path);
}

/* A newline is four bytes in maps. */
static int open_long_path(const char *folder)
{
	char name[256];

	memset(name, '\n', 255);
	name[255] = '\0';
	if (chdir(folder) != 0)
		fail(folder);
	for (int i = 0; i < 31; i++)
		if (mkdir(name, 0700) != 0 || chdir(name) != 0)
			fail("mkdir");
	return open("f", O_CREAT | O_RDWR, 0600);
}

static void map_many(int fd)
{
	if (ftruncate(fd, 4096) != 0)
		fail("ftruncate");
	for (int i = 0; i < 5000; i++) /* of two kinds, so that no two are joined */
		if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, i % 2 ? MAP_PRIVATE : MAP_SHARED, fd,
			 0) == MAP_FAILED)
			fail("mmap");
}

static int child(void *trick)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (strcmp(trick, "stats") == 0)
		make_stats();
	for (;;)
		pause();
	return 0;
}

static void start_children(int count, char *trick)
{
	for (int i = 0; i < count; i++) {
		if (strcmp(trick, "hold") == 0) {
			if (clone(child, (char *)malloc(16384) + 16000, CLONE_VM | SIGCHLD, trick) <
			    0)
				fail("clone");
		} else if (fork() == 0) {
			child(trick);
		}
	}
}

int main(int argc, char **argv)
{
	int library = argc > 3 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;

	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, library, 0) == MAP_FAILED)
		fail("the library");
	if (strcmp(argv[3], "env") == 0)
		if (!lengthen_environment((size_t)64 << 20))
			fail("PR_SET_MM_MAP");
	if (strcmp(argv[3], "maps") == 0)
		map_many(open_long_path(argv[4]));
	start_children(atoi(argv[2]) - 1, argv[3]);
	if (strcmp(argv[3], "hold") == 0)
		hold();
	if (strcmp(argv[3], "repeat") == 0)
		hold_repeatedly();
	if (strcmp(argv[3], "stats") == 0)
		make_stats();
	usleep(600000);
	(void)!write(STDOUT_FILENO, "ready\n", 6); /* who holds the memory may allocate nothing */
	while (read(STDIN_FILENO, &(char){0}, 1) > 0)
		continue;
	kill(0, SIGKILL);
	return 0;
}
