/* compat/fork.c -- libc promises that a signal handler may fork in a program of one thread, and
 * leaves out all of its own locks there. The worker thread must not take that away: the handler may
 * have interrupted fork, malloc or stdio of libc. So for fork libc counts the program's threads
 * only. Before glibc 2.36 its count cannot be set: there all signals are blocked during fork, so
 * that no handler interrupts fork. Source: SINGLE_THREAD_P in fork.c of glibc; tst-mallocfork2 of
 * its tests. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "compat/fork.h"
#include "core/init.h"
#include "core/services.h"
#include "core/worker.h"
#include "heap/asleep.h"
#include "heap/jemalloc.h"
#include "heap/purge_lock.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/libc.h"
#include "sys/loader.h"
#include "sys/os.h"
#include "sys/rss.h"

MT_EXPORT pid_t fork(void);

typedef pid_t (*fork_fn)(void);

#define HOLD_NS      MT_NS_PER_S
#define HOLD_STEP_NS (MT_NS_PER_MS / 5)
/* A sleep that so many steps see is no short wait for a lock of the kernel's; in a program of more
 * threads, none for one of another thread that goes on. */
#define ASLEEP_STEPS      3
#define ASLEEP_STEPS_MANY 50

static _Atomic(fork_fn) next_fork; /* no ordering */

static MT_TLS bool holds_purge; /* for the fork under way */

/* The hold of the purge lock, by its number, in which the worker waits for this thread; 0: none. */
static MT_TLS uint32_t stuck_hold;

/* Returns whether the program has one thread, beside the worker and the thread of python/. */
static bool is_single_threaded(void)
{
	return mt_libc_threads_count() == 2u + mt_interpreter_thread_runs();
}

/* Returns whether the worker, while it has the purge lock, waits for this thread or one that is as
 * slow. */
static bool is_worker_stuck(void)
{
	return stuck_hold && stuck_hold == mt_purge_worker_hold();
}

/* Takes the purge lock, for a copy of the process: a child of a half-done purge could never finish
 * it. Waits up to a second. Returns false if it is not taken: copy all the same; a child that is
 * made in the middle of a purge cannot purge that arena. A handler may have interrupted malloc,
 * with a lock for which the worker waits while it has the purge lock: that is noticed within a ms
 * in a program of one thread, within 10 ms or more in others. */
static bool hold_purge(void)
{
	uint64_t until = mt_os_now_ns() + HOLD_NS;
	int most = is_single_threaded() ? ASLEEP_STEPS : ASLEEP_STEPS_MANY;
	int asleep_count = 0;

	while (!is_worker_stuck()) {
		uint32_t hold = mt_purge_worker_hold();

		if (mt_purge_hold(HOLD_STEP_NS))
			return true;
		asleep_count = hold && mt_worker_is_asleep() && hold == mt_purge_worker_hold()
				       ? asleep_count + 1
				       : 0;
		if (asleep_count == most)
			stuck_hold = hold;
		if (mt_os_now_ns() >= until)
			return false;
	}
	return false;
}

/* The worker resets its state before libc stops counting it, so it never stands for a thread of the
 * program. */
static pid_t fork_beside_worker(fork_fn next)
{
	struct mt_libc_fork before;
	pid_t child;

	if (!is_single_threaded())
		return next();
	before = mt_libc_begin_fork_alone();
	child = next();
	mt_libc_end_fork_alone(before, child == 0);
	return child;
}

static pid_t fork_with_signals_blocked(fork_fn next)
{
	uint64_t signals = mt_os_block_signals();
	pid_t child = next();

	mt_os_restore_signals(signals);
	return child;
}

MT_EXPORT pid_t fork(void)
{
	fork_fn next = mt_load_relaxed(&next_fork);

	if (!next)
		next = (fork_fn)(uintptr_t)mt_loader_libc_function("fork");
	if (mt_state_is_on() && mt_worker_is_running() && mt_state_is_own_process())
		return mt_libc_knows_threads() ? fork_beside_worker(next)
					       : fork_with_signals_blocked(next);
	return next();
}

void mt_fork_prepare(void)
{
	holds_purge = hold_purge();
}

void mt_fork_parent(void)
{
	if (holds_purge)
		mt_purge_release();
}

void mt_fork_child(void)
{
	mt_purge_forget();
}

/* ---- children without fork ---- */

/* Wraps _Fork, clone and syscall for children that are made without fork's handlers, as sandboxes
 * and container tools do. A child of a program with one thread may allocate. The worker thread does
 * not exist in it, but a purge that the worker has half done would: so the wrappers keep the worker
 * from changing the heap during the call. A child that shares the memory (CLONE_VM, vfork) needs
 * nothing. A system call made without libc is not seen.
 *
 * With CLONE_VFORK but not CLONE_VM the parent sleeps until the child ends or calls exec, which may
 * take hours. There the heap is held only until the kernel has written the child's id, right after
 * the copy. If the program uses that id itself (CLONE_PARENT_SETTID, CLONE_PIDFD; clone3), the heap
 * is not held.
 *
 * Also called in signal handlers, where _Fork is allowed: never waits for a lock that a thread of
 * the program may hold for long. clone and syscall are variadic in libc's headers, which would
 * prevent passing a call on unchanged: so they have other names here, which the assembler replaces.
 * Source: clone(2), clone3(2), _Fork(3). */

typedef long (*syscall_fn)(long number, long a, long b, long c, long d, long e, long f);
typedef int (*clone_fn)(int (*start)(void *), void *stack, int flags, void *argument,
			void *parent_tid, void *tls, void *child_tid);

MT_EXPORT pid_t _Fork(void);
MT_EXPORT int wrap_clone(int (*start)(void *), void *stack, int flags, void *argument,
			 void *parent_tid, void *tls, void *child_tid) __asm__("clone");
MT_EXPORT long wrap_syscall(long number, long a, long b, long c, long d, long e,
			    long f) __asm__("syscall");

/* Looked up once: the wrappers run in signal handlers, and in children of a process with a thread
 * inside the loader, where dlsym must not be called. No ordering. */
static _Atomic(fork_fn) next_raw_fork;
static _Atomic(clone_fn) next_clone;
static _Atomic(syscall_fn) next_syscall;

void mt_fork_start(void)
{
	mt_store_relaxed(&next_fork, (fork_fn)(uintptr_t)mt_loader_symbol(RTLD_NEXT, "fork"));
	mt_libc_find_threads();
	mt_store_relaxed(&next_raw_fork, (fork_fn)(uintptr_t)mt_loader_symbol(RTLD_NEXT, "_Fork"));
	mt_store_relaxed(&next_clone, (clone_fn)(uintptr_t)mt_loader_symbol(RTLD_NEXT, "clone"));
	mt_store_relaxed(&next_syscall,
			 (syscall_fn)(uintptr_t)mt_loader_symbol(RTLD_NEXT, "syscall"));
}

static bool worker_may_purge(void)
{
	return mt_state_is_on() && mt_worker_is_running() && mt_state_is_own_process();
}

static bool hold_heap(void)
{
	int kept = errno;
	bool held;

	mt_rss_shared_note_fork();
	held = worker_may_purge() && hold_purge();
	errno = kept;
	return held;
}

/* For a parent that sleeps: adds the flag by which the kernel writes the child's id into the
 * result. NULL: the heap is not held. */
static _Atomic pid_t *hold_heap_until_id(unsigned long *flags)
{
	int kept = errno;
	bool is_taken = *flags & (CLONE_PARENT_SETTID | CLONE_PIDFD);
	_Atomic pid_t *word;

	mt_rss_shared_note_fork();
	word = !is_taken && worker_may_purge() ? mt_purge_hold_until_copied() : NULL;
	if (word)
		*flags |= CLONE_PARENT_SETTID;
	errno = kept;
	return word;
}

/* In parent and child: the child has a copy of the held lock. */
static void release_heap(bool held, bool is_child)
{
	int kept = errno;

	mt_rss_shared_note_fork();
	if (held && is_child)
		mt_purge_forget();
	else if (held)
		mt_purge_release();
	errno = kept;
}

MT_EXPORT pid_t _Fork(void)
{
	fork_fn next = mt_load_relaxed(&next_raw_fork);
	pid_t child;
	bool held;

	if (!next)
		next = (fork_fn)(uintptr_t)mt_loader_libc_function("_Fork");
	if (!next) {
		errno = ENOSYS; /* glibc before 2.34 */
		return -1;
	}
	held = hold_heap();
	child = next();
	release_heap(held, child == 0);
	return child;
}

/* The child of clone() runs this, on its copy of the parent's stack. */
struct clone_start {
	int (*start)(void *);
	void *argument;
	bool held;
};

static int run_child(void *argument_of_parent)
{
	const struct clone_start *copy = argument_of_parent;

	release_heap(copy->held, true);
	return copy->start(copy->argument);
}

/* clone() with CLONE_VFORK. */
static MT_COLD int clone_vfork(clone_fn next, struct clone_start *copy, void *stack, int flags,
			       void *const ids[3])
{
	unsigned long all_flags = (unsigned int)flags;
	_Atomic pid_t *word = hold_heap_until_id(&all_flags);
	int child;

	copy->held = word != NULL;
	child = next(run_child, stack, (int)all_flags, copy,
		     word ? (void *)(uintptr_t)word : ids[0], ids[1], ids[2]);
	mt_rss_shared_note_fork();
	if (word)
		mt_purge_end_copy(child >= 0);
	return child;
}

MT_EXPORT int wrap_clone(int (*start)(void *), void *stack, int flags, void *argument,
			 void *parent_tid, void *tls, void *child_tid)
{
	struct clone_start copy = {.start = start, .argument = argument};
	clone_fn next = mt_load_relaxed(&next_clone);
	int child;

	if (!next)
		next = (clone_fn)(uintptr_t)mt_loader_libc_function("clone");
	if ((flags & (CLONE_VM | CLONE_VFORK | CLONE_SETTLS)) == CLONE_VM)
		mt_jemalloc_caches_note_shared();
	if ((flags & CLONE_VM) || !start)
		return next(start, stack, flags, argument, parent_tid, tls, child_tid);
	if (flags & CLONE_VFORK)
		return clone_vfork(next, &copy, stack, flags,
				   (void *const[]){parent_tid, tls, child_tid});
	copy.held = hold_heap();
	child = next(run_child, stack, flags, &copy, parent_tid, tls, child_tid);
	release_heap(copy.held, false);
	return child;
}

static bool is_fork_call(long number)
{
#ifdef SYS_fork
	if (number == SYS_fork)
		return true;
#endif
	return number == SYS_clone || number == SYS_clone3;
}

/* Returns whether the kernel can read the argument of clone3: it must report a bad pointer itself.
 * Tested by a futex wait without a timeout, which every sandbox allows. The futex word must be
 * aligned; a misaligned pointer counts as unreadable and is passed on. */
static bool is_readable(const struct clone_args *wanted)
{
	const struct timespec none = {0};
	int kept = errno;
	bool can_read =
		mt_raw_syscall(SYS_futex, wanted, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &none) == 0 ||
		(errno != EFAULT && errno != EINVAL);

	errno = kept;
	return can_read;
}

static bool shares_memory(long number, long a, long b)
{
	const struct clone_args *wanted = (const struct clone_args *)(uintptr_t)a;

	if (number == SYS_clone)
		return a & CLONE_VM;
	if (number == SYS_clone3)
		return (unsigned long)b < CLONE_ARGS_SIZE_VER0 || !is_readable(wanted) ||
		       (wanted->flags & CLONE_VM);
	return false;
}

static bool parent_waits(long number, long a)
{
	if (number == SYS_clone3)
		return ((const struct clone_args *)(uintptr_t)a)->flags & CLONE_VFORK;
	return number == SYS_clone && (a & CLONE_VFORK);
}

/* The third argument of clone is the address for the id on both architectures; clone3 has its
 * own. */
static MT_COLD long call_vfork_like(long number, long a, long b, long c, long d, long e)
{
	syscall_fn next = mt_load_relaxed(&next_syscall);
	unsigned long flags = (unsigned long)a;
	_Atomic pid_t *word = number == SYS_clone ? hold_heap_until_id(&flags) : NULL;
	long child =
		next(number, word ? (long)flags : a, b, word ? (long)(uintptr_t)word : c, d, e, 0);

	mt_rss_shared_note_fork();
	if (word && child == 0)
		mt_purge_forget();
	else if (word)
		mt_purge_end_copy(child > 0);
	return child;
}

static MT_COLD long call_fork_like(long number, long a, long b, long c, long d, long e, long f)
{
	syscall_fn next = mt_load_relaxed(&next_syscall);
	bool held = hold_heap();
	long child = next(number, a, b, c, d, e, f);

	release_heap(held, child == 0);
	return child;
}

/* Calls that may leave flags on pages. libc's functions for them are wrapped by themselves. */
static bool sets_page_flags(long number)
{
	return number == SYS_madvise || number == SYS_mprotect || number == SYS_pkey_mprotect ||
	       number == SYS_mlock || number == SYS_mlock2 || number == SYS_mbind;
}

static MT_COLD long call_page_flags(long number, long a, long b, long c, long d, long e, long f)
{
	long result = mt_raw_syscall(number, a, b, c, d, e, f);

	if (result == 0)
		mt_asleep_note_flags(number, a, b, c);
	return result;
}

/* Passes every other call on after a look at its number. Before the constructor it makes the system
 * call itself. */
MT_EXPORT long wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	syscall_fn next = mt_load_relaxed(&next_syscall);

	if (mt_unlikely(!next))
		return mt_raw_syscall(number, a, b, c, d, e, f);
	if (mt_unlikely(is_fork_call(number)) && shares_memory(number, a, b))
		mt_jemalloc_caches_note_shared();
	else if (mt_unlikely(is_fork_call(number)))
		return parent_waits(number, a) ? call_vfork_like(number, a, b, c, d, e)
					       : call_fork_like(number, a, b, c, d, e, f);
	if (mt_unlikely(sets_page_flags(number)))
		return call_page_flags(number, a, b, c, d, e, f);
	if (mt_unlikely(number == SYS_userfaultfd))
		mt_jemalloc_reuse_end();
	if (mt_unlikely(number == SYS_brk))
		mt_asleep_leave_break();
	return next(number, a, b, c, d, e, f);
}
