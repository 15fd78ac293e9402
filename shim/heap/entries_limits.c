/* heap/entries_limits.c -- wraps setrlimit and prlimit: a program may limit its own address space
 * to guard the machine (resource.setrlimit in Python), and use all of it right after. A limit that
 * another process sets is seen by the worker, or once an allocation fails. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "core/init.h"
#include "heap/entries.h"
#include "sys/attr.h"
#include "sys/os.h"

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
