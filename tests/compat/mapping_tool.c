/* mapping_tool.c -- a preloaded library that counts mappings as tools do: its mmap, munmap and
 * madvise take a lock and allocate. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void note(void)
{
	pthread_mutex_lock(&lock);
	free(malloc(100));
	pthread_mutex_unlock(&lock);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
	note();
	return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}

int munmap(void *at, size_t bytes)
{
	note();
	return (int)syscall(SYS_munmap, at, bytes);
}

int madvise(void *at, size_t bytes, int advice)
{
	note();
	return (int)syscall(SYS_madvise, at, bytes, advice);
}
