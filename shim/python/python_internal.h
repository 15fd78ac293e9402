/* python/python_internal.h -- what single files of python/ share with their tests alone. */
#ifndef MT_PYTHON_PYTHON_INTERNAL_H
#define MT_PYTHON_PYTHON_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config.h"
#include "core/services.h"
#include "python/gpu_caches.h"
#include "python/tracing.h"

/* ---- python/objects.c ---- */

/* Reserves up to range_bytes of address space. Returns false if that is not possible. Once. */
bool mt_objects_start(size_t range_bytes);

/* The functions for CPython. context: the struct mt_python_allocator that served the domain
 * before. */
void *mt_objects_malloc(void *context, size_t size);
void *mt_objects_calloc(void *context, size_t count, size_t size);
void *mt_objects_realloc(void *context, void *block, size_t size);
void mt_objects_free(void *context, void *block);

/* From now on several threads may call at a time, and each call takes a lock; or one at a time
 * again. Under the GIL, with no other GIL in the process. */
void mt_objects_share(bool shared);

/* See core/services.h. Any thread. */
void mt_objects_read(struct mt_object_heap_figures *out, bool exact);

/* See core/services.h. */
void mt_objects_limit(uint64_t address_bytes, uint64_t data_bytes);

/* ---- python/framework.c ---- */

/* The time in ns of CLOCK_MONOTONIC since which each device's cache is above its gate; 0: it is
 * below. */
struct mt_framework_policy {
	uint64_t since_ns[MT_PYTHON_GPU_DEVICES];
};

/* Returns whether to empty the cache: on some device more than max(slack_mb, slack_pct of reserved)
 * was unused at every reading for framework_decay_ms. now_ns: CLOCK_MONOTONIC. Pure but for
 * *own. */
bool mt_framework_decide(struct mt_framework_policy *own, const struct mt_python_gpu_figures *seen,
			 const struct mt_config *cfg, uint64_t now_ns);

/* ---- python/tracing.c: the table, by the thread that has it ---- */

#define MT_LINE_TABLE_NONE UINT32_MAX

/* Returns the place of a file name, which is added if it is new; MT_NAME_TABLE_REST: no room. A
 * frame of that name has line 0. */
uint32_t mt_tracing_table_name(const char *text, size_t bytes);

/* Returns the index of a stack, which is added if it is new; MT_LINE_TABLE_NONE: no room. count:
 * 1 to MT_LINES_DEPTH_MAX. */
uint32_t mt_tracing_table_stack(const struct mt_lines_frame *frames, uint32_t count);

/* Adds one live block to a stack in a reading. The next reading begins with
 * mt_tracing_table_begin_reading. */
void mt_tracing_table_begin_reading(uint32_t reading);
void mt_tracing_table_add(uint32_t stack, uint64_t bytes);

#endif
