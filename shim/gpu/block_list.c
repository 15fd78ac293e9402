#include "gpu/block_list.h"

#include "sys/attr.h"
#include "sys/os.h"
#include "gpu/context.h"

#define PIECE_RECORDS 64 /* copied under one hold of a lock */
/* between two holds: a thread that spins for the lock gets it */
#define PAUSE_TURNS 16
/* a thread that sleeps for it is awake by then */
#define WAKE_NS (50 * 1000ull)

/* One hold of a context's lock. */
struct hold {
	struct mt_context *context; /* NULL: nothing is held */
	uint64_t began_ns;
};

static void take(struct hold *hold, struct mt_context *context)
{
	mt_lock_lock(&context->lock);
	hold->context = context;
	hold->began_ns = mt_os_now_ns();
}

static void drop(struct hold *hold, struct mt_block_list *list)
{
	struct mt_context *context = hold->context;
	uint64_t held_ns;
	bool is_awaited;

	if (!context)
		return;
	held_ns = mt_os_now_ns() - hold->began_ns;
	/* A hint, no ordering: 2 means that a thread sleeps. */
	is_awaited = atomic_load_explicit(&context->lock.word, memory_order_relaxed) == 2;
	mt_lock_unlock(&context->lock);
	hold->context = NULL;
	if (held_ns > list->longest_hold_ns)
		list->longest_hold_ns = held_ns;
	if (is_awaited) {
		_Atomic uint32_t never_woken = 0;

		(void)mt_os_futex_wait(&never_woken, 0, WAKE_NS, MT_FUTEX_PRIVATE);
	} else {
		for (int turn = 0; turn < PAUSE_TURNS; turn++)
			mt_os_relax();
	}
}

MT_COLD bool mt_block_list_start(struct mt_block_list *list)
{
	*list = (struct mt_block_list){.longest_hold_ns = 0};
	if (!atomic_load_explicit(&mt_pool.is_up, memory_order_relaxed))
		return false;
	list->walk = mt_blocks_walk_start();
	return true;
}

static struct mt_context *context_of(struct mt_block *block)
{
	return atomic_load_explicit(&block->context, memory_order_relaxed);
}

/* The block's context is locked, so that the record does not change. */
static void copy(struct mt_block *block, struct mt_context *context,
		 struct mt_block_list_block *out)
{
	*out = (struct mt_block_list_block){
		.base = mt_block_base(block),
		.bytes = block->bytes,
		.asked_bytes = block->asked_bytes,
		.since_ns = block->since_ns,
		.context = (uint32_t)(context - mt_pool.contexts),
		.device = atomic_load_explicit(&context->device, memory_order_relaxed),
		.state = (enum mt_block_state)block->state,
		.is_non_recyclable = block->is_non_recyclable,
	};
}

/* Copies the records that are blocks of the pool; returns how many. */
static uint32_t copy_piece(struct mt_block_list *list, struct mt_block *const *piece,
			   uint32_t count, struct mt_block_list_block *out)
{
	struct hold hold = {NULL, 0};
	uint32_t copied = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct mt_block *block = piece[i];
		struct mt_context *context = context_of(block);

		if (!context)
			continue; /* a spare record, or one that leaves */
		if (context != hold.context) {
			drop(&hold, list);
			take(&hold, context);
		}
		if (context_of(block) == context && block->state != MT_BLOCK_UNUSED &&
		    block->state != MT_BLOCK_LEAVING)
			copy(block, context, &out[copied++]);
	}
	drop(&hold, list);
	return copied;
}

MT_COLD uint32_t mt_block_list_next(struct mt_block_list *list, struct mt_block_list_block *out,
				    uint32_t limit)
{
	struct mt_block *piece[PIECE_RECORDS];
	uint32_t room = limit < PIECE_RECORDS ? limit : PIECE_RECORDS;
	uint32_t count, copied;

	do {
		for (count = 0;
		     count < room && (piece[count] = mt_blocks_walk_next(&list->walk));) {
			/* The second of its cache lines; the first is read here. */
			__builtin_prefetch(&piece[count]->is_non_recyclable);
			count += context_of(piece[count]) != NULL;
		}
		copied = copy_piece(list, piece, count, out);
	} while (!copied && count == room);
	return copied;
}
