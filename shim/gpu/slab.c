#include "gpu/slab.h"

#include <errno.h>
#include <sys/mman.h>

#define PIECE_BYTES (256u * 1024)
#define CHUNK_BYTES (128u * 1024)

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
