/* sys/loader_gate.c -- the gate between fork and the dynamic loader. Contract: sys/loader.h. */
#include <errno.h>
#include <link.h>
#include <stdint.h>

#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/lock.h"
#include "sys/os.h"

/* a walk takes microseconds; a thread that stays inside must not block fork */
#define INSIDE_WAIT_NS (200 * MT_NS_PER_MS)
/* a fork copies the page tables of the whole process */
#define FORK_WAIT_NS (5 * MT_NS_PER_S)
#define STEP_NS      (MT_NS_PER_MS / 10)

/* seq_cst both: either the entering thread sees the closed gate, or fork sees that thread. */
static _Atomic uint32_t inside_count;
static _Atomic uint32_t gate_closed;

static _Atomic bool forked; /* set by the only thread of a new process, no ordering */

static MT_TLS uint32_t depth; /* of this thread: a loaded library's code may enter again */

void mt_loader_enter(void)
{
	uint64_t until = 0;

	mt_lock_check_foreign_call("the loader");
	if (depth++ > 0)
		return;
	for (;;) {
		uint64_t now;

		atomic_fetch_add(&inside_count, 1);
		if (mt_likely(!atomic_load(&gate_closed)))
			return;
		now = mt_os_now_ns();
		until = until ? until : now + FORK_WAIT_NS;
		if (now >= until)
			return;
		atomic_fetch_sub(&inside_count, 1);
		(void)mt_os_futex_wait(&gate_closed, 1, STEP_NS, MT_FUTEX_PRIVATE);
	}
}

void mt_loader_leave(void)
{
	mt_assert(depth > 0);
	/* first: a handler in between that forks must not wait for its own thread */
	if (depth == 1)
		atomic_fetch_sub(&inside_count, 1);
	depth--;
}

bool mt_loader_is_inside(void)
{
	return depth > 0;
}

bool mt_loader_is_forked(void)
{
	return mt_load_relaxed(&forked);
}

int mt_loader_iterate(int (*visit)(struct dl_phdr_info *info, size_t bytes, void *context),
		      void *context)
{
	int kept = errno;
	int answer;

	mt_loader_enter();
	answer = dl_iterate_phdr(visit, context);
	mt_loader_leave();
	errno = kept;
	return answer;
}

/* Not counting the calling thread: a library may fork while it is loaded. */
static uint32_t own_count(void)
{
	return depth > 0;
}

void mt_loader_fork_prepare(void)
{
	uint64_t until = 0;
	uint32_t count;

	mt_assert(!atomic_load(&gate_closed)); /* the publish lock serializes the callers */
	mt_lock_check_enter(MT_RANK_loader);
	atomic_store(&gate_closed, 1);
	while ((count = atomic_load(&inside_count)) > own_count()) {
		uint64_t now = mt_os_now_ns();

		until = until ? until : now + INSIDE_WAIT_NS;
		if (now >= until)
			break;
		/* No thread wakes this one: a walk must stay cheap, a fork is expensive anyway. */
		(void)mt_os_futex_wait(&inside_count, count, STEP_NS, MT_FUTEX_PRIVATE);
	}
}

void mt_loader_fork_parent(void)
{
	atomic_store(&gate_closed, 0);
	mt_lock_check_leave(MT_RANK_loader);
}

/* Threads that were still inside do not exist in the child. */
void mt_loader_fork_child(void)
{
	atomic_store(&inside_count, own_count());
	mt_store_relaxed(&forked, true);
	mt_loader_fork_parent();
}
