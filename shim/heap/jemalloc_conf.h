/* heap/jemalloc_conf.h -- composes the embedded jemalloc's settings. Pure but for reading environ.
 */
#ifndef MT_HEAP_JEMALLOC_CONF_H
#define MT_HEAP_JEMALLOC_CONF_H

#include <stddef.h>

#include "core/config.h"

/* Ours, then MALLOC_ARENA_MAX, then MT_PROF, then what a MALLOC_CONF meant for a stock jemalloc
 * holds (without decay, background_thread and abort_conf), then MT_MALLOC_CONF; later keys win.
 * Whole pairs only: what does not fit is left out. */
void mt_jemalloc_conf(const struct mt_config *config, char *out, size_t out_bytes);

#endif
