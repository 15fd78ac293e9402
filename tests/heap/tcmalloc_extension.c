/* tcmalloc_extension.c -- a library that stands in for tcmalloc, for the start of its extension
 * alone: libc's malloc serves. gperftools makes a plain extension at the first call and replaces it
 * in a constructor, without a lock. Where the first call comes from another thread than the
 * constructor's, both meet here every time. Tells 111 MB live once the constructor has run. */
#include <semaphore.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LIVE_BYTES ((size_t)111 << 20)
#define WAIT_S     10 /* for the constructor */
#define CALL_S     1  /* for a first call, which need not come before it */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *ptr);

static const char *volatile extension; /* NULL, "plain" or "own" */
static sem_t called, replaced;

static void wait_for(sem_t *what, time_t seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	(void)sem_timedwait(what, &until);
}

static void make(void)
{
	if (extension)
		return;
	sem_post(&called);
	if (syscall(SYS_gettid) != getpid())
		wait_for(&replaced, WAIT_S);
	extension = "plain";
}

int MallocExtension_GetNumericProperty(const char *name, size_t *out)
{
	make();
	if (strcmp(extension, "own") != 0)
		return 0;
	*out = strcmp(name, "generic.current_allocated_bytes") == 0 ? LIVE_BYTES : 0;
	return 1;
}

void MallocExtension_ReleaseFreeMemory(void)
{
	make();
}

void *malloc(size_t size)
{
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return __libc_calloc(count, size);
}

void *realloc(void *ptr, size_t size)
{
	return __libc_realloc(ptr, size);
}

void *memalign(size_t alignment, size_t size)
{
	return __libc_memalign(alignment, size);
}

void free(void *ptr)
{
	__libc_free(ptr);
}

__attribute__((constructor)) static void begin(void)
{
	free(malloc(1)); /* the worker may start */
	wait_for(&called, CALL_S);
	make();
	extension = "own";
	sem_post(&replaced);
}
