/* heap/entries_pages.c -- wraps the calls of libc that set flags on pages, and notes the pages
 * (heap/page_flags.h), and those that limit the program's memory. A bare system call through
 * syscall() comes by compat/compat.c. Any thread and any signal handler. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "core/init.h"
#include "heap/asleep.h"
#include "heap/entries.h"
#include "sys/attr.h"
#include "sys/os.h"

#define X(type, name, params, args) MT_EXPORT type name params;
MT_HEAP_PAGE_FLAGS(X)
#undef X
#define X(type, name, params, args) MT_HEAP_OWN(name)
MT_HEAP_PAGE_FLAGS(X)
#undef X

static int call(long number, const void *address, size_t bytes, int argument, int key)
{
	int answer = (int)mt_raw_syscall(number, address, bytes, argument, key);

	if (answer == 0)
		mt_asleep_note_flags(number, (long)address, (long)bytes, argument);
	return answer;
}

MT_EXPORT int madvise(void *address, size_t bytes, int advice)
{
	return call(SYS_madvise, address, bytes, advice, 0);
}

MT_EXPORT int mlock(const void *address, size_t bytes)
{
	return call(SYS_mlock, address, bytes, 0, 0);
}

MT_EXPORT int mlock2(const void *address, size_t bytes, unsigned int flags)
{
	return call(SYS_mlock2, address, bytes, (int)flags, 0);
}

MT_EXPORT int mprotect(void *address, size_t bytes, int protection)
{
	return call(SYS_mprotect, address, bytes, protection, 0);
}

/* Locks what is mapped, used or not: what nobody uses is unmapped before. */
MT_EXPORT int mlockall(int flags)
{
	if (mt_state_is_own_process())
		mt_address_space_limit_locked();
	return (int)mt_raw_syscall(SYS_mlockall, flags);
}

/* As libc: a key of -1 is a plain mprotect, also for a kernel without keys. */
MT_EXPORT int pkey_mprotect(void *address, size_t bytes, int protection, int key)
{
	return key == -1 ? mprotect(address, bytes, protection)
			 : call(SYS_pkey_mprotect, address, bytes, protection, key);
}

/* ---- limits ---- */

/* A program may limit its own address space to guard the machine (resource.setrlimit in Python),
 * and use all of it right after. A limit that another process sets is seen by the worker, or once
 * an allocation fails. */

/* The kernel's struct, the same as libc's two on 64-bit machines. */
_Static_assert(RLIM_INFINITY == UINT64_MAX && sizeof(struct rlimit) == 16 &&
		       sizeof(struct rlimit64) == 16,
	       "one layout");

MT_EXPORT int wrap_setrlimit(int resource, const struct rlimit *limit) __asm__("setrlimit");
MT_EXPORT int wrap_setrlimit64(int resource, const struct rlimit *limit) __asm__("setrlimit64")
	__attribute__((alias("setrlimit")));
MT_EXPORT int wrap_prlimit(pid_t process, int resource, const struct rlimit *limit,
			   struct rlimit *old) __asm__("prlimit");
MT_EXPORT int wrap_prlimit64(pid_t process, int resource, const struct rlimit *limit,
			     struct rlimit *old) __asm__("prlimit64")
	__attribute__((alias("prlimit")));

static int set_limit(pid_t process, int resource, const struct rlimit *limit, struct rlimit *old)
{
	bool is_own = process == 0 || process == mt_os_getpid();
	int result = (int)mt_raw_syscall(SYS_prlimit64, process, resource, limit, old);

	if (result == 0 && limit && is_own && mt_state_is_own_process())
		(void)mt_address_space_follow();
	return result;
}

MT_EXPORT int wrap_setrlimit(int resource, const struct rlimit *limit)
{
	return set_limit(0, resource, limit, NULL);
}

MT_EXPORT int wrap_prlimit(pid_t process, int resource, const struct rlimit *limit,
			   struct rlimit *old)
{
	return set_limit(process, resource, limit, old);
}
