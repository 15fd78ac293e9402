#include "python/object_domains.h"

#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

#include "sys/os.h"
#include "python/object_pages.h"
#include "python/symbol.h"

/* Address space; memory only as far as it is used. If RLIMIT_AS is set: a share of it. */
#define RANGE_BYTES ((size_t)64 << 30)
#define LIMIT_SHARE 8
/* Versions whose allocators were read: Objects/obmalloc.c. */
#define OLDEST_MINOR 9
#define NEWEST_MINOR 14
/* From this version on an interpreter may have a GIL of its own. */
#define OWN_GIL_MINOR 12
/* No structure that CPython makes of the domain RAW with calloc is larger but PyInterpreterState.
 */
#define INTERPRETER_LEAST_BYTES ((size_t)64 << 10)

struct domain_api {
	void (*PyMem_GetAllocator)(int, struct mt_python_allocator *);
	void (*PyMem_SetAllocator)(int, const struct mt_python_allocator *);
	const char *(*Py_GetVersion)(void);
	int (*Py_IsInitialized)(void);
};
static struct domain_api api;

/* What served each domain before; by domain. Written before the heap is set. */
static struct mt_python_allocator before[3];

/* ---- interpreters with a GIL of their own ---- */

/* CPython makes an interpreter by one PyMem_RawCalloc, on a thread that holds the GIL of the
 * interpreter that makes it. Source: alloc_interpreter() in Python/pystate.c, 3.12 to 3.14. */
static void *raw_calloc(void *context, size_t count, size_t size)
{
	(void)context;
	if (size >= INTERPRETER_LEAST_BYTES && api.Py_IsInitialized())
		mt_objects_share(true);
	return before[MT_PYTHON_DOMAIN_RAW].calloc(before[MT_PYTHON_DOMAIN_RAW].context, count,
						   size);
}

static void watch_interpreters(void)
{
	struct mt_python_allocator raw;

	api.PyMem_GetAllocator(MT_PYTHON_DOMAIN_RAW, &raw);
	if (raw.calloc == raw_calloc)
		return;
	before[MT_PYTHON_DOMAIN_RAW] = raw;
	raw.calloc = raw_calloc;
	api.PyMem_SetAllocator(MT_PYTHON_DOMAIN_RAW, &raw);
}

/* ---- taking the domains ---- */

static bool look_for_api(void)
{
#define FIND(name) (*(void **)(void *)&api.name = mt_python_symbol(#name))
	return FIND(PyMem_GetAllocator) && FIND(PyMem_SetAllocator) && FIND(Py_GetVersion) &&
	       FIND(Py_IsInitialized);
#undef FIND
}

bool mt_object_domains_are_taken(void)
{
	struct mt_python_allocator now;

	if (!look_for_api())
		return false;
	api.PyMem_GetAllocator(MT_PYTHON_DOMAIN_OBJ, &now);
	return now.malloc == mt_objects_malloc;
}

/* 0: no version that is known. */
static uint64_t known_minor(void)
{
	uint64_t minor = mt_python_minor(api.Py_GetVersion());

	return minor >= OLDEST_MINOR && minor <= NEWEST_MINOR ? minor : 0;
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

	api.PyMem_GetAllocator(domain, &before[domain]);
	api.PyMem_SetAllocator(domain, &ours);
}

const char *mt_object_domains_take(void)
{
	static const struct mt_object_heap_ops ops = {
		.read = mt_objects_read,
		.purge = mt_object_pages_purge,
		.limit = mt_objects_limit,
	};
	uint64_t minor;

	if (mt_object_domains_are_taken())
		return NULL;
	if (!look_for_api())
		return "PyMem_SetAllocator is not exported";
	minor = known_minor();
	if (!minor)
		return "this version of Python is not known";
	if (!mt_objects_start(range_bytes()))
		return "no address space";
	mt_objects_limit(UINT64_MAX, limit_of(RLIMIT_DATA));
	mt_object_heap_set(&ops);
	if (minor >= OWN_GIL_MINOR)
		watch_interpreters();
	take(MT_PYTHON_DOMAIN_MEM);
	take(MT_PYTHON_DOMAIN_OBJ);
	return NULL;
}
