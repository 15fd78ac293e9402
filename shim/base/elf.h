/* base/elf.h -- symbols of the objects that the loader has loaded, found without the loader's dlsym: ours is in its place.
 * Walks dl_iterate_phdr, DT_GNU_HASH (DT_HASH where there is none) and DT_VERSYM; allocates nothing, takes no lock of
 * ours, keeps errno, works before any constructor. Rank 0. */
#ifndef MT_ELF_H
#define MT_ELF_H

#include <stdbool.h>

/* The address of a symbol in the loaded object whose DT_SONAME (or the last part of its path) is soname, in any version
 * if version is NULL, else in exactly this one. NULL where object or symbol is missing. */
void *mt_elf_find(const char *soname, const char *symbol, const char *version);

/* The same in whichever loaded object of libc's family (libc.so.6, libdl.so.2, ld-musl, never ourselves) defines it,
 * preferring the default version. */
void *mt_elf_find_libc(const char *symbol);

/* Whether an object with this soname (a glob) is loaded. */
bool mt_elf_is_loaded(const char *soname_glob);

/* Objects ever loaded into this process (dlpi_adds): tells whether a look at them would show anything new. */
unsigned long long mt_elf_loads(void);

#endif
