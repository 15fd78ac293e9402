/* sys/elf_walk.h -- the walk over the loaded objects under sys/elf.c. */
#ifndef MT_SYS_ELF_WALK_H
#define MT_SYS_ELF_WALK_H

#include <link.h>
#include <stdbool.h>

struct mt_elf_object {
	ElfW(Addr) base;
	const ElfW(Dyn) * dynamic;
	const char *path; /* as the loader knows it; "" for the program */
};

#pragma GCC visibility push(                                                                       \
	hidden) /* else calls would go through words that may not be relocated yet */

/* Calls visit for each loaded object but ourselves and those without a dynamic section, in the
 * order of loading, until it answers true; answers whether it did. By dl_iterate_phdr, and so safe
 * against other threads that load and unload. */
bool mt_elf_walk(bool (*visit)(const struct mt_elf_object *object, void *context), void *context);

/* The same by the list that the loader keeps for debuggers: calls nobody, works before our
 * relocation and inside the start of a sanitizer's runtime (which has a dl_iterate_phdr of its
 * own). Without a lock: only for what was loaded with the program and so is never unloaded, and
 * visit must end the walk before it comes to anything else. */
bool mt_elf_walk_first(bool (*visit)(const struct mt_elf_object *object, void *context),
		       void *context);

#pragma GCC visibility pop

/* A table that the dynamic section points to. glibc has relocated these pointers in place, but not
 * where the section is read-only (the vDSO); musl never does. */
static inline const void *mt_elf_at(const struct mt_elf_object *object, ElfW(Addr) value)
{
	return (const void *)(value < object->base ? object->base + value : value);
}

#endif
