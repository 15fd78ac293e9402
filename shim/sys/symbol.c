#include "sys/symbol.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "sys/attr.h"
#include "sys/elf.h"
#include "sys/loader.h"

/* libc's dlsym, once the program's calls are forwarded to another library's. */
static _Atomic(mt_dlsym_fn) libcs;

void *mt_symbol(void *handle, const char *name)
{
	mt_dlsym_fn kept = atomic_load_explicit(&libcs, memory_order_acquire);
	mt_dlsym_fn find = kept ? kept : mt_elf_dlsym();
	void *found;

	/* dlsym allocates the text of its error: a child forked meanwhile by a process that libc
	 * takes for one of one thread would have libc's heap locked for ever. */
	mt_loader_enter();
	found = find ? find(handle, name) : dlsym(handle, name);
	mt_loader_leave();
	return found;
}

/* ---- without the loader's lock ---- */

/* struct dl_find_object of glibc, larger than any version of it */
struct found_object {
	uint64_t words[32];
};
typedef int (*find_object_fn)(void *address, struct found_object *out);

static int find_nothing(void *address, struct found_object *out)
{
	(void)address;
	(void)out;
	return -1;
}

/* libc's _dl_find_object, which takes no lock; find_nothing where libc has none. The loader enters
 * an object there after its relocation, before its constructors. Set once; all threads store the
 * same value, no ordering. Source: dl_open_worker_begin() of glibc. */
static _Atomic(find_object_fn) find_object;

static find_object_fn object_finder(void)
{
	find_object_fn found = atomic_load_explicit(&find_object, memory_order_relaxed);

	if (found)
		return found;
	*(void **)(void *)&found = mt_elf_first_function("_dl_find_object");
	if (!found)
		found = find_nothing;
	atomic_store_explicit(&find_object, found, memory_order_relaxed);
	return found;
}

void *mt_symbol_beside(const char *anchor, const char *name)
{
	find_object_fn find = object_finder();
	struct found_object object;
	void *at_anchor;
	void *found;

	if (find == find_nothing || mt_loader_is_forked())
		return mt_symbol(RTLD_DEFAULT, name);
	found = mt_elf_beside(anchor, name, &at_anchor);
	return at_anchor && find(at_anchor, &object) == 0 ? found : NULL;
}

/* ---- another library's dlsym ---- */

/* By the file of the object: libc has its dlsym in several versions. */
static bool is_libcs(const void *function)
{
	static const char *const names[] = {"libc.so", "libc-",    "libc.musl",
					    "ld-musl", "libdl.so", "libdl-"};
	const char *slash;
	Dl_info info;

	if (!function || !dladdr(function, &info) || !info.dli_fname)
		return true;
	slash = strrchr(info.dli_fname, '/');
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(slash ? slash + 1 : info.dli_fname, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

MT_COLD void mt_symbol_use_next_dlsym(void)
{
	void *by_name = mt_symbol(RTLD_NEXT, "dlsym");
	void *by_version;

	/* The common case is libc's; dladdr(3) would compare the address with each of its
	 * symbols. */
	if (mt_elf_libc_path("dlsym", by_name) || is_libcs(by_name))
		return;
	by_version = mt_symbol(RTLD_NEXT, "dlvsym");
	atomic_store_explicit(&libcs, mt_elf_dlsym(), memory_order_release);
	mt_elf_forward_to(by_name, is_libcs(by_version) ? NULL : by_version);
}
