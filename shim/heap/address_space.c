/* heap/address_space.c -- wraps setrlimit and prlimit: a program may limit its own address space to
 * guard the machine (resource.setrlimit in Python), and use all of it right after. A limit that
 * another process sets is seen by the worker. */
#include "heap/entries.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "core/init.h"
#include "core/services.h"
#include "core/worker.h"
#include "heap/jemalloc.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* as if so much could be mapped: 16 MB of it stay reserved */
#define LOCKED_BYTES (128u << 20)

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

static _Atomic bool is_locked; /* no ordering */

static uint64_t limit_of(int resource)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

	(void)mt_raw_syscall(SYS_prlimit64, 0, resource, NULL, &limit);
	return limit.rlim_cur;
}

/* UINT64_MAX: there is no limit. probe: see mt_jemalloc_unmap_use. */
static bool use_limits(uint64_t address_bytes, uint64_t data_bytes, int probe)
{
	uint64_t least = mt_min_u64(address_bytes, data_bytes);

	if (mt_load_relaxed(&is_locked))
		least = mt_min_u64(least, LOCKED_BYTES);
	if (least == RLIM_INFINITY)
		return false;
	mt_object_heap_limit(address_bytes, data_bytes);
	return mt_jemalloc_unmap_use(least, probe, mt_worker_is_running());
}

/* What may be written counts as data. */
bool mt_address_space_follow(void)
{
	uint64_t data_bytes = limit_of(RLIMIT_DATA);

	return use_limits(limit_of(RLIMIT_AS), data_bytes,
			  data_bytes == RLIM_INFINITY ? PROT_NONE : PROT_READ | PROT_WRITE);
}

/* No probe: the kernel would fill and lock it. */
void mt_address_space_limit_locked(void)
{
	mt_store_relaxed(&is_locked, true);
	(void)use_limits(LOCKED_BYTES, UINT64_MAX, MT_JEMALLOC_NO_PROBE);
}

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
