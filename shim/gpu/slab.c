#include "gpu/slab.h"

#include <errno.h>
#include <stdint.h>
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

void *mt_mapped_take(size_t bytes)
{
	void *at = NULL;

	bytes = (bytes + 63) & ~(size_t)63;
	if (bytes >= PIECE_BYTES / 4)
		return map(bytes);
	mt_lock_take(&piece_lock);
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
	mt_lock_drop(&piece_lock);
	return at;
}

static void extend(struct mt_stash *stash)
{
	char *memory = mt_mapped_take(CHUNK_BYTES);
	struct mt_chunk *chunk = (struct mt_chunk *)memory;
	size_t room = CHUNK_BYTES - 64;

	if (!memory)
		return;
	chunk->objects = memory + 64;
	chunk->end = chunk->objects + room - room % stash->object_bytes;
	chunk->next = stash->chunks;
	stash->chunks = chunk;
	stash->fresh = chunk->objects;
	stash->end = chunk->end;
}

void *mt_stash_take(struct mt_stash *stash)
{
	void *object = NULL;

	mt_lock_take(&stash->lock);
	if (stash->spare) {
		object = stash->spare;
		stash->spare = *(void **)object;
	} else {
		if (stash->fresh == stash->end)
			extend(stash);
		if (stash->fresh != stash->end) {
			object = stash->fresh;
			stash->fresh += stash->object_bytes;
		}
	}
	mt_lock_drop(&stash->lock);
	return object;
}

void mt_stash_give(struct mt_stash *stash, void *object)
{
	mt_lock_take(&stash->lock);
	*(void **)object = stash->spare;
	stash->spare = object;
	mt_lock_drop(&stash->lock);
}

void mt_stash_forget(struct mt_stash *stash)
{
	mt_lock_reset(&stash->lock);
	mt_lock_reset(&piece_lock);
	stash->spare = NULL;
	stash->fresh = stash->end = NULL;
	stash->chunks = NULL;
}
