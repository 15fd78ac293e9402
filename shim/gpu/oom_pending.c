#include "gpu/oom_pending.h"

#include <string.h>

static uint32_t find(const struct mt_oom_pending *pending, uint32_t thread)
{
	uint32_t index = 0;

	while (index < pending->count && pending->failures[index].thread != thread)
		index++;
	return index;
}

static void take(struct mt_oom_pending *pending, uint32_t index, struct mt_oom_failure *out)
{
	*out = pending->failures[index];
	pending->count--;
	memmove(&pending->failures[index], &pending->failures[index + 1],
		(pending->count - index) * sizeof(pending->failures[0]));
}

/* By the size of the last try, so that the steps of BFC may go on. An import has no size and no
 * second try. */
static bool is_enough(const struct mt_stats_oom *failed, uint64_t device, uint64_t bytes)
{
	return failed->asked_bytes && failed->device == device &&
	       bytes >= failed->asked_bytes - failed->asked_bytes / 8;
}

bool mt_oom_pending_fail(struct mt_oom_pending *pending, uint32_t thread,
			 const struct mt_stats_oom *facts, uint64_t now_ns,
			 struct mt_oom_failure *out_final)
{
	uint32_t index = find(pending, thread);
	bool is_known = index < pending->count;
	bool pushes = is_known || pending->count == MT_OOM_PENDING_MAX;

	if (is_known && facts->asked_bytes <= pending->failures[index].facts.asked_bytes &&
	    is_enough(&pending->failures[index].facts, facts->device, facts->asked_bytes)) {
		pending->failures[index].errors_count++;
		pending->failures[index].facts = *facts;
		return false;
	}
	if (pushes)
		take(pending, is_known ? index : 0, out_final);
	pending->failures[pending->count++] = (struct mt_oom_failure){
		.thread = thread, .errors_count = 1, .since_ns = now_ns, .facts = *facts};
	return pushes;
}

bool mt_oom_pending_succeed(struct mt_oom_pending *pending, uint32_t thread, uint64_t device,
			    uint64_t bytes, struct mt_oom_failure *out_settled, bool *out_overcome)
{
	uint32_t index = find(pending, thread);

	if (index == pending->count)
		return false;
	*out_overcome = is_enough(&pending->failures[index].facts, device, bytes);
	take(pending, index, out_settled);
	return true;
}

bool mt_oom_pending_expire(struct mt_oom_pending *pending, uint64_t now_ns, bool all,
			   struct mt_oom_failure *out_final)
{
	if (!pending->count || (!all && now_ns < mt_oom_pending_next_ns(pending)))
		return false;
	take(pending, 0, out_final);
	return true;
}

bool mt_oom_pending_has(const struct mt_oom_pending *pending, uint32_t thread)
{
	return find(pending, thread) < pending->count;
}

uint64_t mt_oom_pending_next_ns(const struct mt_oom_pending *pending)
{
	return pending->count ? pending->failures[0].since_ns + MT_OOM_PATIENCE_NS : UINT64_MAX;
}
