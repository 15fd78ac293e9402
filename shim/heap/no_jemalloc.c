/* heap/no_jemalloc.c -- in the place of jemalloc*.c if the library is built without the embedded
 * jemalloc (JEMALLOC=none). mt_jemalloc_is_built keeps every caller away from the functions that
 * would have to do something. */
#include <errno.h>
#include <stddef.h>

#include "heap/backend.h"
#include "heap/entries.h"
#include "heap/jemalloc_internal.h"

/* what stands in for jemalloc does nothing with what it is given */
#pragma GCC diagnostic ignored "-Wunused-parameter"

const bool mt_jemalloc_is_built = false;

const struct mt_backend *mt_jemalloc_backend(const struct mt_config *config,
					     const struct mt_backend_hooks *given, char *out_conf,
					     size_t out_conf_bytes)
{
	return NULL;
}

bool mt_jemalloc_counters(const void *counters, uint64_t *out_allocated, uint64_t *out_freed)
{
	return false;
}

const char *mt_jemalloc_begins(void)
{
	return "built without jemalloc";
}

void mt_jemalloc_caches_wait(void)
{
}

void mt_jemalloc_caches_note_shared(void)
{
}

void mt_jemalloc_reuse_end(void)
{
}

void mt_heap_serve_jemalloc(void)
{
}

void mt_heap_event_at_next_call(bool wanted)
{
}

const struct mt_heap_ops *mt_jemalloc_ops(void)
{
	return NULL;
}

bool mt_jemalloc_take_key(void)
{
	return false;
}

void mt_jemalloc_prof_begin(const char *conf)
{
}

bool mt_jemalloc_unmap_use(size_t limit_bytes, int probe, bool at_once)
{
	return false;
}

void mt_jemalloc_know_thread(void)
{
}

void mt_jemalloc_fork_prepare(void)
{
}

void mt_jemalloc_fork_parent(void)
{
}

void mt_jemalloc_fork_child(void)
{
}

int je_mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes)
{
	return ENOENT;
}

int je_mallctlnametomib(const char *name, size_t *mib, size_t *mib_length)
{
	return ENOENT;
}

int je_mallctlbymib(const size_t *mib, size_t mib_length, void *old, size_t *old_bytes, void *new,
		    size_t new_bytes)
{
	return ENOENT;
}

void je_malloc_stats_print(void (*write)(void *, const char *), void *argument, const char *options)
{
}
