#include "python/objects.h"

#include <string.h>
#include <sys/resource.h>

#include "python/cpython.h"
#include "python/python_internal.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/lock.h"
#include "sys/saturating.h"

#define CLASS_SHIFT 4
#define CLASS_COUNT MT_OBJECT_CLASS_COUNT
#define MOST_BYTES  1024u
/* Classes in steps of 16; of the others a page holds 7, 6, 5 and 4 blocks. */
#define FINE_COUNT 32u
/* the share of RLIMIT_AS that may be reserved beyond what is used */
#define SPARE_SHARE 8
/* blocks that are put on the free list of a page at a time */
#define MADE_AT_ONCE 8u
/* lists of partly used pages: in list 1 at least half of the blocks are live */
#define LIST_COUNT 2u
enum { LIST_CURRENT = LIST_COUNT, LIST_FULL };
/* The page that blocks are taken from is not looked at when its blocks are freed: as if it had more
 * live blocks than it can have freed. */
#define CURRENT_COUNT 0x10000u

/* What each call reads, together. */
static struct {
	char *base;
	size_t bytes; /* of the range; 0 while each call has to take the lock */
	struct mt_object_page *table;
	struct mt_object_page *current[CLASS_COUNT];
} heap __attribute__((aligned(64)));

/* Placeholder for "no current page" in heap.current: never has a free block. */
static struct mt_object_page no_page;

static uint32_t lists[CLASS_COUNT][LIST_COUNT]; /* the first page of each; under the GIL */
static struct mt_object_range range;

/* While calls are shared, heap.current holds only no_page and the real ones are here. */
static _Atomic bool is_shared; /* changed while one thread alone calls */
static struct mt_object_page *shared_current[CLASS_COUNT];
static struct mt_lock lock = MT_LOCK(objects);

static uint32_t index_of(const struct mt_object_page *page)
{
	return (uint32_t)(page - range.table);
}

static char *first_block(const struct mt_object_page *page)
{
	return range.base + ((size_t)index_of(page) << MT_OBJECT_PAGE_SHIFT);
}

static const uint16_t coarse_bytes[CLASS_COUNT - FINE_COUNT] = {576, 672, 816, MOST_BYTES};

static size_t block_bytes(uint32_t size_class)
{
	return size_class < FINE_COUNT ? (size_t)(size_class + 1) << CLASS_SHIFT
				       : coarse_bytes[size_class - FINE_COUNT];
}

/* size: 1 to MOST_BYTES */
static uint32_t class_of(size_t size)
{
	uint32_t size_class = (uint32_t)((size - 1) >> CLASS_SHIFT);

	if (mt_likely(size_class < FINE_COUNT))
		return size_class;
	return FINE_COUNT + (size > coarse_bytes[0]) + (size > coarse_bytes[1]) +
	       (size > coarse_bytes[2]);
}

static uint16_t capacities[CLASS_COUNT];

static uint32_t capacity_of(uint32_t size_class)
{
	return capacities[size_class];
}

/* ---- lists of partly used pages ---- */

static void add_to_list(struct mt_object_page *page, uint32_t list)
{
	uint32_t *first = &lists[page->size_class][list];

	page->list = (uint8_t)list;
	page->prev = MT_OBJECT_PAGE_NONE;
	page->next = *first;
	if (*first != MT_OBJECT_PAGE_NONE)
		range.table[*first].prev = index_of(page);
	*first = index_of(page);
}

static void remove_from_list(const struct mt_object_page *page)
{
	if (page->prev == MT_OBJECT_PAGE_NONE)
		lists[page->size_class][page->list] = page->next;
	else
		range.table[page->prev].next = page->next;
	if (page->next != MT_OBJECT_PAGE_NONE)
		range.table[page->next].prev = page->prev;
}

static uint32_t live_count(const struct mt_object_page *page)
{
	return page->countdown + page->floor_count;
}

/* The next look is due when so few blocks are live. */
static void set_floor(struct mt_object_page *page, uint32_t live, uint32_t floor)
{
	page->floor_count = floor;
	page->countdown = live - floor;
}

/* Puts the page in the list for what it holds; free when it holds nothing. */
static void file_page(struct mt_object_page *page, uint32_t live)
{
	uint32_t half = capacity_of(page->size_class) / 2;
	uint32_t list = live > half;

	if (live == 0) {
		page->used = false;
		mt_object_pages_return(index_of(page));
		return;
	}
	set_floor(page, live, list ? half : 0);
	add_to_list(page, list);
}

/* The page has no free block. It is worth a look when an eighth of it is free. */
static void retire(struct mt_object_page *page)
{
	uint32_t capacity = capacity_of(page->size_class);
	uint32_t live = live_count(page);
	uint32_t wanted = capacity / 8 ? capacity / 8 : 1;

	page->list = LIST_FULL;
	set_floor(page, live, live > wanted ? live - wanted : 0);
}

/* Its countdown has reached 0. */
static MT_COLD void look_at(struct mt_object_page *page)
{
	if (page->list < LIST_COUNT)
		remove_from_list(page);
	file_page(page, page->floor_count);
}

/* ---- the current pages ---- */

static struct mt_object_page **current_of(uint32_t size_class)
{
	return is_shared ? &shared_current[size_class] : &heap.current[size_class];
}

/* Puts more blocks on the free list; false: all are made. */
static bool make_blocks(struct mt_object_page *page)
{
	uint32_t capacity = capacity_of(page->size_class);
	size_t bytes = block_bytes(page->size_class);
	uint32_t count = capacity - page->made_count;
	char *block = first_block(page) + page->made_count * bytes;

	if (!count)
		return false;
	if (count > MADE_AT_ONCE)
		count = MADE_AT_ONCE;
	page->free = block;
	page->made_count = (uint16_t)(page->made_count + count);
	for (; count > 1; count--, block += bytes)
		*(void **)(void *)block = block + bytes;
	*(void **)(void *)block = NULL;
	return true;
}

static struct mt_object_page *take_listed(uint32_t size_class)
{
	for (uint32_t list = LIST_COUNT; list-- > 0;) {
		uint32_t index = lists[size_class][list];

		if (index != MT_OBJECT_PAGE_NONE) {
			remove_from_list(&range.table[index]);
			return &range.table[index];
		}
	}
	return NULL;
}

static struct mt_object_page *take_free(uint32_t size_class, uint64_t *out_fresh)
{
	uint32_t index = mt_object_pages_take(size_class, out_fresh);
	struct mt_object_page *page;

	if (index == MT_OBJECT_PAGE_NONE)
		return NULL;
	page = &range.table[index];
	page->used = true;
	page->free = NULL;
	page->made_count = 0;
	page->size_class = (uint8_t)size_class;
	set_floor(page, 0, 0);
	return page;
}

/* Makes a page with free blocks the current one; NULL: there is no memory. */
static struct mt_object_page *renew(uint32_t size_class, uint64_t *out_fresh)
{
	struct mt_object_page **current = current_of(size_class);
	struct mt_object_page *page = *current;

	if (page != &no_page) {
		if (page->free || make_blocks(page))
			return page;
		retire(page);
	}
	page = take_listed(size_class);
	if (!page)
		page = take_free(size_class, out_fresh);
	if (!page) {
		*current = &no_page;
		return NULL;
	}
	page->list = LIST_CURRENT;
	set_floor(page, live_count(page), 0u - CURRENT_COUNT);
	if (!page->free)
		(void)make_blocks(page);
	*current = page;
	mt_assert(page->free);
	return page;
}

/* ---- blocks ---- */

static inline void *pop(struct mt_object_page *page, void *block)
{
	mt_assert(page->free == block);
	memcpy(&page->free, block, sizeof(page->free));
	page->countdown++;
	return block;
}

/* True when the page is to be looked at. */
static inline bool push(struct mt_object_page *page, void *block)
{
	memcpy(block, &page->free, sizeof(page->free));
	page->free = block;
	return --page->countdown == 0;
}

static void *malloc_from(uint32_t size_class, uint64_t *out_fresh)
{
	struct mt_object_page *page = renew(size_class, out_fresh);

	return page ? pop(page, page->free) : NULL;
}

static MT_COLD void *malloc_slow(const struct mt_python_allocator *next, size_t size)
{
	bool shared = is_shared;
	uint64_t fresh = 0;
	void *block;

	if (shared)
		mt_lock_lock(&lock);
	block = malloc_from(class_of(size), &fresh);
	if (shared)
		mt_lock_unlock(&lock);
	if (fresh)
		mt_object_heap_grew(fresh);
	return block ? block : next->malloc(next->context, size);
}

static __attribute__((noinline)) void *malloc_coarse(const struct mt_python_allocator *next,
						     size_t size)
{
	struct mt_object_page *page;
	void *block;

	if (size - 1 >= MOST_BYTES) /* also 0 */
		return next->malloc(next->context, size);
	page = heap.current[class_of(size)];
	block = page->free;
	return mt_likely(block != NULL) ? pop(page, block) : malloc_slow(next, size);
}

void *mt_objects_malloc(void *context, size_t size)
{
	size_t size_class = (size - 1) >> CLASS_SHIFT; /* of 0: none */
	struct mt_object_page *page;
	void *block;

	if (mt_unlikely(size_class >= FINE_COUNT))
		return malloc_coarse(context, size);
	page = heap.current[size_class];
	block = page->free;
	if (mt_unlikely(!block))
		return malloc_slow(context, size);
	return pop(page, block);
}

void *mt_objects_calloc(void *context, size_t count, size_t size)
{
	const struct mt_python_allocator *next = context;
	size_t bytes;
	void *block;

	if (__builtin_mul_overflow(count, size, &bytes) || bytes - 1 >= MOST_BYTES)
		return next->calloc(next->context, count, size);
	block = mt_objects_malloc(context, bytes);
	return block ? memset(block, 0, bytes) : NULL;
}

/* Returns whether the block is in the range, also if calls are shared. */
static bool owns(const void *block)
{
	return (size_t)((const char *)block - range.base) < range.bytes;
}

static struct mt_object_page *page_of(const void *block)
{
	mt_assert(owns(block));
	return &range.table[(size_t)((const char *)block - range.base) >> MT_OBJECT_PAGE_SHIFT];
}

static MT_COLD void free_slow(const struct mt_python_allocator *next, void *block)
{
	if (!is_shared || !owns(block)) {
		next->free(next->context, block);
		return;
	}
	mt_lock_lock(&lock);
	if (push(page_of(block), block))
		look_at(page_of(block));
	mt_lock_unlock(&lock);
	mt_object_pages_tell_returned();
}

static MT_COLD void look_after_free(struct mt_object_page *page)
{
	look_at(page);
	mt_object_pages_tell_returned();
}

void mt_objects_free(void *context, void *block)
{
	size_t offset = (size_t)((char *)block - heap.base);
	struct mt_object_page *page;

	if (mt_unlikely(offset >= heap.bytes)) {
		free_slow(context, block);
		return;
	}
	page = &heap.table[offset >> MT_OBJECT_PAGE_SHIFT];
	if (mt_unlikely(push(page, block)))
		look_after_free(page);
}

/* A block keeps its place while it fills more than three quarters of it, as pymalloc's do. */
void *mt_objects_realloc(void *context, void *block, size_t size)
{
	const struct mt_python_allocator *next = context;
	size_t had;
	void *fresh;

	if (!block)
		return mt_objects_malloc(context, size);
	if (!owns(block))
		return next->realloc(next->context, block, size);
	had = block_bytes(page_of(block)->size_class);
	mt_assert(had >= 1 && had <= MOST_BYTES);
	if (size <= had && 4 * size > 3 * had)
		return block;
	fresh = mt_objects_malloc(context, size);
	if (!fresh)
		return size <= had ? block : NULL;
	memcpy(fresh, block, size < had ? size : had);
	mt_objects_free(context, block);
	return fresh;
}

/* ---- the rest ---- */

bool mt_objects_start(size_t range_bytes)
{
	/* Python has been finalized and starts again: blocks of its first life are still in use. */
	if (range.base)
		return true;
	if (!mt_object_pages_start(range_bytes, &range))
		return false;
	memset(lists, 0xff, sizeof(lists)); /* MT_OBJECT_PAGE_NONE */
	for (uint32_t i = 0; i < CLASS_COUNT; i++) {
		heap.current[i] = &no_page;
		capacities[i] = (uint16_t)(MT_OBJECT_PAGE_BYTES / block_bytes(i));
	}
	heap.base = range.base;
	heap.table = range.table;
	heap.bytes = range.bytes;
	return true;
}

void mt_objects_share(bool shared)
{
	if (shared == is_shared)
		return;
	for (uint32_t i = 0; i < CLASS_COUNT; i++) {
		struct mt_object_page *page = shared_current[i];

		shared_current[i] = heap.current[i];
		heap.current[i] = shared ? &no_page : page;
	}
	heap.bytes = shared ? 0 : range.bytes;
	is_shared = shared;
}

static uint64_t live_bytes(void)
{
	uint32_t top = mt_object_pages_top();
	uint64_t live = 0;

	for (uint32_t i = 0; i < top; i++) {
		const struct mt_object_page *page = &range.table[i];

		if (!__atomic_load_n(&page->used, __ATOMIC_RELAXED))
			continue;
		live += (uint64_t)(uint16_t)(__atomic_load_n(&page->countdown, __ATOMIC_RELAXED) +
					     __atomic_load_n(&page->floor_count,
							     __ATOMIC_RELAXED)) *
			block_bytes(__atomic_load_n(&page->size_class, __ATOMIC_RELAXED));
	}
	return live;
}

/* exact: reads each page. Else the free bytes inside used pages count as at the last exact
 * reading. */
void mt_objects_read(struct mt_object_heap_figures *out, bool exact)
{
	static _Atomic uint64_t unused_bytes; /* of the used ones; no ordering */
	struct mt_object_pages_figures pages;

	memset(out, 0, sizeof(*out));
	if (!range.base)
		return;
	mt_object_pages_read(&pages);
	out->used_bytes = pages.used_bytes;
	out->dirty_bytes = pages.dirty_bytes;
	out->allocated_bytes = pages.taken_bytes;
	out->freed_bytes = pages.returned_bytes;
	if (exact)
		mt_store_relaxed(&unused_bytes, mt_sat_sub(pages.used_bytes, live_bytes()));
	out->live_bytes = mt_sat_sub(pages.used_bytes, mt_load_relaxed(&unused_bytes));
}

/* Under the lock if calls are shared: shared calls read range.bytes, not heap.bytes. */
static void narrow(size_t bytes)
{
	range.bytes = bytes;
	if (heap.bytes)
		heap.bytes = bytes;
}

void mt_objects_limit(uint64_t address_bytes, uint64_t data_bytes)
{
	uint64_t spare = address_bytes > MT_LIMITED_BYTES ? address_bytes / SPARE_SHARE : 0;

	if (address_bytes != UINT64_MAX)
		mt_object_pages_shrink(spare, narrow);
	if (data_bytes != UINT64_MAX)
		mt_object_pages_limit(data_bytes);
}

void mt_objects_fork_child(void)
{
	mt_lock_reset(&lock);
}

/* ---- object domains ---- */

/* Address space; memory only as far as it is used. If RLIMIT_AS is set: a share of it. */
#define RANGE_BYTES ((size_t)64 << 30)
#define LIMIT_SHARE 8
/* Versions whose allocators were read: Objects/obmalloc.c. */
#define OLDEST_MINOR   9
#define DOMAINS_NEWEST 14
/* From this version on an interpreter may have a GIL of its own. */
#define OWN_GIL_MINOR 12
/* No structure that CPython makes of the domain RAW with calloc is larger but PyInterpreterState.
 */
#define INTERPRETER_LEAST_BYTES ((size_t)64 << 10)

/* What served each domain before; by domain. Written before the heap is set. */
static struct mt_python_allocator before[3];

/* ---- interpreters with a GIL of their own ---- */

/* CPython makes an interpreter by one PyMem_RawCalloc, on a thread that holds the GIL of the
 * interpreter that makes it. Source: alloc_interpreter() in Python/pystate.c, 3.12 to 3.14. */
static void *raw_calloc(void *context, size_t count, size_t size)
{
	(void)context;
	if (size >= INTERPRETER_LEAST_BYTES && mt_cpython.Py_IsInitialized())
		mt_objects_share(true);
	return before[MT_PYTHON_DOMAIN_RAW].calloc(before[MT_PYTHON_DOMAIN_RAW].context, count,
						   size);
}

static void watch_interpreters(void)
{
	struct mt_python_allocator raw;

	mt_cpython.PyMem_GetAllocator(MT_PYTHON_DOMAIN_RAW, &raw);
	if (raw.calloc == raw_calloc)
		return;
	before[MT_PYTHON_DOMAIN_RAW] = raw;
	raw.calloc = raw_calloc;
	mt_cpython.PyMem_SetAllocator(MT_PYTHON_DOMAIN_RAW, &raw);
}

/* ---- taking the domains ---- */

static bool has_api(void)
{
	return mt_cpython_find() && mt_cpython.is_whole;
}

bool mt_objects_domains_are_taken(void)
{
	struct mt_python_allocator now;

	if (!has_api())
		return false;
	mt_cpython.PyMem_GetAllocator(MT_PYTHON_DOMAIN_OBJ, &now);
	return now.malloc == mt_objects_malloc;
}

/* 0: no version that is known. */
static unsigned known_minor(void)
{
	unsigned minor = mt_cpython_minor();

	return minor >= OLDEST_MINOR && minor <= DOMAINS_NEWEST ? minor : 0;
}

static uint64_t limit_of(__rlimit_resource_t resource)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

	(void)getrlimit(resource, &limit);
	return limit.rlim_cur;
}

static size_t range_bytes(void)
{
	uint64_t share = limit_of(RLIMIT_AS) / LIMIT_SHARE;

	/* whole words of the bit maps */
	return share >= RANGE_BYTES ? RANGE_BYTES : share & ~(((size_t)1 << 20) - 1);
}

static void take(int domain)
{
	struct mt_python_allocator ours = {
		.context = &before[domain],
		.malloc = mt_objects_malloc,
		.calloc = mt_objects_calloc,
		.realloc = mt_objects_realloc,
		.free = mt_objects_free,
	};

	mt_cpython.PyMem_GetAllocator(domain, &before[domain]);
	mt_cpython.PyMem_SetAllocator(domain, &ours);
}

bool mt_objects_domains_take(void)
{
	static const struct mt_object_heap_ops ops = {
		.read = mt_objects_read,
		.purge = mt_object_pages_purge,
		.limit = mt_objects_limit,
	};
	unsigned minor;

	if (mt_objects_domains_are_taken())
		return true;
	minor = has_api() ? known_minor() : 0;
	if (!minor || !mt_objects_start(range_bytes()))
		return false;
	mt_objects_limit(UINT64_MAX, limit_of(RLIMIT_DATA));
	mt_services_set_object_heap(&ops);
	if (minor >= OWN_GIL_MINOR)
		watch_interpreters();
	take(MT_PYTHON_DOMAIN_MEM);
	take(MT_PYTHON_DOMAIN_OBJ);
	return true;
}
