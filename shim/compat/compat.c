/* compat/compat.c -- the component: wrappers of libc's functions that only unusual programs need.
 * Owns the addresses of their next functions. Any thread may call the wrappers. Take no lock. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "compat/fork.h"
#include "core/components.h"
#include "core/init.h"
#include "core/log.h"
#include "core/services.h"
#include "core/worker.h"
#include "heap/asleep.h"
#include "heap/entries.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/libc.h"
#include "sys/loader.h"
#include "sys/os.h"

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
	return mt_state_is_on() && !(mt_worker_is_running() && mt_worker_has_same_credentials()) &&
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

/* ---- the component ---- */

static void load(bool on)
{
	mt_fork_start();
	(void)next_function(NEXT_fopen);
	(void)next_function(NEXT_fopen64);
	if (!on)
		find_next_functions();
}

static void fork_parent(void)
{
	mt_fork_parent();
	note_fork();
}

static void fork_child(void)
{
	mt_fork_child();
	note_fork();
}

const struct mt_component mt_compat_component = {
	.name = "compat",
	.load = load,
	.fork_prepare = mt_fork_prepare,
	.fork_parent = fork_parent,
	.fork_child = fork_child,
};
