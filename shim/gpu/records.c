#include "gpu/records.h"

#include <errno.h>
#include <sys/mman.h>

#include "sys/attr.h"

#define PIECE_BYTES (256u * 1024)
#define CHUNK_BYTES (128u * 1024)
/* nodes that a look-up without the lock follows: meanwhile they may move to other chains */
#define PEEK_MAX 64

/* ---- memory ---- */

static struct mt_lock piece_lock = MT_LOCK(piece); /* protects piece and piece_end */
static char *piece, *piece_end;

static void *map(size_t bytes)
{
	int kept = errno;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = kept;
	return at == MAP_FAILED ? NULL : at;
}

void *mt_slab_map(size_t bytes)
{
	void *at = NULL;

	bytes = (bytes + 63) & ~(size_t)63;
	if (bytes >= PIECE_BYTES / 4)
		return map(bytes);
	mt_lock_lock(&piece_lock);
	if ((size_t)(piece_end - piece) < bytes) {
		char *next = map(PIECE_BYTES);

		if (next) {
			piece = next;
			piece_end = next + PIECE_BYTES;
		}
	}
	if ((size_t)(piece_end - piece) >= bytes) {
		at = piece;
		piece += bytes;
	}
	mt_lock_unlock(&piece_lock);
	return at;
}

static void extend(struct mt_slab *slab)
{
	char *memory = mt_slab_map(CHUNK_BYTES);
	struct mt_chunk *chunk = (struct mt_chunk *)memory;
	size_t usable = CHUNK_BYTES - 64;

	if (!memory)
		return;
	chunk->objects = memory + 64;
	chunk->end = chunk->objects + usable - usable % slab->object_bytes;
	mt_assert(slab->object_bytes >= sizeof(void *) && slab->object_bytes <= usable);
	chunk->next = slab->chunks;
	slab->chunks = chunk;
	slab->fresh = chunk->objects;
	slab->end = chunk->end;
}

void *mt_slab_alloc(struct mt_slab *slab)
{
	void *object = NULL;

	mt_lock_lock(&slab->lock);
	if (slab->spare) {
		object = slab->spare;
		slab->spare = *(void **)object;
	} else {
		if (slab->fresh == slab->end)
			extend(slab);
		if (slab->fresh != slab->end) {
			object = slab->fresh;
			slab->fresh += slab->object_bytes;
		}
	}
	mt_lock_unlock(&slab->lock);
	return object;
}

void mt_slab_free(struct mt_slab *slab, void *object)
{
	mt_assert(object);
	mt_lock_lock(&slab->lock);
	*(void **)object = slab->spare;
	slab->spare = object;
	mt_lock_unlock(&slab->lock);
}

void mt_slab_forget(struct mt_slab *slab)
{
	mt_lock_reset(&slab->lock);
	mt_lock_reset(&piece_lock);
	slab->spare = NULL;
	slab->fresh = slab->end = NULL;
	slab->chunks = NULL;
}

/* ---- the table ---- */

static uint64_t shape_of(const struct mt_pointer_table *table)
{
	return atomic_load_explicit(&table->shape, memory_order_acquire);
}

static struct mt_pointer_node *load(_Atomic(struct mt_pointer_node *) *link)
{
	return atomic_load_explicit(link, memory_order_acquire);
}

/* release: a reader without the lock that follows the link sees a whole record. */
static void store(_Atomic(struct mt_pointer_node *) *link, struct mt_pointer_node *node)
{
	atomic_store_explicit(link, node, memory_order_release);
}

static uint64_t key_of(const struct mt_pointer_node *node)
{
	return atomic_load_explicit(&node->key, memory_order_relaxed);
}

/* The high bits of the hash, without the six of the caller: they depend on all bits of the key. */
static uint32_t bucket_of(uint64_t shape, uint64_t key)
{
	uint32_t bits = (uint32_t)(mt_pointer_hash(key) >> 32);
	uint32_t level = (uint32_t)(shape >> 32);
	uint32_t at = bits & ((MT_POINTER_BUCKETS << level) - 1);

	if (at < (uint32_t)shape)
		at = bits & ((MT_POINTER_BUCKETS << (level + 1)) - 1);
	return at;
}

static _Atomic(struct mt_pointer_node *) *bucket_at(struct mt_pointer_table *table, uint32_t at)
{
	uint32_t segment;

	if (at < MT_POINTER_BUCKETS)
		return &table->first[at];
	segment = 32 - (uint32_t)__builtin_clz(at / MT_POINTER_BUCKETS);
	mt_assert(segment < MT_POINTER_SEGMENTS && table->segments[segment]);
	return &table->segments[segment][at - (MT_POINTER_BUCKETS << (segment - 1))];
}

static _Atomic(struct mt_pointer_node *) *chain_of(struct mt_pointer_table *table, uint64_t key)
{
	return bucket_at(table, bucket_of(shape_of(table), key));
}

/* One bucket more. */
static void grow(struct mt_pointer_table *table)
{
	uint64_t shape = shape_of(table);
	uint32_t segment = (uint32_t)(shape >> 32) + 1;
	uint32_t half = MT_POINTER_BUCKETS << (segment - 1);
	struct mt_pointer_node *node, *next;
	_Atomic(struct mt_pointer_node *) *from, *to;

	if (segment >= MT_POINTER_SEGMENTS)
		return;
	if (!table->segments[segment])
		table->segments[segment] =
			mt_slab_map(half * sizeof(_Atomic(struct mt_pointer_node *)));
	if (!table->segments[segment])
		return;
	from = bucket_at(table, (uint32_t)shape);
	node = load(from);
	store(from, NULL);
	shape = (uint32_t)shape + 1 == half ? (uint64_t)segment << 32 : shape + 1;
	atomic_store_explicit(&table->shape, shape, memory_order_release);
	for (; node; node = next) {
		to = bucket_at(table, bucket_of(shape, key_of(node)));
		next = load(&node->next);
		store(&node->next, load(to));
		store(to, node);
	}
}

struct mt_pointer_node *mt_pointer_table_find(struct mt_pointer_table *table, uint64_t key)
{
	struct mt_pointer_node *node = load(chain_of(table, key));

	while (node && key_of(node) != key)
		node = load(&node->next);
	return node;
}

struct mt_pointer_node *mt_pointer_table_peek(struct mt_pointer_table *table, uint64_t key)
{
	struct mt_pointer_node *node = load(chain_of(table, key));

	for (int seen = 0; node && seen < PEEK_MAX; seen++) {
		if (mt_likely(key_of(node) == key))
			return node;
		node = load(&node->next);
	}
	return NULL;
}

struct mt_pointer_node *mt_pointer_table_insert(struct mt_pointer_table *table,
						struct mt_pointer_node *node)
{
	uint64_t key = key_of(node), shape = shape_of(table);
	_Atomic(struct mt_pointer_node *) *link = chain_of(table, key);
	struct mt_pointer_node *stale;

	store(&node->next, load(link));
	store(link, node);
	link = &node->next;
	while ((stale = load(link)) != NULL && key_of(stale) != key)
		link = &stale->next;
	if (stale)
		store(link, load(&stale->next));
	else if (++table->count > (MT_POINTER_BUCKETS << (shape >> 32)) + (uint32_t)shape)
		grow(table);
	return stale;
}

bool mt_pointer_table_remove(struct mt_pointer_table *table, struct mt_pointer_node *node)
{
	_Atomic(struct mt_pointer_node *) *link = chain_of(table, key_of(node));
	struct mt_pointer_node *at;

	while ((at = load(link)) != NULL && at != node)
		link = &at->next;
	if (!at)
		return false;
	store(link, load(&node->next));
	mt_assert(table->count > 0);
	table->count--;
	return true;
}

void mt_pointer_table_remove_if(struct mt_pointer_table *table,
				bool (*matches)(struct mt_pointer_node *node, void *data),
				void *data)
{
	uint64_t shape = shape_of(table);
	uint32_t buckets = (MT_POINTER_BUCKETS << (shape >> 32)) + (uint32_t)shape;

	for (uint32_t at = 0; at < buckets; at++) {
		_Atomic(struct mt_pointer_node *) *link = bucket_at(table, at);
		struct mt_pointer_node *node, *next;

		while ((node = load(link)) != NULL) {
			next = load(&node->next);
			if (!matches(node, data)) {
				link = &node->next;
				continue;
			}
			store(link, next);
			table->count--;
		}
	}
}
