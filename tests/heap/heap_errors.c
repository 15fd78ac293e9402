/* heap_errors.c -- makes one heap error in a process whose heap has grown, then uses the heap for a
 * while and prints "goes on".
 *
 *   heap_errors ERROR BYTES
 *
 * ERROR is a name of the table below, or "none". */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OTHERS 600 /* more than a thread's cache holds of any size */

static size_t bytes;
static char *others[OTHERS];
static char in_program[64] __attribute__((aligned(16)));

static void make_others(void)
{
	size_t count = bytes > 65536 ? 8 : OTHERS;

	for (size_t i = 0; i < count; i++)
		memset(others[i] = malloc(bytes), 1, 8);
}

static void free_others(void)
{
	for (size_t i = 0; i < OTHERS; i++) {
		free(others[i]);
		others[i] = NULL;
	}
}

static void *free_one(void *block)
{
	free(block);
	return NULL;
}

static void twice(char *block)
{
	free(block);
	free(block);
}

static void twice_with_one_between(char *block)
{
	char *other = malloc(bytes);

	free(block);
	free(other);
	free(block);
}

static void twice_with_many_between(char *block)
{
	make_others();
	free(block);
	free_others();
	free(block);
}

static void twice_by_two_threads(char *block)
{
	pthread_t thread;

	pthread_create(&thread, NULL, free_one, block);
	pthread_join(thread, NULL);
	free(block);
}

static void free_then_realloc(char *block)
{
	free(block);
	block = realloc(block, bytes * 2);
}

static void by_8(char *block)
{
	free(block + 8);
}

static void by_16(char *block)
{
	free(block + 16);
}

static void by_half(char *block)
{
	free(block + bytes / 2 / 16 * 16);
}

static void realloc_by_16(char *block)
{
	block = realloc(block + 16, bytes * 2);
}

static void of_stack(char *block)
{
	char here[64] __attribute__((aligned(16)));

	memset(here, 0, sizeof(here));
	free(block);
	free(here + 16);
}

static void of_program(char *block)
{
	free(block);
	free(in_program + 16);
}

static void of_mapping(char *block)
{
	char *mapped =
		mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	free(block);
	free(mapped + 4096);
}

static void of_nothing(char *block)
{
	free(block);
	free((void *)0x123450);
}

#define OLD_OTHERS 10 /* more than libc's cache holds of any size */

static char *old, *old_others[OLD_OTHERS];

/* Before the process wakes up: libc's malloc serves. */
static void make_old(void)
{
	old = malloc(bytes);
	for (int i = 0; i < OLD_OTHERS; i++)
		memset(old_others[i] = malloc(bytes), 1, 8);
	free(old);
}

static void old_twice(char *block)
{
	free(block);
	for (int i = 0; i < OLD_OTHERS; i++)
		free(old_others[i]);
	free(old);
}

static void none(char *block)
{
	free(block);
}

static const struct {
	const char *name;
	void (*make)(char *block);
} errors[] = {
#define E(name)                                                                                    \
	{                                                                                          \
#name, name                                                                        \
	}
	E(twice),
	E(twice_with_one_between),
	E(twice_with_many_between),
	E(twice_by_two_threads),
	E(by_8),
	E(by_16),
	E(by_half),
	E(free_then_realloc),
	E(realloc_by_16),
	E(of_stack),
	E(of_program),
	E(of_mapping),
	E(of_nothing),
	E(old_twice),
	E(none),
};

int main(int argc, char **argv)
{
	char *block;

	if (argc != 3)
		return 2;
	bytes = strtoul(argv[2], NULL, 10);
	make_old();
	free(malloc(2u << 20));
	make_others();
	free_others();
	block = malloc(bytes);
	memset(block, 0, bytes);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (strcmp(argv[1], errors[i].name) == 0)
			errors[i].make(block);
	for (int round = 0; round < 3; round++) {
		make_others();
		free_others();
	}
	(void)!write(STDOUT_FILENO, "goes on\n", 8);
	_exit(0);
}
