/* signal/signal.c -- the cleanup signal (MT_SIGNAL): wraps the functions of libc that set a
 * handler, for that one signal. Calls for any other signal go straight to the next function.
 *
 * If the program's action is SIG_DFL the kernel holds one of two handlers of the shim, and the
 * program reads SIG_DFL, with neither flags nor a mask. Every other action of the program goes to
 * the kernel as it is, and the signal is then the program's alone. So the module keeps no copy of
 * the action that could disagree with the kernel, and needs no lock.
 *
 * A signal ends the process if the program itself set SIG_DFL and then sent the signal to
 * itself: raise(), pthread_kill() or kill(getpid()). So programs that end by a signal after their
 * own cleanup, and faulthandler, work. Any other signal is a request for a cleanup.
 *
 * In a vfork child, which shares the memory, and in a raw clone, whose atfork handlers did not run,
 * SIG_DFL goes to the kernel unchanged.
 *
 * libc's signal(), sigset() and similar functions call sigaction inside libc, which bypasses this
 * library. So SIG_DFL is set here, as their man pages describe it; what they return is translated.
 * Any thread, any signal handler and a vfork child may call. Never allocates. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "core/components.h"
#include "core/config.h"
#include "core/control_file.h"
#include "core/publish.h"
#include "core/thread.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/lock.h"
#include "sys/os.h"

typedef void (*any_function)(void);
typedef int (*change_function)(int, const struct sigaction *, struct sigaction *);
typedef sighandler_t (*set_function)(int, sighandler_t);

/* The disposition of the cleanup signal: values of the stats field signal_disposition (no 2). */
enum disposition {
	DISPOSITION_NONE = 0,    /* there is no cleanup signal */
	DISPOSITION_OURS = 1,    /* the shim's handler is installed */
	DISPOSITION_LOST = 3,    /* SIG_DFL, by a raw system call or after a one-shot handler */
	DISPOSITION_IGNORED = 4, /* the program ignores the signal */
	DISPOSITION_PROGRAM = 5  /* the program's handler is installed */
};

/* Functions like signal(): name, how it sets SIG_DFL. sigaction is last: next_find fills in
 * this order, so a thread that sees it sees all of them. */
#define SETTERS(X)                                                                                 \
	X(signal, default_bsd)                                                                     \
	X(bsd_signal, default_bsd)                                                                 \
	X(ssignal, default_bsd)                                                                    \
	X(sysv_signal, default_sysv)                                                               \
	X(__sysv_signal, default_sysv)                                                             \
	X(sigset, default_masking)
#define NAMES(X) SETTERS(X) X(sigaction, unused)

#define X(name, default) NEXT_##name,
enum next_name { NAMES(X) NEXT_COUNT };
#undef X

#define X(name, default) #name,
static const char *const next_names[NEXT_COUNT] = {NAMES(X)};
#undef X

/* NULL before the search, and for names that this libc lacks */
static _Atomic(any_function) next[NEXT_COUNT];

static _Atomic int number;      /* the cleanup signal; 0 before the start, or without one */
static _Atomic pid_t owner_pid; /* the process that the cleanup signal belongs to */

/* Number of changes of its action through this library; counter, no ordering. */
static _Atomic uint32_t changes_count = 1;
static uint32_t published_changes_count; /* worker thread */

/* Concurrent calls store the same values. dlsym is not async-signal-safe; start runs before any
 * handler, except handlers that an earlier constructor set through a function below, which has
 * called this. */
static MT_COLD void next_find(void)
{
	for (unsigned i = 0; i < NEXT_COUNT; i++)
		atomic_store(&next[i], (any_function)mt_loader_symbol(RTLD_NEXT, next_names[i]));
}

static any_function next_function(enum next_name name)
{
	if (mt_unlikely(!atomic_load(&next[NEXT_sigaction])))
		next_find();
	return atomic_load(&next[name]);
}

/* Calls the next sigaction in line, which sees the kernel's action. */
static int change_kernel(int sig, const struct sigaction *act, struct sigaction *old)
{
	change_function change = (change_function)next_function(NEXT_sigaction);

	if (change)
		return change(sig, act, old);
	errno = ENOSYS;
	return -1;
}

/* ---- the shim's two handlers ---- */

/* Ends the process by the signal, so that the parent sees the right status. */
static MT_COLD void die(int sig)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL};
	struct sigaction ours, now;
	const uint64_t only = UINT64_C(1) << (sig - 1);
	uint64_t mask = MT_SIGNALS_UNKNOWN;

	mt_assert(sig > 0 && sig < _NSIG);
	change_kernel(sig, &plain, &ours);
	mt_raw_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &only, &mask, sizeof(only));
	mt_raw_syscall(SYS_tgkill, mt_os_getpid(), (pid_t)mt_raw_syscall(SYS_gettid), sig);
	/* Still running: the first process of a pid namespace survives its own signals, or another
	 * thread has set a handler meanwhile, which stays. */
	mt_os_restore_signals(mask);
	if (change_kernel(sig, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		change_kernel(sig, &ours, NULL);
}

/* The program never set the signal since exec. */
static void on_untouched(int sig, siginfo_t *info, void *context)
{
	int kept = errno;

	(void)sig;
	(void)info;
	(void)context;
	mt_control_notify(MT_CONTROL_SIGNAL);
	errno = kept;
}

/* The program set SIG_DFL. For other codes si_pid has another meaning: the program has asked for
 * the signal itself, by a timer, a queue or fcntl(F_SETSIG). */
static void on_default(int sig, siginfo_t *info, void *context)
{
	bool is_sent =
		info->si_code == SI_TKILL || info->si_code == SI_USER || info->si_code == SI_QUEUE;
	int kept = errno;

	if (is_sent && info->si_pid != mt_os_getpid())
		on_untouched(sig, info, context);
	else
		die(sig);
	errno = kept;
}

static bool is_entry(const struct sigaction *seen)
{
	return seen->sa_sigaction == on_untouched || seen->sa_sigaction == on_default;
}

static struct sigaction entry(void (*handler)(int, siginfo_t *, void *))
{
	return (struct sigaction){.sa_sigaction = handler,
				  .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
}

/* ---- the program's view ---- */

static bool is_ours(int sig)
{
	return sig > 0 && sig == mt_load_acquire(&number);
}

/* sigaction(2) as the program sees it. Reads *act before the call and writes *old after it: a bad
 * pointer faults as in libc. */
static int change(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction given, was;

	if (!is_ours(sig))
		return change_kernel(sig, act, old);
	if (act) {
		given = *act;
		if (given.sa_handler == SIG_DFL && mt_os_getpid() == atomic_load(&owner_pid))
			given = entry(on_default);
		mt_add_relaxed(&changes_count, 1);
	}
	if (change_kernel(sig, act ? &given : NULL, &was) < 0)
		return -1;
	if (is_entry(&was))
		memset(&was, 0, sizeof(was));
	if (old)
		*old = was;
	return 0;
}

static sighandler_t set_default(int sig, int flags)
{
	const struct sigaction act = {.sa_handler = SIG_DFL, .sa_flags = flags};
	struct sigaction old;

	return change(sig, &act, &old) < 0 ? SIG_ERR : old.sa_handler;
}

static sighandler_t default_bsd(int sig)
{
	return set_default(sig, SA_RESTART);
}

static sighandler_t default_sysv(int sig)
{
	return set_default(sig, (int)(SA_RESETHAND | SA_NODEFER | SA_INTERRUPT));
}

/* sigset() unblocks the signal, and returns SIG_HOLD if it was blocked. */
static sighandler_t default_masking(int sig)
{
	sighandler_t was = set_default(sig, 0);
	sigset_t only, old;

	sigemptyset(&only);
	if (sigaddset(&only, sig) < 0 || sigprocmask(SIG_UNBLOCK, &only, &old) < 0)
		return SIG_ERR;
	return sigismember(&old, sig) ? SIG_HOLD : was;
}

/* A handler that goes to libc's own function, whose answer may be a handler of the shim. */
static sighandler_t set_handler(enum next_name name, int sig, sighandler_t handler)
{
	set_function set = (set_function)next_function(name);
	struct sigaction was;

	if (!set)
		set = (set_function)next_function(NEXT_signal);
	if (is_ours(sig))
		mt_add_relaxed(&changes_count, 1);
	was = (struct sigaction){.sa_handler = set(sig, handler)};
	return is_entry(&was) ? SIG_DFL : was.sa_handler;
}

/* libc's headers declare some of these only in some modes. */
#define X(name, by_default)                                                                        \
	MT_EXPORT sighandler_t name(int sig, sighandler_t handler);                                \
                                                                                                   \
	sighandler_t name(int sig, sighandler_t handler)                                           \
	{                                                                                          \
		if (handler == SIG_DFL && is_ours(sig))                                            \
			return by_default(sig);                                                    \
		return set_handler(NEXT_##name, sig, handler);                                     \
	}
SETTERS(X)
#undef X

MT_EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old);
MT_EXPORT int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);

int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return change(sig, act, old);
}

int __sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return change(sig, act, old);
}

/* ---- start, and the disposition ---- */

/* Installs a handler of the shim if the kernel's action is SIG_DFL. Another thread may be inside
 * libc's sigaction since before the start: what it set meanwhile is put back. */
static void take_over(int sig)
{
	struct sigaction seen, given, was;

	if (change_kernel(sig, NULL, &seen) < 0 || seen.sa_handler != SIG_DFL)
		return;
	/* exec leaves no flags; libc sets at least one flag with each action, on x86-64 */
	given = entry(seen.sa_flags ? on_default : on_untouched);
	if (change_kernel(sig, &given, &was) == 0 && was.sa_handler != SIG_DFL && !is_entry(&was))
		change_kernel(sig, &was, NULL);
}

static void load(bool on)
{
	int sig = (int)mt_config()->signal;

	if (!on)
		return;
	next_find();
	if (sig == 0)
		return;
	atomic_store(&owner_pid, mt_os_getpid());
	atomic_store(&number, sig);
	take_over(sig);
}

/* Asks the kernel, through the next sigaction in line: hold no lock. */
static enum disposition read_disposition(void)
{
	int sig = atomic_load(&number);
	struct sigaction seen;

	mt_lock_check_foreign_call("sigaction");
	if (sig == 0 || change_kernel(sig, NULL, &seen) < 0)
		return DISPOSITION_NONE;
	return is_entry(&seen)              ? DISPOSITION_OURS
	       : seen.sa_handler == SIG_IGN ? DISPOSITION_IGNORED
	       : seen.sa_handler == SIG_DFL ? DISPOSITION_LOST
					    : DISPOSITION_PROGRAM;
}

/* Reads the disposition before it takes the publish lock: another library's sigaction may take
 * locks that its fork handler also takes before ours waits for the publish lock. The count is read
 * first: a change after it is published at the next call. */
static void refresh(void)
{
	uint32_t changes = mt_load_relaxed(&changes_count);
	uint64_t state = (uint64_t)read_disposition();

	mt_assert(mt_thread_is_ours());
	published_changes_count = changes;
	mt_publish_lock()->signal_disposition = state;
	mt_publish_unlock();
}

/* A raw system call, sigignore() and a one-shot handler change the action without being counted:
 * mtctl's request shows it, by refresh. */
static void publish(bool all)
{
	if (all && published_changes_count != mt_load_relaxed(&changes_count))
		refresh();
}

static void fork_child(void)
{
	int sig = atomic_load(&number);

	published_changes_count = 0; /* the child has a stats file of its own */
	atomic_store(&owner_pid, mt_os_getpid());
	/* Another library's atfork handler may have set SIG_DFL before this one ran. */
	if (sig)
		take_over(sig);
}

const struct mt_component mt_signal_component = {
	.name = "signal",
	.load = load,
	.fork_child = fork_child,
	.publish = publish,
	.refresh = refresh,
};
