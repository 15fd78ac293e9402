/* core/components.h -- the hooks that each component offers, and the loops that call them. The
 * table of all components is in core/init.c; no other file knows every component. A
 * component calls another one only through the functions below, or through heap/, core/ and sys/
 * if scripts/check-components allows it. Owns no state and takes no lock. Each hook names its
 * thread.
 *
 * "Forwards" is the order of the table, "backwards" the opposite. Each hook may be NULL. */
#ifndef MT_CORE_COMPONENTS_H
#define MT_CORE_COMPONENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/stats_layout.h"

/* ---- trim request ---- */

/* A request for a cleanup, and its state while it runs. Plain values, shared by core/cleanup.c and
 * the components' trim hooks. No lock: the thread that runs the cleanup owns them. */

/* The memory pressure behind a request: the fields of struct mt_stats_cleanup of the same names. */
struct mt_trim_pressure {
	uint32_t sources;
	enum mt_pressure_level level;
	uint64_t used_bytes;
	uint64_t limit_bytes;
};

struct mt_trim_request {
	enum mt_reason reason;
	enum mt_level level;
	uint64_t round;
	uint64_t request_seq;
	bool here;      /* a thread of the program runs it: Python may collect in this thread */
	bool flush_gpu; /* empty GPU caches too, at any level */
	bool is_retry;  /* empties caches that an earlier cleanup left because of a capture */
	struct mt_trim_pressure pressure;
};

struct mt_cleanup {
	struct mt_stats_cleanup stats; /* its entry in the stats file */
	bool skips_for_ranks;  /* several processes train together: no collection, no flush */
	bool caches_skipped;   /* python/: a capture kept it from emptying framework caches */
	bool was_purged;       /* heap/: prepare_trim has purged already */
	bool purge_possible;   /* heap/: the allocator can return memory */
	uint64_t purge_cpu_ns; /* heap/: CPU time of the purges */
	/* heap/: empties the calling thread's allocator cache; may be NULL */
	void (*flush_thread)(void);
};

/* Returns whether the request includes the caches of GPU devices. */
static inline bool mt_components_reach_devices(const struct mt_trim_request *request)
{
	return request->level == MT_LEVEL_HEAVY || request->flush_gpu;
}

/* ---- hooks ---- */

struct mt_component {
	const char *name;

	/* Starts the component at the process's first call of the malloc family, after the settings
	 * are read. on: the shim works in this process; false: every call passes through. Once,
	 * forwards. libc's malloc serves allocations meanwhile. */
	void (*serve)(bool on);

	/* Runs in the library's constructor, on the main thread. on: as above. Forwards. */
	void (*load)(bool on);

	/* Runs before the worker thread starts, on the thread that starts it. Forwards. */
	void (*before_start)(void);

	/* Run on the worker thread when it begins, and before it ends. Forwards. */
	void (*start)(void);
	void (*finish)(void);

	/* Runs when the heap has grown while the worker runs: on the thread that allocated, after
	 * the allocator has returned. */
	void (*grown)(void);

	/* pthread_atfork handlers: prepare forwards, in the order of sys/lock_ranks.def; parent and
	 * child backwards. */
	void (*fork_prepare)(void);
	void (*fork_parent)(void);
	void (*fork_child)(void);

	/* Runs in each turn of the worker thread, forwards. now_ns: CLOCK_MONOTONIC. bits: enum
	 * mt_control_bit, as set when the turn began. Returns when to run again, in ns of
	 * CLOCK_MONOTONIC; UINT64_MAX: no wish. */
	uint64_t (*tick)(uint64_t now_ns, uint32_t bits);

	/* Handles a request of mtctl. Returns true if the request belongs to this component;
	 * *out is then the result. Worker thread. */
	bool (*request)(const struct mt_request *request, enum mt_err *out);

	/* Checks a new setting before it is stored; any result but MT_ERR_OK rejects it. wanted:
	 * all settings with the new one. name: the changed one. Worker thread. */
	enum mt_err (*check_setting)(const struct mt_config *wanted, const char *name);

	/* Runs after settings have changed. Worker thread. */
	void (*configure)(void);

	/* Clean up: prepare_trim backwards, then trim forwards. Any thread outside the allocator,
	 * with no lock held. */
	void (*prepare_trim)(const struct mt_trim_request *request, struct mt_cleanup *cleanup);
	void (*trim)(const struct mt_trim_request *request, struct mt_cleanup *cleanup);

	/* Runs after a cleanup that the purge policy did not decide. charged: its cost counts
	 * against the budget. Worker thread. */
	void (*cleaned)(const struct mt_stats_cleanup *cleanup, bool charged);

	/* Writes the component's figures into the published snapshot. all: also the expensive ones.
	 * Worker thread, forwards. */
	void (*publish)(bool all);

	/* Measures fresh figures for a reader that asked for them. Worker thread, forwards. */
	void (*refresh)(void);

	/* Resets peaks, for `mtctl reset-peak`. Worker thread. */
	void (*reset_peak)(void);

	/* Runs when the process ends through exit handlers: on the ending thread, forwards. */
	void (*stop)(void);
};

/* The table, ended by NULL. Defined in core/init.c. */
extern const struct mt_component *const mt_component_table[];

/* The hooks that are only called: mt_components_NAME calls that of every component that has it, on
 * the thread that the hook names. Columns: order, name, parameters, arguments. */
#define MT_COMPONENT_CALLS(X)                                                                      \
	X(FORWARDS, serve, (bool on), (on))                                                        \
	X(FORWARDS, load, (bool on), (on))                                                         \
	X(FORWARDS, before_start, (void), ())                                                      \
	X(FORWARDS, start, (void), ())                                                             \
	X(FORWARDS, finish, (void), ())                                                            \
	X(FORWARDS, grown, (void), ())                                                             \
	X(FORWARDS, fork_prepare, (void), ())                                                      \
	X(BACKWARDS, fork_parent, (void), ())                                                      \
	X(BACKWARDS, fork_child, (void), ())                                                       \
	X(FORWARDS, configure, (void), ())                                                         \
	X(FORWARDS, cleaned, (const struct mt_stats_cleanup *cleanup, bool charged),               \
	  (cleanup, charged))                                                                      \
	X(FORWARDS, publish, (bool all), (all))                                                    \
	X(FORWARDS, refresh, (void), ())                                                           \
	X(FORWARDS, reset_peak, (void), ())                                                        \
	X(FORWARDS, stop, (void), ())

#define X(order, name, parameters, arguments) void mt_components_##name parameters;
MT_COMPONENT_CALLS(X)
#undef X

/* Calls the prepare_trim hooks, then the trim hooks. */
void mt_components_trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup);

/* Calls every tick hook. Returns the earliest time at which one wants to run again, in ns of
 * CLOCK_MONOTONIC; UINT64_MAX: no hook has a wish. */
uint64_t mt_components_tick(uint32_t bits);

/* Has the first component that knows the request carry it out, and returns its result.
 * MT_ERR_OLDER: no component knows it. */
enum mt_err mt_components_request(const struct mt_request *request);

/* Returns MT_ERR_OK, or the first error of a check_setting hook. */
enum mt_err mt_components_check_setting(const struct mt_config *wanted, const char *name);

#endif
