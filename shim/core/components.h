/* core/components.h -- what a component offers to the rest of the shim: one row of hooks. The table
 * of all rows is in core/component_table.c; nothing else knows every component. A component calls
 * another one only through the functions below, or through heap/, core/ and sys/ where
 * scripts/check-components allows it.
 *
 * Order: "forwards" is the order of the table, "backwards" the opposite. Each hook may be NULL. */
#ifndef MT_CORE_COMPONENTS_H
#define MT_CORE_COMPONENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/trim_request.h"
#include "core/stats_layout.h"

struct mt_component {
	const char *name;

	/* The first call of the heap family: settings are read. on: the shim works in this process;
	 * false: every call passes through. Called once, forwards, with the bootstrap arena serving. */
	void (*serve)(bool on);

	/* The library's constructor, on the main thread. on: as above. Forwards. */
	void (*load)(bool on);

	/* Before the worker thread is started, on the thread that starts it. Forwards. */
	void (*before_start)(void);

	/* The worker thread has begun, and before it leaves. On the worker thread, forwards. */
	void (*start)(void);
	void (*finish)(void);

	/* The heap has grown while the worker runs. Any thread of the program, after the allocator has
	 * returned. */
	void (*grown)(void);

	/* pthread_atfork's handlers: prepare forwards, in the order of sys/lock_ranks.def; parent and
	 * child backwards. */
	void (*fork_prepare)(void);
	void (*fork_parent)(void);
	void (*fork_child)(void);

	/* One turn of the worker thread, forwards. now_ns: CLOCK_MONOTONIC; bits: enum mt_control_bit,
	 * those that were set when the turn began. Returns when to come again, in ns of
	 * CLOCK_MONOTONIC; UINT64_MAX: no time of its own. */
	uint64_t (*tick)(uint64_t now_ns, uint32_t bits);

	/* A request of mtctl. True: it was this component's; the answer is in *out. Worker thread. */
	bool (*request)(const struct mt_request *request, enum mt_err *out);

	/* A setting is about to change: anything but MT_ERR_OK refuses it. wanted: the settings as they
	 * would be; name: of the setting. Worker thread. */
	enum mt_err (*check_setting)(const struct mt_config *wanted, const char *name);

	/* Settings have changed. Worker thread. */
	void (*configure)(void);

	/* A cleanup: prepare_trim backwards, then trim forwards. Any thread outside the allocator; no
	 * lock is held. */
	void (*prepare_trim)(const struct mt_trim_request *request, struct mt_cleanup *cleanup);
	void (*trim)(const struct mt_trim_request *request, struct mt_cleanup *cleanup);

	/* A cleanup that this component did not decide is over. charged: its cost counts against the
	 * budget. Worker thread. */
	void (*cleaned)(const struct mt_stats_cleanup *record, bool charged);

	/* Figures go into the published snapshot. all: whatever they cost. Worker thread, forwards. */
	void (*publish)(bool all);

	/* A reader wants fresh figures: what only the tick measures. Worker thread, forwards. */
	void (*refresh)(void);

	/* `mtctl reset-peak`. Worker thread. */
	void (*reset_peak)(void);

	/* The process ends through exit handlers. On the ending thread, forwards. */
	void (*stop)(void);
};

/* The table: core/component_table.c. Ended by NULL. */
extern const struct mt_component *const mt_component_table[];

/* Calls a hook of every component that has it. Callers: as the hook says. */
void mt_components_serve(bool on);
void mt_components_load(bool on);
void mt_components_before_start(void);
void mt_components_start(void);
void mt_components_finish(void);
void mt_components_grown(void);
void mt_components_fork_prepare(void);
void mt_components_fork_parent(void);
void mt_components_fork_child(void);
void mt_components_configure(void);
void mt_components_trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup);
void mt_components_cleaned(const struct mt_stats_cleanup *record, bool charged);
void mt_components_publish(bool all);
void mt_components_refresh(void);
void mt_components_reset_peak(void);
void mt_components_stop(void);

/* The earliest time that a component wants to come again, in ns of CLOCK_MONOTONIC. */
uint64_t mt_components_tick(uint32_t bits);

/* The first component that knows the request carries it out. MT_ERR_OLDER: none knows it. */
enum mt_err mt_components_request(const struct mt_request *request);

/* MT_ERR_OK, or the first refusal. */
enum mt_err mt_components_check_setting(const struct mt_config *wanted, const char *name);

#endif
