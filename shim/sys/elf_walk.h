/* sys/elf_walk.h -- iterates over the loaded objects for sys/elf.c. Owns no state. Any thread may
 * call. mt_elf_walk takes the gate of sys/loader.h; mt_elf_walk_first takes no lock. Never
 * allocates. */
#ifndef MT_SYS_ELF_WALK_H
#define MT_SYS_ELF_WALK_H

#include <link.h>
#include <stdbool.h>

struct mt_elf_object {
	ElfW(Addr) base;
	const ElfW(Dyn) * dynamic;
	const char *path; /* as the loader knows it; "" for the program */
	bool is_behind;   /* this library comes before it */
};

/* Hidden: a call to an exported function goes through a GOT entry that may not be relocated yet. */
#pragma GCC visibility push(hidden)

/* Calls visit for each loaded object in load order, until visit returns true. Skips this library
 * and objects without a dynamic section. context: passed to visit. Returns whether visit returned
 * true. Uses dl_iterate_phdr(3), so other threads may load and unload meanwhile. */
bool mt_elf_walk(bool (*visit)(const struct mt_elf_object *object, void *context), void *context);

/* As mt_elf_walk, over the loader's list for debuggers (r_debug). Calls no function of libc: safe
 * before this library is relocated, and inside the start of a sanitizer's runtime that interposes
 * dl_iterate_phdr. Takes no lock: visit must end the walk before it reaches an object that can be
 * unloaded. */
bool mt_elf_walk_first(bool (*visit)(const struct mt_elf_object *object, void *context),
		       void *context);

#pragma GCC visibility pop

/* Returns the address of a table that the dynamic section points to. value: d_ptr. glibc relocates
 * d_ptr in place, except in a read-only section (the vDSO); musl never does. */
static inline const void *mt_elf_at(const struct mt_elf_object *object, ElfW(Addr) value)
{
	return (const void *)(value < object->base ? object->base + value : value);
}

#endif
