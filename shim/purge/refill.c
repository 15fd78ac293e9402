#include "purge/refill.h"

#include "sys/os.h"
#include "sys/saturating.h"

#define FIRST_WAIT_NS   (2 * MT_NS_PER_S)
#define LONGEST_WAIT_NS (3600 * MT_NS_PER_S)

static uint64_t unexplained_bytes(const struct mt_snapshot *now, uint64_t dirty_bytes)
{
	return mt_sat_sub(mt_sat_sub(now->anon_bytes, now->live_bytes), dirty_bytes) + 1;
}

bool mt_refill_is_suspected(struct mt_refill *refill, const struct mt_snapshot *now,
			    uint64_t dirty_bytes, uint64_t threshold_bytes)
{
	uint64_t bytes = unexplained_bytes(now, dirty_bytes);

	if (!refill->floor_bytes)
		return false;
	refill->floor_bytes = mt_min_u64(refill->floor_bytes, bytes);
	return now->now_ns >= refill->not_before_ns &&
	       bytes - refill->floor_bytes >= threshold_bytes;
}

void mt_refill_note_purge(struct mt_refill *refill, const struct mt_snapshot *after)
{
	refill->floor_bytes = unexplained_bytes(after, after->dirty_known ? after->dirty_bytes : 0);
	if (!refill->wait_ns)
		mt_refill_note_look(refill, after, true);
}

void mt_refill_note_look(struct mt_refill *refill, const struct mt_snapshot *after, bool helped)
{
	refill->wait_ns = helped ? FIRST_WAIT_NS : mt_min_u64(2 * refill->wait_ns, LONGEST_WAIT_NS);
	refill->not_before_ns = after->now_ns + refill->wait_ns;
}
