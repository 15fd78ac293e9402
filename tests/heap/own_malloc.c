/* A program that brings a malloc of its own which nobody else knows, as browsers do, grows to 64
 * MB, and then does what their sandboxes do: it counts its threads and makes itself a new user
 * namespace, which the kernel refuses to a process of two threads. Prints the threads, and
 * "sandboxed", "EINVAL" or the number of another error. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK_HEAD 64

static void nothing(void)
{
}

/* In the first call, with its lock held, as browsers' do. */
static void begin(void)
{
	static int began;
	static volatile char lock;

	/* the loader allocates before there is a libc */
	if (!environ || __atomic_load_n(&began, __ATOMIC_ACQUIRE) == 2)
		return;
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		;
	if (began == 0) {
		pthread_atfork(nothing, nothing, nothing);
		__atomic_store_n(&began, 2, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

void *malloc(size_t size)
{
	begin();
	size_t whole = size + BLOCK_HEAD;
	char *block = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		return NULL;
	memcpy(block, &whole, sizeof(whole));
	return block + BLOCK_HEAD;
}

static size_t whole_of(void *ptr)
{
	size_t whole;

	memcpy(&whole, (char *)ptr - BLOCK_HEAD, sizeof(whole));
	return whole;
}

void free(void *ptr)
{
	if (ptr)
		munmap((char *)ptr - BLOCK_HEAD, whole_of(ptr));
}

void *calloc(size_t count, size_t size)
{
	return count && size > SIZE_MAX / 2 / count ? NULL : malloc(count * size);
}

void *realloc(void *ptr, size_t size)
{
	void *fresh = malloc(size);
	size_t old = ptr ? whole_of(ptr) - BLOCK_HEAD : 0;

	if (fresh && ptr) {
		memcpy(fresh, ptr, old < size ? old : size);
		free(ptr);
	}
	return fresh;
}

static int threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;
	int count = 0;

	while (folder && (entry = readdir(folder)))
		count += entry->d_name[0] != '.';
	if (folder)
		closedir(folder);
	return count;
}

/* The program's own, and those that it is told to wait for: 10 s at most. */
static int threads_of(int expected)
{
	int count = threads();

	for (int i = 0; count < expected && i < 1000; i++) {
		usleep(10000);
		count = threads();
	}
	return count;
}

int main(int argc, char **argv)
{
	size_t bytes = 64 << 20;
	char *large = malloc(bytes);

	if (!large)
		return 1;
	memset(large, 1, bytes);
	usleep(300000);
	printf("%d ", threads_of(argc > 1 ? atoi(argv[1]) : 1));
	if (unshare(CLONE_NEWUSER) == 0)
		puts("sandboxed");
	else if (errno == EINVAL)
		puts("EINVAL");
	else
		printf("%d\n", errno);
	free(large);
	return 0;
}
