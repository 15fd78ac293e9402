/* heap/malloc_control.c -- malloc_trim, and jemalloc's mallctl family. They serve the embedded
 * jemalloc, which a call of the family wakes up, or call the next allocator in line. mallocx and
 * the like are not exported: a program that finds them would free with sizes and flags of another
 * allocator. A program that has them from a jemalloc of its own, as redis has, means that one with
 * mallctl too: arenas of ours are unknown there. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "heap/asleep.h"
#include "heap/jemalloc_names.h"
#include "heap/trim.h"
#include "sys/attr.h"
#include "sys/os.h"
#include "sys/loader.h"
#include "heap/entries.h"
#include "core/init.h"
#include "core/cleanup.h"
#include "core/worker.h"

MT_EXPORT int malloc_trim(size_t pad);
MT_EXPORT int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
MT_EXPORT int mallctlnametomib(const char *name, size_t *mib, size_t *mib_length);
MT_EXPORT int mallctlbymib(const size_t *mib, size_t mib_length, void *old, size_t *old_bytes,
			   void *new, size_t new_bytes);
MT_EXPORT void malloc_stats_print(void (*write)(void *, const char *), void *argument,
				  const char *options);

MT_HEAP_OWN(malloc_trim)

static void trim(void *out)
{
	const struct mt_trim_request request = {
		.reason = MT_REASON_MALLOC_TRIM, .level = MT_LEVEL_PURGE, .here = true};
	struct mt_stats_cleanup cleanup;
	int *answer = out;

	*answer = 1;
	if (mt_heap_trim_by_worker())
		return;
	mt_cleanup_run(&request, &cleanup);
	*answer = cleanup.result == 1;
}

/* Over libc's malloc, in a process without a worker, libc's own. Else 1 only when pages really went
 * back, or when the worker has many to return. A cleanup needs 5 kB of stack, and libc's
 * malloc_trim next to none. */
MT_EXPORT int malloc_trim(size_t pad)
{
	int (*next)(size_t);
	int answer;

	mt_init_start_heap();
	if (!mt_state_is_on()) {
		*(void **)(void *)&next = mt_symbol(RTLD_NEXT, "malloc_trim");
		return next ? next(pad) : 0;
	}
	if (mt_backend()->counting == MT_COUNTING_CHUNKS && !mt_worker_is_running())
		return mt_heap_trim_libc(pad);
	mt_own_stack_call(trim, &answer);
	return answer;
}

#define EMBEDDED(call)                                                                             \
	if (mt_init_uses_jemalloc() && !mt_symbol(RTLD_NEXT, "mallocx") && mt_asleep_wake())       \
	return call

MT_EXPORT int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes)
{
	int (*next)(const char *, void *, size_t *, void *, size_t);

	EMBEDDED(je_mallctl(name, old, old_bytes, new, new_bytes));
	*(void **)(void *)&next = mt_symbol(RTLD_NEXT, "mallctl");
	return next ? next(name, old, old_bytes, new, new_bytes) : ENOENT;
}

MT_EXPORT int mallctlnametomib(const char *name, size_t *mib, size_t *mib_length)
{
	int (*next)(const char *, size_t *, size_t *);

	EMBEDDED(je_mallctlnametomib(name, mib, mib_length));
	*(void **)(void *)&next = mt_symbol(RTLD_NEXT, "mallctlnametomib");
	return next ? next(name, mib, mib_length) : ENOENT;
}

MT_EXPORT int mallctlbymib(const size_t *mib, size_t mib_length, void *old, size_t *old_bytes,
			   void *new, size_t new_bytes)
{
	int (*next)(const size_t *, size_t, void *, size_t *, void *, size_t);

	EMBEDDED(je_mallctlbymib(mib, mib_length, old, old_bytes, new, new_bytes));
	*(void **)(void *)&next = mt_symbol(RTLD_NEXT, "mallctlbymib");
	return next ? next(mib, mib_length, old, old_bytes, new, new_bytes) : ENOENT;
}

/* The program itself asks, so descriptor 2 is what the program takes for stderr. */
static void write_to_programs_stderr(void *unused, const char *text)
{
	(void)unused;
	(void)mt_raw_syscall(SYS_write, STDERR_FILENO, text, strlen(text));
}

MT_EXPORT void malloc_stats_print(void (*write)(void *, const char *), void *argument,
				  const char *options)
{
	void (*next)(void (*)(void *, const char *), void *, const char *);

	EMBEDDED(
		je_malloc_stats_print(write ? write : write_to_programs_stderr, argument, options));
	*(void **)(void *)&next = mt_symbol(RTLD_NEXT, "malloc_stats_print");
	if (next)
		next(write, argument, options);
}
