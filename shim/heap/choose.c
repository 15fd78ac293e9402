/* heap/choose.c -- which allocators the process has, in the order in which names are bound, and
 * which backend serves it. */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#include "core/log.h"
#include "core/services.h"
#include "core/state.h"
#include "heap/backend.h"
#include "heap/entries.h"
#include "heap/glibc.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/loader.h"

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
	const struct mt_heap_ops *next = mt_system_plain_ops();
	const struct mt_heap_ops *libc = mt_glibc_ops();

	return libc && next->malloc == libc->malloc && next->free == libc->free;
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
	staying.mode = MT_MODE_LIBC;
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

/* A setting that only the embedded jemalloc follows. */
static bool needs_jemalloc(const struct mt_config *config)
{
	return config->allocator == MT_ALLOCATOR_JEMALLOC || config->prof != MT_PROF_NONE ||
	       config->malloc_conf[0] || config->check;
}

bool mt_backend_is_limited(const struct mt_config *config)
{
	return !needs_jemalloc(config) && mt_address_space_bytes() <= MT_LIMITED_BYTES;
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
	return needs_jemalloc(config) || (config->min_mb == 0 && !mt_backend_is_limited(config))
		       ? MT_BACKEND_EMBEDDED
		       : MT_BACKEND_ASLEEP;
}
