/* sys/loader.h -- what the dynamic loader has loaded: finds symbols without calling dlsym, since
 * the shim exports its own dlsym. Reads dl_iterate_phdr(3), DT_GNU_HASH and DT_VERSYM. Owns the
 * addresses of libc's dlsym and dlvsym, and the gate below. Any thread may call, before any
 * constructor too. Takes the gate, no other lock of the shim. Never allocates, never changes errno,
 * never runs an ifunc resolver: symbols that need one are not found. */
#ifndef MT_SYS_LOADER_H
#define MT_SYS_LOADER_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* Finds the first loaded object whose DT_SONAME, or the last component of whose path, is soname.
 * out: receives the path and a NUL, only on success; out_bytes: its size. Returns false if there is
 * none or the path does not fit. */
bool mt_loader_path(const char *soname, char *out, size_t out_bytes);

/* Returns libc's path if libc's symbol `name` has exactly this address; else NULL. Costs far
 * less than dladdr(3), which compares the address with every symbol of the object. */
const char *mt_loader_libc_path(const char *name, const void *function);

/* Returns whether `function` is the symbol `name` of libc.so.6. False if libc.so.6 has no such
 * symbol. */
bool mt_loader_is_libc_function(const char *name, const void *function);

/* Returns libc's own function of this name, even if another object interposes it. NULL if libc has
 * none, or selects it by an ifunc resolver. */
void *mt_loader_libc_function(const char *name);

/* Returns the function of this name that the first loaded object defines, this library left out.
 * NULL if none does, or if an ifunc resolver selects it. */
void *mt_loader_first_function(const char *name);

/* Finds `count` functions of libc.so.6 in one walk: out[i] receives libc's own function names[i],
 * or NULL as mt_loader_libc_function returns it. */
void mt_loader_libc_functions(const char *const *names, void **out, size_t count);

/* The same for the first object behind this library that defines each: what RTLD_NEXT finds, but
 * for other copies of this library. Ends at libc, whose functions fill what is left. */
void mt_loader_next_functions(const char *const *names, void **out, size_t count);

/* Has this library call libc's own functions, also where the program or another library defines one
 * of their names: ISO C leaves unlink and the like to the program, and a wrapper of mmap may
 * allocate. Does nothing if a sanitizer's runtime is loaded. Once, after the relocation. */
void mt_loader_bind_to_libc(void);

/* Returns the number of objects ever loaded (dlpi_adds of dl_iterate_phdr(3)). While it is the same
 * a repeated search finds nothing new. */
unsigned long long mt_loader_load_count(void);

/* Returns libc's dlsym, or NULL if there is none. The first call searches, later calls read a word.
 * Concurrent first calls store the same value. Safe before the loader has relocated this library,
 * and inside the start of a sanitizer's runtime. heap/dlsym_entries.S reads the words. */
typedef void *(*mt_dlsym_fn)(void *handle, const char *name);
mt_dlsym_fn mt_loader_dlsym(void);

/* Calls the real dlsym (version: NULL) or dlvsym with the shim as the caller. handle: as for
 * dlsym(3). Returns NULL if there is no such symbol. */
void *mt_loader_look_up(void *handle, const char *name, const char *version);

/* ---- a loaded object ---- */

struct mt_elf_object {
	ElfW(Addr) base;
	const ElfW(Dyn) * dynamic;
	const char *path; /* as the loader knows it; "" for the program */
	bool is_behind;   /* this library comes before it */
};

/* Returns the address of a table that the dynamic section points to. value: d_ptr. glibc relocates
 * d_ptr in place, except in a read-only section (the vDSO); musl never does. */
static inline const void *mt_loader_at(const struct mt_elf_object *object, ElfW(Addr) value)
{
	return (const void *)(value < object->base ? object->base + value : value);
}

/* Compares two names, without libc, whose functions may not be relocated yet. */
static inline bool mt_loader_is_same(const char *one, const char *other)
{
	while (*one && *one == *other) {
		one++;
		other++;
	}
	return *one == *other;
}

/* ---- symbol ---- */

/* dlsym for the shim's own lookups: libc's function with the shim as the caller, so that RTLD_NEXT
 * means "after libmtshim.so". Owns one pointer to libc's dlsym. Any thread may call when dlsym(3)
 * may be called; no lock of the shim may be held. Enters the gate. Skips another preloaded
 * library's dlsym: one that calls libc's instead of jumping to it becomes the caller, and RTLD_NEXT
 * may then find the shim again, without end. */

/* Returns the symbol `name`, or NULL if there is none. handle: RTLD_DEFAULT, RTLD_NEXT, or a
 * result of dlopen. */
void *mt_loader_symbol(void *handle, const char *name);

/* Returns the symbol `name` of the library or program that defines `anchor`, or NULL. Unlike dlsym
 * it never waits for a constructor: that runs under the loader's lock. Does not find a library that
 * another thread is loading and has not relocated yet. In a forked child, and before glibc 2.35
 * without _dl_find_object, this is mt_loader_symbol(RTLD_DEFAULT, name). */
void *mt_loader_symbol_beside(const char *anchor, const char *name);

/* Forwards the program's dlsym calls, and the binding of the CUDA driver, to another library's
 * dlsym if one follows the shim in load order (a vGPU limiter). Called once, from the
 * constructor. */
void mt_loader_use_next_dlsym(void);

/* ---- the gate ---- */

/* Keeps fork and the dynamic loader apart. dl_iterate_phdr and dlopen hold a lock of libc
 * (dl_load_write_lock). fork does not reset it: a child that is forked meanwhile hangs at its next
 * dlopen, dl_iterate_phdr or, before glibc 2.35, C++ exception. Threads of the shim would bring
 * this race into single-threaded programs. So each section of the shim that calls the loader is
 * bracketed, fork waits for it to end, and it waits for fork. Any thread may call, with no lock of
 * the shim held; sections nest. The gate has the rank loader. Both waits have a time limit: the
 * gate never blocks a program for good. */

/* Begin and end a section that calls the loader. mt_loader_enter waits up to 5 s for a fork that is
 * under way. */
void mt_loader_enter(void);
void mt_loader_leave(void);

/* Returns whether the calling thread is in such a section. */
bool mt_loader_is_inside(void);

/* Returns whether this process was forked without exec. Another thread of its parent may then have
 * left the loader's lock taken for ever, which dl_iterate_phdr(3) waits for, and dlsym does not. */
bool mt_loader_is_forked(void);

/* Calls dl_iterate_phdr(3) in such a section and returns its result. Keeps errno. */
int mt_loader_iterate(int (*visit)(struct dl_phdr_info *info, size_t bytes, void *context),
		      void *context);

/* pthread_atfork handlers. Prepare closes the gate and waits up to 200 ms for the threads inside;
 * parent and child open it again. The publish lock serializes the callers. */
void mt_loader_fork_prepare(void);
void mt_loader_fork_parent(void);
void mt_loader_fork_child(void);

#endif
