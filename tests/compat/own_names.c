/* own_names.c -- a program that has functions of its own by the names in NAMES, X(name)X(name)...,
 * as ISO C lets it. Nothing in it calls them: who does is not of the program. Grows to 40 MB,
 * frees that, rests. */
#include <stddef.h>
#include <sys/syscall.h>

#define BLOCKS 10000
#define BYTES  4000

void *malloc(size_t bytes);
void free(void *block);
long syscall(long number, ...);

static void end(const char *said, size_t bytes)
{
	syscall(SYS_write, 1, said, bytes);
	syscall(SYS_write, 1, " was called\n", (size_t)12);
	syscall(SYS_exit_group, 1);
}

#define X(name)                                                                                    \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		end(#name, sizeof(#name) - 1);                                                     \
		return 0;                                                                          \
	}
NAMES

int main(void)
{
	static char *blocks[BLOCKS];
	const long rest[] = {1, 0};

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < BLOCKS; i++) {
			blocks[i] = malloc(BYTES);
			for (int at = 0; blocks[i] && at < BYTES; at += 100)
				blocks[i][at] = 1;
		}
		for (int i = 0; i < BLOCKS; i++)
			free(blocks[i]);
		syscall(SYS_nanosleep, rest, NULL);
	}
	syscall(SYS_write, 1, "well\n", (size_t)5);
	return 0;
}
