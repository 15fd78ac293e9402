/* leaks_told.c -- leaks blocks, and prints by how much the figures of mallinfo2 and mallinfo have
 * grown with each leak: bytes in small blocks, bytes in large ones, and how many large blocks. In
 * another thread and in a forked child too. Then what malloc_info writes. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* mallinfo */

static void leak(const char *name, int count, size_t bytes)
{
	struct mallinfo2 before = mallinfo2(), after;
	struct mallinfo small;

	for (int i = 0; i < count; i++)
		memset(malloc(bytes), 1, bytes);
	after = mallinfo2();
	small = mallinfo();
	printf("%s %zd %zd %zd\n", name, after.uordblks - before.uordblks,
	       after.hblkhd - before.hblkhd, after.hblks - before.hblks);
	if (after.arena != after.uordblks + after.fordblks || small.uordblks != (int)after.uordblks)
		printf("%zu bytes are not %zu in use and %zu free, or %d\n", after.arena,
		       after.uordblks, after.fordblks, small.uordblks);
}

static void *leak_in_thread(void *unused)
{
	free(malloc(1));
	leak("thread", 100, 1000);
	return unused;
}

int main(void)
{
	pthread_t thread;
	pid_t child;
	char *text;
	size_t length;
	FILE *stream;

	setvbuf(stdout, NULL, _IOLBF, 4096);
	printf("a buffer\n");
	leak("nothing", 0, 0);
	leak("one", 1, 2000);
	leak("small", 100, 1000);
	leak("large", 3, 5 << 20);
	leak("more", 50000, 100);
	leak("one", 1, 2000);
	pthread_create(&thread, NULL, leak_in_thread, NULL);
	pthread_join(thread, NULL);
	child = fork();
	if (!child) {
		leak("child", 100, 1000);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	if (malloc_info(1, stdout) != EINVAL)
		return 1;
	stream = open_memstream(&text, &length);
	if (!stream || malloc_info(0, stream) != 0 || fclose(stream) != 0)
		return 1;
	fputs(text, stdout);
	malloc_stats();
	return 0;
}
