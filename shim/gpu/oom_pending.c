#include "gpu/oom_pending.h"

#include <string.h>

static uint32_t find(const struct mt_oom_open *open, uint32_t thread)
{
	uint32_t place = 0;

	while (place < open->count && open->failures[place].thread != thread)
		place++;
	return place;
}

static void take(struct mt_oom_open *open, uint32_t place, struct mt_oom_failure *out)
{
	*out = open->failures[place];
	open->count--;
	memmove(&open->failures[place], &open->failures[place + 1],
		(open->count - place) * sizeof(open->failures[0]));
}

/* By the size of the last try, so that the steps of BFC may go on. An import asks for no size, and
 * has no second try. */
static bool is_enough(const struct mt_stats_oom *failed, uint64_t device, uint64_t bytes)
{
	return failed->asked_bytes && failed->device == device &&
	       bytes >= failed->asked_bytes - failed->asked_bytes / 8;
}

bool mt_oom_open_fail(struct mt_oom_open *open, uint32_t thread, const struct mt_stats_oom *facts,
		      uint64_t now_ns, struct mt_oom_failure *out_final)
{
	uint32_t place = find(open, thread);
	bool is_known = place < open->count;
	bool pushes = is_known || open->count == MT_OOM_OPEN_MAX;

	if (is_known && facts->asked_bytes <= open->failures[place].facts.asked_bytes &&
	    is_enough(&open->failures[place].facts, facts->device, facts->asked_bytes)) {
		open->failures[place].errors_count++;
		open->failures[place].facts = *facts;
		return false;
	}
	if (pushes)
		take(open, is_known ? place : 0, out_final);
	open->failures[open->count++] = (struct mt_oom_failure){
		.thread = thread, .errors_count = 1, .since_ns = now_ns, .facts = *facts};
	return pushes;
}

bool mt_oom_open_succeed(struct mt_oom_open *open, uint32_t thread, uint64_t device, uint64_t bytes,
			 struct mt_oom_failure *out_settled, bool *out_overcome)
{
	uint32_t place = find(open, thread);

	if (place == open->count)
		return false;
	*out_overcome = is_enough(&open->failures[place].facts, device, bytes);
	take(open, place, out_settled);
	return true;
}

bool mt_oom_open_expire(struct mt_oom_open *open, uint64_t now_ns, bool all,
			struct mt_oom_failure *out_final)
{
	if (!open->count || (!all && now_ns < mt_oom_open_next_ns(open)))
		return false;
	take(open, 0, out_final);
	return true;
}

uint64_t mt_oom_open_next_ns(const struct mt_oom_open *open)
{
	return open->count ? open->failures[0].since_ns + MT_OOM_PATIENCE_NS : UINT64_MAX;
}
