#include "reaper/pending.h"

#include "base/number.h"
#include "base/os.h"

#define LASTS_NS (2 * MT_NS_PER_S) /* who allocates to use does so within that time: an array that stays so is hardly used */

static int64_t grown(const struct mt_pending *pending, const struct mt_untouched *now)
{
	bool comparable = now->known && pending->seen.known && now->exact == pending->seen.exact;

	return comparable ? now->bytes - pending->seen.bytes : 0;
}

void mt_pending_look(struct mt_pending *pending, const struct mt_untouched *now, uint64_t taken_bytes, uint64_t now_ns)
{
	int64_t more = grown(pending, now);
	uint64_t most = pending->bytes + taken_bytes;

	if (more > 0 && taken_bytes)
		pending->grown_ns = now_ns;
	pending->bytes = more < 0 ? mt_above(pending->bytes, (uint64_t)-more) : pending->bytes + (uint64_t)more;
	if (pending->bytes > most)
		pending->bytes = most;
	if (now_ns - pending->grown_ns > LASTS_NS)
		pending->bytes = 0;
	pending->seen = *now;
}

void mt_pending_fork_child(struct mt_pending *pending)
{
	*pending = (struct mt_pending){0};
}
