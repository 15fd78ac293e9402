/* compat/raw_fork.c -- a child that is made past fork's handlers: by _Fork, by clone, by the bare
 * system call, as sandboxes and container tools do. A program of one thread may allocate in it. The
 * worker does not come along, but its half-done purge would: so the heap stands still meanwhile.
 * Those that share our memory (CLONE_VM, vfork) need nothing; a system call that is made without
 * libc is not seen. CLONE_VFORK without CLONE_VM: the maker sleeps until the copy ends or calls
 * exec, which may be hours. There the heap stands still until the kernel has written the copy's id,
 * which it does as soon as the copy is made. Where the program has the id written for itself
 * (CLONE_PARENT_SETTID, CLONE_PIDFD; clone3), there is no word for ours: the heap is not held. Also
 * in signal handlers, where _Fork is allowed: nothing of ours that a program's thread may hold for
 * long is waited for. clone and syscall are here without the ellipsis of their prototypes, which
 * would keep us from passing a call on untouched: so under names of our own, which the assembler
 * replaces. Source: clone(2), clone3(2), _Fork(3). */
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "heap/purge_lock.h"
#include "sys/attr.h"
#include "sys/elf.h"
#include "sys/raw_syscall.h"
#include "sys/symbol.h"
#include "compat/raw_fork.h"
#include "core/init.h"
#include "core/worker.h"
#include "core/shared_pages.h"

typedef long (*syscall_fn)(long number, long a, long b, long c, long d, long e, long f);
typedef int (*clone_fn)(int (*start)(void *), void *stack, int flags, void *argument,
			void *parent_tid, void *tls, void *child_tid);

MT_EXPORT pid_t _Fork(void);
MT_EXPORT int wrap_clone(int (*start)(void *), void *stack, int flags, void *argument,
			 void *parent_tid, void *tls, void *child_tid) __asm__("clone");
MT_EXPORT long wrap_syscall(long number, long a, long b, long c, long d, long e,
			    long f) __asm__("syscall");

typedef pid_t (*fork_fn)(void);

/* Found once: these are called in handlers, and in children of a process that had a thread in the
 * loader, where dlsym may not be asked. No ordering. */
static _Atomic(fork_fn) next_fork;
static _Atomic(clone_fn) next_clone;
static _Atomic(syscall_fn) next_syscall;

void mt_raw_fork_start(void)
{
	atomic_store_explicit(&next_fork, (fork_fn)(uintptr_t)mt_symbol(RTLD_NEXT, "_Fork"),
			      memory_order_relaxed);
	atomic_store_explicit(&next_clone, (clone_fn)(uintptr_t)mt_symbol(RTLD_NEXT, "clone"),
			      memory_order_relaxed);
	atomic_store_explicit(&next_syscall, (syscall_fn)(uintptr_t)mt_symbol(RTLD_NEXT, "syscall"),
			      memory_order_relaxed);
}

static bool worker_may_purge(void)
{
	return mt_state_is_on() && mt_worker_is_running() && mt_state_is_own_process();
}

static bool hold_heap(void)
{
	int kept = errno;
	bool held;

	mt_shared_pages_note_fork();
	held = worker_may_purge() && mt_purge_hold();
	errno = kept;
	return held;
}

/* For a maker that sleeps: adds to its flags what makes the kernel write the word that is the
 * answer; NULL: nothing is held. */
static _Atomic pid_t *hold_heap_until_id(unsigned long *flags)
{
	int kept = errno;
	bool is_taken = *flags & (CLONE_PARENT_SETTID | CLONE_PIDFD);
	_Atomic pid_t *word;

	mt_shared_pages_note_fork();
	word = !is_taken && worker_may_purge() ? mt_purge_hold_until_copied() : NULL;
	if (word)
		*flags |= CLONE_PARENT_SETTID;
	errno = kept;
	return word;
}

/* Its child has it too. */
static void release_heap(bool held, bool is_child)
{
	int kept = errno;

	mt_shared_pages_note_fork();
	if (held && is_child)
		mt_purge_forget();
	else if (held)
		mt_purge_release();
	errno = kept;
}

MT_EXPORT pid_t _Fork(void)
{
	fork_fn next = atomic_load_explicit(&next_fork, memory_order_relaxed);
	pid_t child;
	bool held;

	if (!next)
		next = (fork_fn)(uintptr_t)mt_elf_libc_function("_Fork");
	if (!next) {
		errno = ENOSYS; /* glibc before 2.34 */
		return -1;
	}
	held = hold_heap();
	child = next();
	release_heap(held, child == 0);
	return child;
}

/* What the child of clone() runs; on the maker's stack, of which it has a copy. */
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

/* With CLONE_VFORK. */
static MT_COLD int clone_vfork(clone_fn next, struct clone_start *copy, void *stack, int flags,
			       void *const ids[3])
{
	unsigned long all_flags = (unsigned int)flags;
	_Atomic pid_t *word = hold_heap_until_id(&all_flags);
	int child;

	copy->held = word != NULL;
	child = next(run_child, stack, (int)all_flags, copy,
		     word ? (void *)(uintptr_t)word : ids[0], ids[1], ids[2]);
	mt_shared_pages_note_fork();
	if (word)
		mt_purge_end_copy(child >= 0);
	return child;
}

MT_EXPORT int wrap_clone(int (*start)(void *), void *stack, int flags, void *argument,
			 void *parent_tid, void *tls, void *child_tid)
{
	struct clone_start copy = {.start = start, .argument = argument};
	clone_fn next = atomic_load_explicit(&next_clone, memory_order_relaxed);
	int child;

	if (!next)
		next = (clone_fn)(uintptr_t)mt_elf_libc_function("clone");
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

/* A bad pointer is the kernel's to refuse. Asked by a futex that waits for no time, which every
 * sandbox knows; its word must be aligned, and a pointer that is not is passed on as one that
 * cannot be read. */
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

/* The third argument of clone is the word for the id on both machines; clone3 has its own. */
static MT_COLD long call_vfork_like(long number, long a, long b, long c, long d, long e)
{
	syscall_fn next = atomic_load_explicit(&next_syscall, memory_order_relaxed);
	unsigned long flags = (unsigned long)a;
	_Atomic pid_t *word = number == SYS_clone ? hold_heap_until_id(&flags) : NULL;
	long child =
		next(number, word ? (long)flags : a, b, word ? (long)(uintptr_t)word : c, d, e, 0);

	mt_shared_pages_note_fork();
	if (word && child == 0)
		mt_purge_forget();
	else if (word)
		mt_purge_end_copy(child > 0);
	return child;
}

static MT_COLD long call_fork_like(long number, long a, long b, long c, long d, long e, long f)
{
	syscall_fn next = atomic_load_explicit(&next_syscall, memory_order_relaxed);
	bool held = hold_heap();
	long child = next(number, a, b, c, d, e, f);

	release_heap(held, child == 0);
	return child;
}

/* Every other call passes with nothing but a look at its number; before the constructor it goes
 * straight to the kernel. */
MT_EXPORT long wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	syscall_fn next = atomic_load_explicit(&next_syscall, memory_order_relaxed);

	if (mt_unlikely(!next))
		return mt_raw_syscall(number, a, b, c, d, e, f);
	if (mt_unlikely(is_fork_call(number)) && !shares_memory(number, a, b))
		return parent_waits(number, a) ? call_vfork_like(number, a, b, c, d, e)
					       : call_fork_like(number, a, b, c, d, e, f);
	return next(number, a, b, c, d, e, f);
}
