/* heap/choose.c -- which allocators the process has, in the order in which names are bound, and
 * which backend serves it. And the next allocator in line as a backend: libc's, or whatever stands
 * before it (a preloaded or linked jemalloc, tcmalloc, mimalloc). Its heap family is found once;
 * how it gives memory back, and what it says of itself, are asked by the name it goes by. */
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#include "core/log.h"
#include "core/state.h"
#include "heap/backend.h"
#include "heap/glibc.h"
#include "heap/purge_lock.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
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
					   const struct mt_backend_identity *next_one)
{
	const char *name = next_one->allocator;

	if (strcmp(name, "glibc") == 0)
		return glibc_backend(config);
	system_backend.ops = mt_system_plain_ops();
	if (strcmp(name, "jemalloc") == 0) {
		other_mallctl = find_mallctl(next_one->mode == MT_MODE_SHADOWED);
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

/* ---- the choice ---- */

/* release/acquire with what they point to: they change once more if the process wakes up */
static _Atomic(const struct mt_backend *) chosen;
static _Atomic(const struct mt_backend_identity *) chosen_identity;

static struct mt_backend_identity identity; /* of the next allocator in line */
static struct mt_backend_identity embedded; /* of the embedded jemalloc */
static struct mt_backend_identity staying;  /* of libc's malloc for good */
static const struct mt_backend *jemalloc;

const struct mt_backend *mt_backend(void)
{
	return mt_load_acquire(&chosen);
}

const struct mt_backend_identity *mt_backend_identity(void)
{
	const struct mt_backend_identity *now = mt_load_acquire(&chosen_identity);

	return now ? now : &identity;
}

static void use(const struct mt_backend *backend, const struct mt_backend_identity *whose)
{
	mt_assert(backend && whose);
	mt_store_release(&chosen, backend);
	mt_store_release(&chosen_identity, whose);
}

bool mt_backend_is_shadowed(void)
{
	return identity.mode == MT_MODE_SHADOWED;
}

static bool is_in_one_object(const void *one, const void *other)
{
	Dl_info first;
	Dl_info second;

	return one && other && dladdr(one, &first) && dladdr(other, &second) &&
	       first.dli_fbase == second.dli_fbase;
}

static bool is_in_program(const void *address)
{
	return is_in_one_object(address, (const void *)getauxval(AT_PHDR));
}

/* The allocator is named by the file that owns the bound malloc: malloc_trim exists in tcmalloc
 * too, and mallctl may be a private copy's. A file of another name is asked for the one function
 * that only that allocator has. Without dlopen, which calls the program's malloc and free: they may
 * not be ready before main. */
static const char *name_owner(const char *file, const void *bound)
{
	static const struct {
		const char *part, *symbol, *name;
	} known[] = {
		/* Another copy of us, which passes on. First: it has a mallctl too. */
		{"libmtshim", "mt_allocator_type", "mtshim"},
		{"libjemalloc", "mallctl", "jemalloc"},
		{"libtcmalloc", "MallocExtension_ReleaseFreeMemory", "tcmalloc"},
		{"libmimalloc", "mi_collect", "mimalloc"},
	};
	const char *base = strrchr(file, '/');

	base = base ? base + 1 : file;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strncmp(base, known[i].part, strlen(known[i].part)) == 0)
			return known[i].name;
	if (strncmp(base, "libc.so", 7) == 0 || strncmp(base, "libc-", 5) == 0)
		return "glibc";
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (is_in_one_object(mt_loader_first_function(known[i].symbol), bound))
			return known[i].name;
	return "unknown";
}

static void identify(const void *bound, const char *how)
{
	Dl_info info = {.dli_fname = mt_loader_libc_path("malloc", bound)};

	if (!info.dli_fname && (!bound || !dladdr(bound, &info) || !info.dli_fname)) {
		identity.allocator = "unknown";
		mt_format(identity.evidence, sizeof(identity.evidence), "%s: no file owns it", how);
		return;
	}
	identity.allocator = name_owner(info.dli_fname, bound);
	mt_format(identity.evidence, sizeof(identity.evidence), "%s is in %s", how, info.dli_fname);
}

/* A wrapper may have free alone. */
bool mt_backend_libc_is_next(void)
{
	const struct mt_heap_ops *behind = mt_system_plain_ops();
	const struct mt_heap_ops *libc = mt_glibc_ops();

	return libc && behind->malloc == libc->malloc && behind->free == libc->free;
}

bool mt_backend_program_has_malloc(void)
{
	return is_in_program(mt_loader_first_function("malloc"));
}

/* A program that is not position-independent lends its own jump to malloc as the function's
 * address. The jump leads to the first library that defines malloc. */
const void *mt_backend_bound_malloc(void)
{
	const void *bound = mt_loader_symbol(RTLD_DEFAULT, "malloc");
	const void *first;

	if (!is_in_program(bound))
		return bound;
	first = mt_loader_first_function("malloc");
	/* what comes after us is not reached: a tool replaces our function where it is */
	return first && first != mt_loader_symbol(RTLD_NEXT, "malloc")
		       ? first
		       : (const void *)(uintptr_t)mt_backend_bound_malloc;
}

static bool is_replaced;

bool mt_backend_is_replaced_by_tool(void)
{
	return is_replaced;
}

static void identify_shadow(void)
{
	identify(mt_backend_bound_malloc(), "malloc is bound before ours and");
	/* The name is bound to ours, and a call of it goes elsewhere. */
	is_replaced = strcmp(identity.allocator, "mtshim") == 0;
	if (!is_replaced)
		return;
	identity.allocator = "unknown";
	mt_format(identity.evidence, sizeof(identity.evidence),
		  "a tool (valgrind?) replaces malloc while the program runs");
}

const struct mt_backend *mt_backend_use_system(const struct mt_config *config,
					       const struct mt_backend_hooks *hooks)
{
	const struct mt_backend *backend;

	identity.mode = hooks->shadowed ? MT_MODE_SHADOWED : MT_MODE_SYSTEM;
	if (hooks->shadowed)
		identify_shadow();
	else
		identify(mt_loader_symbol(RTLD_NEXT, "malloc"), "the next malloc in line");
	backend = mt_system_backend(config, &identity);
	use(backend, &identity);
	return backend;
}

void mt_backend_use_sleeping(const struct mt_config *config)
{
	identity.allocator = "glibc";
	identity.mode = MT_MODE_SYSTEM;
	mt_format(identity.evidence, sizeof(identity.evidence),
		  "asleep; the embedded jemalloc once the heap has grown, MT_ALLOCATOR=%s",
		  config->allocator == MT_ALLOCATOR_AUTO ? "auto" : "jemalloc");
	use(&mt_glibc_backend, &identity);
}

void mt_backend_use_glibc(const char *reason)
{
	staying.allocator = "glibc";
	staying.mode = MT_MODE_SYSTEM;
	mt_format(staying.evidence, sizeof(staying.evidence), "libc's malloc for good: %s", reason);
	use(&mt_glibc_backend, &staying);
	mt_state_note_heap(staying.allocator, false);
}

void mt_backend_prepare_jemalloc(const struct mt_config *config,
				 const struct mt_backend_hooks *hooks)
{
	static char conf[768]; /* with room for the user's own settings */

	embedded.allocator = "jemalloc";
	embedded.mode = MT_MODE_JEMALLOC;
	embedded.conf = conf;
	mt_format(embedded.evidence, sizeof(embedded.evidence),
		  "embedded in libmtshim.so, MT_ALLOCATOR=%s",
		  config->allocator == MT_ALLOCATOR_AUTO ? "auto" : "jemalloc");
	jemalloc = mt_jemalloc_backend(config, hooks, conf, sizeof(conf));
}

void mt_backend_use_jemalloc(void)
{
	use(jemalloc, &embedded);
	mt_state_note_heap(embedded.allocator, true);
}

/* A setting that the embedded jemalloc or the worker must follow from the first byte on. */
static bool wakes_at_once(const struct mt_config *config)
{
	return config->allocator == MT_ALLOCATOR_JEMALLOC || config->min_mb == 0 ||
	       config->prof != MT_PROF_NONE || config->malloc_conf[0] || config->check;
}

enum mt_backend_choice mt_backend_choose(const struct mt_config *config,
					 const struct mt_backend_hooks *hooks)
{
	if (!mt_jemalloc_is_built && config->allocator == MT_ALLOCATOR_JEMALLOC)
		mt_log(MT_LOG_WARN, "MT_ALLOCATOR=jemalloc: built without it; the next allocator "
				    "in line is taken");
	if (hooks->shadowed || !mt_jemalloc_is_built || config->allocator == MT_ALLOCATOR_SYSTEM)
		return MT_BACKEND_SYSTEM;
	if (!mt_backend_libc_is_next()) {
		if (config->allocator == MT_ALLOCATOR_JEMALLOC)
			mt_log(MT_LOG_INFO, "MT_ALLOCATOR=jemalloc: the next allocator in line is "
					    "taken, whose blocks may reach us");
		return MT_BACKEND_SYSTEM;
	}
	return wakes_at_once(config) ? MT_BACKEND_EMBEDDED : MT_BACKEND_ASLEEP;
}
