/* heap/account.h -- how many usable bytes the program holds, per thread and in all. Owner: one cell
 * per thread, in thread-local storage, written by its owner only; one list of the living cells, and
 * one pair of sums for the dead. No lock and no shared atomic on the allocation path: a thread's
 * cell is linked at its first use of the heap and folded into the sums in every round of its key
 * destructors, the last of which runs after everybody else's (account.c says how). Lock: account,
 * held for list work only; fork takes it (core/init.c). Never allocates. Rank 2: knows no backend;
 * who counts is told at the start. */
#ifndef MT_HEAP_ACCOUNT_H
#define MT_HEAP_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/attr.h"

/* The first line is the owner's, the second that of whoever adds up: over jemalloc only that one is
 * read. */
struct mt_thread_counters {
	_Alignas(64) uint64_t allocated_bytes; /* where we count ourselves: see mt_account_bump */
	uint64_t freed_bytes;                  /* with MT_CELL_KNOWN in it */
	/* allocated_bytes at which the owner looks at growth again */
	uint64_t look_bytes;
	uint64_t told_allocated_bytes;     /* when the owner last told of growth */
	_Alignas(64) const void *counters; /* where the allocator counts; else this cell */
	uint64_t folded_allocated_bytes;   /* already in the sums of the dead */
	uint64_t folded_freed_bytes;
	uint64_t seen_allocated_bytes; /* when the threads were last added up */
	uint64_t seen_freed_bytes;
	struct mt_thread_counters *previous, *next;
	uint8_t lane;
	uint8_t linked;
	bool moves;     /* since all threads were last added up */
	bool is_main;   /* the main thread's: its end is told */
	uint8_t rounds; /* destructor rounds seen */
};

/* The thread is known: its key is set. Kept in the counter itself, so that a free needs no second
 * look. */
#define MT_CELL_KNOWN (1ull << 63)

extern MT_TLS struct mt_thread_counters mt_thread_counters;

struct mt_account_totals {
	uint64_t allocated_bytes; /* ever */
	uint64_t freed_bytes;     /* ever */
	/* Their difference, less what is unused in pages of Python's objects; 0 while a free is
	 * seen before its allocation. */
	uint64_t live_bytes;
	uint64_t threads_count;
};

/* Reads a thread's counters; false while they cannot be known. With NULL: only makes ready for the
 * next question. */
typedef bool (*mt_account_reader)(const void *counters, uint64_t *out_allocated,
				  uint64_t *out_freed);

/* Before the first allocation is counted. reader NULL: the cells themselves are the counters.
 * main_ended (may be NULL) is called by the main thread when it ends by pthread_exit, from a key
 * destructor. */
void mt_account_start(mt_account_reader reader, void (*main_ended)(void));

/* Where nobody counts: only main_ended, as above. */
void mt_account_watch_main(void (*main_ended)(void));

/* The main thread comes by; nothing on any other. Keeps no errno. */
void mt_account_know_main(void);

/* The calling thread uses the heap for the first time; or again, while it dies. Keeps errno. */
void mt_account_thread_born(const void *counters);

/* Any thread. Sums under the list lock: microseconds for hundreds of threads, some tens where their
 * memory is not in the caches. False: nothing is counted. */
bool mt_account_read(struct mt_account_totals *out);

/* The same from only those threads that had moved between the last two full sums, the others being
 * taken for what they were: what they do in the meantime is missed until the next full one. False
 * where that will not do, since threads have been born or too many move. */
bool mt_account_partial_sum(struct mt_account_totals *out);

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

#endif
