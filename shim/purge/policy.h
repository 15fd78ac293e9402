/* purge/policy.h -- decides when to purge without a request. Pure: owns no state but struct
 * mt_policy, and reads no clock, no file and no allocator, so that tests can drive it from a table.
 * Only the worker thread may call. Takes no lock.
 *
 * Idle: the lowest dirty bytes over the last MT_IDLE_MS. Live drop (purge/live_drop.h): live bytes
 * of the heap fell by 20 % from their peak; a drop of device memory ends a round but purges
 * nothing. Both must reach the threshold max(MT_SLACK_MB, MT_SLACK_PCT of RSS). Settle: the heap
 * has not changed for MT_SETTLE_MS; then whatever is above 1 MB is purged, once.
 *
 * Budget: cleaning may cost MT_BUDGET_PCT of wall time. The charge is the purge, and the page
 * faults by which the program takes the pages back. Two conditions hold a purge back. The balance,
 * which grows by the budget's share of time, must cover the expected cost. And the cost must be
 * worth it: an opportunity opens whenever there is something to purge, and the learned cost must
 * fit into the budget of every fourth one, or of the time since this one opened. A purge that is
 * not worth its cost is tried again after a pause that doubles, to learn its present cost. */
#ifndef MT_PURGE_POLICY_H
#define MT_PURGE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "purge/live_drop.h"
#include "core/stats_layout.h"

#define MT_POLICY_WINDOW_COUNT 32

/* The process at one tick. */
struct mt_snapshot {
	uint64_t now_ns;
	uint64_t rss_bytes;
	uint64_t anon_bytes;
	uint64_t live_bytes;
	uint64_t gpu_live_bytes;  /* held by the program on all its devices; 0 without CUDA */
	uint64_t allocated_bytes; /* in total */
	uint64_t faults_count;    /* minor faults, in total */
	uint64_t cpu_ns;          /* CPU time of the process, in total */
	uint64_t system_ns;       /* of that, in the kernel */
	/* false: the three above are not set, see mt_policy_needs_usage */
	bool usage_known;
	uint64_t dirty_bytes; /* what a purge would return */
	/* false: dirty_bytes is not set; anon - live is its upper bound */
	bool dirty_known;
};

struct mt_plan {
	bool purge;
	enum mt_reason reason;
	/* a drop of live bytes has ended a round, with or without a purge; for MT_ROUND=auto */
	bool round;
	uint64_t next_tick_ns; /* ns until the next tick */
};

/* Costs, measured in this process. */
struct mt_costs {
	uint64_t fault_ns;      /* one fault of a small page */
	uint64_t huge_fault_ns; /* one fault of a huge page; 0 where there are none */
	uint64_t page_bytes;
	uint64_t huge_page_bytes;
};

struct mt_policy_sample {
	uint64_t time_ns;
	uint64_t dirty_bytes;
};

/* The state between ticks. mt_policy_start initializes it. */
struct mt_policy {
	struct mt_costs costs;
	uint64_t tick_ns;
	/* change of the process since the last tick */
	bool ticked;
	uint64_t seen_ns;
	uint64_t seen_live_bytes;
	uint64_t seen_gpu_live_bytes;
	uint64_t seen_allocated_bytes;
	uint64_t seen_rss_bytes;
	uint64_t seen_faults_count;
	uint64_t seen_cpu_ns;
	uint64_t seen_system_ns;
	uint64_t seen_usage_ns; /* when those three were read */
	uint64_t moved_ns;
	bool settled;
	/* idle window */
	struct mt_policy_sample window[MT_POLICY_WINDOW_COUNT];
	uint32_t window_count;
	uint64_t idle_bytes;
	struct mt_live_drop heap_live_drop;
	struct mt_live_drop gpu_live_drop;
	/* budget */
	int64_t balance_ns;
	uint64_t purged_ns;        /* when the last purge ended, 0 for none */
	uint64_t purged_bytes;     /* returned by purges and not back at the end of the last one */
	uint64_t purged_rss_bytes; /* RSS at its end */
	uint64_t purge_cost_ns;
	uint64_t returned_bytes; /* of purged_bytes, faulted in again since */
	uint64_t return_cost_ns; /* cost of those faults */
	/* learned: threads of the program that run at the same time; 0: unknown */
	double parallel;
	uint64_t first_fault_ns; /* costs.fault_ns as measured at the start */
	uint64_t owed_bytes;     /* returned by purges of this policy and not back yet */
	bool learned;            /* its cost is in cost_per_byte */
	uint64_t last_bytes;     /* returned by the last purge */
	double cost_per_byte;    /* learned: ns of purge and faults; 0: unknown */
	bool open;               /* an opportunity is open */
	uint64_t opened_ns;
	uint64_t opened_dirty_bytes;
	uint64_t cycle_ns;       /* learned: from one opportunity to the next; 0: unknown */
	uint64_t probe_pause_ns; /* pause before a purge that is not worth its cost */
	uint64_t refaults_count; /* charged in total, for the stats */
	uint64_t refault_cost_ns;
};

/* Initializes the state. costs: measured in this process. now_ns: CLOCK_MONOTONIC. */
void mt_policy_start(struct mt_policy *policy, const struct mt_costs *costs, uint64_t now_ns);

/* Returns whether this tick needs the allocator's dirty bytes: their upper bound reaches the
 * threshold, or the heap settles. */
bool mt_policy_needs_dirty(const struct mt_policy *policy, const struct mt_snapshot *now,
			   const struct mt_config *cfg);

/* Returns the bytes from which on a purge is considered. */
uint64_t mt_policy_threshold_bytes(const struct mt_snapshot *now, const struct mt_config *cfg);

/* Returns whether this tick needs faults and CPU time, for which the kernel visits every thread. It
 * does where a return of pages is to be charged, or where RSS grew enough to learn the cost of a
 * fault. Once a second also while pages are owed and the process changes, so that their return is
 * compared with the recent past. */
bool mt_policy_needs_usage(const struct mt_policy *policy, const struct mt_snapshot *now);

/* Runs one tick and returns its decision. */
struct mt_plan mt_policy_decide(struct mt_policy *policy, const struct mt_snapshot *now,
				const struct mt_config *cfg);

/* Returns what a purge costs the program, in ns: the worker's CPU time where the program kept a CPU
 * busy meanwhile, down to a quarter of it where the program slept. purge_cpu_ns: of the worker.
 * process_cpu_ns: of all threads during the purge. wall_ns: its duration. Pure. */
uint64_t mt_policy_purge_cost_ns(uint64_t purge_cpu_ns, uint64_t process_cpu_ns, uint64_t wall_ns);

/* Notes a purge, decided here or requested. after: the process after it. charged: cost_ns counts
 * against the budget. */
void mt_policy_note_purge(struct mt_policy *policy, const struct mt_snapshot *after,
			  uint64_t returned_bytes, uint64_t cost_ns, bool charged);

#endif
