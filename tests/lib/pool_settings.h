/* pool_settings.h -- the settings that the pool reads, for programs that link it: as a user would
 * write them. */
#ifndef MT_POOL_SETTINGS_H
#define MT_POOL_SETTINGS_H

#include <stdlib.h>

#include "core/config.h"

static inline void pool_settings(const char *decay_ms, const char *low_pct)
{
	if (mt_config_set_live("cuda_decay_ms", decay_ms) != MT_ERR_OK ||
	    mt_config_set_live("cuda_low_pct", low_pct) != MT_ERR_OK)
		abort();
}

#endif
