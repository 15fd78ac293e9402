/* checks.h -- the C checks of tests/gpu/kit/truth.py: each runs as `checks NAME` in a process of
 * its own and ends with 0 (passed), 77 (skipped, with the reason as last line) or anything else
 * (failed).
 * `needs` says which of them hold on a bare driver, and which where the shim only counts. */
#ifndef CHECKS_H
#define CHECKS_H

#include "gpu.h"

enum check_needs { NEEDS_NOTHING, NEEDS_SHIM, NEEDS_POOL };

struct check {
	const char *name;
	enum check_needs needs;
	const char *settings; /* environment for it beyond the way's own, as NAME=VALUE words */
	void (*run)(void);
};

/* check_reuse.c: no work that was enqueued before a free reaches whoever gets the address next. */
void check_reuse_non_blocking(void);
void check_reuse_blocking(void);
void check_reuse_per_thread(void);
void check_reuse_null(void);
void check_reuse_graph(void);
void check_reuse_green(void);
void check_reuse_threads(void);
/* check_captures.c */
void check_capture_storm(void);
void check_capture_signal(void);
void check_capture_trim(void);
void check_capture_alloc(void);
/* check_frees.c */
void check_double_free(void);
void check_unknown_free(void);
void check_families(void);
void check_address_range(void);
void check_context_destroyed(void);
void check_primary_reset(void);
void check_fork(void);
void check_ipc(void);
void check_sticky(void);
/* check_memory.c */
void check_oom_vmm(void);
void check_oom_blocks(void);
void check_oom_error(void);
void check_pool_hit(void);
void check_info(void);
void check_decay(void);
void check_signal(void);
void check_trim(void);

/* Which of the two it is under: what a check may expect. */
bool is_pooling(void);

/* `mtctl WORD PID` for this process, without the shim in mtctl itself; skips where MTCTL names no
 * program that starts. */
void ask_mtctl(const char *word);

/* The part of a second process, `checks --role NAME`. */
void role_ipc(void);

#endif
