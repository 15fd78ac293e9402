/* heap/malloc_control.c -- malloc_trim and mallopt, and jemalloc's mallctl family. They serve the
 * embedded jemalloc, which a call of that family wakes up, or call the next in line. mallocx and
 * the like are not exported: a program that finds them would free with sizes and flags of another
 * allocator. A program that has them from a jemalloc of its own, as redis has, means that one with
 * mallctl too: arenas of ours are unknown there. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/init.h"
#include "heap/account.h"
#include "heap/asleep.h"
#include "heap/backend.h"
#include "heap/entries.h"
#include "heap/glibc.h"
#include "heap/jemalloc.h"
#include "heap/trim.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/loader.h"
#include "sys/os.h"
#include "sys/saturating.h"

MT_EXPORT int malloc_trim(size_t pad);
MT_EXPORT int mallopt(int parameter, int value);
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

/* Over libc's malloc, libc's own: programs call it in a loop. Else 1 only when pages really went
 * back, or when the worker has many to return. A cleanup needs 5 kB of stack, and libc's
 * malloc_trim next to none. */
MT_EXPORT int malloc_trim(size_t pad)
{
	int (*next)(size_t);
	int answer;

	mt_init_start_heap();
	if (!mt_state_is_on()) {
		*(void **)(void *)&next = mt_loader_symbol(RTLD_NEXT, "malloc_trim");
		return next ? next(pad) : 0;
	}
	if (mt_backend()->counting == MT_COUNTING_CHUNKS)
		return mt_heap_trim_libc(pad);
	mt_os_own_stack_call(trim, &answer);
	return answer;
}

MT_HEAP_OWN(mallopt)

/* libc's own, or the next allocator's. */
MT_EXPORT int mallopt(int parameter, int value)
{
	int (*next)(int, int);
	int answer;

	mt_init_start_heap();
	*(void **)(void *)&next = mt_loader_symbol(RTLD_NEXT, "mallopt");
	answer = next ? next(parameter, value) : 0;
	if (answer == 1)
		mt_glibc_note_mallopt(parameter, value);
	return answer;
}

/* Returns whether the embedded jemalloc takes the call; the calling thread may use its cache then.
 */
static bool is_embedded(void)
{
	if (!mt_init_uses_jemalloc() || mt_loader_symbol(RTLD_NEXT, "mallocx") || !mt_asleep_wake())
		return false;
	mt_jemalloc_caches_wait();
	return true;
}

MT_EXPORT int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes)
{
	int (*next)(const char *, void *, size_t *, void *, size_t);

	if (is_embedded())
		return je_mallctl(name, old, old_bytes, new, new_bytes);
	*(void **)(void *)&next = mt_loader_symbol(RTLD_NEXT, "mallctl");
	return next ? next(name, old, old_bytes, new, new_bytes) : ENOENT;
}

MT_EXPORT int mallctlnametomib(const char *name, size_t *mib, size_t *mib_length)
{
	int (*next)(const char *, size_t *, size_t *);

	if (is_embedded())
		return je_mallctlnametomib(name, mib, mib_length);
	*(void **)(void *)&next = mt_loader_symbol(RTLD_NEXT, "mallctlnametomib");
	return next ? next(name, mib, mib_length) : ENOENT;
}

MT_EXPORT int mallctlbymib(const size_t *mib, size_t mib_length, void *old, size_t *old_bytes,
			   void *new, size_t new_bytes)
{
	int (*next)(const size_t *, size_t, void *, size_t *, void *, size_t);

	if (is_embedded())
		return je_mallctlbymib(mib, mib_length, old, old_bytes, new, new_bytes);
	*(void **)(void *)&next = mt_loader_symbol(RTLD_NEXT, "mallctlbymib");
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

	if (is_embedded()) {
		je_malloc_stats_print(write ? write : write_to_programs_stderr, argument, options);
		return;
	}
	*(void **)(void *)&next = mt_loader_symbol(RTLD_NEXT, "malloc_stats_print");
	if (next)
		next(write, argument, options);
}

/* ---- mallinfo and the like ---- */

/* mallinfo, mallinfo2, malloc_info and malloc_stats. Once the embedded jemalloc serves, they tell
 * its figures, and libc's for the blocks from before; otherwise the next allocator in line answers.
 * Small Python objects are left out: without this library Python does not take them from malloc.
 * Any thread outside the allocator. Owns the largest size seen. */

/* The struct of mallinfo(3): the fields of the other as int. */
struct small_mallinfo {
	int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

MT_EXPORT struct small_mallinfo mallinfo(void);
MT_EXPORT struct mt_mallinfo mallinfo2(void);
MT_EXPORT int malloc_info(int options, FILE *stream);
MT_EXPORT void malloc_stats(void);

#define X(type, name, params, args) MT_HEAP_OWN(name)
X(, mallinfo, , )
X(, mallinfo2, , )
X(, malloc_info, , )
X(, malloc_stats, , )
#undef X

static _Atomic size_t largest_bytes; /* of arena; no ordering */

/* Returns false if another allocator serves. */
static bool gather(struct mt_mallinfo *out)
{
	struct mt_mallinfo old;
	struct mt_account_totals totals;

	mt_init_start_heap();
	if (!mt_state_is_on() || !mt_backend()->info)
		return false;
	(void)mt_backend()->info(out);
	if (!mt_account_read_malloc(&totals))
		return false;
	(void)mt_glibc_info(&old);
	out->uordblks = mt_sat_sub(totals.live_bytes, out->hblkhd);
	out->arena = mt_max_u64(old.arena + mt_sat_sub(out->arena, out->hblkhd), out->uordblks);
	out->fordblks = out->arena - out->uordblks;
	out->ordblks = old.ordblks;
	if (out->arena > mt_load_relaxed(&largest_bytes))
		mt_store_relaxed(&largest_bytes, out->arena);
	return true;
}

MT_EXPORT struct mt_mallinfo mallinfo2(void)
{
	struct mt_mallinfo info = {0};
	struct mt_mallinfo (*next)(void);

	if (gather(&info))
		return info;
	*(void **)(void *)&next = mt_loader_symbol(RTLD_NEXT, "mallinfo2");
	return next ? next() : info;
}

/* A size that int cannot hold wraps around, as libc's does. */
MT_EXPORT struct small_mallinfo mallinfo(void)
{
	struct mt_mallinfo info = {0};
	struct small_mallinfo (*next)(void);

	*(void **)(void *)&next = gather(&info) ? NULL : mt_loader_symbol(RTLD_NEXT, "mallinfo");
	if (next)
		return next();
	return (struct small_mallinfo){
		.arena = (int)info.arena,
		.ordblks = (int)info.ordblks,
		.smblks = (int)info.smblks,
		.hblks = (int)info.hblks,
		.hblkhd = (int)info.hblkhd,
		.uordblks = (int)info.uordblks,
		.fordblks = (int)info.fordblks,
		.keepcost = (int)info.keepcost,
	};
}

/* As glibc writes it: the one heap, and the same again as the totals. Of the free chunks only those
 * in libc's own heap are counted. */
MT_EXPORT int malloc_info(int options, FILE *stream)
{
	struct mt_mallinfo info;
	char heap[640], text[1536];
	int (*next)(int, FILE *);

	if (options != 0)
		return EINVAL;
	if (!gather(&info)) {
		*(void **)(void *)&next = mt_loader_symbol(RTLD_NEXT, "malloc_info");
		return next ? next(options, stream) : ENOSYS;
	}
	(void)mt_format(heap, sizeof(heap),
			"<system type=\"current\" size=\"%zu\"/>\n"
			"<system type=\"max\" size=\"%zu\"/>\n"
			"<aspace type=\"total\" size=\"%zu\"/>\n"
			"<aspace type=\"mprotect\" size=\"%zu\"/>\n",
			info.arena, mt_load_relaxed(&largest_bytes), info.arena, info.arena);
	(void)mt_format(text, sizeof(text),
			"<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n</sizes>\n"
			"<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
			"<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n%s</heap>\n"
			"<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
			"<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n"
			"<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n%s</malloc>\n",
			info.ordblks, info.fordblks, heap, info.ordblks, info.fordblks, info.hblks,
			info.hblkhd, heap);
	(void)fputs(text, stream);
	return 0;
}

MT_EXPORT void malloc_stats(void)
{
	struct mt_mallinfo info;
	char text[512];
	void (*next)(void);
	int before, disabled;

	if (gather(&info)) {
		(void)mt_format(text, sizeof(text),
				"Arena 0:\nsystem bytes     = %zu\nin use bytes     = %zu\n"
				"Total (incl. mmap):\nsystem bytes     = %zu\n"
				"in use bytes     = %zu\nmax mmap regions = %zu\n"
				"max mmap bytes   = %zu\n",
				info.arena, info.uordblks, info.arena + info.hblkhd,
				info.uordblks + info.hblkhd, info.hblks, info.hblkhd);
		/* libc's is no cancellation point either */
		(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
		(void)fputs(text, stderr);
		(void)pthread_setcancelstate(before, &disabled);
		return;
	}
	*(void **)(void *)&next = mt_loader_symbol(RTLD_NEXT, "malloc_stats");
	if (next)
		next();
}
