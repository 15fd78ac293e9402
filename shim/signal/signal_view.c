/* signal/signal_view.c -- the action that the program set, and the action that the kernel holds.
 * Contract: signal/signal_view.h.
 *
 * The module keeps no copy of the disposition that could disagree with the kernel. Where the
 * program's action is SIG_DFL or a shared handler, the kernel holds one of a few numbered entry
 * functions. The slot of that number holds the program's action. So one sigaction call changes
 * handler, flags, mask and view together, for all threads. With a single entry function and a
 * separate view, a signal between the two changes would run a handler with another one's mask. A
 * slot is not rewritten while others are free, and an equal action gets the same slot: a program of
 * up to SLOTS_COUNT actions never rewrites one.
 *
 * The kernel holds, for each action of the program:
 *
 * SIG_DFL: an entry, with SA_RESTART and SA_ONSTACK. A signal wakes the worker and the program goes
 * on.
 *
 * A handler: that handler, unchanged, so the signal is the program's (PostgreSQL's processes signal
 * each other hundreds of times a second). Where MT_SIGNAL is set, the signal is shared: an entry
 * with the handler's own flags and mask, which wakes the worker and then calls the handler.
 * SA_SIGINFO is added. The entry implements SA_RESETHAND itself, since the kernel's way leaves a
 * moment of plain SIG_DFL. After a one-shot handler has run, the program's view is SIG_DFL and the
 * entry stays.
 *
 * SIG_IGN: SIG_IGN. A handler would interrupt poll() and sleep() of the program.
 *
 * A signal under SIG_DFL ends the process where the program itself set SIG_DFL (or its one-shot
 * handler has run) and the process sent the signal to itself: raise(), pthread_kill() or
 * kill(getpid()). So programs that end by a signal after their own cleanup, and faulthandler, work.
 * Any other signal is a request for a cleanup.
 *
 * In a process that the slots do not belong to -- a vfork child, which shares the memory, or a raw
 * clone, whose atfork handlers did not run -- the program's action goes to the kernel unchanged and
 * no slot is written. Results are still translated. Python's subprocess reads every signal's action
 * in its vfork child.
 *
 * Lock: one (rank signal), over the slots and the sigaction call that belongs to them; no lock is
 * taken under it. It is held with all signals blocked: a handler never waits for its own thread,
 * and a cancelled thread cannot keep it. */
#include "signal/signal_view.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sys/attr.h"
#include "sys/raw_syscall.h"
#include "sys/lock_check.h"
#include "sys/os.h"
#include "core/control_file.h"

#define SPINS_COUNT       64
#define SLEEP_NS          50000
#define ADOPT_TRIES_COUNT 8

/* The flags in which the kernel's action may differ from the program's. All other flags, and the
 * mask, are the same, and results have them as the kernel keeps them (it drops unknown ones). */
#define REPLACED_FLAGS ((int)(SA_SIGINFO | SA_RESTART | SA_ONSTACK | SA_NODEFER | SA_RESETHAND))

typedef void (*info_handler)(int, siginfo_t *, void *);
/* The program's action. Written under the lock, read by handlers without it. */
struct slot {
	_Atomic(info_handler) handler; /* NULL is SIG_DFL */
	_Atomic int flags;             /* of DISGUISED_FLAGS */
	atomic_bool untouched;         /* SIG_DFL since exec: the program never set it */
	atomic_bool armed;             /* a one-shot handler that has not run */
};

#define SLOTS(X)                                                                                   \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define X(n) +1
enum { SLOTS_COUNT = 0 SLOTS(X) };
#undef X

static struct slot slots[SLOTS_COUNT];
static unsigned slots_used;   /* under the lock */
static unsigned slot_current; /* the slot in the kernel; under the lock */
/* the cleanup signal; 0 before the start, or without one */
static _Atomic int number;
/* a handler of the program shares the signal; written once, before `number` */
static bool is_shared;
static _Atomic pid_t owner_pid; /* the process that the slots belong to */
/* the last other process that changed the action through this module */
static _Atomic pid_t other_pid;
static atomic_bool locked; /* acquire when locked, release when unlocked */

static void deliver(struct slot *slot, int sig, siginfo_t *info, void *context);

#define X(n)                                                                                       \
	static void enter_##n(int sig, siginfo_t *info, void *context)                             \
	{                                                                                          \
		deliver(&slots[n], sig, info, context);                                            \
	}
SLOTS(X)
#undef X

static const info_handler entries[SLOTS_COUNT] = {
#define X(n) enter_##n,
	SLOTS(X)
#undef X
};

/* ---- the lock ---- */

/* Returns the mask before, for unlock. */
static uint64_t lock(void)
{
	const struct timespec pause = {.tv_nsec = SLEEP_NS};
	uint64_t old_mask = mt_os_block_signals();

	mt_lock_check_enter(MT_RANK_signal);
	/* The owner may have a lower real-time priority on this CPU, so spinning must end in sleep.
	 * libc's nanosleep is a cancellation point. */
	for (unsigned spins = 0; atomic_exchange_explicit(&locked, true, memory_order_acquire);
	     spins++)
		if (spins >= SPINS_COUNT)
			mt_raw_syscall(SYS_nanosleep, &pause, NULL);
	return old_mask;
}

static void unlock(uint64_t old_mask)
{
	atomic_store_explicit(&locked, false, memory_order_release);
	mt_lock_check_leave(MT_RANK_signal);
	mt_os_restore_signals(old_mask);
}

/* ---- slots ---- */

static struct slot *slot_behind(const struct sigaction *seen)
{
	for (unsigned i = 0; i < SLOTS_COUNT; i++)
		if (seen->sa_sigaction == entries[i])
			return &slots[i];
	return NULL;
}

static bool slot_holds(const struct slot *slot, info_handler handler, int flags, bool untouched)
{
	return atomic_load(&slot->handler) == handler && atomic_load(&slot->flags) == flags &&
	       atomic_load(&slot->untouched) == untouched;
}

/* Under the lock. */
static unsigned slot_for(info_handler handler, int flags, bool untouched)
{
	unsigned i;

	for (i = 0; i < slots_used; i++)
		if (slot_holds(&slots[i], handler, flags, untouched))
			break;
	if (i == slots_used && slots_used < SLOTS_COUNT)
		slots_used++;
	else if (i == slots_used)
		/* about the one that was unused for longest */
		i = (slot_current + 1) % SLOTS_COUNT;
	atomic_store(&slots[i].flags, flags);
	atomic_store(&slots[i].untouched, untouched);
	atomic_store(&slots[i].handler, handler);
	atomic_store(&slots[i].armed, handler && (flags & (int)SA_RESETHAND));
	slot_current = i;
	return i;
}

/* Returns whether the kernel gets an entry for this action. */
static bool needs_entry(const struct sigaction *want)
{
	return want->sa_handler == SIG_DFL || (is_shared && want->sa_handler != SIG_IGN);
}

/* Returns the action for the kernel; under the lock. */
static struct sigaction to_kernel_view(const struct sigaction *want, bool untouched)
{
	struct sigaction given = *want;

	if (!needs_entry(want))
		return given;
	given.sa_sigaction =
		entries[slot_for(want->sa_sigaction, want->sa_flags & REPLACED_FLAGS, untouched)];
	given.sa_flags = (want->sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
	if (want->sa_handler == SIG_DFL)
		given.sa_flags = (given.sa_flags & ~SA_NODEFER) | SA_RESTART | SA_ONSTACK;
	return given;
}

/* Turns the kernel's action into the program's. A handler that a raw system call set is not an
 * entry and stays as it is. */
static void to_program_view(struct sigaction *seen)
{
	const struct slot *slot = slot_behind(seen);

	if (!slot)
		return;
	if (atomic_load(&slot->untouched)) {
		memset(seen, 0, sizeof *seen);
		return;
	}
	seen->sa_sigaction = atomic_load(&slot->handler);
	seen->sa_flags = (seen->sa_flags & ~REPLACED_FLAGS) | atomic_load(&slot->flags);
}

/* ---- the program's view: all calls below go through these ---- */

int mt_signal_view_number(void)
{
	return atomic_load_explicit(&number, memory_order_acquire);
}

static bool is_owner_process(void)
{
	return mt_os_getpid() == atomic_load(&owner_pid);
}

/* Also for other signals, whose actions need no translation. */
static int change_in_other_process(int sig, const struct sigaction *act, struct sigaction *old)
{
	if (act)
		atomic_store(&other_pid, mt_os_getpid());
	if (mt_signal_next_change(sig, act, old) < 0)
		return -1;
	to_program_view(old);
	return 0;
}

/* sigaction() for the cleanup signal. Reads *act before the lock and writes *old after it: a bad
 * pointer faults as in libc, with no lock held. */
int mt_signal_view_change(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction given, was;
	uint64_t mask;
	int result;

	if (act)
		given = *act;
	if (sig != mt_signal_view_number() || !is_owner_process()) {
		result = change_in_other_process(sig, act ? &given : NULL, &was);
	} else {
		mask = lock();
		if (act)
			given = to_kernel_view(&given, false);
		result = mt_signal_next_change(sig, act ? &given : NULL, &was);
		if (result == 0)
			to_program_view(&was);
		unlock(mask);
	}
	if (result == 0 && old)
		*old = was;
	return result;
}

/* ---- delivery of a signal ---- */

/* Sets the program's view to SIG_DFL with the old flags and mask, as the kernel does after a
 * one-shot handler. */
static void one_shot_end(const struct slot *slot, int sig, bool is_owner)
{
	struct sigaction seen;

	if (mt_signal_next_change(sig, NULL, &seen) < 0 || slot_behind(&seen) != slot)
		return;
	to_program_view(&seen);
	seen.sa_handler = SIG_DFL;
	if (is_owner)
		seen = to_kernel_view(&seen, false);
	mt_signal_next_change(sig, &seen, NULL);
}

/* Consumes the program's one-shot handler. Returns false where another thread's signal was
 * first. */
static bool one_shot_take(struct slot *slot, int sig)
{
	uint64_t mask;

	if (!is_owner_process()) { /* the slot may be the parent's, whose handler has not run */
		one_shot_end(slot, sig, false);
		return true;
	}
	if (!atomic_exchange(&slot->armed, false))
		return false;
	mask = lock();
	/* armed again: another thread has set the handler again meanwhile */
	if (!atomic_load(&slot->armed))
		one_shot_end(slot, sig, true);
	unlock(mask);
	return true;
}

static bool is_self_sent(const struct slot *slot, const siginfo_t *info)
{
	/* for other codes si_pid may have another meaning */
	bool is_sent = info->si_code == SI_TKILL || info->si_code == SI_USER;

	return !atomic_load(&slot->untouched) && is_sent && info->si_pid == mt_os_getpid();
}

/* Ends the process by the signal, so that the parent sees the right status. */
static MT_COLD void die(int sig)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL};
	struct sigaction ours, now;
	const uint64_t only = UINT64_C(1) << (sig - 1);
	uint64_t mask = MT_SIGNALS_UNKNOWN;

	mt_signal_next_change(sig, &plain, &ours);
	mt_raw_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &only, &mask, sizeof(only));
	mt_raw_syscall(SYS_tgkill, mt_os_getpid(), (pid_t)mt_raw_syscall(SYS_gettid), sig);
	/* Still running: the first process of a pid namespace survives its own signals, or another
	 * thread has set a handler meanwhile, which stays. */
	mt_os_restore_signals(mask);
	if (mt_signal_next_change(sig, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		mt_signal_next_change(sig, &ours, NULL);
}

static void deliver(struct slot *slot, int sig, siginfo_t *info, void *context)
{
	int kept = errno;
	info_handler handler = atomic_load(&slot->handler);

	if (!handler && is_self_sent(slot, info)) {
		die(sig);
		errno = kept;
		return;
	}
	mt_control_notify(MT_CONTROL_SIGNAL);
	if (handler && (atomic_load(&slot->flags) & (int)SA_RESETHAND) && !one_shot_take(slot, sig))
		handler = NULL;
	errno = kept;
	/* Three arguments even without SA_SIGINFO: the kernel passes them too, and old programs
	 * read them. The handler may leave by longjmp: nothing is left to do after it. */
	if (handler)
		handler(sig, info, context);
}

/* ---- start, fork, disposition ---- */

/* Takes the kernel's action for the program's; under the lock. Another thread may be inside libc's
 * sigaction since before the start: where the replaced action differs from the one that was read,
 * the replaced one counts. */
static void take_over(int sig)
{
	struct sigaction seen, given, was;

	if (mt_signal_next_change(sig, NULL, &seen) < 0)
		return;
	for (int tries = 0; tries < ADOPT_TRIES_COUNT && needs_entry(&seen) && !slot_behind(&seen);
	     tries++) {
		/* exec leaves no flags; libc sets at least one flag with each action, on x86-64 */
		given = to_kernel_view(&seen, seen.sa_handler == SIG_DFL && seen.sa_flags == 0);
		if (mt_signal_next_change(sig, &given, &was) < 0)
			return;
		if (was.sa_sigaction == seen.sa_sigaction && was.sa_flags == seen.sa_flags)
			return;
		seen = was;
	}
}

void mt_signal_view_open(int sig, bool shared)
{
	uint64_t mask;

	mask = lock();
	atomic_store(&owner_pid, mt_os_getpid());
	is_shared = shared;
	atomic_store(&number, sig);
	take_over(sig);
	unlock(mask);
}

void mt_signal_view_close(int sig)
{
	struct sigaction seen;
	uint64_t mask;

	mask = lock();
	if (atomic_load(&number) == sig && mt_signal_next_change(sig, NULL, &seen) == 0 &&
	    slot_behind(&seen)) {
		to_program_view(&seen);
		mt_signal_next_change(sig, &seen, NULL);
	}
	atomic_store(&number, 0);
	unlock(mask);
}

void mt_signal_view_fork_child(void)
{
	int sig = atomic_load(&number);
	pid_t self = mt_os_getpid();
	uint64_t mask;

	/* The thread that held the lock does not exist here. No other atfork handler can hold it,
	 * since the slots belong to another process until now. */
	atomic_store(&locked, false);
	if (sig == 0 || self == atomic_load(&owner_pid))
		return;
	mask = lock();
	atomic_store(&owner_pid, self);
	/* Another library's atfork handler has changed the action before this one ran. */
	if (atomic_load(&other_pid) == self)
		take_over(sig);
	unlock(mask);
}

enum mt_signal_disposition mt_signal_view_disposition(int sig)
{
	const struct slot *slot;
	struct sigaction seen;

	mt_lock_check_foreign_call("sigaction");
	if (sig == 0 || mt_signal_next_change(sig, NULL, &seen) < 0)
		return MT_DISPOSITION_NONE;
	if (seen.sa_handler == SIG_IGN)
		return MT_DISPOSITION_IGNORED;
	slot = slot_behind(&seen);
	if (!slot && !needs_entry(&seen))
		return MT_DISPOSITION_PROGRAM;
	if (!slot)
		return MT_DISPOSITION_LOST;
	return atomic_load(&slot->handler) ? MT_DISPOSITION_SHARED : MT_DISPOSITION_OURS;
}
