/* purge/policy.h -- when to purge without being asked. Pure: the same state, snapshot and settings
 * give the same plan; no clock, no file, no allocator is looked at here, which is why a table can
 * test it.
 *
 * Idle: what could be purged, at its lowest over the last MT_IDLE_MS. Trough (drop of live
 * bytes.h): live bytes of the heap fell by 20 % from their peak and stay down for two ticks; one of
 * the devices' ends a round and purges nothing. Both must pass the gate, max(MT_SLACK_MB,
 * MT_SLACK_PCT of RSS). Settle: the heap has not moved for MT_SETTLE_MS, whatever is above 1 MB
 * goes, once.
 *
 * Governor: cleaning may cost MT_BUDGET_PCT of wall time. Charged are the purge and the page faults
 * by which the program takes the pages back. Two rules. The balance, which grows by the budget's
 * share of time, must cover what the purge is expected to cost. And it must pay: if even every
 * fourth of such opportunities would be too dear, both learned from those before, none is taken,
 * unless it has been open for so long that it pays by itself. What does not pay is tried again
 * after a pause that doubles, to learn whether it does by now. */
#ifndef MT_PURGE_POLICY_H
#define MT_PURGE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "purge/live_drop.h"
#include "core/stats_layout.h"

#define MT_POLICY_WINDOW_COUNT 32

/* What one tick has seen. */
struct mt_snapshot {
	uint64_t now_ns;
	uint64_t rss_bytes;
	uint64_t anon_bytes;
	uint64_t live_bytes;
	uint64_t gpu_live_bytes;  /* handed to the program on all its devices; 0 without CUDA */
	uint64_t allocated_bytes; /* ever: tells movement */
	uint64_t faults_count;    /* minor faults, ever */
	uint64_t cpu_ns;          /* CPU time of the process, ever */
	uint64_t system_ns;       /* of that, in the kernel */
	/* false: the three above were not read, see mt_policy_needs_usage */
	bool usage_known;
	uint64_t dirty_bytes; /* what a purge would return */
	/* false: dirty_bytes was not asked for, only anon - live bounds it */
	bool dirty_known;
};

struct mt_plan {
	bool purge;
	enum mt_reason reason;
	/* a drop of live bytes of heap or device has ended a round, purge or not: MT_ROUND=auto
	 * counts it */
	bool round;
	uint64_t next_tick_ns; /* sleep until the next tick */
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

/* All that is remembered from tick to tick. Zeroed, then mt_policy_start. */
struct mt_policy {
	struct mt_costs costs;
	uint64_t tick_ns;
	/* movement */
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
	/* governor */
	int64_t balance_ns;
	uint64_t purged_ns;        /* when the last purge ended, 0 for none */
	uint64_t purged_bytes;     /* what purges returned and was not back when it was over */
	uint64_t purged_rss_bytes; /* RSS right after it */
	uint64_t purge_cost_ns;
	uint64_t returned_bytes; /* of purged_bytes, seen to have come back */
	uint64_t return_cost_ns; /* what that cost so far */
	/* threads of the program that run at a time while it runs, learned; 0 unknown */
	double parallel;
	uint64_t first_fault_ns; /* costs.fault_ns as it was measured at the start */
	uint64_t owed_bytes;     /* returned by purges of our own and not back yet */
	bool learned;            /* what it cost has been learned */
	uint64_t last_bytes;     /* what the last purge returned */
	double cost_per_byte;    /* ns, purge and return, learned; 0 unknown */
	bool open;               /* there is something worth purging */
	uint64_t opened_ns;
	uint64_t opened_dirty_bytes;
	uint64_t cycle_ns;       /* from one opening to the next, learned; 0 unknown */
	uint64_t probe_pause_ns; /* pause before a purge that does not pay is tried again */
	uint64_t refaults_count; /* all ever charged, for the stats */
	uint64_t refault_cost_ns;
};

void mt_policy_start(struct mt_policy *policy, const struct mt_costs *costs, uint64_t now_ns);

/* Whether this tick should ask the allocator for its exact figures: only past the gate, or when
 * settling. */
bool mt_policy_needs_dirty(const struct mt_policy *policy, const struct mt_snapshot *now,
			   const struct mt_config *cfg);

/* Bytes that are worth a purge. */
uint64_t mt_policy_threshold_bytes(const struct mt_snapshot *now, const struct mt_config *cfg);

/* Whether this tick should read faults and CPU time, for which the kernel goes through all threads:
 * only when there is a return of pages to be charged, or so much growth that the price of a fault
 * can be learned from it; and once a second while something is owed and the process moves, so that
 * what comes back is compared with the recent past. */
bool mt_policy_needs_usage(const struct mt_policy *policy, const struct mt_snapshot *now);

/* One tick. */
struct mt_plan mt_policy_decide(struct mt_policy *policy, const struct mt_snapshot *now,
				const struct mt_config *cfg);

/* What a purge costs the program, of the CPU time that the worker took for it: all of it where the
 * program kept a CPU busy meanwhile, down to a quarter where it slept (nobody waited, but a CPU's
 * time is not free). process_cpu_ns: of all threads, the worker's included, in the wall time of the
 * purge. */
uint64_t mt_policy_purge_cost_ns(uint64_t purge_cpu_ns, uint64_t process_cpu_ns, uint64_t wall_ns);

/* A purge has been made, asked for or not; only one that was not asked for is charged to the
 * budget. */
void mt_policy_note_purge(struct mt_policy *policy, const struct mt_snapshot *after,
			  uint64_t returned_bytes, uint64_t cost_ns, bool charged);

#endif
