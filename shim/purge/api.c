/* purge/api.c -- the functions of mtshim.h. */

#include <string.h>

#include "heap/account.h"
#include "sys/attr.h"
#include "core/config.h"
#include "core/init.h"
#include "mtshim.h"
#include "core/cleanup.h"
#include "core/control_file.h"
#include "core/worker.h"
#include "purge/purge.h"
#include "sys/rss.h"
#include "core/publish.h"

static int64_t run_cleanup(enum mt_reason reason, enum mt_level level, uint64_t round)
{
	const struct mt_trim_request request = {
		.reason = reason, .level = level, .round = round, .here = true};
	struct mt_stats_cleanup cleanup;

	mt_cleanup_run(&request, &cleanup);
	if (cleanup.result == MT_NULL_RESULT)
		return -1;
	return cleanup.anon_before_bytes > cleanup.anon_after_bytes
		       ? (int64_t)(cleanup.anon_before_bytes - cleanup.anon_after_bytes)
		       : 0;
}

MT_EXPORT uint64_t mt_round(void)
{
	const struct mt_config *cfg = mt_config();
	enum mt_level level;
	uint64_t round;

	if (!mt_state_is_on())
		return 0;
	round = mt_rounds_end();
	/* MT_GC_ROUNDS=auto needs every round end; without a worker it uses its first step. */
	if (!mt_rounds_due(round, cfg->gc_rounds == MT_COUNT_AUTO ? 1 : cfg->gc_rounds, cfg,
			   &level))
		return round;
	/* A process without a worker thread runs the cleanup in this thread. */
	if (mt_worker_is_running()) {
		mt_control_notify(MT_CONTROL_API);
		return round;
	}
	mt_rounds_note_handled(round);
	(void)run_cleanup(MT_REASON_ROUND, level, round);
	return round;
}

MT_EXPORT int64_t mt_trim(int level)
{
	if (!mt_state_is_on() || level < 0 || level >= MT_LEVEL_COUNT)
		return -1;
	return run_cleanup(MT_REASON_API, (enum mt_level)level, 0);
}

MT_EXPORT int mt_stats(struct mt_stats *out)
{
	struct mt_stats now = {.size_bytes = sizeof(now)};
	struct mt_account_totals totals = {0};
	struct mt_rss_quick rss = {0};
	const struct mt_stats_snapshot *figures;
	bool counted;

	if (!mt_state_is_on() || out->size_bytes < sizeof(out->size_bytes))
		return -1;
	counted = mt_account_read(&totals);
	(void)mt_rss_read_quick(&rss);
	now.live_bytes = totals.live_bytes;
	now.allocated_bytes = totals.allocated_bytes;
	now.freed_bytes = totals.freed_bytes;
	now.rss_bytes = rss.rss_bytes;
	now.rss_anon_bytes = rss.anon_bytes;
	now.rounds_count = mt_rounds_count();
	figures = mt_publish_lock();
	if (!counted)
		/* the allocator's figure, as of the last tick */
		now.live_bytes = figures->heap_live_bytes;
	now.light_count = figures->light_count;
	now.heavy_count = figures->heavy_count;
	now.purge_count = figures->purge_count;
	now.purged_bytes = figures->purged_bytes;
	mt_publish_unlock();
	if (out->size_bytes < now.size_bytes)
		now.size_bytes = out->size_bytes;
	memcpy(out, &now, now.size_bytes);
	return 0;
}

MT_EXPORT void mt_cleanup_memory(int cuda_empty_cache)
{
	(void)mt_trim(cuda_empty_cache ? MT_LEVEL_HEAVY : MT_LEVEL_LIGHT);
}

MT_EXPORT const char *mt_allocator_type(void)
{
	return mt_state_allocator();
}

MT_EXPORT int mt_try_trim(void)
{
	int64_t bytes = mt_trim(MT_LEVEL_PURGE);

	return bytes > 0 ? 1 : (int)bytes;
}

/* For core/init.c: the address of this function, even if another library interposes its name. */
extern __typeof__(mt_allocator_type) own_allocator_type
	__attribute__((alias("mt_allocator_type"), visibility("hidden")));
