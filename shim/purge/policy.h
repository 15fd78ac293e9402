/* purge/policy.h -- the pure decisions of purge/: when to purge without a request, when to sample
 * (purge/tick.c), and which rounds clean up (purge/rounds.c). Owns no state but the structs here,
 * and reads no clock, no file and no allocator, so that tests can drive it from a table. Only the
 * worker thread may call. Takes no lock.
 *
 * Idle: the lowest dirty bytes over the last MT_IDLE_MS. Live drop (below): live bytes of the heap
 * fell by 20 % from their peak; a drop of device memory ends a round but purges nothing. Both must
 * reach the threshold, the larger of MT_SLACK_MB and MT_SLACK_PCT of anonymous memory; the first is
 * less below 64 MB of anonymous memory. Settle: the heap has not changed for MT_SETTLE_MS; then
 * whatever is above 256 kB is purged, once.
 *
 * Budget: a token bucket. The balance begins with 0.3 s and grows by MT_BUDGET_PCT of wall time. It
 * pays for purges and for the page faults by which the program takes purged pages back. Before a
 * purge it must cover the expected cost. The dirty bytes must also have been idle for four times
 * that cost, as for a rental that is bought once it has cost its price: memory that the program
 * reuses sooner is not purged. */
#ifndef MT_PURGE_POLICY_H
#define MT_PURGE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/stats_layout.h"

/* ---- drops of live bytes ---- */

/* Detects drops of live bytes, of the heap or of device memory. Pure: owns no state but struct
 * mt_live_drop. Only the worker thread may call. Takes no lock.
 *
 * A drop: live bytes are 20 % below their peak in two samples. A drop ends a round if live bytes
 * had risen by a quarter since the last round. So a fall in stages is one round, and so is a fall
 * of heap and device together. MT_ROUND=auto ends rounds by this. */

/* All 0 at first. */
struct mt_live_drop {
	uint64_t peak_bytes;
	/* live bytes at the last drop, or when the other kind of memory ended a round */
	uint64_t base_bytes;
	uint32_t low_samples;
	bool risen; /* by a quarter above base_bytes */
};

#define MT_POLICY_PARTS_COUNT 3

/* The process at one tick. */
struct mt_snapshot {
	uint64_t now_ns;
	uint64_t rss_bytes;
	uint64_t anon_bytes;
	uint64_t live_bytes;
	uint64_t gpu_live_bytes;  /* held by the program on all its devices; 0 without CUDA */
	uint64_t allocated_bytes; /* in total */
	uint64_t faults_count;    /* minor faults, in total */
	uint64_t system_ns;       /* CPU time in the kernel, in total */
	uint64_t cpu_ns;          /* CPU time of all threads, in total */
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

/* The state between ticks. mt_policy_start initializes it. */
struct mt_policy {
	uint64_t page_bytes;
	uint64_t tick_ns;
	bool ticked;
	struct mt_snapshot seen;  /* the last tick */
	struct mt_snapshot usage; /* when faults and CPU time were read last */
	uint64_t moved_ns;
	bool settled;
	/* idle window: the lowest dirty bytes in each half window, the present one first */
	uint64_t low_bytes[MT_POLICY_PARTS_COUNT];
	uint32_t parts_count;
	uint64_t part_ns;   /* when the present half began */
	uint64_t window_ns; /* when the first one began */
	uint64_t idle_bytes;
	uint64_t last_dirty_bytes; /* at the last tick; 0: unknown */
	uint64_t high_ns;          /* since when dirty bytes reach the threshold; 0: they do not */
	struct mt_live_drop heap_live_drop;
	struct mt_live_drop gpu_live_drop;
	/* budget */
	int64_t balance_ns;
	uint64_t quota_pct;          /* of one CPU that the program may use; the caller sets it */
	uint64_t mib_fault_ns;       /* learned: CPU time of the page faults of a MiB */
	bool fault_known;            /* it was learned at least once */
	bool return_known;           /* ... while purged pages came back */
	uint64_t purged_below_bytes; /* RSS up to here a purge has returned, also a requested one */
	uint64_t parallel_pct;       /* learned: CPUs that the program uses at a time, 100 each */
	uint64_t purged_bytes;     /* returned by purges and not back at the end of the last one */
	uint64_t purged_rss_bytes; /* RSS at its end */
	uint64_t returned_bytes;   /* of purged_bytes, faulted in again since */
	uint64_t refaults_count;   /* charged in total, for the stats */
	uint64_t refault_cost_ns;
};

/* Initializes the state. page_bytes: size of a page. now_ns: CLOCK_MONOTONIC. */
void mt_policy_start(struct mt_policy *policy, uint64_t page_bytes, uint64_t now_ns);

/* Returns whether this tick needs the allocator's dirty bytes: their upper bound reaches the
 * threshold, or the heap settles. */
bool mt_policy_needs_dirty(const struct mt_policy *policy, const struct mt_snapshot *now,
			   const struct mt_config *cfg);

/* Returns the bytes from which on a purge is considered. */
uint64_t mt_policy_threshold_bytes(const struct mt_snapshot *now, const struct mt_config *cfg);

/* Returns whether this tick needs faults and CPU time, for which the kernel visits every thread:
 * if a return of pages is to be charged, or RSS grew enough to learn the cost of a fault. */
bool mt_policy_needs_usage(const struct mt_policy *policy, const struct mt_snapshot *now);

/* Runs one tick and returns its decision. */
struct mt_plan mt_policy_decide(struct mt_policy *policy, const struct mt_snapshot *now,
				const struct mt_config *cfg);

/* Returns the learned cost of purging 1 MiB and of its page faults, in ns. */
uint64_t mt_policy_mib_cost_ns(const struct mt_policy *policy);

/* Returns what a purge has cost in wall time: its CPU time, as far as the program ran meanwhile; a
 * quarter if the program slept, since a CPU's time is not free. before, after: the process
 * around the purge; usage included, else all of it counts. */
uint64_t mt_policy_purge_cost_ns(uint64_t purge_cpu_ns, const struct mt_snapshot *before,
				 const struct mt_snapshot *after);

/* Notes a purge, decided here or requested. after: the process after it, usage included. charged:
 * cost_ns, and the return of the pages, count against the budget. */
void mt_policy_note_purge(struct mt_policy *policy, const struct mt_snapshot *after,
			  uint64_t returned_bytes, uint64_t cost_ns, bool charged);

/* Memory that a purge returned, and that the kernel has made resident again: khugepaged fills the
 * holes of a huge page, and no figure of the allocator shows it. Pure: owns nothing. The caller
 * protects the state. */

struct mt_refill {
	uint64_t floor_bytes;   /* lowest resident bytes that are neither live nor dirty; 0: none */
	uint64_t not_before_ns; /* the next look, and how long the last wait was */
	uint64_t wait_ns;
};

/* Returns whether resident bytes that are neither live nor dirty have risen by more than the
 * threshold since the last purge. dirty_bytes: as last measured. */
bool mt_policy_refill_is_suspected(struct mt_refill *refill, const struct mt_snapshot *now,
				   uint64_t dirty_bytes, uint64_t threshold_bytes);

/* Notes any purge: memory is compared with this moment. */
void mt_policy_refill_note_purge(struct mt_refill *refill, const struct mt_snapshot *after);

/* Notes a look, and whether it helped: a purge returned much. Looks that do not help come seldom,
 * up to once an hour. */
void mt_policy_refill_note_look(struct mt_refill *refill, const struct mt_snapshot *after,
				bool helped);

/* ---- the interval between samples ---- */

/* Decides when to ask the allocator for its dirty bytes. Pure: owns no state but struct
 * mt_last_sample.
 *
 * A sample is due when the upper bound (anonymous resident minus live bytes) reaches the purge
 * threshold. A fragmented heap always has a high bound, and each sample gives the same result. So a
 * result below the threshold stays valid for up to two seconds, by the cost of a sample, unless the
 * bound rises (without this `make bench-tick` fails for 500 MB of fragments), and for as long as
 * the process does not change at all (the same for a process at rest with 512 arenas). A result
 * above the threshold is renewed at every tick, since the idle window must see the program reuse
 * its pages. */

/* The last sample, and the process at that time. */
struct mt_last_sample {
	uint64_t at_ns;           /* CLOCK_MONOTONIC; 0: none yet */
	uint64_t cost_ns;         /* CPU time of the sample */
	uint64_t allocated_bytes; /* in total, at that time */
	uint64_t freed_bytes;
	uint64_t bound_bytes; /* anonymous resident minus live bytes */
	uint64_t dirty_bytes; /* the result */
};

enum mt_sampling_interval {
	MT_SAMPLING_INTERVAL_SKIP,  /* nothing to purge is likely: dirty bytes stay unknown */
	MT_SAMPLING_INTERVAL_REUSE, /* the last result is still valid */
	MT_SAMPLING_INTERVAL_READ   /* ask the allocator */
};

/* Decides for this tick. is_counted: the shim counts allocated and live bytes itself; else they are
 * as old as the last sample. */
enum mt_sampling_interval mt_tick_interval_decide(const struct mt_last_sample *last,
						  const struct mt_policy *policy,
						  const struct mt_snapshot *now,
						  const struct mt_config *cfg, bool is_counted);

/* Stores a new sample. The caller sets dirty_bytes and cost_ns. */
void mt_tick_interval_note(struct mt_last_sample *last, const struct mt_snapshot *now);

/* ---- rounds of MT_GC_ROUNDS=auto ---- */

/* MT_GC_ROUNDS=auto: chooses a light cleanup every 1, 2 or 5 rounds. Pure: owns no state but struct
 * mt_adaptive_rounds.
 *
 * The step rises when the bytes in use at round ends stay flat over the window: highest minus
 * lowest is up to max(2 %, 8 MB). The window is 4 round ends at first. It doubles, up to 64, each
 * time a rise turns out to be wrong, so that even a slow leak keeps the first step. After 64 round
 * ends on the last step it is 4 again.
 *
 * The step falls to the first one under memory pressure, or when a round end exceeds the lowest one
 * since the first step by more than that tolerance. So both growth and garbage that accumulates
 * between cleanups count. */

#define MT_ADAPTIVE_ROUNDS_LONGEST 64 /* round ends */

struct mt_adaptive_rounds {
	uint64_t ends[MT_ADAPTIVE_ROUNDS_LONGEST]; /* circular buffer of bytes in use */
	uint64_t count;                            /* of round ends, in total */
	/* the lowest round end since the first step, including its last window */
	uint64_t base_bytes;
	uint32_t step_index;
	uint32_t step_rounds; /* round ends with this step */
	uint32_t window;      /* round ends that must be flat */
};

/* Sets the first step. */
void mt_rounds_auto_start(struct mt_adaptive_rounds *adaptive);

/* Adds a round end. bytes: in use, always measured before that round's cleanup. pressure: memory is
 * short. */
void mt_rounds_auto_add(struct mt_adaptive_rounds *adaptive, uint64_t bytes, bool pressure);

/* Returns the rounds between two light cleanups: 1, 2 or 5. */
uint64_t mt_rounds_auto_step(const struct mt_adaptive_rounds *adaptive);

#endif
