/* A program with a malloc of its own, as GCL (Maxima, ACL2) has it: it hands out memory from the
 * start, and a free or realloc before main has made the heap ends the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Alignas(16) char heap[32 << 20];
static size_t used;
static int ready;

static void need_heap(const char *what)
{
	if (ready)
		return;
	(void)!write(2, what, strlen(what));
	_exit(3);
}

void *malloc(size_t size)
{
	size_t at = __atomic_fetch_add(&used, (size + 31) / 16 * 16, __ATOMIC_RELAXED);

	*(size_t *)(void *)(heap + at) = size;
	return heap + at + 16;
}

void free(void *ptr)
{
	if (ptr)
		need_heap("free before main\n");
}

void *calloc(size_t count, size_t size)
{
	return malloc(count * size); /* each byte is handed out once */
}

void *realloc(void *ptr, size_t size)
{
	void *fresh;

	need_heap("realloc before main\n");
	fresh = malloc(size);
	if (ptr)
		memcpy(fresh, ptr,
		       *(size_t *)(void *)((char *)ptr - 16) < size
			       ? *(size_t *)(void *)((char *)ptr - 16)
			       : size);
	return fresh;
}

int main(void)
{
	char *line;

	ready = 1;
	line = strdup("served by the program");
	puts(line);
	free(line);
	return 0;
}
