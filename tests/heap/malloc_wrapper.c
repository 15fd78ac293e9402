/* malloc_wrapper.c -- a malloc wrapper as tracers and checkers are: it hands each call on to the
 * function that it has found by RTLD_NEXT (BY=1), by libc's handle (BY=2) or under libc's second
 * names (BY=3), and counts. At the end it says on stderr that it has seen some, or that it has not.
 * It has only the four oldest names. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static unsigned long calls;

#if BY == 3
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
#define REAL(type, name, params) type(*real) params = __libc_##name
#else
/* What is asked before dlsym has answered: libc's dlsym may want a few bytes. */
static char early[65536];
static size_t early_used;
static int is_finding;

static void *find(const char *name)
{
	void *found;

	is_finding++;
	found = dlsym(BY == 1 ? RTLD_NEXT : dlopen("libc.so.6", RTLD_NOW), name);
	is_finding--;
	return found;
}

static void *take_early(size_t bytes)
{
	void *block = early + early_used;

	early_used += (bytes + 15) & ~(size_t)15;
	return early_used <= sizeof(early) ? block : NULL;
}
#define REAL(type, name, params)                                                                   \
	static type(*real) params;                                                                 \
	if (!real && !is_finding)                                                                  \
	real = (type(*) params)find(#name)
#endif

void *malloc(size_t size)
{
	REAL(void *, malloc, (size_t));
	calls++;
#if BY != 3
	if (!real)
		return take_early(size);
#endif
	return real(size);
}

void *calloc(size_t count, size_t size)
{
	REAL(void *, calloc, (size_t, size_t));
	calls++;
#if BY != 3
	if (!real)
		return take_early(count * size);
#endif
	return real(count, size);
}

void *realloc(void *ptr, size_t size)
{
	REAL(void *, realloc, (void *, size_t));
	calls++;
	return real(ptr, size);
}

void free(void *ptr)
{
	REAL(void, free, (void *));
#if BY != 3
	if (!real || ((char *)ptr >= early && (char *)ptr < early + sizeof(early)))
		return;
#endif
	real(ptr);
}

__attribute__((destructor)) static void end(void)
{
	const char *text = calls ? "wrapper: some\n" : "wrapper: none\n";

	(void)!write(2, text, strlen(text));
}
