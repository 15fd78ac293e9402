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
