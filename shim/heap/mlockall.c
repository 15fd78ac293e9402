#include "heap/mlockall.h"

#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include "sys/elf_walk.h"
#include "sys/loader.h"
#include "core/log.h"
#include "sys/os.h"

/* its beginnings, and room to grow in steps of 2 MB and more */
#define JEMALLOC_BYTES (64 * MT_MIB)
#define IPC_LOCK_DIGIT 12 /* of CapEff's 16: CAP_IPC_LOCK is bit 14 */
#define IPC_LOCK_BIT   4

struct look {
	uint64_t mapped_bytes; /* of the objects but ours */
	bool is_wanted;
};

#define GNU_BUCKETS  4 /* words before the Bloom filter; its length is the third */
#define SYMBOLS_MOST 100000u

/* Up to which symbol there may be undefined ones. Behind them in the table come those that the GNU
 * hash section knows; where it is empty it does not say where the table ends, which linkers put
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

static bool calls_mlockall(const struct mt_elf_object *object)
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

static int add_object(struct dl_phdr_info *info, size_t bytes, void *context)
{
	struct mt_elf_object object = {info->dlpi_addr, NULL, ""};
	struct look *look = context;
	uintptr_t own = (uintptr_t)mt_memlock_is_tight;
	uint64_t mapped = 0;
	bool is_ours = false;

	(void)bytes;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_DYNAMIC)
			object.dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + part->p_vaddr);
		if (part->p_type != PT_LOAD)
			continue;
		mapped += part->p_memsz;
		is_ours = is_ours || own - (info->dlpi_addr + part->p_vaddr) < part->p_memsz;
	}
	if (is_ours)
		return 0;
	look->mapped_bytes += mapped;
	look->is_wanted = look->is_wanted || (object.dynamic && calls_mlockall(&object));
	return 0;
}

/* The limit is not for who has this. Source: proc(5), capabilities(7). */
static bool may_lock_anything(void)
{
	char status[4096];
	const char *at;

	if (mt_os_read_file("/proc/self/status", status, sizeof(status)) <= 0 ||
	    !(at = strstr(status, "\nCapEff:\t")))
		return false;
	at += strlen("\nCapEff:\t");
	if (strspn(at, "0123456789abcdef") != 16)
		return false;
	return (at[IPC_LOCK_DIGIT] >= 'a' ? at[IPC_LOCK_DIGIT] - 'a' + 10
					  : at[IPC_LOCK_DIGIT] - '0') &
	       IPC_LOCK_BIT;
}

bool mt_memlock_is_tight(void)
{
	struct look look = {0};
	struct rlimit limit;
	int kept = errno;
	bool is_tight;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		limit.rlim_cur = UINT64_MAX;
	errno = kept;
	/* a program of that size does not fail by jemalloc's beginnings */
	if (limit.rlim_cur > 16 * JEMALLOC_BYTES)
		return false;
	(void)mt_loader_iterate(add_object, &look);
	is_tight = look.is_wanted && look.mapped_bytes <= limit.rlim_cur &&
		   limit.rlim_cur - look.mapped_bytes < JEMALLOC_BYTES && !may_lock_anything();
	if (is_tight)
		mt_log(MT_LOG_INFO,
		       "the program calls mlockall and may lock %llu MB: libc's malloc serves, "
		       "jemalloc would not fit",
		       (unsigned long long)(limit.rlim_cur / MT_MIB));
	return is_tight;
}
