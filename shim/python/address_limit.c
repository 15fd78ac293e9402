/* python/address_limit.c -- wraps setrlimit and prlimit for RLIMIT_AS. Python scripts limit their
 * own address space to guard the machine (resource.setrlimit): the 64 GB that the heap for objects
 * has reserved would leave them none. The part that is not used yet goes back first, but for an
 * eighth of the limit. Any thread, and a child between fork and exec. Takes no lock. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "core/init.h"
#include "python/objects.h"
#include "sys/attr.h"
#include "sys/os.h"
#include "sys/raw_syscall.h"

#define SPARE_SHARE 8

/* The kernel's struct, the same as libc's two on 64-bit machines. */
_Static_assert(sizeof(struct rlimit) == 16 && sizeof(struct rlimit64) == 16, "one layout");

MT_EXPORT int wrap_setrlimit(int resource, const struct rlimit *limit) __asm__("setrlimit");
MT_EXPORT int wrap_setrlimit64(int resource, const struct rlimit *limit) __asm__("setrlimit64");
MT_EXPORT int wrap_prlimit(pid_t process, int resource, const struct rlimit *limit,
			   struct rlimit *old) __asm__("prlimit");
MT_EXPORT int wrap_prlimit64(pid_t process, int resource, const struct rlimit *limit,
			     struct rlimit *old) __asm__("prlimit64");

static int set_limit(pid_t process, int resource, const struct rlimit *limit, struct rlimit *old)
{
	struct rlimit wanted = {.rlim_cur = RLIM_INFINITY};
	bool is_own = process == 0 || process == mt_os_getpid();
	int result = (int)mt_raw_syscall(SYS_prlimit64, process, resource, limit, old);

	/* The kernel has read *limit, so it can be read. */
	if (result == 0 && limit && resource == RLIMIT_AS && is_own)
		wanted = *limit;
	if (wanted.rlim_cur != RLIM_INFINITY && mt_state_is_own_process())
		mt_objects_shrink(wanted.rlim_cur / SPARE_SHARE);
	return result;
}

MT_EXPORT int wrap_setrlimit(int resource, const struct rlimit *limit)
{
	return set_limit(0, resource, limit, NULL);
}

MT_EXPORT int wrap_setrlimit64(int resource, const struct rlimit *limit)
{
	return set_limit(0, resource, limit, NULL);
}

MT_EXPORT int wrap_prlimit(pid_t process, int resource, const struct rlimit *limit,
			   struct rlimit *old)
{
	return set_limit(process, resource, limit, old);
}

MT_EXPORT int wrap_prlimit64(pid_t process, int resource, const struct rlimit *limit,
			     struct rlimit *old)
{
	return set_limit(process, resource, limit, old);
}
