/* compat/compat.c -- the component: wrappers of libc's functions that only unusual programs need.
 * Owns the addresses of their next functions. Any thread may call the wrappers, those of fork also
 * in signal handlers. They take no lock but the purge lock, before all other locks of fork. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <linux/sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "core/components.h"
#include "core/init.h"
#include "core/log.h"
#include "core/services.h"
#include "core/worker.h"
#include "heap/asleep.h"
#include "heap/entries.h"
#include "heap/jemalloc.h"
#include "heap/purge_lock.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/libc.h"
#include "sys/loader.h"
#include "sys/os.h"
#include "sys/rss.h"

/* Programs built with GCC's AddressSanitizer, whose runtime is a shared library (libasan). It ends
 * a program in which another library was loaded before it, as LD_PRELOAD does, unless this option
 * is off. It asks this function before it checks. Our malloc then passes all calls on to its
 * malloc, which finds what it always finds. A program that defines the function itself needs
 * ASAN_OPTIONS=verify_asan_link_order=0. */
MT_EXPORT const char *__asan_default_options(void);

MT_EXPORT const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}

/* ---- dlopen ---- */

/* dlopen is wrapped to leave out the flag RTLD_DEEPBIND over the embedded allocator. A library
 * opened with it binds malloc to libc's, past every preloaded allocator. libc's strdup and getline
 * still return blocks of the preloaded one, and the library's first free of such a block crashes
 * (PHP opens its modules so). Logged at level info. MT_ALLOCATOR=system keeps the flag, since all
 * blocks are libc's there. Takes no lock. Other calls jump to the next dlopen with the caller's
 * return address, by which the loader finds namespace and search path (dlopen.S). */

/* Returns the mode to open with, for a mode that has RTLD_DEEPBIND. Keeps errno. */
int mt_deepbind_mode(int mode);

/* Finds the next dlopen in line. The word that dlopen.S reads stays NULL if there is none. */
void mt_deepbind_init(void);

/* Not static: dlopen.S jumps there. Changes once, from NULL to its value; relaxed. */
extern _Atomic(void *) mt_deepbind_next;
_Atomic(void *) mt_deepbind_next;

MT_COLD void mt_deepbind_init(void)
{
	mt_store_relaxed(&mt_deepbind_next, mt_loader_symbol(RTLD_NEXT, "dlopen"));
}

static void log_once(void)
{
	static atomic_flag is_told = ATOMIC_FLAG_INIT;

	/* only a flag, no ordering */
	if (!atomic_flag_test_and_set_explicit(&is_told, memory_order_relaxed))
		mt_log(MT_LOG_INFO, "dlopen: removing RTLD_DEEPBIND, which would mix libc's "
				    "allocator with this one; MT_ALLOCATOR=system keeps it");
}

MT_COLD int mt_deepbind_mode(int mode)
{
	int kept = errno;

	if (mt_init_uses_jemalloc()) {
		log_once();
		mode &= ~RTLD_DEEPBIND;
	}
	errno = kept;
	return mode;
}

/* ---- calls that need one thread ---- */

/* Pauses the worker thread for calls that need a process of one thread. unshare and setns: they
 * change what the calling thread shares, and the worker would stay with the old directory or
 * namespace, which then lives on. So if the program has one thread, the worker ends before and
 * starts again in what is new. Beside other threads of the program it stays with them, unless the
 * call fails with EINVAL: for a user namespace (setns also for a mount namespace) the kernel
 * refuses a process of several threads. Bare system calls are not seen. Source: unshare(2),
 * setns(2). */

MT_EXPORT int unshare(int flags);
MT_EXPORT int setns(int fd, int type);

/* Ids: libc has every thread change its own ids, and aborts the process if the kernel refuses
 * one thread and not another. A thread may have other rights than the worker by capabilities
 * (PR_SET_KEEPCAPS, capset) or a seccomp filter. So if the worker's credentials differ, or are
 * unknown, the worker is paused. Not at each change of ids: a file server changes them for every
 * request, and would wait for the worker's purge each time. */
#define IDS(X)                                                                                     \
	X(setuid, (uid_t id), (id))                                                                \
	X(setgid, (gid_t id), (id))                                                                \
	X(seteuid, (uid_t id), (id))                                                               \
	X(setegid, (gid_t id), (id))                                                               \
	X(setreuid, (uid_t real, uid_t effective), (real, effective))                              \
	X(setregid, (gid_t real, gid_t effective), (real, effective))                              \
	X(setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved))         \
	X(setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved))         \
	X(setgroups, (size_t count, const gid_t *groups), (count, groups))

#define X(name, params, args) MT_EXPORT int name params;
IDS(X)
#undef X

/* ---- the next functions in line ---- */

#define X(name, params, args) NEXT_##name,
enum next {
	NEXT_unshare,
	NEXT_setns,
	NEXT_fopen,
	NEXT_fopen64,
	NEXT_sbrk,
	NEXT_brk,
	IDS(X) NEXT_COUNT
};
#undef X

#define X(name, params, args) #name,
static const char *const next_names[NEXT_COUNT] = {"unshare", "setns", "fopen", "fopen64",
						   "sbrk",    "brk",   IDS(X)};
#undef X

static _Atomic(void *) next_functions[NEXT_COUNT]; /* each store has the same value; no ordering */

/* A child of _Fork or of the bare system call may be a copy of a process with a thread inside
 * dlopen: it then holds the loader's lock for ever. Such a child may still change its ids. So there
 * libc's own function is used, without the loader. */
static void *next_function(enum next index)
{
	void *found = mt_load_relaxed(&next_functions[index]);

	if (found)
		return found;
	if (mt_state_is_on() && !mt_state_is_own_process())
		return mt_loader_libc_function(next_names[index]);
	found = mt_loader_symbol(RTLD_NEXT, next_names[index]);
	mt_store_relaxed(&next_functions[index], found);
	return found;
}

static void find_next_functions(void)
{
	for (int i = 0; i < NEXT_COUNT; i++)
		(void)next_function((enum next)i);
}

/* ---- the worker ---- */

static bool pause_worker(void)
{
	return mt_state_is_on() && (mt_worker_is_running() || mt_worker_is_paused()) &&
	       mt_state_is_own_process() && mt_worker_pause();
}

static bool pause_worker_for_ids(void)
{
	return mt_state_is_on() &&
	       !(mt_worker_is_running() && mt_state_is_own_process() &&
		 mt_worker_has_same_credentials()) &&
	       pause_worker();
}

static bool pause_worker_of_one_thread(void)
{
	return mt_libc_threads_count() <= 2u + mt_interpreter_thread_runs() && pause_worker();
}

static bool pause_worker_for_retry(int answer)
{
	return answer != 0 && (errno == EINVAL || errno == EUSERS) && pause_worker();
}

static void resume_worker(void)
{
	int kept = errno;

	mt_worker_resume();
	errno = kept;
}

MT_EXPORT int unshare(int flags)
{
	int (*next)(int);
	bool paused;
	int answer;

	*(void **)(void *)&next = next_function(NEXT_unshare);
	paused = pause_worker_of_one_thread();
	answer = next(flags);
	if (!paused && pause_worker_for_retry(answer)) {
		paused = true;
		answer = next(flags);
	}
	if (paused)
		resume_worker();
	return answer;
}

MT_EXPORT int setns(int fd, int type)
{
	int (*next)(int, int);
	bool paused;
	int answer;

	*(void **)(void *)&next = next_function(NEXT_setns);
	paused = pause_worker_of_one_thread();
	answer = next(fd, type);
	if (!paused && pause_worker_for_retry(answer)) {
		paused = true;
		answer = next(fd, type);
	}
	if (paused)
		resume_worker();
	return answer;
}

#define X(name, params, args)                                                                      \
	MT_EXPORT int name params                                                                  \
	{                                                                                          \
		bool paused = pause_worker_for_ids();                                              \
		int(*next) params;                                                                 \
		int answer;                                                                        \
                                                                                                   \
		*(void **)(void *)&next = next_function(NEXT_##name);                              \
		answer = next args;                                                                \
		if (paused)                                                                        \
			resume_worker();                                                           \
		return answer;                                                                     \
	}
IDS(X)
#undef X

/* ---- the number of threads in /proc ---- */

/* Wraps fopen for one file and one reader. Python 3.12 and later open /proc/self/stat in the parent
 * right after a fork, read num_threads, and warn of "multi-threaded, use of fork() may lead to
 * deadlocks" if it is not 1. Fork's handlers take care of the shim's threads (core/init.c), so this
 * check must not count them. The thread of Python that forked sees num_threads without them at its
 * next open of the file. Every other reader and call gets the kernel's text. Decision:
 * docs/decisions/0002. Source: warn_about_fork_with_threads in Modules/posixmodule.c of CPython
 * 3.12 to 3.14. */

#define STAT_PATH "/proc/self/stat"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3; some systems refuse a memfd without it */
#endif

typedef FILE *(*open_fn)(const char *path, const char *mode);

MT_EXPORT FILE *fopen(const char *path, const char *mode);
MT_EXPORT FILE *fopen64(const char *path, const char *mode);

static MT_TLS bool has_forked; /* and has not opened the file since */

static void note_fork(void)
{
	has_forked = true;
}

/* Returns a descriptor, open for reading, of a memfd with the kernel's text without the shim's
 * threads. Returns -1 if that fails or the text has none of them. */
static int open_own_stat(void)
{
	char text[1024];
	char own[1024];
	uint64_t ours = mt_worker_own_threads();
	ssize_t length = mt_os_read_file(STAT_PATH, text, sizeof(text));
	const char *field = length > 0 ? mt_os_procstat_at(text, MT_PROCSTAT_THREADS) : NULL;
	uint64_t count = field ? mt_os_parse_number(field) : 0;
	size_t bytes;
	int readable = -1;
	int fd;

	if (!ours || count <= ours)
		return -1;
	mt_assert(field > text && field < text + length);
	mt_format(own, sizeof(own), "%.*s%llu%s", (int)(field - text), text,
		  (unsigned long long)(count - ours), field + strspn(field, "0123456789"));
	bytes = strlen(own);
	fd = (int)mt_raw_syscall(SYS_memfd_create, "stat", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd < 0)
		fd = (int)mt_raw_syscall(SYS_memfd_create, "stat", MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	if (mt_os_write_at(fd, own, bytes, 0) == (ssize_t)bytes) {
		mt_format(text, sizeof(text), "/proc/self/fd/%d", fd);
		readable = (int)mt_raw_syscall(SYS_openat, AT_FDCWD, text, O_RDONLY | O_CLOEXEC);
	}
	mt_os_close(fd);
	return readable;
}

/* Replaces the file behind the stream, which has read nothing yet, under the same descriptor. */
static MT_COLD FILE *replace_stat(FILE *file, const char *path, const char *mode)
{
	int kept = errno;
	int number, fd;
	long flags;

	if (!file || strcmp(path, STAT_PATH) != 0)
		return file;
	has_forked = false;
	if (mode[0] != 'r' || strchr(mode, '+') || !mt_interpreter_is_running())
		return file;
	number = fileno(file);
	flags = mt_raw_syscall(SYS_fcntl, number, F_GETFD);
	fd = open_own_stat();
	if (fd >= 0) {
		(void)mt_raw_syscall(SYS_dup3, fd, number,
				     flags > 0 && (flags & FD_CLOEXEC) ? O_CLOEXEC : 0);
		mt_os_close(fd);
	}
	errno = kept;
	return file;
}

static FILE *open_by(open_fn next, const char *path, const char *mode)
{
	FILE *file = next(path, mode);

	return mt_unlikely(has_forked) ? replace_stat(file, path, mode) : file;
}

MT_EXPORT FILE *fopen(const char *path, const char *mode)
{
	return open_by((open_fn)(uintptr_t)next_function(NEXT_fopen), path, mode);
}

/* The same function on 64-bit systems; a libc may lack the name. */
MT_EXPORT FILE *fopen64(const char *path, const char *mode)
{
	open_fn next = (open_fn)(uintptr_t)next_function(NEXT_fopen64);

	return next ? open_by(next, path, mode) : fopen(path, mode);
}

/* ---- the program break ---- */

/* Each call leaves the break to the program, also sbrk(0): a call of brk may follow. */

MT_EXPORT void *wrap_sbrk(intptr_t bytes) __asm__("sbrk");
MT_EXPORT int wrap_brk(void *end) __asm__("brk");
MT_HEAP_OWN(sbrk)
MT_HEAP_OWN(brk)

/* Without dlsym: an allocator behind us may call them from the malloc that dlsym calls. */
static void *next_of_break(enum next index)
{
	void *found = mt_load_relaxed(&next_functions[index]);

	if (!found) {
		mt_loader_next_functions(&next_names[index], &found, 1);
		mt_store_relaxed(&next_functions[index], found);
	}
	return found;
}

MT_EXPORT void *wrap_sbrk(intptr_t bytes)
{
	void *(*next)(intptr_t);

	*(void **)(void *)&next = next_of_break(NEXT_sbrk);
	mt_asleep_leave_break();
	return next(bytes);
}

MT_EXPORT int wrap_brk(void *end)
{
	int (*next)(void *);

	*(void **)(void *)&next = next_of_break(NEXT_brk);
	mt_asleep_leave_break();
	return next(end);
}

/* ---- fork, and copies past its handlers ---- */

/* libc promises that a signal handler may fork in a program of one thread, and leaves out all of
 * its own locks there. The worker thread must not take that away: the handler may have interrupted
 * fork, malloc or stdio of libc. So for fork libc counts the program's threads only. Before glibc
 * 2.36 its count cannot be set: there all signals are blocked during fork, so that no handler
 * interrupts fork. Source: SINGLE_THREAD_P in posix/fork.c of glibc; tst-mallocfork2 of its
 * tests. */

MT_EXPORT pid_t fork(void);

typedef pid_t (*fork_fn)(void);

#define HOLD_NS      MT_NS_PER_S
#define HOLD_STEP_NS (MT_NS_PER_MS / 5)
/* A sleep that so many steps see is no short wait for a lock of the kernel's; in a program of more
 * threads, none for one of another thread that goes on. */
#define STUCK_STEPS      3
#define STUCK_STEPS_MANY 50

static _Atomic(fork_fn) next_fork; /* no ordering */

static MT_TLS bool holds_purge; /* for the fork under way */

/* The hold of the purge lock, by its number, in which the worker waits for this thread or one that
 * is as slow; 0: none. */
static MT_TLS uint32_t stuck_hold;

/* Returns whether the program has one thread, beside the worker and the thread of python/. */
static bool is_single_threaded(void)
{
	return mt_libc_threads_count() ==
	       1u + mt_worker_is_running() + mt_interpreter_thread_runs();
}

/* Takes the purge lock, for a copy of the process: a child of a half-done purge could never finish
 * it. Waits up to a second. Returns false if it is not taken: copy all the same; a child that is
 * made in the middle of a purge cannot purge that arena.
 *
 * A handler may have interrupted malloc, with a lock for which the worker waits while it has the
 * purge lock: that is noticed within a ms in a program of one thread, within 10 ms or more in
 * others. In a program of one thread it may also have interrupted this thread between the lock and
 * its own note of it; no thread of ours has the lock then, and none can take it. */
static bool hold_purge(void)
{
	uint64_t until = mt_os_now_ns() + HOLD_NS;
	bool is_alone = is_single_threaded();
	int stuck_count = 0;

	while (!stuck_hold || stuck_hold != mt_purge_worker_hold()) {
		uint32_t hold = mt_purge_worker_hold();
		bool is_stuck;

		if (mt_purge_hold(HOLD_STEP_NS))
			return true;
		is_stuck =
			(hold ? mt_worker_is_asleep() : is_alone) && hold == mt_purge_worker_hold();
		stuck_count = is_stuck ? stuck_count + 1 : 0;
		if (stuck_count == (is_alone ? STUCK_STEPS : STUCK_STEPS_MANY)) {
			stuck_hold = hold;
			if (!hold)
				return false;
		}
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

static void fork_prepare(void)
{
	holds_purge = hold_purge();
}

static void fork_parent(void)
{
	if (holds_purge)
		mt_purge_release();
	note_fork();
}

static void fork_child(void)
{
	mt_purge_forget();
	note_fork();
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

static void find_fork_functions(void)
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
	word = !is_taken && worker_may_purge() && hold_purge() ? mt_purge_release_when_copied()
							       : NULL;
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
	/* A child with thread-local data of its own has none of this library's, and no heap. */
	if ((flags & (CLONE_VM | CLONE_SETTLS)) || !start) {
		if (!(flags & CLONE_VM))
			mt_rss_shared_note_fork();
		return next(start, stack, flags, argument, parent_tid, tls, child_tid);
	}
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

/* ---- the component ---- */

static void load(bool on)
{
	find_fork_functions();
	(void)next_function(NEXT_fopen);
	(void)next_function(NEXT_fopen64);
	if (!on)
		find_next_functions();
}

const struct mt_component mt_compat_component = {
	.name = "compat",
	.load = load,
	.fork_prepare = fork_prepare,
	.fork_parent = fork_parent,
	.fork_child = fork_child,
};
