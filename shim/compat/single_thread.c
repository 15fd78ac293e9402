/* compat/single_thread.c -- what the kernel or libc takes amiss of a process of several threads:
 * the worker is away meanwhile. unshare and setns: where a user namespace is concerned (and for
 * setns a mount or a time namespace), the kernel refuses both to a process of several threads; a
 * program of one must not become one by the worker. So where they are refused with EINVAL (EUSERS
 * for a time namespace) while the worker runs, it ends, they are asked once more, and it begins
 * again. The bare system calls are not seen. Source: unshare(2), setns(2), time_namespaces(7). */
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
static void *next_function(enum next which)
{
	void *found = atomic_load_explicit(&next_functions[which], memory_order_relaxed);

	if (found)
		return found;
	if (mt_state_is_on() && !mt_state_is_own_process())
		return mt_elf_libc_function(next_names[which]);
	found = mt_symbol(RTLD_NEXT, next_names[which]);
	atomic_store_explicit(&next_functions[which], found, memory_order_relaxed);
	return found;
}

void mt_single_thread_find(void)
{
	for (int i = 0; i < NEXT_COUNT; i++)
		(void)next_function((enum next)i);
}

/* ---- the worker ---- */

static bool step_aside(void)
{
	return mt_state_is_on() && mt_worker_is_running() && mt_state_is_own_process() &&
	       mt_worker_pause();
}

static bool make_way_for_ids(void)
{
	return mt_state_is_on() && mt_worker_is_running() && !mt_worker_has_same_rights() &&
	       step_aside();
}

static bool is_in_the_way(int answer)
{
	return answer != 0 && (errno == EINVAL || errno == EUSERS) && step_aside();
}

static void come_back(void)
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
	if (is_in_the_way(answer)) {
		answer = next(flags);
		come_back();
	}
	return answer;
}

MT_EXPORT int setns(int fd, int type)
{
	int (*next)(int, int);
	int answer;

	*(void **)(void *)&next = next_function(NEXT_setns);
	answer = next(fd, type);
	if (is_in_the_way(answer)) {
		answer = next(fd, type);
		come_back();
	}
	return answer;
}

#define X(name, params, args)                                                                      \
	MT_EXPORT int name params                                                                  \
	{                                                                                          \
		bool aside = make_way_for_ids();                                                   \
		int(*next) params;                                                                 \
		int answer;                                                                        \
                                                                                                   \
		*(void **)(void *)&next = next_function(NEXT_##name);                              \
		answer = next args;                                                                \
		if (aside)                                                                         \
			come_back();                                                               \
		return answer;                                                                     \
	}
IDS(X)
#undef X
