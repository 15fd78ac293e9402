/* compat/single_thread.c -- what the kernel or libc takes amiss of a process of several threads:
 * the worker is away meanwhile. unshare and setns: where a user namespace is concerned (and for
 * setns a mount namespace), the kernel refuses both to a process of several threads; a program of
 * one must not become one by the worker. So where they are refused with EINVAL while the worker
 * runs, it ends, they are asked once more, and it begins again. The bare system calls are not seen.
 * Source: unshare(2), setns(2). */
#include "compat/single_thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "sys/attr.h"
#include "sys/elf.h"
#include "sys/symbol.h"
#include "core/init.h"
#include "core/worker.h"

MT_EXPORT int unshare(int flags);
MT_EXPORT int setns(int fd, int type);

/* Ids: libc has every thread change its own, and aborts where one may not what another may. The
 * program's may by capabilities that it has kept or taken for itself alone (PR_SET_KEEPCAPS,
 * capset), or may not by a filter of its own; so where the worker's rights are others, or cannot be
 * told, it is away meanwhile. Not whenever ids change: a file server does that for each request,
 * and it would wait for the end of a thread, which may be a purge, and pay for another one. */
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

/* ---- the functions behind ours ---- */

#define X(name, params, args) NEXT_##name,
enum next { NEXT_unshare, NEXT_setns, IDS(X) NEXT_COUNT };
#undef X

#define X(name, params, args) #name,
static const char *const next_names[NEXT_COUNT] = {"unshare", "setns", IDS(X)};
#undef X

static _Atomic(void *) next_functions[NEXT_COUNT]; /* each store is the same; no ordering */

/* A child of _Fork or of the bare system call may be a copy of a process that had a thread in
 * dlopen: it has the loader's lock, and nobody who would give it back. It may change its ids all
 * the same. So there libc's own is taken, without asking. */
static void *next_function(enum next index)
{
	void *found = atomic_load_explicit(&next_functions[index], memory_order_relaxed);

	if (found)
		return found;
	if (mt_state_is_on() && !mt_state_is_own_process())
		return mt_elf_libc_function(next_names[index]);
	found = mt_symbol(RTLD_NEXT, next_names[index]);
	atomic_store_explicit(&next_functions[index], found, memory_order_relaxed);
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
	return answer != 0 && errno == EINVAL && pause_worker();
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
