#include "heap/entries.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/services.h"
#include "core/worker.h"
#include "heap/jemalloc.h"
#include "sys/atomic.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* as if so much could be mapped: 16 MB of it stay reserved */
#define LOCKED_BYTES (128u << 20)

static _Atomic bool is_locked; /* for good; no ordering */

static uint64_t limit_of(int resource)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

	(void)mt_raw_syscall(SYS_prlimit64, 0, resource, NULL, &limit);
	return limit.rlim_cur;
}

uint64_t mt_address_space_bytes(void)
{
	return mt_min_u64(limit_of(RLIMIT_AS), limit_of(RLIMIT_DATA));
}

/* UINT64_MAX: there is no limit. probe: see mt_jemalloc_unmap_use. */
static bool use_limits(uint64_t address_bytes, uint64_t data_bytes, int probe)
{
	uint64_t least = mt_min_u64(address_bytes, data_bytes);

	/* A probe would be filled and locked. */
	if (mt_load_relaxed(&is_locked)) {
		least = mt_min_u64(least, LOCKED_BYTES);
		probe = MT_JEMALLOC_NO_PROBE;
	}
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

void mt_address_space_limit_locked(void)
{
	mt_store_relaxed(&is_locked, true);
	(void)use_limits(LOCKED_BYTES, UINT64_MAX, PROT_NONE);
}
