#include "reaper/actions.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "account/account.h"
#include "backend/backend.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/os.h"
#include "reaper/python.h"
#include "sense/rss.h"
#include "stats/publish.h"

static struct mt_lock lock; /* rank 30: one purge at a time */
static _Atomic uint64_t foreign_bytes;

static const char *const reason_texts[] = {
#define X(name, text) text,
	MT_REASONS(X)
#undef X
};
static const char *const level_texts[] = {"purge", "light", "heavy"};

/* Ours, or where we do not count the allocator's own. */
static uint64_t live_bytes(void)
{
	struct mt_account_totals totals = {0};
	struct mt_heap_figures figures = {0};

	if (mt_backend()->counting != MT_COUNTING_NONE) {
		(void)mt_account_read(&totals);
		return totals.live_bytes;
	}
	mt_lock_take(&lock);
	(void)mt_backend()->figures(&figures);
	mt_lock_drop(&lock);
	return figures.live_bytes;
}

static uint64_t fallen(uint64_t before, uint64_t after)
{
	return before > after ? before - after : 0;
}

static void collect(const struct mt_order *order, struct mt_stats_record *record)
{
	struct mt_python_outcome outcome;

	mt_python_collect(mt_backend()->flush_thread, order->here, &outcome);
	record->gc_state = outcome.state;
	record->gc_ns = outcome.gc_ns;
	record->gc_collected_count = outcome.collected_count;
}

static void count(const struct mt_stats_record *record, uint64_t purged)
{
	struct mt_stats_snapshot *figures = mt_publish_lock();

	figures->light_count += record->level == MT_LEVEL_LIGHT;
	figures->heavy_count += record->level == MT_LEVEL_HEAVY;
	figures->gc_count += record->gc_state == MT_GC_DONE;
	figures->gc_late_count += record->gc_state == MT_GC_LATE;
	figures->gc_collected_count += record->gc_collected_count;
	figures->gc_cost_ns += record->gc_ns;
	if (!record->merged) {
		figures->purge_count++;
		figures->purged_bytes += purged;
		figures->purge_cost_ns += record->purge_ns;
	}
	mt_publish_unlock();
}

/* One line that grep finds; MT_PROFILE=1. */
static void print_profile(const struct mt_stats_record *record)
{
	static const char *const gc_texts[] = {"none", "done", "disabled", "late"};
	const char *result = record->result == 1 ? "1" : record->result == 0 ? "0" : "null";

	if (!mt_config()->profile)
		return;
	mt_log_plain("cleanup reason=%s level=%s round=%llu allocator=%s result=%s rss_before_bytes=%llu rss_after_bytes=%llu "
		     "anon_before_bytes=%llu anon_after_bytes=%llu duration_us=%llu purge_us=%llu gc=%s gc_us=%llu "
	       "gc_collected=%llu merged=%u",
	       reason_texts[record->reason], level_texts[record->level], (unsigned long long)record->round,
	       mt_backend_identity()->allocator, result, (unsigned long long)record->rss_before_bytes,
	       (unsigned long long)record->rss_after_bytes, (unsigned long long)record->anon_before_bytes,
	       (unsigned long long)record->anon_after_bytes, (unsigned long long)record->duration_ns / 1000,
	       (unsigned long long)record->purge_ns / 1000, gc_texts[record->gc_state],
	       (unsigned long long)record->gc_ns / 1000, (unsigned long long)record->gc_collected_count,
	       record->merged);
}

static struct mt_stats_record new_record(const struct mt_order *order)
{
	struct mt_rss_full before = {0};

	(void)mt_rss_read_full(&before);
	return (struct mt_stats_record){
		.time_ns = mt_os_realtime_ns(),
		.reason = order->reason,
		.level = order->level,
		.round = order->round,
		.request_seq = order->request_seq,
		.rss_before_bytes = before.rss_bytes,
		.anon_before_bytes = before.anon_bytes,
		.live_before_bytes = live_bytes(),
	};
}

static void finish_record(struct mt_stats_record *record)
{
	struct mt_rss_full after = {0};

	/* With one of the two readings missing (no descriptor to be had) nothing is known to have been freed. */
	if (record->rss_before_bytes && mt_rss_read_full(&after)) {
		record->rss_after_bytes = after.rss_bytes;
		record->anon_after_bytes = after.anon_bytes;
	} else {
		record->rss_after_bytes = record->rss_before_bytes;
		record->anon_after_bytes = record->anon_before_bytes;
	}
	record->live_after_bytes = live_bytes();
}

/* Under the lock: one purge at a time. */
static bool purge(const struct mt_order *order, struct mt_stats_record *record)
{
	struct mt_purge_outcome outcome = {0};
	uint64_t began = mt_os_now_ns();

	mt_lock_take(&lock);
	if (order->here && mt_backend()->flush_thread)
		mt_backend()->flush_thread();
	mt_backend()->purge(&outcome);
	mt_lock_drop(&lock);
	record->purge_ns += mt_os_now_ns() - began;
	if (outcome.longest_hold_ns > record->longest_hold_ns)
		record->longest_hold_ns = outcome.longest_hold_ns;
	return outcome.possible;
}

void mt_actions_clean(const struct mt_order *order, struct mt_stats_record *out)
{
	struct mt_stats_record record;
	uint64_t began = mt_os_now_ns();
	uint64_t purged;
	bool possible;
	int kept = errno;

	record = new_record(order);
	/* Python may let us wait: what can go at once goes at once. No lock, since a finalizer may ask for a cleanup. */
	if (order->level >= MT_LEVEL_LIGHT) {
		if (!order->here && mt_python_is_running())
			(void)purge(order, &record);
		collect(order, &record);
	}
	possible = purge(order, &record);
	finish_record(&record);
	record.duration_ns = mt_os_now_ns() - began;
	purged = fallen(record.anon_before_bytes, record.anon_after_bytes);
	/* Bytes, not return codes: a trim that claims success and returned no page has freed nothing. */
	record.result = purged > 0 ? 1 : 0;
	if (!possible && record.gc_state == MT_GC_NONE)
		record.result = MT_NULL_RESULT;
	if (order->here)
		atomic_fetch_add_explicit(&foreign_bytes, purged, memory_order_relaxed);
	count(&record, purged);
	mt_publish_record(&record);
	print_profile(&record);
	*out = record;
	errno = kept;
}

void mt_actions_note_merged(const struct mt_order *order)
{
	struct mt_stats_record record = {
		.time_ns = mt_os_realtime_ns(),
		.reason = order->reason,
		.level = order->level,
		.round = order->round,
		.request_seq = order->request_seq,
		.merged = 1,
	};
	const struct mt_stats_snapshot *seen = mt_publish_lock();

	record.rss_before_bytes = record.rss_after_bytes = seen->rss_bytes;
	record.anon_before_bytes = record.anon_after_bytes = seen->rss_anon_bytes;
	record.live_before_bytes = record.live_after_bytes = seen->heap_live_bytes;
	mt_publish_unlock();
	count(&record, 0);
	mt_publish_keep_record(&record);
	print_profile(&record);
}

void mt_actions_count_merged(const uint64_t counts[MT_LEVEL_COUNT])
{
	struct mt_stats_snapshot *figures = mt_publish_lock();

	figures->light_count += counts[MT_LEVEL_LIGHT];
	figures->heavy_count += counts[MT_LEVEL_HEAVY];
	mt_publish_unlock();
	mt_publish_skip_records(counts[MT_LEVEL_PURGE] + counts[MT_LEVEL_LIGHT] + counts[MT_LEVEL_HEAVY]);
}

uint64_t mt_actions_foreign_bytes(void)
{
	return atomic_exchange_explicit(&foreign_bytes, 0, memory_order_relaxed);
}

void mt_actions_fork_child(void)
{
	mt_lock_reset(&lock);
	atomic_store_explicit(&foreign_bytes, 0, memory_order_relaxed);
}
