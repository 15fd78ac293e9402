/* heap/account.h -- how many usable bytes the program holds, per thread and in total. Owns one
 * struct of counters per thread, in thread-local storage; 16 lists of those of living threads; and
 * the sums of ended threads. Only the owner writes its counters, so the allocation path has no lock
 * and no shared atomic. A thread is registered at its first use of the heap. Its counters are added
 * to the sums of ended threads in each round of its key destructors, of which ours runs after those
 * of other libraries (account.c). Any thread may call. Takes the lock `account` for the lists, and
 * while it looks at threads that sleep (four reads of /proc each); fork takes it too. Never
 * allocates. Knows no backend: heap/heap.c tells where an allocator counts itself. */
#ifndef MT_HEAP_ACCOUNT_H
#define MT_HEAP_ACCOUNT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sys/attr.h"

/* Whether a thread allocates and frees more than a little. TRIED: it rests, and did not sleep when
 * its cache was to be emptied. EMPTIED: it has rested since. */
enum mt_account_rest { MT_REST_MOVES, MT_REST_RESTS, MT_REST_TRIED, MT_REST_EMPTIED };

/* The first cache line is written by the owner but for its last fields, the second by the thread
 * that adds up. */
struct mt_thread_counters {
	_Alignas(64) uint64_t allocated_bytes; /* counted by the shim: see mt_account_bump */
	uint64_t freed_bytes;                  /* with MT_THREAD_IS_KNOWN in it */
	/* allocated_bytes of its next allocation event */
	uint64_t next_event_bytes;
	uint64_t event_allocated_bytes; /* at the owner's last allocation event */
	_Atomic(void *) cache;          /* of jemalloc, written by the owner; NULL: none */
	_Atomic int lock_waits;         /* by the owner: it waits for a lock of jemalloc's */
	pid_t tid;
	uint64_t rest_bytes; /* allocated and freed, when it last moved or was emptied */
	enum mt_account_rest rest;
	/* where the allocator counts in addition; NULL: nowhere. Written by the owner */
	_Alignas(64) _Atomic(const void *) allocator_counters;
	uint64_t folded_allocated_bytes; /* already in the sums of ended threads */
	uint64_t folded_freed_bytes;
	uint64_t seen_allocated_bytes; /* when the threads were last added up */
	uint64_t seen_freed_bytes;
	struct mt_thread_counters *previous, *next;
	uint8_t shard; /* the list that it is in */
	uint8_t linked;
	bool moves;     /* changed since all threads were last added up */
	bool is_main;   /* the main thread: its end is reported */
	uint8_t rounds; /* destructor rounds so far */
};

/* The thread is registered: its key is set. It is a bit of freed_bytes, so that free needs no
 * second load. */
#define MT_THREAD_IS_KNOWN (1ull << 63)

extern MT_TLS struct mt_thread_counters mt_thread_counters;

struct mt_account_totals {
	uint64_t allocated_bytes; /* ever */
	uint64_t freed_bytes;     /* ever */
	/* Their difference, less what is unused in pages of Python's objects; 0 while a free is
	 * seen before its allocation. */
	uint64_t live_bytes;
	uint64_t threads_count;
};

/* Reads what an allocator has counted for a thread. counters: as passed to mt_account_thread_born,
 * or NULL: nothing. Returns false while it cannot be known. */
typedef bool (*mt_account_reader)(const void *counters, uint64_t *out_allocated,
				  uint64_t *out_freed);

/* Starts the account, before the first allocation is counted. reader: as for mt_account_use_reader,
 * or NULL. main_ended: called on the main thread when it ends by pthread_exit, from a key
 * destructor; may be NULL. */
void mt_account_start(mt_account_reader reader, void (*main_ended)(void));

/* Returns the number of threads that have allocated or freed and have not ended. Any thread, no
 * lock: the number may be old at once. */
uint64_t mt_account_threads(void);

/* Takes a thread key whose value libc keeps inside the thread. It is the last free one: its
 * destructor runs after those of other libraries, and the program's first key is 0 as without the
 * library. Returns false if none is left. Before there are threads. */
bool mt_account_take_key(pthread_key_t *out, void (*destructor)(void *));

/* From now on the allocator counts besides: threads tell mt_account_thread_born where. Any thread.
 */
void mt_account_use_reader(mt_account_reader reader);

/* Returns the bytes that the calling thread has ever allocated. */
uint64_t mt_account_own_allocated(void);

/* For an allocator that is not counted: only calls main_ended, as above. */
void mt_account_watch_main(void (*main_ended)(void));

/* Registers the main thread for main_ended; does nothing on another thread. May change errno. */
void mt_account_know_main(void);

/* Registers the calling thread, at its first use of the heap or again while it ends.
 * allocator_counters: where the allocator counts for it, or NULL. Keeps errno. */
void mt_account_thread_born(const void *allocator_counters);

/* Adds up all threads under the list lock: microseconds for hundreds of threads, some tens of them
 * where their memory is not in the caches. Returns false if nothing is counted. Any thread. */
bool mt_account_read(struct mt_account_totals *out);

/* As mt_account_read, without Python's objects. Exact for the calling thread. */
bool mt_account_read_malloc(struct mt_account_totals *out);

/* As mt_account_read, but reads only those threads that changed between the last two calls of
 * mt_account_read. What the other threads do meanwhile is missing until its next call. Returns
 * false if a thread was registered since, or too many change. */
bool mt_account_partial_sum(struct mt_account_totals *out);

/* ---- threads that rest ---- */

/* Looks which threads have allocated and freed less than 64 KiB since the last call; at_once: all
 * count as if they had, but those whose cache was emptied since. Returns how many of these have a
 * cache that was not. Worker thread. */
unsigned int mt_account_note_rest(bool at_once);

/* Asks sleeps() about the next of them, under the list lock: the thread cannot end meanwhile.
 * Returns false if there is no further one. *out_cache: its cache if it sleeps, to be emptied; else
 * NULL. Worker thread. */
bool mt_account_try_sleeper(bool (*sleeps)(const struct mt_thread_counters *thread),
			    void **out_cache);

/* Only the owner writes, so no lock prefix, and plainly, so that it is one instruction; readers
 * load atomically and may lag. An aligned 8-byte addition is not torn on any 64-bit machine. */
static inline uint64_t mt_account_bump(uint64_t *counter, uint64_t bytes)
{
	*counter += bytes;
	return *counter;
}

/* The same for freed_bytes, answering whether the thread is known. Compilers store the sum and test
 * it in two steps more than the processor needs. */
static inline bool mt_account_bump_known(uint64_t *counter, uint64_t bytes)
{
#if defined(__x86_64__)
	bool known;

	__asm__("addq %2, %0" : "+m"(*counter), "=@ccs"(known) : "r"(bytes));
	return known;
#else
	return (int64_t)mt_account_bump(counter, bytes) < 0;
#endif
}

void mt_account_fork_prepare(void);
void mt_account_fork_parent(void);
void mt_account_fork_child(void);

/* ---- allocation events ---- */

/* Allocation events of the program: every MB that a thread allocates over jemalloc and every 4 MB
 * over glibc, from inside malloc once its block is made. pressure/ listens: it compares the heap
 * with the limit. Without a listener an event costs one load. Keeps errno. */

struct mt_allocation_listener {
	/* The calling thread has allocated so many bytes since its last event. True: run is due. */
	bool (*note)(uint64_t fresh_bytes);
	/* Takes its time; none of the allocator's locks is held and none of ours. */
	void (*run)(uint64_t fresh_bytes);
	/* The calling thread has freed a large block. */
	void (*freed_large)(void);
	/* A cleanup has returned free memory. */
	void (*purged)(void);
};

/* Once, before the process has a second thread of ours. listener: never freed. */
void mt_account_event_listen(const struct mt_allocation_listener *listener);

/* Over jemalloc: the calling thread has freed a large block, or realloc has cut off as much. */
void mt_account_event_freed_large(void);

/* The calling thread has taken so many more bytes of pages for Python's objects. */
void mt_account_event_objects(uint64_t bytes);

/* The calling thread has ever allocated so many bytes. Returns how many since its last event. */
uint64_t mt_account_event_note(uint64_t allocated_bytes);

/* A cleanup has purged the heap. Any thread. */
void mt_account_event_purged(void);

/* ---- who allocates ---- */

struct mt_allocation_caller {
	uintptr_t address;      /* return address of the call; 0: none yet */
	const uintptr_t *frame; /* where the stack of its function begins, while the call lasts */
};

/* Where the calling thread last called the heap family, while callers are noted; else of before. */
extern MT_TLS struct mt_allocation_caller mt_allocation_caller;

/* Has each call that makes a block write its caller there; or no longer. Over the embedded
 * jemalloc; else it does nothing. One thread at a time. */
void mt_account_event_note_callers(bool wanted);
bool mt_account_event_wants_callers(void);

/* For the allocator: calls changed() at each change. Before the process has a second thread of
 * ours. */
void mt_account_event_offer_callers(void (*changed)(void));

#endif
