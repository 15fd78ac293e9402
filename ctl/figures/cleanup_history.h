/* ctl/figures/cleanup_history.h -- cleanups for a reader: what one cost apart from what it waited
 * for, and a collection that ran after its cleanup together with it. Pure: any thread may call. */
#ifndef MT_CTL_FIGURES_CLEANUP_HISTORY_H
#define MT_CTL_FIGURES_CLEANUP_HISTORY_H

#include "ctl/figures/stats_file.h"

struct mt_cleanup_entry {
	const struct mt_stats_cleanup *cleanup;
	/* the cleanup that followed the collection which this one had asked for; NULL: none did */
	const struct mt_stats_cleanup *late;
	/* an earlier cleanup had asked for that collection already; `late` is in its entry */
	bool has_joined;
	uint64_t merged_count; /* requests that were merged into it */
};

/* Writes the cleanups of the file to `out`, the oldest first. `out` has room for
 * MT_CLEANUPS_COUNT. Returns how many. A late collection without a cleanup that asked for it
 * (malloc asked, near a limit, or the cleanup is not kept any more) is an entry of its own. */
size_t mt_cleanup_history(const struct mt_stats_file *file, struct mt_cleanup_entry *out);

/* Returns the time that the cleanup took without the wait for Python's main thread, during which
 * it did nothing and held nobody up. */
uint64_t mt_cleanup_cost_ns(const struct mt_stats_cleanup *cleanup);

/* Returns what became of Python's collection, in a few words: "1,234 objects", "waits: the main
 * thread is in a system call"; "-" if none was asked for. */
struct mt_short_text mt_cleanup_gc_text(const struct mt_cleanup_entry *entry);

/* Returns when the oldest cleanup in the file was, in ns of CLOCK_REALTIME, if older ones are
 * not kept any more; 0 if all are. */
uint64_t mt_cleanup_kept_since_ns(const struct mt_stats_file *file);

/* Returns a table (ctl/output/table.h) with a row for each entry, in their order. */
struct mt_table *mt_cleanup_table(const struct mt_stats_head *head,
				  const struct mt_cleanup_entry *entries, size_t count);

#endif
