#include "gpu/account.h"

#include <string.h>
#include <sys/mman.h>

#include "sys/attr.h"
#include "sys/lock.h"

/* A chained hash over nodes that never move. It doubles in small steps: each operation carries a
 * few buckets over, so that nobody waits for a whole table. */
struct node {
	struct node *next;
	struct mt_device_record record;
	/* Memory of cuMemCreate, and where it is mapped: */
	uint64_t memory;            /* number of the memory */
	uint64_t handle;            /* of a mapping: of its memory */
	uint32_t handles, mappings; /* of memory: it is there as long as one is left */
	bool is_released;           /* of memory: without a handle, its key is its number */
};

struct table {
	struct node **buckets;
	uint64_t count; /* a power of two */
};

#define FIRST_BUCKETS  1024
#define SLAB_BYTES     (64u << 10)
#define CARRY_BUCKETS  8
#define NODES_PER_SLAB (SLAB_BYTES / sizeof(struct node))

/* everything below; mapped and unmapped outside it */
static struct mt_lock device_lock = MT_LOCK(device);
static struct node *first_buckets[FIRST_BUCKETS];
static struct table table = {first_buckets, FIRST_BUCKETS};
static struct table old;     /* what is left of the table before; count 0: nothing */
static uint64_t old_carried; /* buckets of it that are empty by now */
static struct node *spare;   /* nodes without a record */
static uint64_t spare_count;
static uint64_t reserved_count; /* of the spare ones, promised */
static uint64_t record_count;
static uint64_t memory_count; /* ever created: numbers */
static struct mt_device_usage usage[MT_DEVICE_DEVICES];

/* Of nodes that are no memory of their own, and of memory without a handle. */
#define MAPPING  ((enum mt_device_kind)MT_DEVICE_KIND_COUNT)
#define RELEASED ((enum mt_device_kind)(MT_DEVICE_KIND_COUNT + 1))

/* ---- which figures, which bucket ---- */

static struct mt_device_usage *usage_of(int device)
{
	if (device < 0)
		device = 0;
	return &usage[device < MT_DEVICE_DEVICES ? device : MT_DEVICE_DEVICES - 1];
}

/* One name space for all device pointers, one for each sort of handle. */
static enum mt_device_kind space_of(enum mt_device_kind kind)
{
	switch ((int)kind) {
	case MT_DEVICE_vmm:
	case MT_DEVICE_array:
	case MT_DEVICE_pinned:
	case MAPPING:
	case RELEASED:
		return kind;
	default:
		return MT_DEVICE_direct;
	}
}

static enum mt_device_kind space_of_node(const struct node *node)
{
	return node->is_released ? RELEASED : space_of(node->record.kind);
}

/* Fibonacci hashing: the high bits of the product, since pointers differ in the middle (Knuth,
 * TAOCP 3, 6.4). */
static struct node **bucket_of(const struct table *in, uint64_t key)
{
	return &in->buckets[((key * 0x9e3779b97f4a7c15ull) >> 32) & (in->count - 1)];
}

/* ---- the table ---- */

static struct node **find_in(const struct table *in, enum mt_device_kind space, uint64_t key)
{
	if (in->count == 0)
		return NULL;
	for (struct node **at = bucket_of(in, key); *at; at = &(*at)->next)
		if ((*at)->record.key == key && space_of_node(*at) == space)
			return at;
	return NULL;
}

static struct node **find(enum mt_device_kind space, uint64_t key)
{
	struct node **at = find_in(&table, space, key);

	return at ? at : find_in(&old, space, key);
}

static void push(struct node *node)
{
	struct node **bucket = bucket_of(&table, node->record.key);

	node->next = *bucket;
	*bucket = node;
}

/* Carries a few buckets over; answers an emptied table that is to be unmapped, if there is one. */
static struct table carry(void)
{
	struct table emptied = {0};

	for (int i = 0; i < CARRY_BUCKETS && old_carried < old.count; i++) {
		struct node *node = old.buckets[old_carried];

		old.buckets[old_carried++] = NULL;
		while (node) {
			struct node *next = node->next;

			push(node);
			node = next;
		}
	}
	if (old.count && old_carried == old.count) {
		emptied = old;
		memset(&old, 0, sizeof(old));
	}
	return emptied;
}

static void leave(struct table emptied)
{
	mt_lock_unlock(&device_lock);
	if (emptied.count && emptied.buckets != first_buckets)
		(void)munmap(emptied.buckets, emptied.count * sizeof(struct node *));
}

static void *map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Longer chains are all that comes of a mapping that fails. */
static void widen(void)
{
	struct table wider = {.count = 0};
	uint64_t count;

	mt_lock_lock(&device_lock);
	count = record_count > table.count && old.count == 0 ? table.count * 2 : 0;
	mt_lock_unlock(&device_lock);
	if (count == 0 || !(wider.buckets = map(count * sizeof(struct node *))))
		return;
	wider.count = count;
	mt_lock_lock(&device_lock);
	if (old.count == 0 && table.count * 2 == count) {
		old = table;
		old_carried = 0;
		table = wider;
		wider.count = 0;
	}
	leave(wider); /* another thread was faster: ours goes again */
}

/* ---- rooms ---- */

static void give_node(struct node *node)
{
	node->next = spare;
	spare = node;
	spare_count++;
}

static struct node *take_reserved_node(void)
{
	struct node *node = spare;

	mt_assert(reserved_count > 0 && node);
	spare = node->next;
	spare_count--;
	reserved_count--;
	return node;
}

static bool try_reserve(void)
{
	if (spare_count <= reserved_count)
		return false;
	reserved_count++;
	return true;
}

static bool reserve(void)
{
	struct node *slab;
	bool got;

	mt_lock_lock(&device_lock);
	got = try_reserve();
	mt_lock_unlock(&device_lock);
	if (got || !(slab = map(SLAB_BYTES)))
		return got;
	mt_lock_lock(&device_lock);
	for (size_t i = 0; i < NODES_PER_SLAB; i++)
		give_node(&slab[i]);
	got = try_reserve();
	mt_lock_unlock(&device_lock);
	return got;
}

bool mt_device_reserve(void)
{
	if (!reserve())
		return false;
	widen();
	return true;
}

void mt_device_cancel(void)
{
	mt_lock_lock(&device_lock);
	if (reserved_count > 0)
		reserved_count--;
	mt_lock_unlock(&device_lock);
}

/* ---- records ---- */

static void count_in(const struct mt_device_record *record)
{
	struct mt_device_usage *of = usage_of(record->device);

	record_count++;
	if (record->kind == MAPPING)
		return;
	of->live_count[record->kind]++;
	of->live_bytes[record->kind] += record->bytes;
	if (of->live_bytes[record->kind] > of->peak_bytes[record->kind])
		of->peak_bytes[record->kind] = of->live_bytes[record->kind];
}

static void count_out(const struct mt_device_record *record)
{
	struct mt_device_usage *of = usage_of(record->device);

	record_count--;
	if (record->kind == MAPPING)
		return;
	of->live_count[record->kind]--;
	of->live_bytes[record->kind] -= record->bytes;
}

/* Takes a node out of its chain. Lock held. */
static struct node *unchain(struct node **at)
{
	struct node *node = *at;

	*at = node->next;
	count_out(&node->record);
	return node;
}

static void insert(const struct mt_device_record *record, bool is_new)
{
	struct table emptied;
	struct node **stale;
	struct node *node;

	mt_lock_lock(&device_lock);
	/* The child of a fork between reserve and here has forgotten all rooms. */
	if (reserved_count == 0) {
		mt_lock_unlock(&device_lock);
		return;
	}
	stale = find(space_of(record->kind), record->key);
	if (stale)
		give_node(unchain(stale));
	node = take_reserved_node();
	*node = (struct node){.record = *record, .memory = ++memory_count, .handles = 1};
	push(node);
	count_in(record);
	if (is_new)
		usage_of(record->device)->alloc_count[record->kind]++;
	emptied = carry();
	leave(emptied);
}

void mt_device_add(const struct mt_device_record *record)
{
	insert(record, true);
}

void mt_device_put_back(const struct mt_device_record *record)
{
	insert(record, false);
}

bool mt_device_take(enum mt_device_kind kind, uint64_t key, struct mt_device_record *out)
{
	struct node **at;
	struct table emptied;

	mt_lock_lock(&device_lock);
	at = find(space_of(kind), key);
	if (at) {
		struct node *node = unchain(at);

		*out = node->record;
		give_node(node);
		reserved_count++;
	}
	emptied = carry();
	leave(emptied);
	return at != NULL;
}

/* ---- memory of cuMemCreate: its handles and its mappings ---- */

static struct node *node_at(enum mt_device_kind space, uint64_t key)
{
	struct node **at = find(space, key);

	return at ? *at : NULL;
}

static void drop(enum mt_device_kind space, uint64_t key)
{
	struct node **at = find(space, key);

	if (at)
		give_node(unchain(at));
}

/* Under another key; it stays counted. */
static void move(enum mt_device_kind space, uint64_t key, bool is_released, uint64_t new_key)
{
	struct node **at = find(space, key);
	struct node *node = *at;

	*at = node->next;
	node->is_released = is_released;
	node->record.key = new_key;
	push(node);
}

static struct node *memory_of(const struct node *mapping)
{
	struct node *memory = node_at(MT_DEVICE_vmm, mapping->handle);

	return memory && memory->memory == mapping->memory ? memory
							   : node_at(RELEASED, mapping->memory);
}

/* Its last mapping may be its end. Lock held. */
static void unmap(struct node **at)
{
	struct node *mapping = *at;
	struct node *memory = memory_of(mapping);

	if (memory && --memory->mappings == 0 && memory->is_released)
		drop(RELEASED, memory->memory);
	drop(MAPPING, mapping->record.key);
}

void mt_device_retained(uint64_t handle)
{
	struct node *memory;

	mt_lock_lock(&device_lock);
	memory = node_at(MT_DEVICE_vmm, handle);
	if (memory)
		memory->handles++;
	mt_lock_unlock(&device_lock);
}

void mt_device_map(uint64_t dptr, uint64_t bytes, uint64_t handle)
{
	struct node *memory, *mapping;
	struct node **stale;

	mt_lock_lock(&device_lock);
	memory = reserved_count > 0 ? node_at(MT_DEVICE_vmm, handle) : NULL;
	if (!memory) {
		mt_lock_unlock(&device_lock);
		mt_device_cancel();
		return;
	}
	memory->mappings++;
	stale = find(MAPPING, dptr);
	if (stale)
		unmap(stale);
	mapping = take_reserved_node();
	*mapping = (struct node){.record = {.kind = MAPPING, .key = dptr, .bytes = bytes},
				 .memory = memory->memory,
				 .handle = handle};
	push(mapping);
	count_in(&mapping->record);
	leave(carry());
}

void mt_device_unmap(uint64_t dptr, uint64_t bytes)
{
	uint64_t end = dptr + bytes;
	struct node **at;

	mt_lock_lock(&device_lock);
	while (dptr < end && (at = find(MAPPING, dptr)) != NULL) {
		dptr += (*at)->record.bytes;
		unmap(at);
	}
	mt_lock_unlock(&device_lock);
}

uint64_t mt_device_release(uint64_t handle)
{
	struct node *memory;
	uint64_t number = 0;

	mt_lock_lock(&device_lock);
	memory = node_at(MT_DEVICE_vmm, handle);
	if (memory) {
		number = memory->memory;
		if (--memory->handles == 0)
			move(MT_DEVICE_vmm, handle, true, number);
	}
	mt_lock_unlock(&device_lock);
	return number;
}

void mt_device_released(uint64_t handle, uint64_t number, bool is_done)
{
	struct node *memory, *held;

	if (number == 0)
		return;
	mt_lock_lock(&device_lock);
	memory = node_at(RELEASED, number);
	held = node_at(MT_DEVICE_vmm, handle);
	if (is_done && memory && memory->mappings == 0) {
		drop(RELEASED, number);
	} else if (!is_done && memory && !held) {
		memory->handles = 1;
		move(RELEASED, number, false, handle);
	} else if (!is_done && held && held->memory == number) {
		held->handles++;
	}
	mt_lock_unlock(&device_lock);
}

static void forget_in(const struct table *in, uint64_t context)
{
	for (uint64_t i = 0; i < in->count; i++)
		for (struct node **at = &in->buckets[i]; *at;)
			if ((*at)->record.context == context)
				give_node(unchain(at));
			else
				at = &(*at)->next;
}

/* Looks at every record under the lock: contexts die seldom, and what else is allocated meanwhile
 * waits for a driver anyway. */
void mt_device_forget(uint64_t context)
{
	if (context == 0)
		return;
	mt_lock_lock(&device_lock);
	forget_in(&table, context);
	forget_in(&old, context);
	mt_lock_unlock(&device_lock);
}

/* ---- figures ---- */

void mt_device_usage(int device, struct mt_device_usage *out)
{
	mt_lock_lock(&device_lock);
	*out = *usage_of(device);
	mt_lock_unlock(&device_lock);
}

void mt_device_reset_peak(void)
{
	mt_lock_lock(&device_lock);
	for (int i = 0; i < MT_DEVICE_DEVICES; i++)
		memcpy(usage[i].peak_bytes, usage[i].live_bytes, sizeof(usage[i].peak_bytes));
	mt_lock_unlock(&device_lock);
}

void mt_device_fork_child(void)
{
	/* Another thread may have stood in the middle of anything: its tables stay mapped and
	 * unused. */
	memset(first_buckets, 0, sizeof(first_buckets));
	table = (struct table){first_buckets, FIRST_BUCKETS};
	memset(&old, 0, sizeof(old));
	spare = NULL;
	spare_count = reserved_count = record_count = old_carried = 0;
	memset(usage, 0, sizeof(usage));
	mt_lock_reset(&device_lock);
}
