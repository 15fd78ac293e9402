#include "entry/growth.h"

#include "account/account.h"
#include "backend/backend.h"
#include "life.h"
#include "reaper/reclaim.h"

void mt_growth_tell(uint64_t allocated_bytes)
{
	uint64_t fresh = allocated_bytes - mt_cell.told_allocated_bytes;

	mt_cell.told_allocated_bytes = allocated_bytes;
	if (mt_unlikely(mt_reclaim_note(fresh)) && mt_life_is_home())
		mt_reclaim_run(fresh);
}

#ifndef MT_NO_JEMALLOC
void mt_growth_took(void)
{
	uint64_t allocated, freed;

	if (mt_cell.counters && mt_jemalloc_counters(mt_cell.counters, &allocated, &freed))
		mt_growth_tell(allocated);
}
#endif
