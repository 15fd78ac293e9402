/* sys/loader.c -- walk_first, and the code that runs in it, must not use a relocated word or a
 * function of libc. The Makefile compiles this file so that the compiler adds none. Sources: the
 * GNU hash section as binutils writes it, and the symbol versioning of the LSB. */
#include "sys/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"

/* ---- the loaded objects ---- */

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

/* Calls visit for each loaded object in load order, until visit returns true. Skips this library
 * and objects without a dynamic section. context: passed to visit. Returns whether visit returned
 * true. Uses dl_iterate_phdr(3), so other threads may load and unload meanwhile. */
static bool walk_all(bool (*visit)(const struct mt_elf_object *object, void *context),
		     void *context)
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

/* As walk_all, over the loader's list for debuggers (r_debug). Calls no function of libc: safe
 * before this library is relocated, and inside the start of a sanitizer's runtime that interposes
 * dl_iterate_phdr. Takes no lock: visit must end the walk before it reaches an object that can be
 * unloaded. */
static bool walk_first(bool (*visit)(const struct mt_elf_object *object, void *context),
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

/* ---- their symbols ---- */

/* The oldest symbol version of each architecture: dlsym has it until glibc 2.34 moves dlsym from
 * libdl into libc. */
#if defined(__x86_64__)
#define BASE_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define BASE_VERSION "GLIBC_2.17"
#else
#error "which version does libc begin with here?"
#endif
#define MERGED_VERSION "GLIBC_2.34"

#define VERSION_HIDDEN 0x8000u

/* The tables of an object's dynamic section; NULL if one is missing. */
struct tables {
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *gnu_hash;
	const ElfW(Half) * versions;
	const ElfW(Verdef) * definitions;
	const char *soname;
};

/* ---- text: libc's functions may not be relocated yet ---- */

static bool begins_with(const char *text, const char *prefix)
{
	while (*prefix && *text == *prefix) {
		text++;
		prefix++;
	}
	return !*prefix;
}

static const char *last_part(const char *path)
{
	const char *part = path;

	for (; *path; path++)
		if (*path == '/')
			part = path + 1;
	return part;
}

/* ---- one object ---- */

static bool read_tables(const struct mt_elf_object *object, struct tables *out)
{
	ElfW(Addr) soname = 0;
	bool named = false;

	*out = (struct tables){0};
	for (const ElfW(Dyn) *at = object->dynamic; at->d_tag != DT_NULL; at++) {
		const void *table = mt_loader_at(object, at->d_un.d_ptr);

		if (at->d_tag == DT_SYMTAB)
			out->symbols = table;
		else if (at->d_tag == DT_STRTAB)
			out->strings = table;
		else if (at->d_tag == DT_GNU_HASH)
			out->gnu_hash = table;
		else if (at->d_tag == DT_VERSYM)
			out->versions = table;
		else if (at->d_tag == DT_VERDEF)
			out->definitions = table;
		else if (at->d_tag == DT_SONAME) {
			soname = at->d_un.d_val;
			named = true;
		}
	}
	if (!out->symbols || !out->strings)
		return false;
	out->soname = named ? out->strings + soname : NULL;
	return true;
}

static const char *version_name(const struct tables *tables, unsigned index)
{
	const ElfW(Verdef) *at = tables->definitions;

	while (at) {
		if (at->vd_ndx == index) {
			const ElfW(Verdaux) *name = (const void *)((const char *)at + at->vd_aux);

			return tables->strings + name->vda_name;
		}
		at = at->vd_next ? (const void *)((const char *)at + at->vd_next) : NULL;
	}
	return NULL;
}

enum fit { FIT_NONE, FIT_OLD, FIT_EXACT };

/* A hidden version serves only binaries that were linked against it. */
static enum fit fit_of(const struct tables *tables, uint32_t index, const char *symbol,
		       const char *version)
{
	const ElfW(Sym) *at = &tables->symbols[index];
	unsigned type = ELF64_ST_TYPE(at->st_info);
	unsigned versym = tables->versions ? tables->versions[index] : 1;
	const char *name;

	if (at->st_shndx == SHN_UNDEF ||
	    (type != STT_FUNC && type != STT_OBJECT && type != STT_NOTYPE) ||
	    !mt_loader_is_same(tables->strings + at->st_name, symbol))
		return FIT_NONE;
	if (!version)
		return versym & VERSION_HIDDEN ? FIT_OLD : FIT_EXACT;
	name = version_name(tables, versym & ~VERSION_HIDDEN);
	return name && mt_loader_is_same(name, version) ? FIT_EXACT : FIT_NONE;
}

/* Stores a match in *found. Returns true if no better match is possible. */
static bool keep_match(const struct mt_elf_object *object, const struct tables *tables,
		       uint32_t index, enum fit fit, void **found)
{
	if (fit == FIT_EXACT || (fit == FIT_OLD && !*found))
		*found = (void *)(object->base + tables->symbols[index].st_value);
	return fit == FIT_EXACT;
}

/* Finds nothing in an object without DT_GNU_HASH: linkers write it since 2006, musl too. */
static void *find_in(const struct mt_elf_object *object, const struct tables *tables,
		     const char *symbol, const char *version)
{
	const uint32_t *table = tables->gnu_hash, *buckets, *chain;
	uint32_t hash = 5381, index;
	void *found = NULL;

	if (!table || !table[0])
		return NULL;
	buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / 4);
	chain = buckets + table[0];
	for (const char *at = symbol; *at; at++)
		hash = hash * 33 + (unsigned char)*at;
	index = buckets[hash % table[0]];
	if (index < table[1])
		return NULL;
	for (;; index++) {
		uint32_t word = chain[index - table[1]];

		if ((word | 1) == (hash | 1) &&
		    keep_match(object, tables, index, fit_of(tables, index, symbol, version),
			       &found))
			break;
		if (word & 1)
			break;
	}
	return found;
}

static bool is_named(const struct mt_elf_object *object, const struct tables *tables,
		     const char *name)
{
	return (tables->soname && mt_loader_is_same(name, tables->soname)) ||
	       mt_loader_is_same(name, last_part(object->path));
}

/* ---- searches ---- */

struct path_query {
	const char *name;
	char *path;
	size_t path_bytes;
};

static bool match_path(const struct mt_elf_object *object, void *context)
{
	struct path_query *path_query = context;
	struct tables tables;
	size_t i = 0;

	if (!read_tables(object, &tables) || !is_named(object, &tables, path_query->name))
		return false;
	for (; object->path[i]; i++) {
		if (i + 1 >= path_query->path_bytes)
			return false;
		path_query->path[i] = object->path[i];
	}
	path_query->path[i] = '\0';
	return true;
}

bool mt_loader_path(const char *soname, char *out, size_t out_bytes)
{
	struct path_query path_query = {.name = soname, .path = out, .path_bytes = out_bytes};

	return out_bytes && walk_all(match_path, &path_query);
}

static bool is_libc_name(const char *name)
{
	return mt_loader_is_same(name, "libc.so.6") || mt_loader_is_same(name, "libdl.so.2") ||
	       begins_with(name, "ld-musl-") || begins_with(name, "libc.musl-");
}

static bool is_libc(const struct mt_elf_object *object, const struct tables *tables)
{
	return (tables->soname && is_libc_name(tables->soname)) ||
	       is_libc_name(last_part(object->path));
}

struct function_query {
	const char *name;
	void *found;
	const char *path;
};

static bool match_libc(const struct mt_elf_object *object, void *context)
{
	struct function_query *query = context;
	struct tables tables;

	if (!read_tables(object, &tables) || !is_libc(object, &tables))
		return false;
	query->found = find_in(object, &tables, query->name, NULL);
	query->path = object->path;
	return query->found != NULL;
}

const char *mt_loader_libc_path(const char *name, const void *function)
{
	struct function_query query = {.name = name};

	if (function)
		(void)walk_first(match_libc, &query);
	return function && query.found == function ? query.path : NULL;
}

void *mt_loader_libc_function(const char *name)
{
	struct function_query query = {.name = name};

	(void)walk_first(match_libc, &query);
	return query.found;
}

static bool match_any(const struct mt_elf_object *object, void *context)
{
	struct function_query *query = context;
	struct tables tables;

	query->found =
		read_tables(object, &tables) ? find_in(object, &tables, query->name, NULL) : NULL;
	return query->found != NULL;
}

void *mt_loader_first_function(const char *name)
{
	struct function_query query = {.name = name};

	(void)walk_all(match_any, &query);
	return query.found;
}

struct beside_query {
	struct function_query anchor, wanted;
};

static bool match_beside(const struct mt_elf_object *object, void *context)
{
	struct beside_query *query = context;

	if (!query->wanted.found)
		(void)match_any(object, &query->wanted);
	return match_any(object, &query->anchor);
}

/* Returns the function or object `name` of the first loaded object that defines it. The search ends
 * at the first object that defines `anchor`; *out_anchor receives that address. NULL in both where
 * no object defines the anchor. An object that another thread loads now may not be relocated. */
static void *find_beside(const char *anchor, const char *name, void **out_anchor)
{
	struct beside_query query = {.anchor = {.name = anchor}, .wanted = {.name = name}};

	(void)walk_all(match_beside, &query);
	*out_anchor = query.anchor.found;
	return query.anchor.found ? query.wanted.found : NULL;
}

struct several_query {
	const char *const *names;
	void **out;
	size_t count;
};

static bool match_several(const struct mt_elf_object *object, void *context)
{
	struct several_query *query = context;
	struct tables tables;

	if (!read_tables(object, &tables) || !is_named(object, &tables, "libc.so.6"))
		return false;
	for (size_t i = 0; i < query->count; i++)
		query->out[i] = find_in(object, &tables, query->names[i], NULL);
	return true;
}

static void find_several(bool (*match)(const struct mt_elf_object *object, void *context),
			 struct several_query *query)
{
	for (size_t i = 0; i < query->count; i++)
		query->out[i] = NULL;
	(void)walk_first(match, query);
}

void mt_loader_libc_functions(const char *const *names, void **out, size_t count)
{
	find_several(match_several, &(struct several_query){names, out, count});
}

/* A second copy of this library only passes on. */
static bool is_other_copy(const struct mt_elf_object *object, const struct tables *tables)
{
	return find_in(object, tables, "mt_allocator_type", NULL) != NULL;
}

static bool match_next(const struct mt_elf_object *object, void *context)
{
	struct several_query *query = context;
	struct tables tables;
	bool is_last;

	if (!read_tables(object, &tables))
		return false;
	/* not libdl.so.2, which has no malloc and may stand before libc.so.6 */
	is_last = is_libc(object, &tables) && find_in(object, &tables, "malloc", NULL);
	if (!is_last && (!object->is_behind || is_other_copy(object, &tables)))
		return false;
	for (size_t i = 0; i < query->count; i++)
		if (!query->out[i])
			query->out[i] = find_in(object, &tables, query->names[i], NULL);
	return is_last;
}

void mt_loader_next_functions(const char *const *names, void **out, size_t count)
{
	find_several(match_next, &(struct several_query){names, out, count});
}

bool mt_loader_is_libc_function(const char *name, const void *function)
{
	void *found;

	mt_loader_libc_functions(&name, &found, 1);
	return function && found == function;
}

static int count_loads(struct dl_phdr_info *info, size_t bytes, void *context)
{
	unsigned long long *out = context;

	if (bytes >= offsetof(struct dl_phdr_info, dlpi_subs))
		*out = info->dlpi_adds;
	return 1;
}

unsigned long long mt_loader_load_count(void)
{
	unsigned long long loads = 0;

	(void)mt_loader_iterate(count_loads, &loads);
	return loads;
}

/* ---- the functions that this library calls ---- */

#if defined(__x86_64__)
#define IS_SLOT(type) ((type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_JUMP_SLOT)
#else
#define IS_SLOT(type) ((type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_JUMP_SLOT)
#endif

extern const char own_begin[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));

/* The files of libc that are loaded; before 2.34 there were several. */
#define LIBC_FILES_MOST 8u
struct libc_files {
	struct mt_elf_object objects[LIBC_FILES_MOST];
	ElfW(Addr) bytes[LIBC_FILES_MOST]; /* mapped from the base on */
	size_t count;
	bool is_behind_us; /* else the list is another namespace's */
};

/* A file of libc's begins with its ELF header; its segments lie in ascending order. */
static ElfW(Addr) mapped_bytes(const struct mt_elf_object *object)
{
	const ElfW(Ehdr) *header = (const void *)object->base;
	const ElfW(Phdr) *at = (const void *)(object->base + header->e_phoff);
	ElfW(Addr) end = 0;

	for (unsigned i = 0; i < header->e_phnum; i++)
		if (at[i].p_type == PT_LOAD)
			end = at[i].p_vaddr + at[i].p_memsz;
	return end;
}

/* Ends at the loader, behind what the program needs: what follows may be unloaded. */
static bool note_libc_file(const struct mt_elf_object *object, void *context)
{
	struct libc_files *files = context;
	const char *name = last_part(object->path);
	bool is_loader = begins_with(name, "ld-linux-");

	if (files->count < LIBC_FILES_MOST && object->base && /* 0: prelinked */
	    (is_loader || is_libc_name(name) || begins_with(name, "libpthread.so."))) {
		files->bytes[files->count] = mapped_bytes(object);
		files->objects[files->count++] = *object;
	}
	files->is_behind_us = files->is_behind_us || object->is_behind;
	return is_loader;
}

/* Returns libc's own function if the address is not in libc and libc has one; else 0. */
static ElfW(Addr) libcs_own(const struct libc_files *files, ElfW(Addr) address, const char *name)
{
	struct function_query sanitizer = {.name = "__sanitizer_print_stack_trace"};
	void *found = NULL;
	struct tables tables;

	for (size_t i = 0; i < files->count; i++)
		if (address - files->objects[i].base < files->bytes[i])
			return 0;
	for (size_t i = 0; i < files->count && !found; i++)
		if (read_tables(&files->objects[i], &tables))
			found = find_in(&files->objects[i], &tables, name, NULL);
	/* a sanitizer's runtime wants to see each call */
	return !found || walk_first(match_any, &sanitizer) ? 0 : (ElfW(Addr))found;
}

#define PAGE_LEAST 4096
#define PAGE_MOST  65536

/* The loader has made the page read-only. sysconf may be the program's. */
static void set_slot(ElfW(Addr) * slot, ElfW(Addr) value)
{
	for (long bytes = PAGE_LEAST; bytes <= PAGE_MOST; bytes *= 2) {
		long page = (long)slot & -bytes;

		if (mt_raw_syscall_asm(SYS_mprotect, page, bytes, PROT_READ | PROT_WRITE, 0, 0,
				       0) != 0)
			continue;
		*slot = value;
		(void)mt_raw_syscall_asm(SYS_mprotect, page, bytes, PROT_READ, 0, 0, 0);
		return;
	}
}

static void bind_slots(const struct mt_elf_object *own, const struct libc_files *files,
		       const ElfW(Rela) * slots, size_t bytes)
{
	struct tables tables;

	if (!read_tables(own, &tables))
		return;
	for (size_t i = 0; i < bytes / sizeof(*slots); i++) {
		const ElfW(Sym) *symbol = &tables.symbols[ELF64_R_SYM(slots[i].r_info)];
		ElfW(Addr) *slot = (void *)(own->base + slots[i].r_offset), value;

		if (!IS_SLOT(ELF64_R_TYPE(slots[i].r_info)) || symbol->st_shndx != SHN_UNDEF ||
		    ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
			continue;
		value = libcs_own(files, *slot, tables.strings + symbol->st_name);
		if (value)
			set_slot(slot, value);
	}
}

void mt_loader_bind_to_libc(void)
{
	const struct mt_elf_object own = {(ElfW(Addr))own_begin, own_dynamic, "", false};
	const ElfW(Rela) *variables = NULL, *calls = NULL;
	size_t variables_bytes = 0, calls_bytes = 0, relative = 0;
	struct libc_files files = {.count = 0};

	for (const ElfW(Dyn) *at = own_dynamic; at->d_tag != DT_NULL; at++) {
		if (at->d_tag == DT_RELA)
			variables = mt_loader_at(&own, at->d_un.d_ptr);
		else if (at->d_tag == DT_RELASZ)
			variables_bytes = at->d_un.d_val;
		else if (at->d_tag == DT_RELACOUNT) /* first in the table */
			relative = at->d_un.d_val;
		else if (at->d_tag == DT_JMPREL)
			calls = mt_loader_at(&own, at->d_un.d_ptr);
		else if (at->d_tag == DT_PLTRELSZ)
			calls_bytes = at->d_un.d_val;
	}
	(void)walk_first(note_libc_file, &files);
	if (!files.is_behind_us)
		return;
	bind_slots(&own, &files, calls, calls_bytes);
	bind_slots(&own, &files, variables + relative,
		   variables_bytes - relative * sizeof(*variables));
}

/* ---- libc's dlsym and dlvsym ---- */

/* libc's functions: of version GLIBC_2.34, else libdl's oldest, else any. Each word changes from
 * NULL to its value, and perhaps once more, in the constructor, to another library's function. All
 * threads store the same values: relaxed. Not static: heap/dlsym_entries.S jumps there. */
extern _Atomic(void *) mt_elf_real_dlsym;
extern _Atomic(void *) mt_elf_real_dlvsym;
_Atomic(void *) mt_elf_real_dlsym;
_Atomic(void *) mt_elf_real_dlvsym;

enum rank { RANK_NONE, RANK_ANY, RANK_BASE, RANK_MERGED };
struct discovery {
	enum rank rank;
	void *dlsym;
	void *dlvsym;
};

static void consider(const struct mt_elf_object *object, const struct tables *tables,
		     const char *version, enum rank rank, struct discovery *out)
{
	void *found = rank > out->rank ? find_in(object, tables, "dlsym", version) : NULL;

	if (!found)
		return;
	out->rank = rank;
	out->dlsym = found;
	out->dlvsym = find_in(object, tables, "dlvsym", version);
}

static bool discover_in(const struct mt_elf_object *object, void *context)
{
	struct discovery *discovery = context;
	struct tables tables;

	if (!read_tables(object, &tables) || !is_libc(object, &tables))
		return false;
	consider(object, &tables, MERGED_VERSION, RANK_MERGED, discovery);
	consider(object, &tables, BASE_VERSION, RANK_BASE, discovery);
	consider(object, &tables, NULL, RANK_ANY, discovery);
	/* If libc has none the walk continues to libdl, which was loaded with the program
	 * too. */
	return discovery->rank >= RANK_BASE;
}

void mt_loader_discover(void);

MT_COLD void mt_loader_discover(void)
{
	struct discovery discovery = {0};

	(void)walk_first(discover_in, &discovery);
	mt_store_relaxed(&mt_elf_real_dlvsym, discovery.dlvsym);
	mt_store_relaxed(&mt_elf_real_dlsym, discovery.dlsym);
}

typedef void *(*dlvsym_fn)(void *handle, const char *name, const char *version);

static void *known(_Atomic(void *) *word)
{
	void *real = mt_load_relaxed(word);

	if (mt_likely(real))
		return real;
	mt_loader_discover();
	return mt_load_relaxed(word);
}

mt_dlsym_fn mt_loader_dlsym(void)
{
	mt_dlsym_fn real;

	*(void **)(void *)&real = known(&mt_elf_real_dlsym);
	return real;
}

static dlvsym_fn loader_dlvsym(void)
{
	dlvsym_fn real;

	*(void **)(void *)&real = known(&mt_elf_real_dlvsym);
	return real;
}

void *mt_loader_look_up(void *handle, const char *name, const char *version)
{
	mt_dlsym_fn by_name = mt_loader_dlsym();
	dlvsym_fn by_version = loader_dlvsym();

	if (version)
		return by_version ? by_version(handle, name, version) : NULL;
	return by_name ? by_name(handle, name) : NULL;
}

/* ---- symbol ---- */

/* libc's dlsym, once the program's calls are forwarded to another library's. */
static _Atomic(mt_dlsym_fn) libcs;

void *mt_loader_symbol(void *handle, const char *name)
{
	mt_dlsym_fn kept = mt_load_acquire(&libcs);
	mt_dlsym_fn find = kept ? kept : mt_loader_dlsym();
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

/* libc's _dl_find_object, which takes no lock; find_nothing if libc has none. The loader enters
 * an object there after its relocation, before its constructors. Set once; all threads store the
 * same value, no ordering. Source: dl_open_worker_begin() of glibc. */
static _Atomic(find_object_fn) find_object;

static find_object_fn object_finder(void)
{
	find_object_fn found = mt_load_relaxed(&find_object);

	if (found)
		return found;
	*(void **)(void *)&found = mt_loader_first_function("_dl_find_object");
	if (!found)
		found = find_nothing;
	mt_store_relaxed(&find_object, found);
	return found;
}

void *mt_loader_symbol_beside(const char *anchor, const char *name)
{
	find_object_fn find = object_finder();
	struct found_object object;
	void *at_anchor;
	void *found;

	if (find == find_nothing || mt_loader_is_forked())
		return mt_loader_symbol(RTLD_DEFAULT, name);
	found = find_beside(anchor, name, &at_anchor);
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

MT_COLD void mt_loader_use_next_dlsym(void)
{
	void *by_name = mt_loader_symbol(RTLD_NEXT, "dlsym");
	void *by_version;

	/* The common case is libc's; dladdr(3) would compare the address with each of its
	 * symbols. */
	if (mt_loader_libc_path("dlsym", by_name) || is_libcs(by_name))
		return;
	by_version = mt_loader_symbol(RTLD_NEXT, "dlvsym");
	mt_store_release(&libcs, mt_loader_dlsym());
	if (!is_libcs(by_version))
		mt_store_relaxed(&mt_elf_real_dlvsym, by_version);
	mt_store_relaxed(&mt_elf_real_dlsym, by_name);
}
