/* signal/signal.c -- wraps the sigaction family for the cleanup signal; calls for any other signal
 * go straight to the next function in line. Contract: signal/signal.h. The program's view of the
 * signal: signal_view.c.
 *
 * libc's signal(), sigset() and similar functions call sigaction inside libc, which bypasses this
 * library. So each is implemented here on the view, for the cleanup signal, as its man page
 * describes it. */
#include "signal/signal.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "sys/attr.h"
#include "core/config.h"
#include "sys/loader.h"
#include "core/components.h"
#include "core/log.h"
#include "core/publish.h"
#include "sys/symbol.h"
#include "signal/signal_view.h"

typedef void (*any_function)(void);
typedef int (*change_function)(int, const struct sigaction *, struct sigaction *);
typedef sighandler_t (*set_function)(int, sighandler_t);
typedef int (*ignore_function)(int);
typedef int (*interrupt_function)(int, int);

/* Functions with the prototype of signal(): name, implementation. */
#define SETTERS(X)                                                                                 \
	X(signal, set_bsd)                                                                         \
	X(bsd_signal, set_bsd)                                                                     \
	X(ssignal, set_bsd)                                                                        \
	X(sysv_signal, set_sysv)                                                                   \
	X(__sysv_signal, set_sysv)                                                                 \
	X(sigset, set_masking)

/* Other functions. sigaction is last: next_find fills in this order, so a thread that sees it sees
 * all of them. */
#define OTHERS(X)                                                                                  \
	X(sigignore, unused)                                                                       \
	X(siginterrupt, unused)                                                                    \
	X(__sigaction, unused)                                                                     \
	X(sigaction, unused)

enum next_name {
#define X(name, meaning) NEXT_##name,
	SETTERS(X) OTHERS(X)
#undef X
		NEXT_COUNT
};

static const char *const next_names[NEXT_COUNT] = {
#define X(name, meaning) #name,
	SETTERS(X) OTHERS(X)
#undef X
};

/* NULL before the search, and for names that this libc lacks */
static _Atomic(any_function) next[NEXT_COUNT];

/* Number of changes of the cleanup signal's action through this library; counter, no ordering. */
static _Atomic uint32_t changes_count = 1;
static uint32_t published_changes_count; /* worker thread */

/* Signals with siginterrupt(sig, 1): signal() sets no SA_RESTART for them. */
static _Atomic uint64_t interrupting;

/* Concurrent calls store the same values. dlsym is not async-signal-safe; mt_signal_start runs
 * before any handler, except handlers that an earlier constructor set through a function below,
 * which has called this. */
static MT_COLD void next_find(void)
{
	for (unsigned i = 0; i < NEXT_COUNT; i++)
		atomic_store(&next[i], (any_function)mt_symbol(RTLD_NEXT, next_names[i]));
}

static any_function next_function(enum next_name name)
{
	if (mt_unlikely(!atomic_load(&next[NEXT_sigaction])))
		next_find();
	return atomic_load(&next[name]);
}

int mt_signal_next_change(int sig, const struct sigaction *act, struct sigaction *old)
{
	change_function change = (change_function)next_function(NEXT_sigaction);

	if (act && sig == mt_signal_view_number())
		atomic_fetch_add_explicit(&changes_count, 1, memory_order_relaxed);
	if (change)
		return change(sig, act, old);
	errno = ENOSYS;
	return -1;
}

/* ---- libc's functions, on the view ---- */

static sighandler_t refuse(void)
{
	errno = EINVAL;
	return SIG_ERR;
}

static uint64_t bit_of(int sig)
{
	return sig > 0 && sig < _NSIG ? UINT64_C(1) << (sig - 1) : 0;
}

static sighandler_t set(int sig, sighandler_t handler, int flags, bool masks_itself)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = flags}, old;

	if (handler == SIG_ERR)
		return refuse();
	if (masks_itself)
		sigaddset(&act.sa_mask, sig);
	return mt_signal_view_change(sig, &act, &old) < 0 ? SIG_ERR : old.sa_handler;
}

/* BSD semantics: the handler stays installed, and system calls restart unless siginterrupt said
 * otherwise. */
static sighandler_t set_bsd(int sig, sighandler_t handler)
{
	return set(sig, handler, atomic_load(&interrupting) & bit_of(sig) ? 0 : SA_RESTART, true);
}

/* System V semantics: the handler runs once, the signal is not blocked meanwhile, and system calls
 * return EINTR. */
static sighandler_t set_sysv(int sig, sighandler_t handler)
{
	return set(sig, handler, (int)(SA_RESETHAND | SA_NODEFER | SA_INTERRUPT), false);
}

/* sigset(): SIG_HOLD only blocks the signal, other handlers unblock it. Returns SIG_HOLD where it
 * was blocked. glibc accepts SIG_ERR as a handler here. */
static sighandler_t set_masking(int sig, sighandler_t handler)
{
	const bool hold = handler == SIG_HOLD;
	const struct sigaction act = {.sa_handler = handler};
	struct sigaction was;
	sigset_t only, old;

	sigemptyset(&only);
	if (sigaddset(&only, sig) < 0 || mt_signal_view_change(sig, hold ? NULL : &act, &was) < 0 ||
	    sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &only, &old) < 0)
		return SIG_ERR;
	return sigismember(&old, sig) ? SIG_HOLD : was.sa_handler;
}

static int interrupt(int sig, int flag)
{
	struct sigaction act;

	if (mt_signal_view_change(sig, NULL, &act) < 0)
		return -1;
	if (flag)
		act.sa_flags &= ~SA_RESTART;
	else
		act.sa_flags |= SA_RESTART;
	return mt_signal_view_change(sig, &act, NULL);
}

/* ---- start, and the disposition ---- */

static int is_java(struct dl_phdr_info *info, size_t bytes, void *unused)
{
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	const char *name = slash ? slash + 1 : info->dlpi_name;

	(void)bytes;
	(void)unused;
	return name && strncmp(name, "libjvm.so", strlen("libjvm.so")) == 0;
}

/* The JVM suspends its threads with SIGUSR2: each of those signals would be a cleanup. */
static bool belongs_to_java(int sig)
{
	return sig == SIGUSR2 && mt_loader_iterate(is_java, NULL) != 0;
}

static void warn_java(void)
{
	mt_log(MT_LOG_WARN, "MT_SIGNAL=USR2: the JVM in this process uses this signal; no cleanup "
			    "signal here");
}

void mt_signal_start(void)
{
	int sig = (int)mt_config()->signal;

	next_find();
	if (sig == 0)
		return;
	if (belongs_to_java(sig))
		warn_java();
	else
		mt_signal_view_open(sig,
				    mt_config()->origin[MT_OPTION_signal] != MT_ORIGIN_DEFAULT);
}

enum mt_signal_disposition mt_signal_disposition(void)
{
	int sig = mt_signal_view_number();

	/* The Java launcher loads libjvm long after the start. */
	if (belongs_to_java(sig)) {
		mt_signal_view_close(sig);
		warn_java();
		return MT_DISPOSITION_NONE;
	}
	return mt_signal_view_disposition(sig);
}

/* ---- the exported functions ---- */

static bool is_ours(int sig)
{
	return sig > 0 && sig == mt_signal_view_number();
}

/* libc's headers declare some of these only in some modes. */
#define X(name, meaning) MT_EXPORT sighandler_t name(int sig, sighandler_t handler);
SETTERS(X)
#undef X
MT_EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old);
MT_EXPORT int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);
MT_EXPORT int sigignore(int sig);
MT_EXPORT int siginterrupt(int sig, int flag);

/* Where libc lacks a name, the implementation here serves every signal. */
#define X(name, meaning)                                                                           \
	sighandler_t name(int sig, sighandler_t handler)                                           \
	{                                                                                          \
		set_function other = (set_function)next_function(NEXT_##name);                     \
                                                                                                   \
		if (is_ours(sig) || !other)                                                        \
			return meaning(sig, handler);                                              \
		return other(sig, handler);                                                        \
	}
SETTERS(X)
#undef X

int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return is_ours(sig) ? mt_signal_view_change(sig, act, old)
			    : mt_signal_next_change(sig, act, old);
}

int __sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	change_function other = (change_function)next_function(NEXT___sigaction);

	return is_ours(sig) || !other ? mt_signal_view_change(sig, act, old) : other(sig, act, old);
}

int sigignore(int sig)
{
	ignore_function other = (ignore_function)next_function(NEXT_sigignore);
	const struct sigaction act = {.sa_handler = SIG_IGN};

	return is_ours(sig) || !other ? mt_signal_view_change(sig, &act, NULL) : other(sig);
}

int siginterrupt(int sig, int flag)
{
	interrupt_function other = (interrupt_function)next_function(NEXT_siginterrupt);
	int result = is_ours(sig) || !other ? interrupt(sig, flag) : other(sig, flag);

	/* For every signal: the cleanup signal is not known before the start. */
	if (result == 0 && flag)
		atomic_fetch_or(&interrupting, bit_of(sig));
	else if (result == 0)
		atomic_fetch_and(&interrupting, ~bit_of(sig));
	return result;
}

/* Reads the disposition before it takes the publish lock: another library's sigaction may take
 * locks that its fork handler also takes before ours waits for the publish lock. The count is read
 * first: a change after it is published at the next call. */
static void refresh(void)
{
	uint32_t changes = atomic_load_explicit(&changes_count, memory_order_relaxed);
	uint64_t state = (uint64_t)mt_signal_disposition();

	published_changes_count = changes;
	mt_publish_lock()->signal_disposition = state;
	mt_publish_unlock();
}

/* Only a raw system call changes the action without being counted: mtctl's request shows it, by
 * refresh. With SIGUSR2 a JVM may have been loaded. */
static void publish(bool all)
{
	if (all &&
	    (mt_signal_view_number() == SIGUSR2 ||
	     published_changes_count != atomic_load_explicit(&changes_count, memory_order_relaxed)))
		refresh();
}

static void fork_child(void)
{
	published_changes_count = 0; /* the child has a stats file of its own */
	mt_signal_view_fork_child();
}

static void load(bool on)
{
	if (on)
		mt_signal_start();
}

const struct mt_component mt_signal_component = {
	.name = "signal",
	.load = load,
	.fork_child = fork_child,
	.publish = publish,
	.refresh = refresh,
};
