/* component_table.c -- the table of components in unit tests, in the place of that in
 * shim/core/init.c: no row of it takes over malloc, signals or the process's beginning.
 */
#include <stddef.h>

#include "core/components.h"
#include "core/init.h"
#include "heap/trim.h"
#include "python/python_internal.h"

extern const struct mt_component mt_gpu_component;
extern const struct mt_component mt_pressure_component;
extern const struct mt_component mt_purge_component;
extern const struct mt_component mt_python_component;

static const struct mt_component heap = {
	.name = "heap",
	.fork_child = mt_heap_trim_fork_child,
	.prepare_trim = mt_heap_prepare_trim,
	.trim = mt_heap_trim,
};

const struct mt_component *const mt_component_table[] = {
	&mt_python_component,
#ifndef MT_NO_CUDA
	&mt_gpu_component,
#endif
	&mt_pressure_component, &mt_purge_component, &heap, NULL,
};

/* core/init.c is no part of the unit tests: its constructor would start the shim in each of them.
 * Nor is python/environment.c, which wraps getenv. */
void mt_init_start_heap(void)
{
}

bool mt_init_start_worker(void)
{
	return false;
}

void mt_python_find_getenv(bool unused)
{
	(void)unused;
}
