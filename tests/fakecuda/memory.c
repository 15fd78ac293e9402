/* memory.c -- device memory: host memory out of one reserved range of addresses, so that any
 * address can be told as ours or not. The range is cut into a region for each size of slot, a power
 * of two, and a slot always ends in at least one page that is not there. A small block stands at
 * the end of its pages, aligned to 512 bytes: what runs over it faults. Freed pages go back to the
 * kernel and fault as well; their slot rests before it is used again (FAKECUDA_REUSE). */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

enum {
	CLASS_FIRST = 13,      /* a page and the one that faults; more where pages are larger */
	CLASS_LAST = 34,       /* 16 GiB for each size, four slots at least */
	CLASS_LAST_LEAST = 28, /* where the address space is limited, as under valgrind */
	REST_COUNT = 4096,     /* freed slots of a size before the oldest is used again */
	SMALL_BYTES = 1 << 20  /* what shares its pieces with others */
};

static struct region {
	uint64_t start;
	uint64_t bytes;
	uint64_t slot_count, used;
	struct fake_block *blocks; /* by slot */
	struct fake_block *oldest, *newest;
	unsigned int resting;
} regions[CLASS_LAST + 1];
static uint64_t arena_start, arena_end;
static size_t page_bytes;

static int class_last = CLASS_LAST;

static uint64_t region_bytes(int size_class)
{
	return size_class + 2 > class_last ? (uint64_t)4 << size_class : (uint64_t)1 << class_last;
}

static void *reserve(size_t bytes, int protection)
{
	void *memory =
		mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static char *reserve_all(void)
{
	uint64_t total = (uint64_t)1 << class_last;

	for (int i = CLASS_FIRST; i <= class_last; i++)
		total += region_bytes(i);
	return reserve(total, PROT_NONE);
}

/* One mapping for everything: its start is rounded up so that each slot is aligned to its size. */
static bool set_up(void)
{
	uint64_t at;
	char *memory;
	int i;

	if (arena_start != 0)
		return true;
	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	while ((memory = reserve_all()) == NULL && class_last > CLASS_LAST_LEAST)
		class_last--;
	if (memory == NULL)
		return false;
	at = ((uint64_t)(uintptr_t)memory + ((uint64_t)1 << class_last) - 1) >>
	     class_last << class_last;
	arena_start = at;
	for (i = class_last; i >= CLASS_FIRST; i--) {
		regions[i].start = at;
		regions[i].bytes = region_bytes(i);
		regions[i].slot_count = regions[i].bytes >> i;
		at += regions[i].bytes;
		regions[i].blocks = reserve(regions[i].slot_count * sizeof(struct fake_block),
					    PROT_READ | PROT_WRITE);
		if (regions[i].blocks == NULL)
			abort();
	}
	arena_end = at;
	return true;
}

bool fake_address_is_ours(uint64_t address)
{
	return address >= arena_start && address < arena_end;
}

struct fake_block *fake_block_at(uint64_t address)
{
	struct fake_block *block;
	int i;

	if (!fake_address_is_ours(address))
		return NULL;
	for (i = CLASS_FIRST; i <= class_last; i++)
		if (address - regions[i].start < regions[i].bytes)
			break;
	block = &regions[i].blocks[(address - regions[i].start) >> i];
	return block->id != 0 && address - block->base < block->bytes ? block : NULL;
}

uint64_t fake_free_bytes(int device)
{
	const uint64_t used = fake_devices[device].charged_bytes +
			      (device == 0 ? fake_settings.other_bytes : 0) +
			      fake_shared_others(device);

	return used > fake_settings.memory_bytes ? 0 : fake_settings.memory_bytes - used;
}

bool fake_charge(int device, uint64_t bytes)
{
	if (bytes > fake_free_bytes(device))
		return false;
	fake_devices[device].charged_bytes += bytes;
	fake_ledger.charged_bytes += bytes;
	if (fake_ledger.charged_bytes > fake_ledger.peak_charged_bytes)
		fake_ledger.peak_charged_bytes = fake_ledger.charged_bytes;
	fake_shared_charge(device, fake_devices[device].charged_bytes);
	return true;
}

void fake_uncharge(int device, uint64_t bytes)
{
	fake_devices[device].charged_bytes -= bytes;
	fake_ledger.charged_bytes -= bytes;
	fake_shared_charge(device, fake_devices[device].charged_bytes);
}

static size_t round_up(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

/* Small ones share pieces, as they do in a real driver: only a piece begun again is charged. */
static bool charge_block(struct fake_block *block)
{
	const size_t granularity = fake_settings.granularity;
	const size_t small = round_up(block->bytes, 512);
	struct CUctx_st *root = block->context->root;

	block->is_small = block->bytes < SMALL_BYTES && small < granularity;
	block->charge = block->is_small ? small : round_up(block->bytes, granularity);
	if (!block->is_small)
		return fake_charge(block->device, block->charge);
	if (!fake_charge(block->device, round_up(root->small_bytes + small, granularity) -
						round_up(root->small_bytes, granularity)))
		return false;
	root->small_bytes += small;
	return true;
}

static void uncharge_block(const struct fake_block *block)
{
	const size_t granularity = fake_settings.granularity;
	struct CUctx_st *root = block->context ? block->context->root : NULL;
	size_t before;

	if (block->charge == 0)
		return;
	if (!block->is_small) {
		fake_uncharge(block->device, block->charge);
		return;
	}
	before = root->small_bytes;
	root->small_bytes -= block->charge;
	fake_uncharge(block->device,
		      round_up(before, granularity) - round_up(root->small_bytes, granularity));
}

/* A slot for so many bytes; NULL where there is none. */
static struct fake_block *take_slot(size_t bytes, size_t alignment)
{
	const size_t wanted = round_up(bytes, page_bytes) + page_bytes;
	struct fake_block *block;
	struct region *region;
	int i = CLASS_FIRST;

	if (bytes > (size_t)1 << class_last)
		return NULL;
	while (((size_t)1 << i) < wanted || ((size_t)1 << i) < alignment)
		if (++i > class_last)
			return NULL;
	region = &regions[i];
	if (region->oldest && (fake_settings.reuse || region->resting > REST_COUNT ||
			       region->used == region->slot_count)) {
		block = region->oldest;
		region->oldest = block->queue_next;
		region->resting--;
	} else if (region->used < region->slot_count) {
		block = &region->blocks[region->used++];
	} else {
		return NULL;
	}
	memset(block, 0, sizeof(*block));
	block->size_class = (uint8_t)i;
	block->map_start = region->start + ((uint64_t)(block - region->blocks) << i);
	block->map_bytes = round_up(bytes, page_bytes);
	block->bytes = bytes;
	block->fd = -1;
	return block;
}

static void leave_slot(struct fake_block *block)
{
	struct region *region = &regions[block->size_class];

	block->id = 0;
	region->resting++;
	if (fake_settings.reuse) {
		block->queue_next = region->oldest;
		region->oldest = block;
		if (block->queue_next == NULL)
			region->newest = block;
		return;
	}
	block->queue_next = NULL;
	if (region->oldest == NULL)
		region->oldest = block;
	else
		region->newest->queue_next = block;
	region->newest = block;
}

static void list(struct fake_block *block)
{
	struct CUctx_st *context = block->context;

	block->id = fake_next_id();
	if (context == NULL)
		return;
	block->context_next = context->blocks;
	if (context->blocks)
		context->blocks->context_prev = block;
	context->blocks = block;
}

static void unlist(struct fake_block *block)
{
	if (block->context == NULL)
		return;
	if (block->context_prev)
		block->context_prev->context_next = block->context_next;
	else
		block->context->blocks = block->context_next;
	if (block->context_next)
		block->context_next->context_prev = block->context_prev;
}

struct fake_block *fake_block_new(enum fakecuda_kind kind, struct CUctx_st *context, size_t bytes,
				  bool charge, int *result)
{
	struct fake_block *block;

	*result = bytes == 0 ? INVALID_VALUE : OUT_OF_MEMORY;
	/* The device says no first: no slot is used up by those who ask without effect. */
	if (bytes == 0 || !set_up() || (charge && bytes > fake_settings.memory_bytes))
		return NULL;
	block = take_slot(bytes, bytes >= (2 << 20) ? 2 << 20 : 512);
	if (block == NULL)
		return NULL;
	block->kind = kind;
	block->context = context;
	block->device = context->device;
	block->base = block->map_start;
	if (bytes < (2 << 20) && kind != FAKECUDA_PINNED && kind != FAKECUDA_MANAGED)
		block->base += block->map_bytes - round_up(bytes, 512);
	if (charge && !charge_block(block)) {
		leave_slot(block);
		return NULL;
	}
	if (mprotect((void *)(uintptr_t)block->map_start, block->map_bytes,
		     PROT_READ | PROT_WRITE) != 0) {
		uncharge_block(block);
		leave_slot(block);
		return NULL;
	}
	list(block);
	fake_ledger.live_bytes[kind] += bytes;
	fake_ledger.live_count[kind]++;
	*result = OK;
	return block;
}

struct fake_block *fake_block_reserve(size_t bytes, size_t alignment, int *result)
{
	struct fake_block *block = set_up() ? take_slot(bytes, alignment) : NULL;

	*result = block ? OK : OUT_OF_MEMORY;
	if (block == NULL)
		return NULL;
	block->is_reserved = true;
	block->base = block->map_start;
	list(block);
	return block;
}

void fake_block_free(struct fake_block *block)
{
	/* Over the pages, not munmap: the addresses stay reserved. */
	if (mmap((void *)(uintptr_t)block->map_start, block->map_bytes, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
	if (block->owner)
		fake_pool_forget(block);
	if (!block->is_reserved) {
		fake_ledger.live_bytes[block->kind] -= block->bytes;
		fake_ledger.live_count[block->kind]--;
		uncharge_block(block);
	}
	unlist(block);
	fake_deps_clear(&block->ready);
	if (block->fd >= 0)
		close(block->fd);
	leave_slot(block);
}

static bool is_peer(const struct CUctx_st *context, const struct CUctx_st *owner)
{
	size_t i;

	for (i = 0; i < sizeof(context->peers) / sizeof(context->peers[0]); i++)
		if (context->peers[i] == owner)
			return true;
	return false;
}

bool fake_may_touch(const struct CUctx_st *context, uint64_t address, size_t bytes, bool is_copy)
{
	const struct fake_block *block;

	if (bytes == 0 || !fake_address_is_ours(address))
		return true;
	block = fake_block_at(address);
	if (block == NULL || address + bytes > block->base + block->bytes ||
	    address + bytes < address)
		return false;
	if (block->is_reserved)
		return fake_vmm_may_touch(address, bytes, is_copy ? NULL : context);
	if (is_copy || block->context == NULL || block->kind == FAKECUDA_MANAGED ||
	    block->kind == FAKECUDA_PINNED)
		return true;
	if (block->kind == FAKECUDA_ASYNC || block->kind == FAKECUDA_GRAPH)
		return block->device == context->device;
	return block->context->root == context->root ||
	       is_peer(context->root, block->context->root);
}
