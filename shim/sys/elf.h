/* sys/elf.h -- symbols of the objects that the loader has loaded, found without the loader's dlsym:
 * ours is in its place. Walks dl_iterate_phdr, DT_GNU_HASH (DT_HASH where there is none) and
 * DT_VERSYM; allocates nothing, takes no lock of ours, keeps errno, works before any constructor.
 * Symbols that are resolved by an ifunc resolver are not found: running it is the loader's
 * business. Rank 0. */
#ifndef MT_SYS_ELF_H
#define MT_SYS_ELF_H

#include <stdbool.h>
#include <stddef.h>

/* The path under which the loader knows the first loaded object whose DT_SONAME, or the last part
 * of its path, matches the glob (* stands for anything); written to out only if it is there and
 * fits. */
bool mt_elf_path(const char *soname_glob, char *out, size_t out_bytes);

/* libc's path, if what libc has under this name is this very function; else NULL. Answers for what
 * is the usual case what dladdr answers for any address by a look at each symbol of the library,
 * half of what a short program's start costs us. */
const char *mt_elf_libc_path(const char *name, const void *function);

/* Whether libc.so.6 has this very function under this name, which it may not have at all. */
bool mt_elf_is_libc_function(const char *name, const void *function);

/* libc's own function of this name, whoever stands before libc; NULL where it has none, or chooses
 * it by an ifunc resolver. */
void *mt_elf_libc_function(const char *name);

/* Objects ever loaded into this process (dlpi_adds): tells whether a look at them would show
 * anything new. */
unsigned long long mt_elf_load_count(void);

/* The dlsym and dlvsym behind us: libc's own, looked for in one walk at the first use and then
 * kept; NULL where there is none. Two threads may both look: they store the same. Works even before
 * the loader has relocated us (another library's ifunc resolver may ask for dlsym) and inside the
 * start of a sanitizer's runtime. entry/dlsym_ARCH.S reads the words. */
typedef void *(*mt_dlsym_fn)(void *handle, const char *name);
typedef void *(*mt_dlvsym_fn)(void *handle, const char *name, const char *version);
mt_dlsym_fn mt_elf_dlsym(void);
mt_dlvsym_fn mt_elf_dlvsym(void);

/* From now on these are in their places; NULL leaves the one that is there. For sys/symbol.c. */
void mt_elf_forward_to(void *by_name, void *by_version);

/* The real dlsym (version NULL) or dlvsym, asked by us. */
void *mt_elf_look_up(void *handle, const char *name, const char *version);

#endif
