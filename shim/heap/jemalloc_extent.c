#include "heap/jemalloc_extent.h"

#include <stdbool.h>

#include "heap/jemalloc_names.h"

/* never a foreign library's of that name */
#define OF_OURS __attribute__((weak, visibility("hidden")))

/* room for jemalloc's cache of what it has looked up, which has some 400 */
#define CONTEXT_BYTES 1024

/* Internal to jemalloc 5.3: src/rtree.c. Weak: another version may lack them. */
extern char je_arena_emap_global[] OF_OURS;
extern uint64_t *__real_je_rtree_leaf_elm_lookup_hard(void *thread, void *tree, void *context,
						      uintptr_t key, bool is_known,
						      bool make_missing) OF_OURS;

static const uint64_t *leaf_of(void *thread, const void *address, bool make_missing)
{
	uint64_t context[CONTEXT_BYTES / sizeof(uint64_t)] = {0};

	if (!je_arena_emap_global || !&__real_je_rtree_leaf_elm_lookup_hard)
		return NULL;
	return __real_je_rtree_leaf_elm_lookup_hard(thread, je_arena_emap_global, context,
						    (uintptr_t)address, false, make_missing);
}

uint64_t mt_extent_leaf(const void *address)
{
	const uint64_t *leaf = leaf_of(NULL, address, false);

	return leaf ? __atomic_load_n(leaf, __ATOMIC_ACQUIRE) : 0;
}

bool mt_extent_make_leaf(void *thread, const void *address)
{
	return leaf_of(thread, address, true) != NULL;
}
