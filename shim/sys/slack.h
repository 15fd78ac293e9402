/* sys/slack.h -- how many bytes of free memory are worth a purge, for the policy of the shim and
 * for mtctl. Pure: any thread may call. */
#ifndef MT_SYS_SLACK_H
#define MT_SYS_SLACK_H

#include <stdint.h>

#include "sys/saturating.h"

/* Returns the larger one of slack_mb MiB (MT_SLACK_MB) and slack_pct percent (MT_SLACK_PCT) of
 * anon_bytes. With less than 64 MiB of anonymous memory the first is smaller in proportion. */
static inline uint64_t mt_slack_bytes(uint64_t anon_bytes, uint64_t slack_mb, uint64_t slack_pct)
{
	uint64_t unit = mt_min_u64(anon_bytes, (uint64_t)64 << 20) / 64;

	return mt_max_u64(slack_mb * unit, anon_bytes / 100 * slack_pct);
}

#endif
