/* mtshim.h -- functions that a program may call in libmtshim.so. All are optional: the shim works
 * without a change to the program. Do not link the library: look the names up (dlsym(RTLD_DEFAULT,
 * "mt_trim"), ctypes.CDLL(None).mt_trim), and do without if they are missing. Any thread may
 * call; never call them in a signal handler. */
#ifndef MTSHIM_H
#define MTSHIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ends one round of the program's work. Every MT_GC_ROUNDS-th round requests a light cleanup, every
 * MT_HEAVY_ROUNDS-th a heavy one; the shim's worker thread runs it, or this call
 * where there is no worker. Returns the number of the round, from 1; 0 if the shim is off. */
uint64_t mt_round(void);

/* Runs a cleanup now, in the calling thread. level 0: the heap; 1 (light): Python's gc and the
 * heap; 2 (heavy): GPU caches too. Returns the bytes by which resident anonymous memory fell, or 0.
 * Returns -1 for another level, or where nothing can be cleaned. */
int64_t mt_trim(int level);

/* Figures of this process. The caller sets size_bytes to sizeof(struct mt_stats) and mt_stats
 * writes no field beyond it; later versions only add fields at the end. Returns 0, or -1 if the
 * shim is off or size_bytes is too small. */
struct mt_stats {
	uint64_t size_bytes;
	/* usable bytes that the program holds; a thread's last destructors may be missing */
	uint64_t live_bytes;
	uint64_t allocated_bytes; /* in total */
	uint64_t freed_bytes;     /* in total */
	uint64_t rss_bytes;
	uint64_t rss_anon_bytes;
	uint64_t rounds_count;
	uint64_t light_count; /* cleanups by level */
	uint64_t heavy_count;
	uint64_t purge_count;
	uint64_t purged_bytes; /* anonymous RSS that fell across all purges */
};
int mt_stats(struct mt_stats *out);

/* The functions below have the names and results that federated-learning code uses. */

/* Runs a light cleanup; a heavy one where cuda_empty_cache is not 0. */
void mt_cleanup_memory(int cuda_empty_cache);

/* Returns the allocator that serves malloc: "jemalloc", "glibc", "tcmalloc", "mimalloc" or
 * "unknown". A small process says "glibc" until it has grown. The text lives as long as the
 * process. */
const char *mt_allocator_type(void);

/* Returns free heap pages to the kernel. Returns 1 if resident memory fell, 0 if it did not,
 * -1 if the allocator cannot return memory. */
int mt_try_trim(void);

#ifdef __cplusplus
}
#endif

#endif
