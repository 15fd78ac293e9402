/* pressure/pressure_internal.h -- what pressure/ and its tests alone use: direct reclaim and its
 * parts, the last look, the levels, and the report that MT_RSS_LIMIT_MB is still reached after a
 * cleanup. */
#ifndef MT_PRESSURE_PRESSURE_INTERNAL_H
#define MT_PRESSURE_PRESSURE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config.h"
#include "sys/os.h"
#include "core/stats_layout.h"

/* ---- pressure/reclaim.c: direct reclaim ---- */

/* Direct reclaim: a thread that allocates close to a limit returns the heap's
 * free memory to the kernel itself, as the kernel does for its own limits. The worker's samples
 * tell how close the limit is. Between samples each thread compares the heap with the last one,
 * after about every MB that it allocates. One thread returns memory at a time. The others wait for
 * it: up to 100 ms for each MB that they allocate, and up to 1 s. Over glibc they also wait for a
 * sample if only that can tell whether the limit is reached. Owns the copy of the ceiling that
 * threads read. Takes the purge lock (heap/purge_lock.h). Opens no file, allocates nothing.
 * Decision: docs/decisions/0001. */

/* The size of the heap. */
struct mt_heap_size {
	bool exact;
	int64_t held_bytes;  /* exact: active pages; else live bytes */
	int64_t free_bytes;  /* exact: free and resident; else 0 */
	int64_t fresh_bytes; /* of held_bytes, allocated by the caller since its last check */
};

struct mt_headroom_sample {
	uint64_t now_ns;
	uint64_t used_bytes;          /* charged to the limit */
	uint64_t limit_bytes;         /* not 0 */
	uint64_t sample_growth_bytes; /* growth after which another sample is due */
	/* used bytes from which on Python is asked to collect garbage; 0: never */
	uint64_t critical_bytes;
	uint64_t clear_bytes; /* used bytes below which the next crossing asks again at once */
	uint64_t anon_bytes;  /* anonymous resident memory of the process */
	struct mt_heap_size heap;
	bool purged; /* free memory was returned since the last sample */
};

/* ---- any thread, at the end of a malloc or free call ---- */

/* Counts bytes that the calling thread has allocated. Returns whether mt_reclaim_run is due. */
bool mt_reclaim_count(uint64_t allocated_bytes);

/* Compares the heap with the limit: returns free memory, or wakes the worker for a sample. If
 * the limit is far, one thread returns memory every 50 ms, and the others leave it to the worker.
 * fresh_bytes: allocated by the calling thread since its last check. Keeps errno. Returns no memory
 * in a child that runs on its parent's memory. */
void mt_reclaim_run(uint64_t fresh_bytes);

/* Called after a large block was freed. Returns free memory of more than 1/8 of the limit, or so
 * much that an equal allocation elsewhere would pass the limit. Keeps errno. */
void mt_reclaim_after_large_free(void);

/* Notes that free memory was returned: the next sample starts a new measurement. */
void mt_reclaim_note_purge(void);

/* ---- worker thread ---- */

/* Called before the worker starts, on the starting thread: a thread that allocates 64 MB before the
 * first sample waits for it, up to 100 ms. */
void mt_reclaim_expect_sample(void);

/* Returns whether a sample is due that growth has requested since the last one began. If it is
 * due later, lowers *wake_ns to that time. */
bool mt_reclaim_wants_sample(uint64_t now_ns, uint64_t *wake_ns);

/* Begins a sample: later requests, and memory returned later, belong to the next one, since the
 * measurement may have missed them. Returns whether free memory was returned since the last sample
 * began. */
bool mt_reclaim_begin_sample(void);

/* Reads the size of the heap. Returns false if it is unknown. */
bool mt_reclaim_read_heap(struct mt_heap_size *out);

/* Ends a sample: threads compare with it from now on. */
void mt_reclaim_set_ceiling(const struct mt_headroom_sample *sample);

/* As mt_reclaim_run, on the worker thread: free memory may be too much after growth elsewhere. */
void mt_reclaim_run_on_worker(void);

/* Stops the comparison: no limit is known, or the worker ends. */
void mt_reclaim_disable(void);

/* Reads how often free memory was returned, and the total time in ns. */
void mt_reclaim_read_counters(uint64_t *out_count, uint64_t *out_ns);

/* Resets the module in a forked child. */
void mt_reclaim_fork_child(void);

/* ---- its parts: growth since the last sample ---- */

/* Growth of the heap since the last pressure sample, if the heap's footprint is unknown. Over glibc
 * only live bytes are known, and an allocation may lie beside free memory or in it. So every rise
 * of live bytes counts as growth. A thread whose growth would reach the limit waits for the next
 * sample. A fall smaller than a step is ignored together with the rise after it: a program that
 * frees and allocates again would wait all the time. Without this programs are killed whose worker
 * thread gets no CPU (tests/pressure/pressure_hoard.c late). Owns those counters. Any thread may
 * call, unless a comment names the worker thread. Takes no lock. */

/* Adds the rise of live bytes since the last call. step_bytes: smaller falls are ignored. */
void mt_reclaim_unsampled_add(int64_t live_bytes, int64_t step_bytes);

/* Returns the growth since the last sample began. */
int64_t mt_reclaim_unsampled_bytes(void);

/* Resets the growth, after free memory was returned. */
void mt_reclaim_unsampled_reset(int64_t live_bytes);

/* Calls wake, then waits up to timeout_ns for the worker's next sample. Returns whether it came.
 * After a wait without result no thread waits again before that sample: the worker may be busy. */
bool mt_reclaim_unsampled_await_sample(void (*wake)(void), uint64_t timeout_ns);

/* Called when a sample begins and ends. Worker thread. */
void mt_reclaim_unsampled_begin_sample(void);
void mt_reclaim_unsampled_end_sample(void);

/* ---- its parts: headroom ---- */

/* Computes how much free memory the heap may keep below a limit. Pure: owns no state but struct
 * mt_headroom. Any thread may call with its own values. Takes no lock.
 *
 * A sample gives the bytes that the limit charges outside the heap: used bytes minus the bytes of
 * the heap. With them any thread can tell from the heap alone how close the limit is, without
 * opening a file. Memory that is allocated but not touched is in the heap's bytes, not in the used
 * bytes, and makes the outside bytes too small for a moment. So the largest value of the last two
 * seconds counts.
 *
 * Over jemalloc the heap's bytes are its active pages and its free resident pages; both are exact.
 * Over other allocators only live bytes are known, and free memory looks like outside memory. There
 * the smallest outside bytes since a purge (the floor) tell how much is not free memory.
 *
 * The margin below the limit is 1/32 of it, and at least 4 MB. It covers what no sample has seen:
 * growth outside the heap, a MB for each thread that allocates, page tables, and freed pages that
 * the kernel still charges. `make check-limits` is the test of all this. */

/* The state between samples; all 0 at first. */
struct mt_headroom {
	bool known, exact;
	uint64_t window_ns; /* when recent_bytes began */
	int64_t recent_bytes, older_bytes;
	int64_t floor_bytes;
	uint64_t used_bytes;
	uint64_t pause_ns; /* after a purge without effect; only if not exact */
};

/* What threads compare the heap with until the next sample. */
struct mt_ceiling {
	int64_t limit_bytes; /* 0: there is no limit */
	int64_t outside_bytes;
	int64_t floor_bytes; /* of outside_bytes, not free memory of the heap; exact: all */
	int64_t used_bytes;
	int64_t sample_at_bytes; /* live and free bytes at which another sample is due */
	/* live bytes from which on Python is asked to collect; INT64_MAX: never */
	int64_t critical_bytes;
	int64_t clear_bytes; /* live bytes below which the next crossing asks again at once */
	bool exact;
	uint64_t sample_ns;
	uint64_t pause_until_ns; /* until then only free memory of 1/8 of the limit is purged */
};

/* What a purge can return. */
struct mt_reclaimable {
	/* charged bytes, or soon to be charged, that a purge cannot return */
	int64_t live_bytes;
	int64_t free_bytes;    /* bytes that it can return */
	int64_t allowed_bytes; /* of them, how many may stay below the limit and its margin */
};

/* Adds a sample and sets *out for the threads. */
void mt_reclaim_headroom_update(struct mt_headroom *headroom, const struct mt_headroom_sample *now,
				struct mt_ceiling *out);

/* Returns what a purge could return now. heap: as read now. */
struct mt_reclaimable mt_reclaim_ceiling_reclaimable(const struct mt_ceiling *ceiling,
						     const struct mt_heap_size *heap);

/* Returns whether free memory must be returned now. now_ns: CLOCK_MONOTONIC. */
bool mt_reclaim_ceiling_is_passed(const struct mt_ceiling *ceiling,
				  const struct mt_reclaimable *left, uint64_t now_ns);

/* ---- the report of MT_RSS_LIMIT_MB, with the memory by owner ---- */

/* Fills the heap's shares, the other anonymous memory, and the advice. limit_report: rss, anon,
 * file, shmem and swap bytes are set. resident_known: the allocator tells how much of the heap is
 * resident; else free memory that cannot be returned counts as other anonymous memory. Pure. */
void mt_pressure_rss_limit_attribute(struct mt_stats_limit_report *limit_report,
				     const struct mt_stats_snapshot *figures, bool resident_known);

/* ---- pressure/black_box.c: the last look ---- */

/* The last look: while a limit is about to be reached, a file on disk tells
 * what the process holds, how it came to it, and where (core/dump_layout.h, `mtctl last`). It is
 * written from the critical level on, or if growth meets the limit within seconds, again every
 * second, and removed when that is over or the process ends. Only a process that holds an eighth
 * of the usage writes one. Owns the file's copy in memory, mapped when half of the limit is used.
 * Worker thread only. Takes no lock over a file operation. Never calls malloc. */

struct mt_black_box_sample {
	uint64_t now_ns; /* CLOCK_MONOTONIC */
	uint64_t used_bytes;
	uint64_t limit_bytes; /* 0: unknown */
	bool exact;           /* false: used_bytes is an upper bound */
	bool is_critical;     /* the level of that limit */
	uint64_t own_bytes;   /* resident in this process */
	const char *source;   /* file or setting of the limit */
};

/* Adds a sample: writes the file, removes it, or does neither. */
void mt_black_box_note(const struct mt_black_box_sample *now);

/* Ends the watch and removes the file: the worker ends, or no limit is known. */
void mt_black_box_stop(void);

/* Finds Python's lines for the sites, once, while growth is watched. Only if Python's objects
 * are in our heap, which tells without the loader that there is Python: a thread that holds the
 * loader's lock would stop the worker. Last in a sample. */
void mt_black_box_prepare(void);

void mt_black_box_fork_child(void);

/* ---- growth sites ---- */

/* Where the heap grows while its limit is near: each time it is larger than before by a step, the
 * thread that allocates notes the lines of its Python frames, or without Python the caller of
 * malloc, if the embedded jemalloc serves. Memory that is freed and used again costs nothing and
 * counts nothing. Owns a table of a fixed size. Takes no lock: a thread that meets another one in
 * the table leaves its bytes unattributed. Never allocates. */

/* Counts allocated bytes. Any thread, at the end of a malloc call. Returns whether
 * mt_black_box_sites_note is due. */
bool mt_black_box_sites_count(uint64_t allocated_bytes);

/* Compares the heap with the last time, and notes the lines if it has grown. Keeps errno. */
void mt_black_box_sites_note(void);

/* ---- pressure/policy.c: levels ---- */

/* Decides what to do when memory runs short. Pure: owns no state but struct
 * mt_pressure; a sample and the settings give a plan. Only the worker thread may call. Takes no
 * lock.
 *
 * There are three kinds of pressure, each with its own level and pause:
 *   host    the closest limit (LIMIT), its events (EVENTS), stall (STALL); the highest level counts
 *   device  each device's usage of its memory (DEVICE)
 *   own     this process's usage of MT_RSS_LIMIT_MB (RSS): near it is warn, at it is critical
 * A level is entered at MT_WARN_PCT and MT_CRIT_PCT, and left MT_CLEAR_PCT lower. Warn causes a
 * purge (for a device also the release of idle blocks), critical a heavy cleanup. The own limit
 * always causes a heavy cleanup.
 *
 * A cleanup runs when a level is entered that has had none yet, and again after a pause. The pause
 * is MT_COOLDOWN_MS. It doubles, up to 5 minutes, after a cleanup that returned very little, or
 * whose pages were back before the cooldown ended. A cleanup with a lasting effect resets it.
 * Growth that cannot use the heap's free memory is handled by direct reclaim, without
 * regard to the pause. */

/* ---- a sample of memory pressure, and the state between samples: plain values ---- */

struct mt_pressure_device {
	uint64_t ordinal;
	uint64_t used_bytes;
	uint64_t total_bytes; /* 0 unknown */
};

/* One sample. */
struct mt_pressure_sample {
	uint64_t now_ns;
	/* of the closest limit of container or machine, see core/cgroup.h */
	uint64_t used_bytes;
	uint64_t limit_bytes; /* 0: unknown */
	bool exact;           /* false: used_bytes is an upper bound, which never raises a level */
	bool is_machines;     /* the limit is the machine's memory */
	bool events_known;
	uint64_t events_count; /* in total */
	bool psi_known;
	bool psi_is_own;    /* false: tasks of the whole machine */
	uint64_t some_us;   /* in total */
	uint64_t own_bytes; /* resident and swapped */
	uint32_t devices_count;
	struct mt_pressure_device devices[MT_DEVICES_COUNT];
};

/* a cleanup that returns less counts as one without effect */
#define MT_PRESSURE_MIN_BYTES (8 * MT_MIB)

enum mt_pressure_kind {
	MT_PRESSURE_HOST,
	MT_PRESSURE_GPU,
	MT_PRESSURE_OWN,
	MT_PRESSURE_KIND_COUNT
};

/* The pause between cleanups of one kind. */
struct mt_pressure_backoff {
	enum mt_pressure_level level;
	enum mt_pressure_level
		cleaned_level;     /* highest level with a cleanup since pressure began */
	uint64_t cleaned_ns;       /* 0: none yet */
	uint64_t pause_ns;         /* after it; 0: MT_COOLDOWN_MS */
	uint64_t earlier_pause_ns; /* before it: doubled when its pages come back */
	uint64_t returned_bytes;   /* returned and watched for a return; 0: no longer */
	uint64_t after_bytes;      /* of the figure that it lowers, right after it */
};

/* The state between samples; all 0 at first. */
struct mt_pressure {
	enum mt_pressure_level levels[MT_PRESSURE_SOURCE_COUNT];
	enum mt_pressure_level device_levels[MT_DEVICES_COUNT];
	struct mt_pressure_backoff backoffs[MT_PRESSURE_KIND_COUNT];
	enum mt_pressure_level level;     /* the highest of all */
	enum mt_pressure_level own_level; /* of those that concern this process */
	bool sampled;
	uint64_t seen_ns;
	uint64_t seen_own_bytes;
	/* growth until the next threshold; UINT64_MAX: no limit is known */
	uint64_t growth_bytes;
	uint64_t next_ns; /* when to sample again */
	bool seen_events_known;
	uint64_t seen_events_count;
	uint64_t events_ns; /* when they last grew; 0: never */
	bool seen_psi_known;
	uint64_t stall_ns; /* beginning of the span over which stall is measured */
	uint64_t stall_some_us;
	uint64_t stall_thousandths; /* of the last whole span */
	bool is_reported;           /* reported; until the own memory is below warn again */
};

/* ---- levels ---- */

/* from this usage on a limit is read more often, and stall counts as a lack of memory */
#define MT_PRESSURE_HALF_PCT 50u

/* Percentages of a limit: a level is entered at the first two, and kept down to the others. */
struct mt_pressure_thresholds {
	uint64_t warn, critical;
	uint64_t keep_warn, keep_critical;
};

/* Returns those of cgroup, machine and device limits. */
struct mt_pressure_thresholds mt_pressure_limit_thresholds(const struct mt_config *cfg);

static inline uint64_t mt_pressure_own_limit(const struct mt_config *cfg)
{
	return cfg->rss_limit_mb * MT_MIB;
}

static inline uint64_t mt_pressure_share_of(uint64_t bytes, uint64_t pct)
{
	return bytes / 100 * pct + bytes % 100 * pct / 100;
}

static inline enum mt_pressure_level mt_pressure_max_level(enum mt_pressure_level a,
							   enum mt_pressure_level b)
{
	return a > b ? a : b;
}

/* ---- the line in the log ---- */

/* Formats the log line about memory pressure. Pure: owns no state. Any thread may call. Takes no
 * lock, never allocates. */

struct mt_pressure_report {
	const struct mt_pressure_sample *sample;
	const struct mt_pressure *pressure; /* after mt_pressure_decide */
	const struct mt_pressure_plan *plan;
	const char *limit_source; /* of sample->limit_bytes */
	uint64_t own_limit_bytes; /* 0 none */
	uint64_t load_thousandths;
	uint64_t cpus_count; /* 0 unknown */
};

/* Formats, cut to out_bytes with a NUL, the reasons first: "memory pressure: tasks of this cgroup
 * waited 12.0 % of the time for memory (PSI); RAM at 64.6 % of 512 MB (/a/b/memory.max), load 1.9
 * on 2 CPUs: purge". */
void mt_pressure_format(const struct mt_pressure_report *report, char *out, size_t out_bytes);

struct mt_pressure_plan {
	bool clean;
	enum mt_level cleanup;        /* PURGE or HEAVY */
	bool flush_gpu;               /* release idle device blocks too */
	enum mt_reason reason;        /* PRESSURE or RSS_LIMIT */
	uint32_t kinds;               /* that cause it: bits 1 << enum mt_pressure_kind */
	uint32_t sources;             /* of those kinds: bits 1 << enum mt_pressure_source */
	enum mt_pressure_level level; /* the highest of those kinds */
	uint64_t used_bytes;          /* of the one closest to its limit; 0: unknown */
	uint64_t limit_bytes;
	/* a level above that of the last sample; NONE: none */
	enum mt_pressure_level entered;
	/* The level of what concerns this process is above that of the last sample. What tasks of
	 * others wait for, or have filled the machine with, does not concern a small process. */
	bool warns;
	bool over;        /* there was pressure at the last sample, and is none now */
	bool is_reduced;  /* reduced because of WORLD_SIZE */
	uint64_t next_ns; /* when to sample again, CLOCK_MONOTONIC */
};

/* The effect of a cleanup. */
struct mt_pressure_outcome {
	struct mt_pressure_sample after; /* own_bytes, devices and now_ns */
	uint64_t returned_bytes;
	uint64_t gpu_returned_bytes;
};

/* Returns whether a sample is due: by time, or since the process grew much since the last one.
 * own_bytes: resident and swapped now. */
bool mt_pressure_is_due(const struct mt_pressure *pressure, uint64_t now_ns, uint64_t own_bytes);

/* Returns when to wake the worker for a sample. Far from every limit this is late enough that a
 * tick comes first: an idle process is not woken for it. */
uint64_t mt_pressure_wake_ns(const struct mt_pressure *pressure);

/* Adds a sample and returns the plan. env: WORLD_SIZE. */
struct mt_pressure_plan mt_pressure_decide(struct mt_pressure *pressure,
					   const struct mt_pressure_sample *now,
					   const struct mt_config *cfg,
					   const struct mt_launch_env *env);

/* Sets *out_growth_bytes, after a sample: growth of the process after which another one is due, a
 * quarter of the way to the next threshold. Returns false if there is no limit for direct
 * reclaim. */
bool mt_pressure_limits_growth(const struct mt_pressure_sample *now, const struct mt_config *cfg,
			       uint64_t *out_growth_bytes);

/* Notes that the plan was carried out. Returns true if MT_RSS_LIMIT_MB is still reached and this
 * has not been reported yet. */
bool mt_pressure_note_cleanup(struct mt_pressure *pressure, const struct mt_pressure_plan *plan,
			      const struct mt_pressure_outcome *outcome,
			      const struct mt_config *cfg);

#endif
