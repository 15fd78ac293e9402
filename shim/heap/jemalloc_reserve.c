#include "heap/jemalloc_reserve.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "sys/attr.h"

/* never a foreign library's of that name */
#define OF_OURS __attribute__((weak, visibility("hidden")))

/* the largest page there is, and what a thread's cache is aligned to */
#define STEP_BYTES (64u << 10)
/* what an arena begins with; aligned to itself */
#define ARENA_BYTES (2u << 20)
#define SMALL_MOST  (256u << 10)
/* jemalloc 5.3 initialises with 8 MB of it, where all else is refused */
#define ALL_BYTES (20u << 20)
/* that stay: four arenas, and 32 threads' caches */
#define THREADS_BYTES (10u << 20)
#define SMALL_PIECES  2
/* room for jemalloc's cache of what it has looked up, which has some 400 */
#define CONTEXT_BYTES 1024

/* Between the two lies what is free, in steps from `area`: arenas are taken from the front, what is
 * smaller from the end. One word, so that both change together: counter, no ordering, since who
 * gets memory is the only one to touch it. */
#define PACK(front, end) ((uint64_t)(front) << 32 | (end))
static _Atomic uint64_t free_steps;
static char *area; /* aligned to ARENA_BYTES; written before jemalloc begins */
static bool begins;
static MT_TLS unsigned arenas_left, small_left;

/* Internal to jemalloc 5.3: src/rtree.c; the tree is the first that an emap has. Weak: another
 * version may lack them. */
extern char je_arena_emap_global[] OF_OURS;
extern void *je_rtree_leaf_elm_lookup_hard(void *thread, void *tree, void *context, uintptr_t key,
					   bool is_known, bool make_missing) OF_OURS;

bool mt_jemalloc_reserve_map(void)
{
	char *mapped = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t ahead;

	if (mapped == MAP_FAILED)
		return false;
	ahead = (ARENA_BYTES - (uintptr_t)mapped % ARENA_BYTES) % ARENA_BYTES;
	if (ahead)
		(void)munmap(mapped, ahead);
	area = mapped + ahead;
	begins = true;
	atomic_store_explicit(&free_steps, PACK(0, (ALL_BYTES - ahead) / STEP_BYTES),
			      memory_order_relaxed);
	return true;
}

/* jemalloc enters what it maps into a tree by address, whose leaves, of some 2 MB each, it makes
 * when it first needs them. At the moments for which the reserve is it could not: it would have the
 * memory, and no use of it. A leaf spans more than the reserve does, but one may end and the next
 * begin within it. */
static bool has_leaves(const void *memory, size_t bytes)
{
	uintptr_t first = (uintptr_t)memory;
	uint64_t context[CONTEXT_BYTES / sizeof(uint64_t)] = {0};

	if (!je_arena_emap_global || !je_rtree_leaf_elm_lookup_hard)
		return true;
	return je_rtree_leaf_elm_lookup_hard(NULL, je_arena_emap_global, context, first, false,
					     true) &&
	       je_rtree_leaf_elm_lookup_hard(NULL, je_arena_emap_global, context, first + bytes - 1,
					     false, true);
}

void mt_jemalloc_reserve_enter(void)
{
	uint64_t steps = atomic_load_explicit(&free_steps, memory_order_relaxed);
	uint32_t front = (uint32_t)(steps >> 32), end = (uint32_t)steps;

	(void)has_leaves(area + (size_t)front * STEP_BYTES, (size_t)(end - front) * STEP_BYTES);
}

/* What jemalloc makes a leaf of is larger than an arena. It asks for that with the tree locked,
 * where no leaf may be made; and needs none for it. */
bool mt_jemalloc_reserve_accepts(const void *memory, size_t bytes)
{
	if (mt_likely(!arenas_left && !small_left) || begins || bytes > ARENA_BYTES)
		return true;
	return has_leaves(memory, bytes);
}

void mt_jemalloc_reserve_settle(void)
{
	uint64_t steps = atomic_load_explicit(&free_steps, memory_order_relaxed);
	uint32_t front = (uint32_t)(steps >> 32), end = (uint32_t)steps,
		 kept = front + THREADS_BYTES / STEP_BYTES;

	begins = false;
	arenas_left = small_left = 0; /* this thread has what it begins with */
	if (end <= kept)
		return;
	(void)munmap(area + (size_t)kept * STEP_BYTES, (size_t)(end - kept) * STEP_BYTES);
	atomic_store_explicit(&free_steps, PACK(front, kept), memory_order_relaxed);
}

void mt_jemalloc_reserve_open(void)
{
	arenas_left = 1;
	small_left = SMALL_PIECES;
}

/* Whether the calling thread may have a piece of this size; it is then taken off what it may have.
 */
static bool is_granted(size_t bytes)
{
	unsigned *left = bytes <= SMALL_MOST ? &small_left : &arenas_left;

	if (begins)
		return bytes <= ALL_BYTES;
	if ((bytes > SMALL_MOST && bytes != ARENA_BYTES) || !*left)
		return false;
	--*left;
	return true;
}

void *mt_jemalloc_reserve_take(size_t bytes)
{
	uint32_t steps = (uint32_t)((bytes + STEP_BYTES - 1) / STEP_BYTES);
	bool is_small = bytes <= SMALL_MOST;
	uint64_t seen = atomic_load_explicit(&free_steps, memory_order_relaxed);
	uint32_t front, end;

	if (!is_granted(bytes))
		return NULL;
	if (!is_small)
		steps = (steps + ARENA_BYTES / STEP_BYTES - 1) / (ARENA_BYTES / STEP_BYTES) *
			(ARENA_BYTES / STEP_BYTES);
	do {
		front = (uint32_t)(seen >> 32);
		end = (uint32_t)seen;
		if (end - front < steps)
			return NULL;
	} while (!atomic_compare_exchange_weak_explicit(
		&free_steps, &seen, is_small ? PACK(front, end - steps) : PACK(front + steps, end),
		memory_order_relaxed, memory_order_relaxed));
	return area + (size_t)(is_small ? end - steps : front) * STEP_BYTES;
}
