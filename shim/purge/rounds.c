#include "purge/rounds.h"

#include "sys/atomic.h"
#include "sys/os.h"

/* Rounds of a federation take minutes; a program that marks them has ended one in this time. */
#define MISSING_NS (10 * 60 * MT_NS_PER_S)

static _Atomic uint64_t ended; /* counter, no ordering */

uint64_t mt_rounds_end(void)
{
	return mt_add_relaxed(&ended, 1) + 1;
}

uint64_t mt_rounds_count(void)
{
	return mt_load_relaxed(&ended);
}

bool mt_rounds_due(uint64_t round, uint64_t gc_step, const struct mt_config *cfg,
		   enum mt_level *out_level)
{
	bool heavy = cfg->heavy_rounds && round % cfg->heavy_rounds == 0;
	bool light = gc_step && round % gc_step == 0;

	if (!heavy && !light)
		return false;
	*out_level = heavy || cfg->cuda_empty_cache ? MT_LEVEL_HEAVY : MT_LEVEL_LIGHT;
	return true;
}

bool mt_rounds_are_missing(const struct mt_config *cfg, uint64_t count, uint64_t uptime_ns)
{
	bool waits = cfg->preset && (cfg->gc_rounds || cfg->heavy_rounds);

	return waits && !count && uptime_ns >= MISSING_NS;
}

void mt_rounds_fork_child(void)
{
	mt_store_relaxed(&ended, 0);
}
