/* compat/single_thread.c -- pauses the worker thread for calls that need a process of one thread.
 * unshare and setns: for a user namespace (setns also for a mount namespace) the kernel refuses a
 * process of several threads with EINVAL. So if they fail with EINVAL while the worker runs, it
 * ends, the call is repeated, and the worker starts again. Bare system calls are not seen. Source:
 * unshare(2), setns(2). */
#include "compat/compat.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/types.h>

#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "core/init.h"
#include "core/worker.h"

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
enum next { NEXT_unshare, NEXT_setns, IDS(X) NEXT_COUNT };
#undef X

#define X(name, params, args) #name,
static const char *const next_names[NEXT_COUNT] = {"unshare", "setns", IDS(X)};
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
		return mt_elf_libc_function(next_names[index]);
	found = mt_symbol(RTLD_NEXT, next_names[index]);
	mt_store_relaxed(&next_functions[index], found);
	return found;
}

void mt_single_thread_init(void)
{
	for (int i = 0; i < NEXT_COUNT; i++)
		(void)next_function((enum next)i);
}

/* ---- the worker ---- */

static bool pause_worker(void)
{
	return mt_state_is_on() && mt_worker_is_running() && mt_state_is_own_process() &&
	       mt_worker_pause();
}

static bool pause_worker_for_ids(void)
{
	return mt_state_is_on() && mt_worker_is_running() && !mt_worker_has_same_credentials() &&
	       pause_worker();
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
	int answer;

	*(void **)(void *)&next = next_function(NEXT_unshare);
	answer = next(flags);
	if (pause_worker_for_retry(answer)) {
		answer = next(flags);
		resume_worker();
	}
	return answer;
}

MT_EXPORT int setns(int fd, int type)
{
	int (*next)(int, int);
	int answer;

	*(void **)(void *)&next = next_function(NEXT_setns);
	answer = next(fd, type);
	if (pause_worker_for_retry(answer)) {
		answer = next(fd, type);
		resume_worker();
	}
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
