/* core/component_table.c -- the table of components, in order. */
#include <stddef.h>

#include "core/components.h"

extern const struct mt_component mt_compat_component;
extern const struct mt_component mt_core_component;
extern const struct mt_component mt_gpu_component;
extern const struct mt_component mt_heap_component;
extern const struct mt_component mt_pressure_component;
extern const struct mt_component mt_purge_component;
extern const struct mt_component mt_python_component;
extern const struct mt_component mt_signal_component;

/* Python first: its frameworks return device memory to the pool, and its collection frees heap
 * memory. Pressure before purge: near a limit it decides first. The heap last: it takes the
 * allocator's locks in fork, and purges what the others have freed. */
const struct mt_component *const mt_component_table[] = {
	&mt_python_component,
#ifndef MT_NO_CUDA
	&mt_gpu_component,
#endif
	&mt_signal_component,
	&mt_pressure_component,
	&mt_purge_component,
	&mt_compat_component,
	&mt_core_component,
	&mt_heap_component,
	NULL,
};
