/* thread_count.c [thread] -- a process of one thread (or of two) forks, and counts its threads as
 * CPython does: by fopen of /proc/self/stat, right after the fork. Prints the counts of parent and
 * child, then what the kernel says of the parent. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELD_BYTES (64u << 20)

static int count_in(char *text)
{
	char *field = strrchr(text, ')') + 2;

	for (int number = 3; number < 20; number++)
		field = strchr(field, ' ') + 1;
	return atoi(field);
}

static int count_by_stream(void)
{
	char text[161] = "";
	FILE *stat = fopen("/proc/self/stat", "r");

	text[fread(text, 1, 160, stat)] = 0;
	fclose(stat);
	return count_in(text);
}

static int count_by_call(void)
{
	char text[1025] = "";
	int fd = open("/proc/self/stat", O_RDONLY);

	text[read(fd, text, 1024)] = 0;
	close(fd);
	return count_in(text);
}

static void *stay(void *unused)
{
	pause();
	return unused;
}

int main(int argc, char **argv)
{
	int first, later;
	pthread_t thread;
	pid_t child;

	(void)argv;
	if (argc > 1)
		pthread_create(&thread, NULL, stay, NULL);
	memset(malloc(HELD_BYTES), 1, HELD_BYTES);
	usleep(300000); /* the shim's thread is there */
	child = fork();
	if (child == 0)
		_exit(count_by_stream());
	first = count_by_stream();
	later = count_by_stream();
	waitpid(child, &child, 0);
	printf("parent %d, child %d; kernel %d, later %d\n", first, WEXITSTATUS(child),
	       count_by_call(), later);
	return 0;
}
