/* pressure_spare.c -- 94 MB are freed, and the next moment somebody other than malloc takes as
 * much; three times.
 *
 *   pressure_spare mapping | tmpfs | spawn | fork [HOW]   exit code 0: nobody was killed
 *   pressure_spare take                                   what the spawned child does
 *
 * HOW: free (default); cut: realloc leaves 1 MB of one block; cuts: 100 kB of each of many. */
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MB    (1024ul * 1024)
#define TAKEN (94 * MB)

extern char **environ;

static char *blocks[TAKEN / (8 * MB) + 1];

static char *filled(size_t bytes)
{
	char *block = malloc(bytes);

	if (!block)
		_exit(3);
	return memset(block, 1, bytes);
}

static void free_large(const char *how)
{
	size_t count = strcmp(how, "cuts") ? 1 : TAKEN / (8 * MB);
	size_t kept = strcmp(how, "cuts") ? MB : 100000;

	for (size_t i = 0; i < count; i++)
		blocks[i] = filled(count == 1 ? TAKEN : 8 * MB);
	for (size_t i = 0; i < count; i++)
		if (!strcmp(how, "free"))
			free(blocks[i]);
		else
			blocks[i] = realloc(blocks[i], kept);
}

static void free_rest(const char *how)
{
	for (size_t i = 0; strcmp(how, "free") && i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		free(blocks[i]);
		blocks[i] = NULL;
	}
}

static void take_mapping(void)
{
	char *mapped =
		mmap(NULL, TAKEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(mapped, 1, TAKEN);
	munmap(mapped, TAKEN);
}

static void take_tmpfs(void)
{
	static char piece[MB];
	int file = memfd_create("taken", 0);

	for (size_t at = 0; at < TAKEN; at += MB)
		if (write(file, piece, MB) != (ssize_t)MB)
			_exit(3);
	close(file);
}

static void await(pid_t child)
{
	int status = 0;

	if (waitpid(child, &status, 0) != child || status)
		_exit(4);
}

static void take_in_spawned(char *program)
{
	char *words[] = {program, "take", NULL};
	pid_t child;

	if (posix_spawn(&child, program, NULL, NULL, words, environ) != 0)
		_exit(3);
	await(child);
}

static void take_in_forked(void)
{
	pid_t child = fork();

	if (!child) {
		take_mapping();
		_exit(0);
	}
	await(child);
}

int main(int argc, char **argv)
{
	const struct timespec looked = {.tv_nsec = 300000000};
	const char *how = argc > 2 ? argv[2] : "free";

	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "take")) {
		take_mapping();
		return 0;
	}
	free(memset(malloc(100 * MB), 1, 100 * MB)); /* it is no small program, and is looked at */
	nanosleep(&looked, NULL);
	for (int i = 0; i < 3; i++) {
		free_large(how);
		if (!strcmp(argv[1], "mapping"))
			take_mapping();
		else if (!strcmp(argv[1], "tmpfs"))
			take_tmpfs();
		else if (!strcmp(argv[1], "spawn"))
			take_in_spawned(argv[0]);
		else
			take_in_forked();
		free_rest(how);
	}
	return 0;
}
