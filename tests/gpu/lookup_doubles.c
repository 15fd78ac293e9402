/* What heap/dlsym.c and gpu/lookup.c know of the rest of the shim, for a library of its parts alone
 * that a test preloads. */
#include "core/config.h"
#include "heap/heap_entries.def"
#include "gpu/lookup.h"
#include "core/init.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

bool mt_state_has_started(void)
{
	return true;
}

bool mt_state_is_on(void)
{
	return true;
}

/* The heap family's own functions: only their addresses are asked for, and not answered here. */
#define X(type, name, params, args) const char mt_own_##name[1];
MT_HEAP_ALLOCATING(X)
MT_HEAP_EXISTING(X)
MT_HEAP_COMPOSED(X)
MT_HEAP_CONTROL(X)
MT_HEAP_PAGE_FLAGS(X)
#undef X

bool mt_init_uses_jemalloc(void)
{
	return false;
}

const struct mt_config *mt_config(void)
{
	static const struct mt_config config;

	return &config;
}

/* Named in cuda.h, defined in gpu/entries.c. */
#define X(name, parameters, ...)                                                                   \
	int name parameters                                                                        \
	{                                                                                          \
		return -__COUNTER__;                                                               \
	}
MT_DRIVER_WRAPPED(X)
#undef X
