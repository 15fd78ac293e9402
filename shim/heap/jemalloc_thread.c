/* heap/jemalloc_thread.c -- what jemalloc makes for a thread at its first allocation: a cache, and
 * often an arena. jemalloc crashes where there is no memory for either. Here the thread allocates
 * without a cache, or from the first arena. These functions come instead of jemalloc's own where
 * other files of it call them (jemalloc.mk). Any thread, inside jemalloc. Source: src/tcache.c and
 * src/jemalloc.c of jemalloc 5.2 and 5.3; glibc's tst-malloc-thread-fail. */
#include <stdbool.h>
#include <stddef.h>

#include "heap/jemalloc_arena.h"
#include "sys/attr.h"

/* The last parameter of both is the arena; until 5.2 there is one for the cache. */
#ifdef MT_JEMALLOC_CACHE_IN_ONE
#define CACHE_PARAMS void *cache
#define CACHE_ARGS   cache
#else
#define CACHE_PARAMS void *slow, void *cache
#define CACHE_ARGS   slow, cache
#endif

/* Internal to jemalloc. Weak: another version may lack them. */
extern bool je_opt_tcache __attribute__((weak));
extern void *__real_je_arena_choose_hard(void *thread, bool is_internal) __attribute__((weak));
extern bool __real_je_tsd_tcache_enabled_data_init(void *thread) __attribute__((weak));
extern void __real_je_tcache_arena_associate(void *thread, CACHE_PARAMS, void *arena)
	__attribute__((weak));
extern void __real_je_tcache_arena_reassociate(void *thread, CACHE_PARAMS, void *arena)
	__attribute__((weak));

void *__wrap_je_arena_choose_hard(void *thread, bool is_internal);
bool __wrap_je_tsd_tcache_enabled_data_init(void *thread);
void __wrap_je_tcache_arena_associate(void *thread, CACHE_PARAMS, void *arena);
void __wrap_je_tcache_arena_reassociate(void *thread, CACHE_PARAMS, void *arena);

static MT_TLS bool has_asked_for_arena;

/* jemalloc moves the cache to the thread's own arena once that can be made, as it does after its
 * own start. */
void *__wrap_je_arena_choose_hard(void *thread, bool is_internal)
{
	void *arena = __real_je_arena_choose_hard(thread, is_internal);

	has_asked_for_arena = true;
	return arena ? arena : mt_jemalloc_first_arena();
}

/* jemalloc asks for the arena once it has the memory for the cache, and ignores that it has none. A
 * thread that begins in the same moment goes without a cache, too. */
bool __wrap_je_tsd_tcache_enabled_data_init(void *thread)
{
	bool has_failed;

	has_asked_for_arena = false;
	has_failed = __real_je_tsd_tcache_enabled_data_init(thread);
	if (mt_likely(has_asked_for_arena) || !mt_jemalloc_first_arena() || !je_opt_tcache)
		return has_failed;
	je_opt_tcache = false;
	has_failed = __real_je_tsd_tcache_enabled_data_init(thread);
	je_opt_tcache = true;
	return has_failed;
}

/* The allocation that finds no arena fails. */
void __wrap_je_tcache_arena_associate(void *thread, CACHE_PARAMS, void *arena)
{
	if (arena)
		__real_je_tcache_arena_associate(thread, CACHE_ARGS, arena);
}

void __wrap_je_tcache_arena_reassociate(void *thread, CACHE_PARAMS, void *arena)
{
	if (arena)
		__real_je_tcache_arena_reassociate(thread, CACHE_ARGS, arena);
}
