/* heap/system.c -- the next allocator in line as a backend: libc's, or whatever stands before it (a
 * preloaded or linked jemalloc, tcmalloc, mimalloc). Its heap family is found once; how it gives
 * memory back, and what it says of itself, are asked by the name it goes by. */
#include <dlfcn.h>
#include <malloc.h>
#include <string.h>

#include "heap/backend.h"
#include "heap/glibc.h"
#include "heap/purge_lock.h"
#include "sys/atomic.h"
#include "sys/loader.h"
#include "sys/os.h"

/* The functions of the next allocator in line, and a strdup that may be its own. */
static union {
	struct {
		struct mt_heap_ops ops;
		void *strdup;
	};
	void *found[sizeof(struct mt_heap_ops) / sizeof(void *) + 1];
} next;
static bool next_known;

static const char *const names[] = {
#define X(type, name, params, args) #name,
	MT_HEAP_ALLOCATING(X) MT_HEAP_EXISTING(X)
#undef X
		"strdup",
};
#define NAMES_COUNT (sizeof(names) / sizeof(names[0]))
_Static_assert(sizeof(next) == sizeof(names), "one name for each function");

/* MT_ALLOCATOR=jemalloc leaves out what stands before libc. Not an allocator with a strdup of its
 * own, as mimalloc 3: its blocks would reach our free. */
static bool is_left_out(void)
{
	return mt_jemalloc_is_built && mt_config()->enable &&
	       mt_config()->allocator == MT_ALLOCATOR_JEMALLOC &&
	       next.strdup == mt_loader_libc_function("strdup");
}

const struct mt_heap_ops *mt_system_plain_ops(void)
{
	if (next_known)
		return &next.ops;
	mt_loader_next_functions(names, next.found, NAMES_COUNT);
	if (mt_glibc_ops() && is_left_out())
		mt_loader_libc_functions(names, next.found, NAMES_COUNT);
	next_known = true;
	return &next.ops;
}

/* ---- what each allocator says of itself ---- */

typedef int (*mallctl_fn)(const char *, void *, size_t *, void *, size_t);

static mallctl_fn other_mallctl;
static void (*tcmalloc_release)(void);
static int (*tcmalloc_property)(const char *, size_t *);
static _Atomic bool tcmalloc_has_begun; /* release/acquire: its functions may be called */
static void (*mimalloc_collect)(bool);

/* gperftools makes its extension at the first call and replaces it in a constructor, without a
 * lock. The worker may have started before: a call of its own would undo the replacement. */
void mt_system_load(void)
{
	size_t unused;

	if (tcmalloc_property)
		(void)tcmalloc_property("generic.heap_size", &unused);
	mt_store_release(&tcmalloc_has_begun, true);
}

static bool may_call_tcmalloc(void)
{
	return mt_load_acquire(&tcmalloc_has_begun);
}

static uint64_t ask_mallctl(const char *name)
{
	uint64_t value = 0;
	size_t bytes = sizeof(size_t);

	return other_mallctl(name, &value, &bytes, NULL, 0) == 0 ? value : 0;
}

static bool jemalloc_figures(struct mt_heap_figures *out)
{
	uint64_t epoch = 1;
	size_t bytes = sizeof(epoch);

	if (other_mallctl("epoch", &epoch, &bytes, &epoch, bytes) != 0)
		return false;
	out->live_bytes = ask_mallctl("stats.allocated");
	out->active_bytes = ask_mallctl("stats.active");
	out->resident_bytes = ask_mallctl("stats.resident");
	out->mapped_bytes = ask_mallctl("stats.mapped");
	out->retained_bytes = ask_mallctl("stats.retained");
	out->metadata_bytes = ask_mallctl("stats.metadata");
	out->dirty_bytes = (ask_mallctl("stats.arenas.4096.pdirty") +
			    ask_mallctl("stats.arenas.4096.pmuzzy")) *
			   ask_mallctl("arenas.page");
	return true;
}

static bool tcmalloc_figures(struct mt_heap_figures *out)
{
	size_t live = 0;
	size_t heap = 0;
	size_t unmapped = 0;

	if (!tcmalloc_property || !may_call_tcmalloc() ||
	    !tcmalloc_property("generic.current_allocated_bytes", &live))
		return false;
	(void)tcmalloc_property("generic.heap_size", &heap);
	(void)tcmalloc_property("tcmalloc.pageheap_unmapped_bytes", &unmapped);
	out->live_bytes = live;
	out->mapped_bytes = heap;
	out->retained_bytes = unmapped;
	out->resident_bytes = heap > unmapped ? heap - unmapped : 0;
	return true;
}

static bool system_figures(struct mt_heap_figures *out)
{
	memset(out, 0, sizeof(*out));
	if (other_mallctl)
		return jemalloc_figures(out);
	return tcmalloc_figures(out);
}

/* ---- purge ---- */

static struct mt_backend system_backend;

/* mimalloc collects nothing on a thread that has not allocated. */
static void collect_mimalloc(void)
{
	system_backend.ops->free(system_backend.ops->malloc(1));
	mimalloc_collect(true);
}

static void system_purge(struct mt_purge_outcome *out)
{
	uint64_t began;

	memset(out, 0, sizeof(*out));
	out->possible = true;
	mt_purge_enter();
	began = mt_os_now_ns();
	if (other_mallctl)
		(void)other_mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
	else if (tcmalloc_release && may_call_tcmalloc())
		tcmalloc_release();
	else if (mimalloc_collect)
		collect_mimalloc();
	else
		out->possible = false;
	out->longest_hold_ns = mt_os_now_ns() - began;
	mt_purge_leave();
}

/* None of these allocators returns a part of its free memory. */
static enum mt_reclaimed system_reclaim(uint64_t keep_bytes, uint64_t patience_ns)
{
	(void)keep_bytes;
	(void)patience_ns;
	return MT_RECLAIMED_NOTHING;
}

static struct mt_backend system_backend = {
	.counting = MT_COUNTING_NONE,
	.figures = system_figures,
	.purge = system_purge,
	.reclaim = system_reclaim,
};

/* That of the allocator behind us; or, if its malloc is bound before ours, the one in the same
 * file as that malloc: the first in line may be our own, or a library's private copy. */
static mallctl_fn find_mallctl(bool shadowed)
{
	void *function = mt_loader_symbol(shadowed ? RTLD_DEFAULT : RTLD_NEXT, "mallctl");
	mallctl_fn found = NULL;
	Dl_info here;
	Dl_info there;

	if (shadowed &&
	    (!function || !dladdr(function, &here) || !dladdr(mt_backend_bound_malloc(), &there) ||
	     here.dli_fbase != there.dli_fbase))
		return NULL;
	*(void **)(void *)&found = function;
	return found;
}

/* glibc reads MALLOC_ARENA_MAX itself; MT_ARENA_MAX and the presets reach it only so. */
static const struct mt_backend *glibc_backend(const struct mt_config *config)
{
	static struct mt_backend backend;

	if (config->arena_max)
		mt_glibc_mallopt(M_ARENA_MAX, (int)config->arena_max);
	backend = mt_glibc_backend;
	backend.ops = mt_system_plain_ops();
	if (!mt_glibc_check(backend.ops))
		backend.counting = MT_COUNTING_NONE;
	return &backend;
}

/* Each allocator's own functions are looked for only if it is bound: tcmalloc has a malloc_trim
 * that does nothing, and a mallctl may belong to a library's private jemalloc. */
const struct mt_backend *mt_system_backend(const struct mt_config *config,
					   const struct mt_backend_identity *identity)
{
	const char *name = identity->allocator;

	if (strcmp(name, "glibc") == 0)
		return glibc_backend(config);
	system_backend.ops = mt_system_plain_ops();
	if (strcmp(name, "jemalloc") == 0) {
		other_mallctl = find_mallctl(identity->mode == MT_MODE_SHADOWED);
		system_backend.figures_show_dirty = other_mallctl != NULL;
	} else if (strcmp(name, "tcmalloc") == 0) {
		*(void **)(void *)&tcmalloc_release =
			mt_loader_symbol(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory");
		*(void **)(void *)&tcmalloc_property =
			mt_loader_symbol(RTLD_DEFAULT, "MallocExtension_GetNumericProperty");
	} else if (strcmp(name, "mimalloc") == 0) {
		*(void **)(void *)&mimalloc_collect = mt_loader_symbol(RTLD_DEFAULT, "mi_collect");
	}
	system_backend.live_unknown = !other_mallctl && !tcmalloc_property;
	system_backend.purge_impossible = !other_mallctl && !tcmalloc_release && !mimalloc_collect;
	return &system_backend;
}
