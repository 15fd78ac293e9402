/* signal/signal_view.c -- what the program asked for and what the kernel holds. Contract:
 * signal/signal_view.h.
 *
 * The kernel is the only truth: there is no copy of the disposition that could disagree with it.
 * Where the program has SIG_DFL or a handler of its own, the kernel holds one of a few numbered
 * entry functions of ours, and the slot of that number says what the program asked for. So one
 * sigaction call changes handler, flags, mask and view together, for every thread at once. With one
 * entry function and a view beside it, a signal between the two changes would have run a handler
 * without its own mask. A slot is not rewritten while others are free, and the same wish gets the
 * same slot again; a program of up to SLOTS_COUNT different wishes never has one rewritten.
 *
 * What the program asked for, and what the kernel then holds:
 *   nothing, SIG_DFL  our entry, SA_RESTART | SA_ONSTACK: a signal rings the control file, and the
 *     program lives on
 *   a handler         that handler, as the program gave it: the signal is the program's alone
 *     (PostgreSQL's processes
 *                     signal each other hundreds of times a second). Where somebody has set
 *                       MT_SIGNAL, the signal is
 *                     shared: our entry with the handler's own flags and mask, which rings, then
 *                       hands on. Only
 *                     SA_SIGINFO is added, and SA_RESETHAND is done by us: the kernel's way would
 *                       leave a moment of
 *                     bare SIG_DFL
 *   SIG_IGN           SIG_IGN, else poll() and sleep() would end early in a program that wanted not
 *     to be bothered
 * After a shared one-shot handler has run, the program's view is SIG_DFL and our entry stands.
 *
 * When a signal under SIG_DFL kills: if the program itself put SIG_DFL there (or a one-shot handler
 * was used up) and the signal comes from this very process, by raise(), pthread_kill() or
 * kill(mt_os_getpid()). That is how programs die by a signal after cleaning up, and how
 * faulthandler chains. All else is a cleanup.
 *
 * In a process whose pid we do not know -- a child of vfork, which shares our memory, or of a bare
 * clone, whose atfork handlers did not run -- the program's wish goes to the kernel as it is and no
 * slot is written; answers are translated all the same. Python's subprocess asks for every signal
 * in its vfork child.
 *
 * Lock: one (signal), over slots and the kernel call that goes with them; nothing is taken under
 * it. It is taken with all signals blocked, so a handler never waits for its own thread, and a
 * cancelled thread cannot die with it. */
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

#define KERNEL_MASK_BYTES 8 /* what rt_sigprocmask takes where _NSIG is 65 */
#define SPINS_COUNT       64
#define SLEEP_NS          50000
#define ADOPT_TRIES_COUNT 8

/* The flags in which the kernel's copy may differ from the program's wish. All others, and the
 * mask, are the program's own in the kernel too, and are answered as the kernel keeps them (it
 * drops unknown ones). */
#define REPLACED_FLAGS ((int)(SA_SIGINFO | SA_RESTART | SA_ONSTACK | SA_NODEFER | SA_RESETHAND))

_Static_assert(_NSIG / 8 == KERNEL_MASK_BYTES, "the kernel's signal mask is 64 bits here");

typedef void (*info_handler)(int, siginfo_t *, void *);
/* What the program asked for. Written under the lock, read by handlers without it. */
struct slot {
	_Atomic(info_handler) handler; /* NULL is SIG_DFL */
	_Atomic int flags;             /* of DISGUISED_FLAGS */
	atomic_bool untouched;         /* SIG_DFL as exec left it: the program never set it */
	atomic_bool armed;             /* a one-shot handler that has not run */
};

#define SLOTS(X)                                                                                   \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define X(n) +1
enum { SLOTS_COUNT = 0 SLOTS(X) };
#undef X

static struct slot slots[SLOTS_COUNT];
static unsigned slots_used;   /* under the lock */
static unsigned slot_current; /* the one that went to the kernel last; under the lock */
/* the cleanup signal; 0 before the start and when there is none */
static _Atomic int number;
/* with handlers of the program's; written once, before `number` */
static bool is_shared;
static _Atomic pid_t owner_pid; /* the process that the slots belong to */
/* the last other process that changed the signal through us */
static _Atomic pid_t other_pid;
static atomic_bool locked; /* acquire when taken, release when given back */

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

/* No mask that the kernel tells: SIGKILL is never in one. */
#define MASK_UNKNOWN UINT64_MAX

static void mask_change(int how, uint64_t mask, uint64_t *old)
{
	if (old)
		*old = MASK_UNKNOWN;
	/* The system call itself: libc's would leave its two internal signals open, one of which
	 * cancels threads. */
	mt_raw_syscall(SYS_rt_sigprocmask, how, &mask, old, KERNEL_MASK_BYTES);
}

/* Where it could not be changed there is nothing to restore, and what there is to be had is
 * nobody's mask. */
static void mask_restore(uint64_t old)
{
	if (old != MASK_UNKNOWN)
		mask_change(SIG_SETMASK, old, NULL);
}

static void lock(uint64_t *old_mask)
{
	const struct timespec pause = {.tv_nsec = SLEEP_NS};

	mask_change(SIG_SETMASK, ~UINT64_C(0), old_mask);
	mt_lock_check_enter(MT_RANK_signal);
	/* The owner may be of a lower real-time priority on this very CPU, so spinning must end in
	 * sleep; libc's nanosleep would be a cancellation point. */
	for (unsigned spins = 0; atomic_exchange_explicit(&locked, true, memory_order_acquire);
	     spins++)
		if (spins >= SPINS_COUNT)
			mt_raw_syscall(SYS_nanosleep, &pause, NULL);
}

static void unlock(uint64_t old_mask)
{
	atomic_store_explicit(&locked, false, memory_order_release);
	mt_lock_check_leave(MT_RANK_signal);
	mask_restore(old_mask);
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
		/* the one that has gone unused longest, or nearly */
		i = (slot_current + 1) % SLOTS_COUNT;
	atomic_store(&slots[i].flags, flags);
	atomic_store(&slots[i].untouched, untouched);
	atomic_store(&slots[i].handler, handler);
	atomic_store(&slots[i].armed, handler && (flags & (int)SA_RESETHAND));
	slot_current = i;
	return i;
}

/* Whether the kernel gets an entry of ours for what the program asks for. */
static bool needs_entry(const struct sigaction *want)
{
	return want->sa_handler == SIG_DFL || (is_shared && want->sa_handler != SIG_IGN);
}

/* What the kernel gets so that `want` comes true; under the lock. */
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

/* Turns what the kernel said into what it would have said without us. A handler that somebody set
 * by a raw system call is not ours and stays as it is. */
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

/* ---- the program's view: everything below goes through here ---- */

int mt_signal_view_number(void)
{
	return atomic_load_explicit(&number, memory_order_acquire);
}

static bool is_owner_process(void)
{
	return mt_os_getpid() == atomic_load(&owner_pid);
}

/* Also for signals that are not ours, where there is nothing to reveal. */
static int change_in_other_process(int sig, const struct sigaction *act, struct sigaction *old)
{
	if (act)
		atomic_store(&other_pid, mt_os_getpid());
	if (mt_signal_next_change(sig, act, old) < 0)
		return -1;
	to_program_view(old);
	return 0;
}

/* sigaction() for our signal. *act is read before the lock and *old written after it: a bad pointer
 * then faults as it does in libc, with nothing held. */
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
		lock(&mask);
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

/* ---- a signal has come ---- */

/* After a one-shot handler the program's view is SIG_DFL with the old flags and mask: so the kernel
 * leaves it. */
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

/* Uses up the program's one-shot handler. Answers false where another thread's signal was first. */
static bool one_shot_take(struct slot *slot, int sig)
{
	uint64_t mask;

	if (!is_owner_process()) { /* the slot may be our parent's, whose shot is still to come */
		one_shot_end(slot, sig, false);
		return true;
	}
	if (!atomic_exchange(&slot->armed, false))
		return false;
	lock(&mask);
	/* armed again: another thread has set it again meanwhile, and that stands */
	if (!atomic_load(&slot->armed))
		one_shot_end(slot, sig, true);
	unlock(mask);
	return true;
}

static bool is_self_sent(const struct slot *slot, const siginfo_t *info)
{
	/* in others si_pid may mean something else */
	bool is_sent = info->si_code == SI_TKILL || info->si_code == SI_USER;

	return !atomic_load(&slot->untouched) && is_sent && info->si_pid == mt_os_getpid();
}

/* Dies by the signal, so that the parent sees the right status. */
static MT_COLD void die(int sig)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL};
	struct sigaction ours, now;
	uint64_t mask;

	mt_signal_next_change(sig, &plain, &ours);
	mask_change(SIG_UNBLOCK, UINT64_C(1) << (sig - 1), &mask);
	mt_raw_syscall(SYS_tgkill, mt_os_getpid(), (pid_t)mt_raw_syscall(SYS_gettid), sig);
	/* Still here: the first process of a pid namespace does not die of its own signals, or
	 * another thread set a handler meanwhile, which is then left standing. */
	mask_restore(mask);
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
	/* Three arguments for a handler of one as well: so does the kernel, and old programs look
	 * at them. errno is the handler's own affair from here on, and it may leave by longjmp:
	 * nothing of ours is left to be done. */
	if (handler)
		handler(sig, info, context);
}

/* ---- start, fork, door ---- */

/* Takes the kernel's view as the program's; under the lock. Another thread may be inside libc's
 * sigaction, on its way from before the start: if what we replaced is not what we looked at, what
 * we replaced is looked at. */
static void take_over(int sig)
{
	struct sigaction seen, given, was;

	if (mt_signal_next_change(sig, NULL, &seen) < 0)
		return;
	for (int tries = 0; tries < ADOPT_TRIES_COUNT && needs_entry(&seen) && !slot_behind(&seen);
	     tries++) {
		/* exec leaves no flags, and libc sets at least one in all that it sets, on x86-64
		 * at least. */
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

	lock(&mask);
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

	lock(&mask);
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

	/* Whoever held it is no thread of this process; another atfork handler cannot have it,
	 * being away from home. */
	atomic_store(&locked, false);
	if (sig == 0 || self == atomic_load(&owner_pid))
		return;
	lock(&mask);
	atomic_store(&owner_pid, self);
	/* Somebody else's atfork handler came before us and changed the signal while we were not at
	 * home. */
	if (atomic_load(&other_pid) == self)
		take_over(sig);
	unlock(mask);
}

/* Asks the kernel; the part of mt_signal_disposition that needs slots. */
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
