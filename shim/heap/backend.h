/* heap/backend.h -- the allocator behind the exported malloc family, as one table: functions,
 * figures and a purge. One backend serves at a time. It is chosen at the first allocation of the
 * process, and changes once, if a process that was asleep wakes up (heap/asleep.h), before its
 * worker starts. Any thread may call the functions of the family. purge runs under the cleanup
 * lock; figures too where the allocator counts for itself, else on the worker thread. Knows no
 * accounts: its user passes hooks for threads and growth. */
#ifndef MT_HEAP_BACKEND_H
#define MT_HEAP_BACKEND_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config.h"
#include "core/stats_layout.h"
#include "heap/heap_entries.def"
#include "sys/attr.h"
#include "sys/libc.h"

struct mt_heap_ops {
#define X(type, name, params, args) type(*name) params;
	MT_HEAP_ALLOCATING(X)
	MT_HEAP_EXISTING(X)
#undef X
};

/* The allocator's own figures; 0: it does not tell. Expensive: jemalloc's epoch takes 80 us at 8
 * arenas and 1.4 ms at 512. */
struct mt_heap_figures {
	/* handed to the program, by the allocator's own (merged, lagging) count */
	uint64_t live_bytes;
	uint64_t dirty_bytes; /* free and resident: what a purge would return */
	uint64_t active_bytes;
	uint64_t resident_bytes;
	uint64_t mapped_bytes;
	uint64_t retained_bytes;
	uint64_t metadata_bytes;
	uint64_t thread_cache_bytes; /* free blocks in the caches of threads */
	uint64_t arenas_count;
	uint64_t alloc_count;
	uint64_t free_count;
	uint64_t free_bytes; /* free, resident or not; told by glibc alone */
};

/* The struct of mallinfo2(3), which headers have from glibc 2.33 on. */
struct mt_mallinfo {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks,
		keepcost;
};

/* Live blocks of one size class. */
struct mt_heap_class {
	uint64_t block_bytes;
	uint64_t live_count;
};

/* The allocator's own heap profiler: samples allocations with their stacks, and writes a profile of
 * live blocks by stack. */
enum mt_profiler_state {
	MT_PROFILER_NONE, /* not prepared at the start of the process, and cannot be any more */
	MT_PROFILER_READY,
	MT_PROFILER_SAMPLES
};

/* Worker thread only. */
struct mt_heap_profiler {
	enum mt_profiler_state (*state)(void);
	/* Switches sampling. MT_ERR_NOT_AVAILABLE: it is not ready. MT_ERR_SYSTEM: stacks cannot be
	 * walked here (no libgcc_s.so.1, no _dl_find_object in libc, or no process_vm_readv). */
	enum mt_err (*sample)(bool on);
	/* Writes a profile into a new file; an existing path is an error. MT_ERR_SYSTEM: the file
	 * is missing or incomplete. */
	enum mt_err (*dump)(const char *path);
};

struct mt_purge_outcome {
	bool possible; /* false: this allocator cannot return memory */
	/* longest single step, an upper bound of what another thread waits; 0: unknown */
	uint64_t longest_hold_ns;
};

/* Which allocator serves malloc. The texts never change; another struct is used once the process
 * has woken up. */
struct mt_backend_identity {
	const char *allocator; /* jemalloc glibc tcmalloc mimalloc mtshim unknown */
	char evidence[160];    /* the file that owns the bound malloc, and how it was found */
	enum mt_mode mode;
	const char *conf; /* the embedded jemalloc's settings; NULL for others */
};

enum mt_reclaimed {
	MT_RECLAIMED_NOTHING, /* no more than keep_bytes is free, or the thread may not call */
	MT_RECLAIMED_SOME,
	MT_RECLAIMED_BUSY /* the purge lock was not free in time */
};

/* How live bytes are counted. */
enum mt_counting {
	/* by the allocator, in two counters per thread: mt_jemalloc_counters */
	MT_COUNTING_OWN,
	MT_COUNTING_CHUNKS, /* by the shim, from glibc's chunk headers (heap/glibc.h) */
	MT_COUNTING_NONE    /* only figures.live_bytes */
};

struct mt_backend {
	const struct mt_heap_ops *ops; /* its own functions, for blocks of its own */
	enum mt_counting counting;
	/* figures.dirty_bytes is exact; else only RSS minus live is known */
	bool figures_show_dirty;
	bool live_unknown; /* not counted, and figures returns false */
	bool purge_impossible;
	bool (*figures)(struct mt_heap_figures *out);
	/* Fills dirty_bytes and active_bytes alone, at a fraction of the cost. Any thread. NULL, or
	 * false: call figures instead. */
	bool (*pages)(struct mt_heap_figures *out);
	/* Fills arena (all that is mapped for blocks and resident), hblks, hblkhd (blocks that libc
	 * would map by themselves) and keepcost (what a purge would return). Any thread; waits for
	 * a purge up to 10 ms. Returns false if they are old, since a purge is under way. NULL:
	 * it has a mallinfo of its own. */
	bool (*info)(struct mt_mallinfo *out);
	/* Returns how many classes it has filled; as expensive as figures. NULL: unknown. */
	uint32_t (*classes)(struct mt_heap_class *out, uint32_t most);
	void (*purge)(struct mt_purge_outcome *out);
	/* The same for what was purged before too, since the kernel may have filled it with huge
	 * pages. NULL: purge does. */
	void (*purge_again)(void);
	/* Returns the bytes of free blocks that a purge merges first, and so writes to. NULL: a
	 * purge writes to none. */
	uint64_t (*unmerged_bytes)(void);
	/* Returns free memory until no more than keep_bytes is left, as far as that can be told.
	 * Any thread of the program, also from inside malloc once its block is made; waits for the
	 * purge lock up to patience_ns. */
	enum mt_reclaimed (*reclaim)(uint64_t keep_bytes, uint64_t patience_ns);
	const struct mt_heap_profiler *profiler; /* NULL: it has none */
	void (*flush_thread)(void);              /* empties the calling thread's own cache */
	/* Empties the caches of threads that sleep (mt_jemalloc_caches_empty), and returns pages
	 * of unused records. Returns the number of threads. Worker thread. NULL: it cannot. */
	unsigned int (*empty_caches)(bool at_once);
	/* CPU time of purges that it made itself since the last call. NULL: it makes none. */
	uint64_t (*take_cost_ns)(void);
};

#define MT_BACKEND_EVENT_BYTES (1ull << 20)

struct mt_backend_hooks {
	bool shadowed; /* a call of malloc by its name does not reach ours */
	/* A thread uses jemalloc for the first time. counters: for mt_jemalloc_counters. */
	void (*thread_born)(void *counters);
	/* A thread has allocated MT_BACKEND_EVENT_BYTES. None of jemalloc's locks is held. */
	void (*allocated)(void);
	/* A thread has freed a large block, or realloc has cut off as much. As above. */
	void (*freed_large)(void);
	/* A thread has freed about so many bytes. As above. */
	void (*freed)(uint64_t bytes);
};

/* What serves the process from now on. */
enum mt_backend_choice {
	/* libc's malloc, and the embedded jemalloc once the process has grown */
	MT_BACKEND_ASLEEP,
	MT_BACKEND_EMBEDDED, /* the embedded jemalloc */
	MT_BACKEND_SYSTEM    /* the next allocator in line */
};

/* Returns the choice, by the settings and by the allocator that is next in line. Called once, while
 * the heap starts. */
enum mt_backend_choice mt_backend_choose(const struct mt_config *config,
					 const struct mt_backend_hooks *hooks);

/* Returns whether libc's malloc shall serve for good, since RLIMIT_AS or RLIMIT_DATA is low: not if
 * the settings need the embedded jemalloc. Two system calls. Any thread. */
bool mt_backend_is_limited(const struct mt_config *config);

/* Make libc's malloc, or the next allocator in line, the backend, and fill the identity. Called
 * while the heap starts. */
void mt_backend_use_sleeping(const struct mt_config *config);
const struct mt_backend *mt_backend_use_system(const struct mt_config *config,
					       const struct mt_backend_hooks *hooks);

/* ---- heap/asleep.c: the process wakes up, or stays on libc's malloc ---- */

void mt_backend_use_glibc(const char *reason);

/* Before jemalloc initialises: passes its settings and hooks. After it has: makes it the backend.
 */
void mt_backend_prepare_jemalloc(const struct mt_config *config,
				 const struct mt_backend_hooks *hooks);
void mt_backend_use_jemalloc(void);

/* Return the backend, NULL before it is chosen, and the identity. Any thread. */
const struct mt_backend *mt_backend(void);
const struct mt_backend_identity *mt_backend_identity(void);

/* Returns whether a malloc that is bound before this library's serves the program. */
bool mt_backend_is_shadowed(void);

/* Returns whether that is no library's, but a tool's that replaces the function (valgrind). */
bool mt_backend_is_replaced_by_tool(void);

/* Returns whether the executable itself defines malloc. Calls the loader. */
bool mt_backend_program_has_malloc(void);

/* Returns the malloc that the program's calls reach, if its name leads to another one than this
 * library's; some address of this library if that cannot be found. Calls the loader. */
const void *mt_backend_bound_malloc(void);

/* Reads the bytes that a thread has ever allocated from jemalloc and freed. counters: of its
 * thread_born; NULL: prepares the next call. Returns false while they are unknown. Any thread while
 * that one lives. */
bool mt_jemalloc_counters(const void *counters, uint64_t *out_allocated, uint64_t *out_freed);

/* Serves until the settings can be read, and the calls that the start of the heap itself makes,
 * from dlsym and pthread_atfork: libc's malloc, as in a process that is asleep (heap/asleep.h), or
 * what stands before libc. Any moment, also before libc is initialised. Never starts the heap. */
const struct mt_heap_ops *mt_asleep_early_ops(void);

/* Returns the next allocator in line, uncounted: for MT_ENABLE=0, and for the system backend. The
 * first call decides: any moment, also before libc is initialised and inside dlsym. */
const struct mt_heap_ops *mt_system_plain_ops(void);

/* Returns whether that is libc's own malloc. A wrapper's blocks lie in libc's heap too, so only
 * then an address tells whose a block is. */
bool mt_backend_libc_is_next(void);

/* Whether the library was built with the embedded jemalloc. */
extern const bool mt_jemalloc_is_built;

/* Return the backends, with the settings that `config` asks for. */
const struct mt_backend *mt_jemalloc_backend(const struct mt_config *config,
					     const struct mt_backend_hooks *given, char *out_conf,
					     size_t out_conf_bytes);
const struct mt_backend *mt_system_backend(const struct mt_config *config,
					   const struct mt_backend_identity *next_one);

/* Once, in the constructor, by the thread that runs it: from here on the functions by which the
 * next allocator tells its figures and returns memory may be called. */
void mt_system_load(void);

/* Registers the calling thread with jemalloc, which calls thread_born. jemalloc's fork handler
 * would do so too: call this before a lock is taken that thread_born takes. */
void mt_jemalloc_know_thread(void);

/* ---- alignments ---- */

/* What libc's memalign and aligned_alloc make of an alignment. Pure; any thread. */

static inline bool mt_heap_alignment_is_power(size_t alignment)
{
	return alignment && !(alignment & (alignment - 1));
}

/* aligned_alloc was memalign by another name until glibc 2.38, which refuses what is no power of
 * two with EINVAL. */
static inline bool mt_heap_alignment_is_refused(size_t alignment)
{
	return !mt_heap_alignment_is_power(alignment) && mt_libc_minor() >= 38;
}

/* libc's aligned_alloc and posix_memalign, by libc's memalign. */
static inline void *mt_heap_aligned_alloc_by(void *(*aligned)(size_t, size_t), size_t alignment,
					     size_t size)
{
	if (mt_heap_alignment_is_refused(alignment)) {
		errno = EINVAL;
		return NULL;
	}
	return aligned(alignment, size);
}

static inline int mt_heap_posix_memalign_by(void *(*aligned)(size_t, size_t), void **out,
					    size_t alignment, size_t size)
{
	void *fresh;

	if (alignment < sizeof(void *) || !mt_heap_alignment_is_power(alignment))
		return EINVAL;
	fresh = aligned(alignment, size);
	if (!fresh)
		return ENOMEM;
	*out = fresh;
	return 0;
}

#endif
