#include "entry/growth.h"

#include <assert.h>

#include "account/account.h"
#include "backend/backend.h"
#include "life.h"
#include "reaper/throttle.h"

static_assert(MT_BACKEND_TOOK_BYTES <= MT_THROTTLE_STEP_BYTES, "the least room that is told of is a step");

void mt_growth_tell(uint64_t allocated_bytes, uint64_t freed_bytes)
{
	uint64_t allocated = allocated_bytes - mt_cell.told_allocated_bytes;
	uint64_t freed = freed_bytes - mt_cell.told_freed_bytes;

	mt_cell.told_allocated_bytes = allocated_bytes;
	mt_cell.told_freed_bytes = freed_bytes;
	if (mt_unlikely(mt_throttle_note(allocated, freed)) && mt_life_is_home())
		mt_throttle_heed();
}

void mt_growth_keep(uint64_t bytes)
{
	mt_cell.told_allocated_bytes += bytes;
	mt_cell.told_freed_bytes += bytes;
}

#ifndef MT_NO_JEMALLOC
static bool read_counters(uint64_t *out_allocated, uint64_t *out_freed)
{
	return mt_cell.counters && mt_jemalloc_counters(mt_cell.counters, out_allocated, out_freed);
}

void mt_growth_took(void)
{
	uint64_t allocated, freed;

	if (read_counters(&allocated, &freed))
		mt_growth_tell(allocated, freed);
}

/* How large the old block was is no longer known; other blocks that were freed meanwhile are taken for a part of it. */
void mt_growth_moved(uint64_t block_bytes)
{
	uint64_t allocated, freed, gone;

	if (!read_counters(&allocated, &freed))
		return;
	gone = freed - mt_cell.told_freed_bytes;
	mt_growth_keep(gone < block_bytes ? gone : block_bytes);
	mt_growth_tell(allocated, freed);
}
#endif
