/* heap/choose.c -- who stands in line for malloc, and which backend serves it. */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "heap/backend.h"
#include "heap/mlockall.h"
#include "sys/elf.h"
#include "core/log.h"
#include "sys/symbol.h"
#include "sys/format.h"

static const struct mt_backend *chosen;
static struct mt_backend_identity identity;

const struct mt_backend *mt_backend(void)
{
	return chosen;
}

const struct mt_backend_identity *mt_backend_identity(void)
{
	return &identity;
}

bool mt_backend_is_shadowed(void)
{
	return strcmp(identity.mode, "shadowed") == 0;
}

/* By libc's own dlopen: a sanitizer's may not be ready yet. */
static void *open_loaded(const char *file)
{
	void *(*open)(const char *, int);

	*(void **)(void *)&open = mt_elf_libc_function("dlopen");
	return open ? open(file, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

/* The allocator is named by the file that owns the bound malloc: malloc_trim exists in tcmalloc
 * too, and mallctl may be a private copy's. A file of another name is asked for the one function
 * that only that allocator has. */
static const char *name_owner(const char *file)
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
	const char *name = "unknown";
	void *handle;

	base = base ? base + 1 : file;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strncmp(base, known[i].part, strlen(known[i].part)) == 0)
			return known[i].name;
	if (strncmp(base, "libc.so", 7) == 0 || strncmp(base, "libc-", 5) == 0)
		return "glibc";
	handle = open_loaded(file);
	for (size_t i = 0; handle && i < sizeof(known) / sizeof(known[0]); i++)
		if (mt_symbol(handle, known[i].symbol))
			name = known[i].name;
	if (handle)
		dlclose(handle);
	return name;
}

static void identify(const void *bound, const char *how)
{
	Dl_info info = {.dli_fname = mt_elf_libc_path("malloc", bound)};

	if (!info.dli_fname && (!bound || !dladdr(bound, &info) || !info.dli_fname)) {
		mt_format(identity.allocator, sizeof(identity.allocator), "unknown");
		mt_format(identity.evidence, sizeof(identity.evidence), "%s: no file owns it", how);
		return;
	}
	mt_format(identity.allocator, sizeof(identity.allocator), "%s", name_owner(info.dli_fname));
	mt_format(identity.evidence, sizeof(identity.evidence), "%s is in %s", how, info.dli_fname);
}

/* By the file that owns it: tcmalloc and mimalloc bring a __libc_malloc of their own, so an address
 * proves nothing. */
static bool libc_is_next(void)
{
	identify(mt_symbol(RTLD_NEXT, "malloc"), "the next malloc in line");
	return strcmp(identity.allocator, "glibc") == 0 ||
	       strcmp(identity.allocator, "mtshim") == 0;
}

static bool wants_embedded(const struct mt_config *config)
{
	return config->allocator == MT_ALLOCATOR_JEMALLOC ||
	       (config->allocator == MT_ALLOCATOR_AUTO && libc_is_next() &&
		!mt_mlockall_is_imported());
}

static void identify_shadow(void)
{
	identify(mt_symbol(RTLD_DEFAULT, "malloc"), "malloc is bound before ours and");
	if (strcmp(identity.allocator, "mtshim") != 0)
		return;
	/* The name is bound to ours, and a call of it goes elsewhere. */
	mt_format(identity.allocator, sizeof(identity.allocator), "unknown");
	mt_format(identity.evidence, sizeof(identity.evidence),
		  "a tool (valgrind?) replaces malloc while the program runs");
}

static const struct mt_backend *choose_system(const struct mt_config *config, bool shadowed)
{
	mt_format(identity.mode, sizeof(identity.mode), shadowed ? "shadowed" : "system");
	identity.conf[0] = 0;
	if (shadowed)
		identify_shadow();
	else
		identify(mt_symbol(RTLD_NEXT, "malloc"), "the next malloc in line");
	chosen = mt_system_backend(config, &identity);
	return chosen;
}

const struct mt_backend *mt_backend_fall_back(const struct mt_config *config)
{
	return choose_system(config, false);
}

const struct mt_backend *mt_backend_choose(const struct mt_config *config,
					   const struct mt_backend_hooks *hooks)
{
	if (!hooks->shadowed && mt_jemalloc_is_built && wants_embedded(config)) {
		mt_format(identity.allocator, sizeof(identity.allocator), "jemalloc");
		mt_format(identity.mode, sizeof(identity.mode), "jemalloc");
		mt_format(identity.evidence, sizeof(identity.evidence),
			  "embedded in libmtshim.so, MT_ALLOCATOR=%s",
			  config->allocator == MT_ALLOCATOR_AUTO ? "auto" : "jemalloc");
		chosen = mt_jemalloc_backend(config, hooks, identity.conf, sizeof(identity.conf));
		return chosen;
	}
	if (!mt_jemalloc_is_built && config->allocator == MT_ALLOCATOR_JEMALLOC)
		mt_log(MT_LOG_WARN, "MT_ALLOCATOR=jemalloc: built without it; the next allocator "
				    "in line is taken");
	return choose_system(config, hooks->shadowed);
}
