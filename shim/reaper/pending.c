#include "reaper/pending.h"

#include "base/number.h"
#include "base/os.h"

#define LASTS_NS (2 * MT_NS_PER_S)    /* who allocates to use does so within that time: an array that stays so is hardly used */
#define EARLY_NS (100 * MT_NS_PER_MS) /* a thread may lose its CPU for that long */

static int64_t grown(const struct mt_pending *pending, const struct mt_untouched *now)
{
	const struct mt_untouched *seen = &pending->seen;

	if (now->exact && seen->exact)
		return now->heap_bytes - seen->heap_bytes;
	return now->known && seen->known ? now->space_bytes - seen->space_bytes : 0;
}

/* A thread has its block before it tells of it, and may lose its CPU in between: a later look finds it told. Much later such memory
 * is not the heap's: a file that was mapped, say. */
void mt_pending_look(struct mt_pending *pending, const struct mt_untouched *now, uint64_t taken_bytes, uint64_t now_ns)
{
	int64_t more = grown(pending, now);
	uint64_t added = more > 0 ? (uint64_t)more : 0;
	uint64_t touched = more < 0 ? (uint64_t)-more : 0;
	uint64_t seen = mt_above(pending->bytes + pending->early_bytes + added, touched);
	uint64_t most = pending->bytes + taken_bytes;
	uint64_t early = mt_above(seen, most);

	if (early > pending->early_bytes)
		pending->early_ns = now_ns;
	if (taken_bytes && added + pending->early_bytes > touched)
		pending->grown_ns = now_ns;
	pending->bytes = seen < most ? seen : most;
	pending->early_bytes = now_ns - pending->early_ns < EARLY_NS ? early : 0;
	if (now_ns - pending->grown_ns > LASTS_NS)
		pending->bytes = 0;
	pending->seen = *now;
}

/* The allocator's own figures do not have them any more. */
void mt_pending_discarded(struct mt_pending *pending, uint64_t bytes)
{
	pending->seen.space_bytes += (int64_t)bytes;
}

void mt_pending_fork_child(struct mt_pending *pending)
{
	*pending = (struct mt_pending){0};
}
