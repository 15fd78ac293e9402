/* What entry/lookup.c knows of the rest of the shim, for a library of its parts alone that a test preloads. */
#include "base/config.h"
#include "entry/cuda.h"
#include "life.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

bool mt_life_is_born(void)
{
	return true;
}

bool mt_life_is_on(void)
{
	return true;
}

const struct mt_config *mt_config(void)
{
	static const struct mt_config config;

	return &config;
}

/* Named in cuda.h, defined in entry/lookup_cuda.c. */
#define X(name, parameters)      \
	int name parameters      \
	{                        \
		return -__COUNTER__; \
	}
MT_DRIVER_WRAPPED(X)
#undef X
