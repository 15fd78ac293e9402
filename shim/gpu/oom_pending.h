/* gpu/oom_pending.h -- out-of-memory errors that the program may still overcome by itself. After
 * the first error PyTorch, CuPy and RMM empty their cache and ask again for the same; the BFC
 * allocator of JAX and TensorFlow asks for a tenth less each time. An error is overcome when the
 * same thread's next allocation on the device succeeds, with the same size or up to an eighth less.
 * It is final when that thread allocates something else first, and after MT_OOM_PATIENCE_NS:
 * between the two tries there may be calls of cuMemFree that wait for all work of the device. Pure;
 * the caller locks. */
#ifndef MT_GPU_OOM_PENDING_H
#define MT_GPU_OOM_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/os.h"
#include "core/stats_layout.h"

#define MT_OOM_PENDING_MAX 8
#define MT_OOM_PATIENCE_NS (5 * MT_NS_PER_S)

struct mt_oom_failure {
	uint32_t thread;           /* thread id of the caller */
	uint32_t errors_count;     /* failed tries */
	uint64_t since_ns;         /* of the first try, CLOCK_MONOTONIC */
	struct mt_stats_oom facts; /* of the last try */
};

/* Zeroed: none. Oldest first, one for each thread. */
struct mt_oom_pending {
	uint32_t count;
	struct mt_oom_failure failures[MT_OOM_PENDING_MAX];
};

/* An allocation of the thread has failed, as the facts say. Returns true where another error has
 * become final by that, *out_final. */
bool mt_oom_pending_fail(struct mt_oom_pending *pending, uint32_t thread,
			 const struct mt_stats_oom *facts, uint64_t now_ns,
			 struct mt_oom_failure *out_final);

/* An allocation of the thread has succeeded. Returns true where an error of it was pending,
 * *out_settled, and is no longer; *out_overcome: it is overcome, else final. */
bool mt_oom_pending_succeed(struct mt_oom_pending *pending, uint32_t thread, uint64_t device,
			    uint64_t bytes, struct mt_oom_failure *out_settled, bool *out_overcome);

/* Returns true where the oldest error is final, *out_final: its time is up, or (all) the process
 * ends. */
bool mt_oom_pending_expire(struct mt_oom_pending *pending, uint64_t now_ns, bool all,
			   struct mt_oom_failure *out_final);

/* Returns whether an error of the thread is pending. */
bool mt_oom_pending_has(const struct mt_oom_pending *pending, uint32_t thread);

/* Returns when the next one expires; UINT64_MAX: none is pending. */
uint64_t mt_oom_pending_next_ns(const struct mt_oom_pending *pending);

#endif
