/* sys/elf.c -- contract: sys/elf.h. What this code must not use before relocation: sys/elf_walk.c.
 * Sources: the GNU hash section as binutils writes it, and the symbol versioning of the LSB. */
#include "sys/elf.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>

#include "sys/attr.h"
#include "sys/elf_walk.h"
#include "sys/loader.h"

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

static bool is_same(const char *one, const char *other)
{
	while (*one && *one == *other) {
		one++;
		other++;
	}
	return *one == *other;
}

static bool is_match(const char *glob, const char *text)
{
	const char *retry_glob = NULL;
	const char *retry_text = NULL;

	while (*text) {
		if (*glob == '*') {
			retry_glob = ++glob;
			retry_text = text;
		} else if (*glob == *text) {
			glob++;
			text++;
		} else if (retry_glob) {
			glob = retry_glob;
			text = ++retry_text;
		} else {
			return false;
		}
	}
	while (*glob == '*')
		glob++;
	return !*glob;
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
		const void *table = mt_elf_at(object, at->d_un.d_ptr);

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
	    !is_same(tables->strings + at->st_name, symbol))
		return FIT_NONE;
	if (!version)
		return versym & VERSION_HIDDEN ? FIT_OLD : FIT_EXACT;
	name = version_name(tables, versym & ~VERSION_HIDDEN);
	return name && is_same(name, version) ? FIT_EXACT : FIT_NONE;
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
		     const char *glob)
{
	return (tables->soname && is_match(glob, tables->soname)) ||
	       is_match(glob, last_part(object->path));
}

/* ---- searches ---- */

struct path_query {
	const char *glob;
	char *path;
	size_t path_bytes;
};

static bool match_path(const struct mt_elf_object *object, void *context)
{
	struct path_query *path_query = context;
	struct tables tables;
	size_t i = 0;

	if (!read_tables(object, &tables) || !is_named(object, &tables, path_query->glob))
		return false;
	for (; object->path[i]; i++) {
		if (i + 1 >= path_query->path_bytes)
			return false;
		path_query->path[i] = object->path[i];
	}
	path_query->path[i] = '\0';
	return true;
}

bool mt_elf_path(const char *soname_glob, char *out, size_t out_bytes)
{
	struct path_query path_query = {.glob = soname_glob, .path = out, .path_bytes = out_bytes};

	return out_bytes && mt_elf_walk(match_path, &path_query);
}

static bool is_libc_name(const char *name)
{
	return is_match("libc.so.6", name) || is_match("libdl.so.2", name) ||
	       is_match("ld-musl-*", name) || is_match("libc.musl-*", name);
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

const char *mt_elf_libc_path(const char *name, const void *function)
{
	struct function_query query = {.name = name};

	if (function)
		(void)mt_elf_walk_first(match_libc, &query);
	return function && query.found == function ? query.path : NULL;
}

void *mt_elf_libc_function(const char *name)
{
	struct function_query query = {.name = name};

	(void)mt_elf_walk_first(match_libc, &query);
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

void *mt_elf_first_function(const char *name)
{
	struct function_query query = {.name = name};

	(void)mt_elf_walk(match_any, &query);
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

void *mt_elf_beside(const char *anchor, const char *name, void **out_anchor)
{
	struct beside_query query = {.anchor = {.name = anchor}, .wanted = {.name = name}};

	(void)mt_elf_walk(match_beside, &query);
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
	(void)mt_elf_walk_first(match, query);
}

void mt_elf_libc_functions(const char *const *names, void **out, size_t count)
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

void mt_elf_next_functions(const char *const *names, void **out, size_t count)
{
	find_several(match_next, &(struct several_query){names, out, count});
}

bool mt_elf_is_libc_function(const char *name, const void *function)
{
	void *found;

	mt_elf_libc_functions(&name, &found, 1);
	return function && found == function;
}

static int count_loads(struct dl_phdr_info *info, size_t bytes, void *context)
{
	unsigned long long *out = context;

	if (bytes >= offsetof(struct dl_phdr_info, dlpi_subs))
		*out = info->dlpi_adds;
	return 1;
}

unsigned long long mt_elf_load_count(void)
{
	unsigned long long loads = 0;

	(void)mt_loader_iterate(count_loads, &loads);
	return loads;
}

/* ---- libc's dlsym and dlvsym ---- */

/* libc's functions: of version GLIBC_2.34, else libdl's oldest, else any. Each word changes from
 * NULL to its value, and perhaps once more, in the constructor, to another library's function. All
 * threads store the same values: relaxed. Not static: heap/dlsym_ARCH.S jumps there. */
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

void mt_elf_discover(void);

MT_COLD void mt_elf_discover(void)
{
	struct discovery discovery = {0};

	(void)mt_elf_walk_first(discover_in, &discovery);
	atomic_store_explicit(&mt_elf_real_dlvsym, discovery.dlvsym, memory_order_relaxed);
	atomic_store_explicit(&mt_elf_real_dlsym, discovery.dlsym, memory_order_relaxed);
}

static void *known(_Atomic(void *) *word)
{
	void *real = atomic_load_explicit(word, memory_order_relaxed);

	if (mt_likely(real))
		return real;
	mt_elf_discover();
	return atomic_load_explicit(word, memory_order_relaxed);
}

mt_dlsym_fn mt_elf_dlsym(void)
{
	mt_dlsym_fn real;

	*(void **)(void *)&real = known(&mt_elf_real_dlsym);
	return real;
}

mt_dlvsym_fn mt_elf_dlvsym(void)
{
	mt_dlvsym_fn real;

	*(void **)(void *)&real = known(&mt_elf_real_dlvsym);
	return real;
}

MT_COLD void mt_elf_forward_to(void *by_name, void *by_version)
{
	if (by_version)
		atomic_store_explicit(&mt_elf_real_dlvsym, by_version, memory_order_relaxed);
	if (by_name)
		atomic_store_explicit(&mt_elf_real_dlsym, by_name, memory_order_relaxed);
}

void *mt_elf_look_up(void *handle, const char *name, const char *version)
{
	mt_dlsym_fn by_name = mt_elf_dlsym();
	mt_dlvsym_fn by_version = mt_elf_dlvsym();

	if (version)
		return by_version ? by_version(handle, name, version) : NULL;
	return by_name ? by_name(handle, name) : NULL;
}
