#include "heap/mlockall.h"

#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sys/loader.h"
#include "core/log.h"

#define GNU_BUCKETS  4 /* words before the Bloom filter; its length is the third */
#define SYMBOLS_MOST 100000u

/* Up to which symbol there may be undefined ones. Behind them in the table come those that the GNU
 * hash section knows; if it is empty it does not say where the table ends, which linkers put
 * right before its strings. */
static size_t undefined_end(const ElfW(Sym) * symbols, const char *strings,
			    const uint32_t *gnu_hash, const uint32_t *hash)
{
	const uint32_t *buckets =
		gnu_hash ? gnu_hash + GNU_BUCKETS + gnu_hash[2] * (sizeof(ElfW(Addr)) / 4) : NULL;
	size_t between = (uintptr_t)strings > (uintptr_t)symbols
				 ? ((uintptr_t)strings - (uintptr_t)symbols) / sizeof(*symbols)
				 : 0;

	if (hash)
		return hash[1];
	if (gnu_hash && (gnu_hash[0] != 1 || buckets[0] != 0))
		return gnu_hash[1];
	return between < SYMBOLS_MOST ? between : 0;
}

static bool imports_mlockall(const struct mt_elf_object *object)
{
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	const uint32_t *gnu_hash = NULL, *hash = NULL;
	size_t end;

	for (const ElfW(Dyn) *at = object->dynamic; at->d_tag != DT_NULL; at++) {
		const void *table = mt_elf_at(object, at->d_un.d_ptr);

		if (at->d_tag == DT_SYMTAB)
			symbols = table;
		else if (at->d_tag == DT_STRTAB)
			strings = table;
		else if (at->d_tag == DT_GNU_HASH)
			gnu_hash = table;
		else if (at->d_tag == DT_HASH)
			hash = table;
	}
	if (!symbols || !strings)
		return false;
	end = undefined_end(symbols, strings, gnu_hash, hash);
	for (size_t i = 1; i < end; i++)
		if (symbols[i].st_shndx == SHN_UNDEF &&
		    strcmp(strings + symbols[i].st_name, "mlockall") == 0)
			return true;
	return false;
}

/* Ends the walk at the first object that imports it. */
static int look_at_object(struct dl_phdr_info *info, size_t bytes, void *context)
{
	struct mt_elf_object object = {info->dlpi_addr, NULL, "", false};

	(void)bytes;
	(void)context;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			object.dynamic =
				(const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return object.dynamic && imports_mlockall(&object);
}

bool mt_mlockall_is_imported(void)
{
	int kept = errno;
	bool is_imported = mt_loader_iterate(look_at_object, NULL) == 1;

	if (is_imported)
		mt_log(MT_LOG_INFO,
		       "the program imports mlockall: libc's malloc serves, since what jemalloc "
		       "maps would be locked too");
	errno = kept;
	return is_imported;
}
