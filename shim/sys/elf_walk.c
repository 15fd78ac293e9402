/* sys/elf_walk.c -- contract: sys/elf_walk.h. mt_elf_walk_first, and the code of sys/elf.c that
 * runs in it, must not use a relocated word or a function of libc. The Makefile compiles both files
 * so that the compiler adds none. */
#include "sys/elf_walk.h"

#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "sys/raw_syscall_asm.h"
#include "sys/loader.h"

/* Weak so that its address can be tested: before relocation its GOT entry is empty. */
extern struct r_debug _r_debug __attribute__((weak));
extern const ElfW(Dyn) own_dynamic[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));

struct walk {
	bool (*visit)(const struct mt_elf_object *object, void *context);
	void *context;
	bool is_past_us;
};

static bool visit_one(struct walk *walk, struct mt_elf_object *object)
{
	bool is_own = object->dynamic == own_dynamic;

	object->is_behind = walk->is_past_us;
	walk->is_past_us = walk->is_past_us || is_own;
	return object->dynamic && !is_own && walk->visit(object, walk->context);
}

static int visit_header(struct dl_phdr_info *info, size_t bytes, void *context)
{
	struct mt_elf_object object = {info->dlpi_addr, NULL,
				       info->dlpi_name ? info->dlpi_name : "", false};

	(void)bytes;
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			object.dynamic =
				(const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return visit_one(context, &object);
}

bool mt_elf_walk(bool (*visit)(const struct mt_elf_object *object, void *context), void *context)
{
	struct walk walk = {visit, context, false};

	return mt_loader_iterate(visit_header, &walk) != 0;
}

/* ---- the list for debuggers: complete before the loader relocates anything ---- */

/* Reads the address of the program's headers from the auxiliary vector. Source: proc(5), auxv. */
static bool read_program_headers(const ElfW(Phdr) * *out_headers, size_t *out_count)
{
	static const char path[] = "/proc/self/auxv";
	ElfW(auxv_t) pairs[64];
	long fd =
		mt_raw_syscall_asm(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	long bytes;

	if (fd < 0)
		return false;
	bytes = mt_raw_syscall_asm(SYS_read, fd, (long)pairs, sizeof(pairs), 0, 0, 0);
	(void)mt_raw_syscall_asm(SYS_close, fd, 0, 0, 0, 0, 0);
	*out_headers = NULL;
	*out_count = 0;
	for (long i = 0; bytes > 0 && i < bytes / (long)sizeof(pairs[0]); i++) {
		if (pairs[i].a_type == AT_PHDR)
			*out_headers = (const ElfW(Phdr) *)pairs[i].a_un.a_val;
		if (pairs[i].a_type == AT_PHNUM)
			*out_count = pairs[i].a_un.a_val;
	}
	return *out_headers && *out_count;
}

/* Finds the list through the program's dynamic section, in which the loader stores its address: for
 * use before this library is relocated. */
static const struct r_debug *find_list_of_program(void)
{
	const ElfW(Phdr) * headers;
	const ElfW(Dyn) *dynamic = NULL;
	ElfW(Addr) base = 0;
	size_t count;

	if (!read_program_headers(&headers, &count))
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (headers[i].p_type == PT_PHDR)
			base = (ElfW(Addr))headers - headers[i].p_vaddr;
	for (size_t i = 0; i < count; i++)
		if (headers[i].p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)(base + headers[i].p_vaddr);
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == DT_DEBUG)
			return (const struct r_debug *)dynamic->d_un.d_ptr;
	return NULL;
}

bool mt_elf_walk_first(bool (*visit)(const struct mt_elf_object *object, void *context),
		       void *context)
{
	struct walk walk = {visit, context, false};
	const struct r_debug *list = &_r_debug ? &_r_debug : find_list_of_program();

	for (const struct link_map *map = list ? list->r_map : NULL; map; map = map->l_next) {
		struct mt_elf_object object = {map->l_addr, map->l_ld,
					       map->l_name ? map->l_name : "", false};

		if (visit_one(&walk, &object))
			return true;
	}
	return false;
}
