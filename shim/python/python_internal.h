/* python/python_internal.h -- what the files of python/ share with each other and with their tests
 * alone. */
#ifndef MT_PYTHON_PYTHON_INTERNAL_H
#define MT_PYTHON_PYTHON_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config.h"
#include "core/dump_layout.h"
#include "core/services.h"

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

/* ---- python/environment.c ---- */

/* Finds libc's getenv before there are threads: helgrind takes a later store for a race. Has the
 * form of a component's load. */
void mt_python_find_getenv(bool unused);

/* ---- python/gpu_caches.c: caches of Python's frameworks ---- */

/* Empties the caches of Python's frameworks: PyTorch's caches of device
 * memory and page-locked host memory, CuPy's pools, Numba's pending deallocations, and pyarrow's
 * pool of host memory. Uses only modules that are in sys.modules and completely initialised. Never
 * imports a module, never calls a function that initialises CUDA. Clears the errors of these calls;
 * an exception that was set before stays set, and a Ctrl-C during a call is raised again after it.
 * The calling thread holds the GIL, except in mt_python_gpu_find. */

#define MT_PYTHON_GPU_DEVICES 16

struct mt_python_gpu_figures {
	/* number of devices; 0: PyTorch is not loaded, has not initialised CUDA, or captures */
	int count;
	struct {
		uint64_t reserved_bytes;  /* torch.cuda.memory_reserved */
		uint64_t allocated_bytes; /* torch.cuda.memory_allocated */
	} devices[MT_PYTHON_GPU_DEVICES];
};

/* Finds the C API functions; call it before a pending call is queued. Returns false if there is
 * no Python, or it lacks one of them. Any thread; calls the loader. */
bool mt_python_gpu_find(void);

/* Empties the caches of device memory, and (host_too) those of host memory. cuda_used: this process
 * has initialised CUDA; without it CuPy is skipped, whose pool would initialise it. Returns the
 * frameworks whose caches were emptied, bits of enum mt_framework_bit; *out_skipped: those that an
 * open stream capture kept from it. */
uint32_t mt_python_gpu_empty(bool cuda_used, bool host_too, uint32_t *out_skipped);

/* Empties only PyTorch's cache of device memory. Returns false if it was not emptied, as during
 * a capture. */
bool mt_python_gpu_empty_torch(void);

/* Reads the figures of PyTorch's cache into *out; all 0 if there is none. */
void mt_python_gpu_read(struct mt_python_gpu_figures *out);

/* Returns whether the program has called gc.set_threshold(0), which disables collection by Python's
 * documentation. False if unknown. */
bool mt_python_gpu_is_gc_off(void);

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

/* ---- python/tracing.c: tracemalloc ---- */

/* Starts, reads and stops tracemalloc in this process, by CPython's C API,
 * and sums what it reads in a table.
 *
 * While it traces, a thin layer of the shim's lies before tracemalloc in the domains MEM and OBJ.
 * It can take tracemalloc out of the way at any moment and from any thread, without the GIL: from
 * then on blocks pass by it, and its tables no longer change. The domain RAW is not traced: there
 * tracemalloc takes the GIL in each call, which deadlocks with subinterpreters before 3.12 and may
 * do so with locks of the program.
 *
 * Owns the layer and a table of C API functions. Holds no reference to an object between two calls.
 * The calling thread holds the GIL if the comment says so. Clears the errors of its calls; an
 * exception that was set before stays set. Takes no lock but that of the table. */

/* Finds the functions. Returns MT_LINES_DONE, or why this interpreter cannot be traced. Call it
 * before any other function. Any thread; calls the loader. */
enum mt_lines_outcome mt_tracing_find(void);

/* Returns whether the process has another interpreter than the main one. Any thread. */
bool mt_tracing_has_subinterpreters(void);

/* Returns whether the calling thread is in the main interpreter. A pending call may come in another
 * one: CPython 3.9 to 3.11 queue it for the interpreter that has the GIL. GIL. */
bool mt_tracing_is_here(void);

/* Starts tracing with *depth frames a stack. If the program traces already, it changes nothing,
 * sets *out_is_own and puts the program's depth in *depth. GIL. */
enum mt_lines_outcome mt_tracing_start(uint32_t *depth, bool *out_is_own);

/* Takes tracemalloc out of the way, or does nothing if it is out. Any thread. */
void mt_tracing_bypass(void);

/* What tracemalloc says of itself. GIL. */
struct mt_tracing_size {
	uint64_t tables_bytes;
	uint64_t blocks_count; /* estimated from it */
};
void mt_tracing_measure(struct mt_tracing_size *out);

/* Adds all live blocks to the line table. reading: its number, from 0.
 * room_bytes: memory that it may take for that. *out_blocks_count: how many there are.
 * MT_LINES_CLEARED if the tracing is not the one that was begun. GIL, which is held until the
 * end. */
enum mt_lines_outcome mt_tracing_read(bool is_own, uint32_t reading, uint64_t room_bytes,
				      uint64_t *out_blocks_count);

/* Stops tracing, if it is still the one that mt_tracing_start has begun. If another library has put
 * hooks before it since, stopping would remove them: tracemalloc then stays bypassed, with empty
 * tables, until a later look. GIL. */
void mt_tracing_stop(void);

/* Bypasses tracemalloc in a forked child. Its Python's first allocation then queues a pending call
 * that stops it, as mt_tracing_stop. Tracing that the program has started goes on. */
void mt_tracing_fork_child(void);

/* ---- the table ---- */

/* Sums of bytes and blocks by Python stack, while a look at the allocating lines runs
 * (python/lines.c). Owns one mapping of a fixed size, of which the kernel backs what is used; what
 * does not fit is counted as left out. One thread at a time: the worker maps, unmaps and reads it
 * while no pending call runs, the pending call fills it. Takes no lock. Never calls malloc. */

/* Names of files, each of them once: an open-addressed table of a fixed size, of which no more than
 * half of the slots are ever used. A new name for which there is no room becomes
 * MT_NAME_TABLE_REST, so that a program that compiles without end neither waits nor grows. A table
 * of zeros is an empty one. One thread at a time. Takes no lock. Never calls malloc. */

#define MT_NAME_TABLE_COUNT_MAX (1u << 14)
#define MT_NAME_TABLE_SLOT_BITS 15
/* The offset of MT_LINES_REST, the first name of every table. */
#define MT_NAME_TABLE_REST 0u

struct mt_name_table {
	char text[MT_LINES_NAMES_MAX];
	uint32_t slots[1u << MT_NAME_TABLE_SLOT_BITS]; /* byte offset plus one; 0: empty */
	uint32_t count, bytes;
};

/* Returns the offset in `text` of a name, which is added if it is new and there is room. Ends at
 * its first NUL. */
uint32_t mt_tracing_name_add(struct mt_name_table *names, const char *name, size_t bytes);

/* Returns a slot of 1 << bits for a checksum: the high bits of the product depend on all bits. */
static inline uint32_t mt_tracing_name_slot(uint64_t sum, unsigned bits)
{
	return (uint32_t)((sum * 0x9e3779b97f4a7c15ull) >> (64 - bits));
}

/* Maps an empty table. Returns false if there is no memory for it. */
bool mt_tracing_table_map(void);
void mt_tracing_table_unmap(void);

/* Fills in counts and what was left out, and the checksum of the contents. */
void mt_tracing_table_describe(struct mt_lines_head *out);

/* The contents in the order of the file: each piece and its bytes. */
struct mt_line_table_piece {
	const void *from;
	size_t bytes;
};
void mt_tracing_table_pieces(struct mt_line_table_piece out[3]);

/* Forgets the table in a forked child, which does not inherit the mapping. */
void mt_tracing_table_fork_child(void);

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
