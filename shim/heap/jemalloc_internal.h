/* heap/jemalloc_internal.h -- what the files of the embedded jemalloc, heap/jemalloc*.c, share with
 * each other and with their tests. The other files see heap/jemalloc.h. Any thread may call, unless
 * a comment says otherwise. */
#ifndef MT_HEAP_JEMALLOC_INTERNAL_H
#define MT_HEAP_JEMALLOC_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config.h"
#include "heap/backend.h"
#include "heap/jemalloc.h"
#include "sys/attr.h"

/* ---- heap/jemalloc_thread.c: counters of threads ---- */

/* The bytes that jemalloc counts for each thread. Owns where they lie. Any thread, unless a comment
 * says otherwise. Takes no lock, never allocates. */

#pragma GCC visibility push(hidden)

/* Finds where the counters lie. On the thread that has just begun jemalloc: the query enters a
 * thread into jemalloc's list. */
void mt_jemalloc_counters_begin(void);

/* jemalloc announces the calling thread, by this address. */
void mt_jemalloc_counters_note_thread(const void *counters);
bool mt_jemalloc_counters_have_thread(void);

/* Reads what the calling thread has allocated and freed so far, in bytes. Returns false if it
 * has done neither, or if jemalloc does not say. */
bool mt_jemalloc_own_counters(uint64_t *out_allocated, uint64_t *out_freed);

/* Returns whether the calling thread has allocated, so that jemalloc cleans up after it. It does
 * not for a thread that only frees, such as one in whose end libc frees the memory of other
 * threads: a call of mallctl would enter that thread into a list that it never leaves. */
bool mt_jemalloc_thread_has_allocated(void);

#pragma GCC visibility pop

/* ---- heap/jemalloc_conf.c: settings, and what it was built for ---- */

/* Composes the embedded jemalloc's settings, checks what it was built for, and keeps what jemalloc
 * says of both until the log is open. Owns that text and the size of a page. Takes no lock of the
 * shim. */

/* ---- the settings: pure but for reading environ ---- */

/* Ours, then MALLOC_ARENA_MAX, then MT_PROF, then what a MALLOC_CONF meant for a stock jemalloc
 * holds (without decay, background_thread and abort_conf), then MT_MALLOC_CONF; later keys win.
 * Whole pairs only: what does not fit is left out. */
void mt_jemalloc_conf(const struct mt_config *config, char *out, size_t out_bytes);

/* ---- whether it knows the names that the shim asks for, and how large its pages are ---- */

/* Once, by the thread that starts jemalloc, after its first allocation. Returns NULL if it fits,
 * otherwise the reason, in memory that is never freed. A name that cannot be looked up for want of
 * memory fits. */
const char *mt_jemalloc_check(void);

/* Returns the unit in which jemalloc counts pages, in bytes: those that it was built for, which may
 * be larger than the kernel's (64 KiB on Debian's aarch64). The kernel's before the check. Any
 * thread. */
uint64_t mt_jemalloc_page_bytes(void);

/* ---- its messages ---- */

/* A setting that it does not know, memory that the kernel refused, or statistics that the program
 * requested. jemalloc writes them with its locks held, and MT_LOG may be on a slow disk. So
 * messages of its initialisation are kept and logged afterwards; later ones go to stderr alone,
 * even if MT_LOG is set. */

/* jemalloc's malloc_message. Any thread, also inside jemalloc. */
void mt_jemalloc_message(void *unused, const char *text);

/* Before jemalloc begins; its settings are kept. And after: what was kept goes to the log. One
 * thread, no lock held. */
void mt_jemalloc_message_start(const char *given);
void mt_jemalloc_message_begun(void);

/* Returns whether jemalloc has said, since the start, that it was built for smaller pages than the
 * kernel's. The same thread. */
bool mt_jemalloc_message_refuses_pages(void);

/* ---- heap/jemalloc_thread.c: what it does for a thread ---- */

/* What jemalloc does for a thread as it allocates and frees, and its fork handlers. Any thread,
 * unless a comment says otherwise. Takes no lock of the shim. */

/* Before jemalloc's first use. handler: called by each thread after so many bytes that it has
 * allocated, once its block is made, with no lock of jemalloc's held, in place of jemalloc's event
 * that prints statistics. Never called by a version that lacks the event (jemalloc.mk looks). */
void mt_jemalloc_event_use(uint64_t step_bytes, void (*handler)(void));

/* Before jemalloc's first use. handler: called by each thread after about so many bytes that it has
 * freed, with no lock of jemalloc's held. Never called by a version without that event. */
void mt_jemalloc_frees_use(void (*handler)(uint64_t freed_bytes));

/* Calls that handler. jemalloc itself has the event after so many bytes that a thread frees, but
 * not for a thread that has never allocated. */
#define MT_JEMALLOC_FREE_EVENT_BYTES (64u << 10)
void mt_jemalloc_note_frees(uint64_t freed_bytes);

/* Empties the cache of the calling thread. */
void mt_jemalloc_flush_thread(void);

/* jemalloc's fork handlers (heap/jemalloc.h), and its waits for a mutex. A signal handler that has
 * interrupted jemalloc may fork: what the calling thread holds then is not waited for. Owns the
 * three handlers, and the list of such mutexes of the fork under way, of which there is one: it
 * holds the publish lock. Never allocates. */

/* Returns whether jemalloc has registered its handlers. */
bool mt_jemalloc_fork_has_handlers(void);

/* Forgets the handlers: jemalloc does not serve. */
void mt_jemalloc_fork_give_up(void);

/* ---- heap/jemalloc_caches.c: caches of threads that sleep ---- */

/* Empties the caches of threads that sleep. jemalloc empties a cache on its own thread alone, so a
 * thread that waits keeps what it has freed. Here the worker does it, of a thread of which the
 * kernel says that it waits in a system call, outside the allocator. Should it wake up meanwhile,
 * it waits before it uses the cache: all calls of the heap family pass a gate for that time. Owns
 * which cache is being emptied. jemalloc 5.3.0 alone; not while the heap profiler is prepared. */

/* Fewer threads hold some 20 MB, and empty caches would cost their next allocations. */
#define MT_JEMALLOC_MANY_THREADS 16u

/* From the return of close on, until open, all calls of the heap family pass
 * mt_jemalloc_caches_wait; close waits up to 10 ms, and returns false if they do not. reset: open,
 * in a forked child. Worker thread. */
struct mt_jemalloc_gate {
	bool (*close)(void);
	void (*open)(void);
	void (*reset)(void);
};

/* Before the process has a worker. gate: never freed. */
void mt_jemalloc_caches_use(const struct mt_jemalloc_gate *gate);

/* Tries the layout of a cache, with that of the calling thread. Once, by the thread that starts
 * jemalloc. */
void mt_jemalloc_caches_begin(bool profiles);

/* Empties the caches of threads that have neither allocated nor freed since the last call, if the
 * process has many; at_once: of all threads that sleep. What they held are free pages of jemalloc's
 * then. Returns the number of threads. Worker thread; takes the purge lock for each. */
unsigned int mt_jemalloc_caches_empty(bool at_once);

/* The calling thread, inside jemalloc, may have a cache: tells where it lies. A bin of it is
 * filled; an event comes, of a thread that may only free; it gets a cache, or goes without. thread:
 * jemalloc's. */
void mt_jemalloc_caches_note_fill(void *thread, void *bin, unsigned int size_class);
void mt_jemalloc_caches_note(void *thread);
void mt_jemalloc_caches_note_begin(bool has_one);

/* In a forked child, which has no worker: opens the gate. */
void mt_jemalloc_caches_fork_child(void);

/* ---- heap/jemalloc_arena.c: arenas of large blocks ---- */

/* Which of jemalloc's arenas serves large blocks. Those of all threads come from one arena
 * (oversize_threshold): otherwise each thread keeps free pages that no other can use. It is the
 * first thread's own, whose small blocks use the same free pages. Owns that choice. */

/* Whether the calling thread's last extent was not resident: the heap grows. jemalloc_unmap.c sets
 * it. */
extern MT_TLS bool mt_jemalloc_thread_grows;

/* Once, by the thread that starts jemalloc, before another uses it. Does nothing if a setting
 * of the user has disabled the arena for large blocks, or with a version of jemalloc whose
 * variables are others. */
void mt_jemalloc_arena_begin(void);

/* Returns jemalloc's first arena. NULL before mt_jemalloc_arena_begin, or if this version of
 * jemalloc does not show it. */
void *mt_jemalloc_first_arena(void);

/* In a forked child, whose only thread is the first again. */
void mt_jemalloc_arena_fork_child(void);

/* ---- heap/jemalloc_records.c: what jemalloc remembers of extents that are no more ---- */

/* jemalloc has a record of 128 bytes for each extent, and so for each slab of one page: 3 % of a
 * heap of small blocks. It keeps the records of extents that have joined others for the next ones,
 * at all times. Owns those that it takes from there. */

/* Returns the pages to the kernel in which no record is in use, if there are half a MB of unused
 * records, and twice as many as the last time left. Worker thread; takes the purge lock for a
 * millisecond at a time. */
void mt_jemalloc_records_return(void);

/* Returns how much has gone back and was not taken again: jemalloc counts it as resident. */
size_t mt_jemalloc_records_returned_bytes(void);

void mt_jemalloc_records_fork_child(void);

/* ---- heap/jemalloc_reuse.c: large blocks that come with the pages of those before ---- */

/* jemalloc hands a free range out with its pages, which saves a program that fills its block a
 * fault for each. Of a block that is taken as capacity, and used in part, they would stay resident
 * inside a live block, where no purge reaches them; libc has unmapped such a block at its free, or
 * cut the end of its heap off. So samples are taken of blocks from 64 kB on: a word in each of 16
 * pages tells whether the program has written there. If it has written less than a quarter of them
 * when 8 to 16 MB more have been handed out, blocks of that order of size come without pages, until
 * a sample is freed, for MT_BUDGET_PCT of the time beyond 0.3 s. Owns that verdict for each order.
 * Any thread, with no lock of jemalloc's; keeps errno. */

/* A block of so many bytes that is handed out again, not one from fresh memory. zero: zeroed. */
void mt_jemalloc_reuse_take(void *block, size_t bytes, bool zero);

/* Returns the CPU time spent since the last call. */
uint64_t mt_jemalloc_reuse_take_cost_ns(void);

/* Before the block is freed. */
void mt_jemalloc_reuse_free(const void *block, size_t bytes);

/* Returns whether a program that takes a zeroed block of this size touches little of it. */
bool mt_jemalloc_reuse_is_sparse(size_t bytes);

/* ---- heap/jemalloc_arena.c: large blocks that are freed or shrunk ---- */

/* Reports large blocks that are freed, or shrunk in place by realloc. libc returns such memory to
 * the kernel at once; jemalloc keeps the pages as dirty ones. */

/* bytes: less is not worth a look at the limit */
#define MT_JEMALLOC_LARGE_LEAST (2u << 20)

/* Before jemalloc begins. Large blocks are of size classes in every version, unless a setting of
 * the user says otherwise. freed: called by the thread that has freed such a block, or whose
 * realloc brings the bytes cut off since the last call to as many, with none of jemalloc's locks
 * held. Never called by a version of jemalloc whose functions are others. */
void mt_jemalloc_large_use(void (*freed)(void));

/* Once, by the thread that starts jemalloc, before another uses it: finds out how large blocks are
 * told. Frees one of 128 kB if the version of jemalloc has no function for that. */
void mt_jemalloc_large_begin(void);

/* ---- heap/jemalloc_unmap.c: address space ---- */

/* Address space that jemalloc returns. jemalloc keeps what it has purged mapped, for reuse. Under
 * RLIMIT_AS or RLIMIT_DATA nobody else in the process could then map anything: no thread, no
 * library. There a purge unmaps free extents, and frees lead to a purge at once, as libc's do. Any
 * thread, also inside jemalloc. */

/* Returns whether that happens here. */
bool mt_jemalloc_unmaps(void);

/* The kernel has refused jemalloc a mapping. Any thread, also inside jemalloc. Takes no lock. */
void mt_jemalloc_unmap_refused(void);

/* Returns to the kernel what is free, and again what was purged before: khugepaged may have filled
 * it. Worker thread; takes the purge lock for each arena. */
void mt_jemalloc_purge_again(void);

/* Whether the kernel has the memory for a mapping of jemalloc's. Any thread, also inside jemalloc.
 * Takes no lock. */

/* protection, flags: of the mmap call. True for all that is small beside any machine, and where
 * jemalloc maps with reserve itself. */
bool mt_jemalloc_kernel_has(size_t bytes, int protection, int flags);

/* ---- heap/jemalloc_errors.c: heap errors of the program ---- */

/* Heap errors of the program: a block that is freed twice, a pointer that is no block. As libc's
 * malloc does, it writes a line to descriptor 2 and aborts. Some errors are found in any case,
 * outside jemalloc's hot paths: a large block freed twice, memory that is not the heap's, a slab
 * that is empty by its count and not by its bits, a signal handler that allocates inside malloc.
 * MT_CHECK=1 looks at each pointer before it is freed. Reads jemalloc's own data, whose layout is
 * tried at the start; in a version of another layout it finds nothing. Any thread. Takes no lock,
 * never allocates. */

/* Tries the layout. Once, by the thread that starts jemalloc, before another uses it. */
void mt_jemalloc_errors_begin(void);

/* Returns whether the layout of this version is known. */
bool mt_jemalloc_errors_are_known(void);

/* Aborts unless ptr is a live block of jemalloc's; blocks in threads' caches count as live. call:
 * the first word of the line. */
void mt_jemalloc_errors_check(const char *call, const void *ptr);

/* Aborts if jemalloc is about to free an extent that is NULL or is not in use. */
void mt_jemalloc_errors_check_large(const void *extent);

/* Aborts if the calling thread is the owner of the lock that jemalloc is about to wait for. */
void mt_jemalloc_errors_check_owner(int owner);

/* ---- heap/jemalloc_prof.c: heap profiler ---- */

/* Walks stacks for jemalloc's heap profiler, and a gate before it. While the gate is closed no
 * thread walks; fork closes it. Any thread may call. Takes no lock. */

/* Close the gate, and wait up to 200 ms for threads that walk; open it, also in a forked child. */
void mt_jemalloc_prof_close_gate(void);
void mt_jemalloc_prof_open_gate(void);
void mt_jemalloc_prof_open_gate_in_child(void);

extern const struct mt_heap_profiler mt_jemalloc_profiler;

/* ---- its mathematics ---- */

/* Log, exp and round for jemalloc's heap profiler, in place of libm's (jemalloc.mk). Linking libm
 * would have every process open, map and relocate one more library. Pure; any thread. log accepts
 * normal positive numbers alone. */

double mt_je_log(double x);
double mt_je_exp(double x);
double mt_je_round(double x);

/* ---- heap/jemalloc_pages.c: pages ---- */

/* How many pages jemalloc keeps free and resident, without its epoch; and their return. The epoch
 * gathers every figure of every arena under its locks: 0.45 ms at 8 arenas and 5 ms at 512, once
 * caches are cold. The one figure that the worker wants is kept by each arena in plain atomic
 * counters, and an internal function of jemalloc adds them up without any lock. So any thread may
 * ask, also from inside malloc. It is no part of jemalloc's interface: versions that jemalloc.mk
 * does not know lack it, and there the epoch is what there is. Any thread, but for the figures by
 * size class, which have one caller at a time (backend.h). */

/* ---- extents ---- */

/* How jemalloc 5.3 describes a range of pages: the beginning of struct edata_s,
 * include/jemalloc/internal/edata.h, and the leaf of its tree by address that names the extent,
 * include/jemalloc/internal/rtree.h. Takes no lock and never allocates, except where a leaf is
 * made. */

struct mt_extent {
	uint64_t bits;
	char *address; /* a large block may begin anywhere in the first page */
	size_t bytes;  /* the bits below a page are something else */
	uint64_t others[5];
	uint64_t free_regions[]; /* of a slab: a bit for each region, set if it is free */
};

#define MT_EXTENT_RECORD_BYTES 128u

#define MT_EXTENT_ARENA_MASK 0xfffu /* of bits: the number of the arena */

/* A leaf: the address of the extent, with a sign, and flags below and above it. */
#define MT_LEAF_EXTENT(leaf)                                                                       \
	((struct mt_extent *)((uint64_t)((int64_t)((leaf) << 16) >> 16) & ~(uint64_t)127))

#pragma GCC visibility push(hidden)

/* Returns the leaf of the page at this address; 0 if there is none, or if jemalloc's version is not
 * known. Any thread. The extent may change at once if the caller does not own it; its memory stays
 * mapped. */
uint64_t mt_jemalloc_extent_leaf(const void *address);

/* Makes the leaf, for all of its GB of addresses. thread: jemalloc's, of the caller. Returns
 * false if there is no memory for it, which is 4 MB of address space. Takes locks of jemalloc's
 * that extent_register takes. */
bool mt_jemalloc_extent_make_leaf(void *thread, const void *address);

#pragma GCC visibility pop

/* Returns false if the program has made arenas: they come after jemalloc's own, may have hooks of
 * the program and memory of another kind, and may vanish at any time. Also false for a version of
 * jemalloc that does not show how many there are. */
static inline bool mt_jemalloc_has_own_arenas_only(void)
{
	return je_narenas_total_get && je_narenas_total_get() <= je_manual_arena_base;
}

/* ---- of an extent that the caller owns ---- */

static inline uint64_t mt_jemalloc_extent_whole_pages(uint64_t value)
{
	return value & ~(mt_jemalloc_page_bytes() - 1);
}

/* Returns where the page of an address begins. */
static inline char *mt_jemalloc_page_of(char *address)
{
	return address - (uintptr_t)address % mt_jemalloc_page_bytes();
}

static inline char *mt_jemalloc_extent_begin(const struct mt_extent *extent)
{
	return mt_jemalloc_page_of(extent->address);
}

static inline size_t mt_jemalloc_extent_bytes(const struct mt_extent *extent)
{
	return mt_jemalloc_extent_whole_pages(extent->bytes);
}

/* Fills dirty_bytes and active_bytes alone, pages that a purge is about to return among the dirty
 * ones; false before jemalloc has begun, without the counters, or if the program has arenas of its
 * own, which may vanish at any time. */
bool mt_jemalloc_pages(struct mt_heap_figures *out);

/* Returns how many bytes of one arena, as jemalloc's functions pass it, lie free and resident.
 * UINT64_MAX if the counters are not there. Any thread, also inside jemalloc. */
uint64_t mt_jemalloc_pages_free_bytes(void *arena);

/* Returns the free pages of one arena to the kernel. Under the purge lock. */
void mt_jemalloc_purge_arena(unsigned int index);

/* Returns what an arena had purged and kept mapped at the last epoch. Under the purge lock. */
uint64_t mt_jemalloc_retained_bytes(unsigned int index);

/* Returns how many arenas there are. */
unsigned int mt_jemalloc_arenas_count(void);

/* As mt_jemalloc_purge_arena, by a thread of the program, also from inside malloc: takes the purge
 * lock, and does nothing if that takes longer than 10 ms. */
void mt_jemalloc_purge_arena_soon(unsigned int index);

/* The parent's purge is not under way here. */
void mt_jemalloc_pages_fork_child(void);

/* See backend.h: the arenas with most free pages first. Without the counters, all arenas. */
enum mt_reclaimed mt_jemalloc_reclaim(uint64_t keep_bytes, uint64_t patience_ns);

/* Counts live blocks by size class, including those in the threads' caches. Returns how many
 * classes it has written, up to `most`. */
uint32_t mt_jemalloc_classes(struct mt_heap_class *out, uint32_t most);

/* The sums of live blocks of least_bytes and more, as of the last epoch. least_bytes: 32 KiB or
 * more, which no thread caches. */
void mt_jemalloc_large_classes(size_t least_bytes, size_t *out_count, size_t *out_bytes);

/* ---- the move of large blocks ---- */

/* Realloc of large blocks that grow. jemalloc would copy such a block and keep the pages of the old
 * one. Here the kernel moves the pages (mremap(2)), as it does for libc. If it cannot, each piece
 * of the old block is returned to the kernel once it is copied. Any thread; waits up to 10 ms for
 * the purge lock. Never holds a lock of jemalloc's. */

/* bytes: smaller blocks are left to jemalloc, as libc copies those that it does not map */
#define MT_JEMALLOC_MOVE_LEAST (128u << 10)
/* bytes: larger blocks begin at a page; of smaller ones the holes are skipped in a copy */
#define MT_JEMALLOC_PAGE_LEAST (1u << 20)
/* bytes: smaller ones are copied if most of both places is resident, which is faster; below
 * MT_JEMALLOC_PAGE_LEAST only those are moved of which less than half is resident */
#define MT_JEMALLOC_MOVE_ALWAYS (4u << 20)

/* Grows a large block in place if jemalloc can. Returns whether it must be moved instead. */
bool mt_jemalloc_is_move(void *ptr, size_t bytes);

/* realloc of such a block. Returns NULL with errno ENOMEM if there is no memory; the block then
 * stays as it was. */
void *mt_jemalloc_move(void *ptr, size_t bytes);

#endif
