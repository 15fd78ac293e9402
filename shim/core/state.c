#include "core/state.h"

#include <sys/types.h>

#include "sys/atomic.h"
#include "sys/os.h"
#include "sys/main_thread.h"

enum start { START_NONE, START_UNDER_WAY, START_DONE };
static _Atomic int start; /* enum start; release/acquire with the state that the start sets up */
static bool on;
/* no ordering; heap/ may change them once more, see mt_state_note_heap */
static _Atomic bool is_over_jemalloc;
static _Atomic(const char *) allocator = "unknown";
/* the process that the shim belongs to; a vfork child or raw clone differs in it */
static pid_t own_pid;

bool mt_state_begin(void)
{
	int expected = START_NONE;

	return atomic_compare_exchange_strong_explicit(&start, &expected, START_UNDER_WAY,
						       memory_order_acq_rel, memory_order_acquire);
}

bool mt_state_has_begun(void)
{
	return mt_load_acquire(&start) != START_NONE;
}

void mt_state_finish(bool is_on)
{
	mt_assert(mt_load_relaxed(&start) == START_UNDER_WAY);
	on = is_on;
	mt_store_release(&start, START_DONE);
}

bool mt_state_has_started(void)
{
	return mt_load_acquire(&start) == START_DONE;
}

bool mt_state_is_on(void)
{
	return mt_state_has_started() && on;
}

void mt_state_note_process(void)
{
	own_pid = mt_os_getpid();
}

/* A vfork child runs on its parent's memory, a raw clone on a copy of it: both have another pid.
 * Except if parent and child are each the first process of a pid namespace: hence the second
 * test. */
bool mt_state_is_own_process(void)
{
	return mt_os_getpid() == own_pid && !mt_raw_clone_is_child();
}

void mt_state_note_heap(const char *name, bool is_jemalloc)
{
	mt_store_relaxed(&allocator, name);
	mt_store_relaxed(&is_over_jemalloc, is_jemalloc);
}

bool mt_state_is_jemalloc(void)
{
	return mt_state_is_on() && mt_load_relaxed(&is_over_jemalloc);
}

const char *mt_state_allocator(void)
{
	return mt_state_is_on() ? mt_load_relaxed(&allocator) : "unknown";
}
