/* mtshim.h -- what a program may ask of libmtshim.so. All of it is optional: the shim works without
 * any change to the program. Nothing needs to be linked: look the names up (dlsym(RTLD_DEFAULT,
 * "mt_trim"), ctypes.CDLL(None).mt_trim), and go without where they are missing. All functions may
 * be called from any thread, not from a signal handler. */
#ifndef MTSHIM_H
#define MTSHIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One round of the program's work has ended. Every MT_GC_ROUNDS-th round asks for a light cleanup,
 * every MT_HEAVY_ROUNDS-th for a heavy one, which the shim's own thread then makes. Answers the
 * number of the round, from 1; 0 with MT_ENABLE=0. */
uint64_t mt_round(void);

/* Cleans up now, in the calling thread. level 0: the heap; 1 (light): Python's gc and the heap; 2
 * (heavy): GPU caches too. Answers the bytes by which resident anonymous memory fell, 0 for none,
 * -1 for a level that does not exist or where nothing can be trimmed. */
int64_t mt_trim(int level);

/* Figures of this process. The caller sets size_bytes to sizeof(struct mt_stats); no field beyond
 * it is written, and later versions only add fields at the end. Answers 0, or -1 where the shim is
 * off. */
struct mt_stats {
	uint64_t size_bytes;
	/* usable bytes that the program holds, exact as of each thread's last destructor round */
	uint64_t live_bytes;
	uint64_t allocated_bytes; /* ever */
	uint64_t freed_bytes;     /* ever */
	uint64_t rss_bytes;
	uint64_t rss_anon_bytes;
	uint64_t rounds_count;
	uint64_t light_count; /* cleanups */
	uint64_t heavy_count;
	uint64_t purge_count;
	uint64_t purged_bytes; /* RSS that fell across all purges */
};
int mt_stats(struct mt_stats *out);

/* The calls that federated-learning code knows. */

/* A light cleanup, heavy when cuda_empty_cache is not 0. */
void mt_cleanup_memory(int cuda_empty_cache);

/* Who serves malloc: "jemalloc", "glibc", "tcmalloc", "mimalloc" or "unknown". Found once; never
 * freed. */
const char *mt_allocator_type(void);

/* Returns free heap pages: 1 when resident memory fell, 0 when it did not, -1 where the allocator
 * has no way to. */
int mt_try_trim(void);

#ifdef __cplusplus
}
#endif

#endif
