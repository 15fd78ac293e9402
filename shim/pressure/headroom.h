/* pressure/headroom.h -- how much free memory the heap may keep beside a limit. Pure.
 *
 * A look finds what the limit is charged for outside the heap: used bytes less the bytes of the
 * heap. With it, any thread can tell from the heap alone how near the limit is, without opening a
 * file. Memory that is allocated and not touched yet is in the heap's bytes and not in the used
 * ones: for a moment it makes the outside look smaller. So the largest value of the last two
 * seconds counts.
 *
 * Over jemalloc the heap's bytes are its active and its free resident pages, and both are exact.
 * Elsewhere only live bytes are known. Then free memory looks like memory outside the heap, and the
 * least outside bytes seen since a purge tell how much is not free.
 *
 * The margin, 1/32 of the limit and at least 4 MB, is for what no look has seen yet: growth outside
 * the heap, a MB for each thread that allocates, page tables, and pages that the kernel has not
 * taken off the limit yet. */
#ifndef MT_PRESSURE_HEADROOM_H
#define MT_PRESSURE_HEADROOM_H

#include <stdbool.h>
#include <stdint.h>

struct mt_heap_size {
	bool exact;
	int64_t held_bytes;  /* exact: active pages; else live bytes */
	int64_t free_bytes;  /* exact: free and resident; else 0 */
	int64_t fresh_bytes; /* of held_bytes, allocated by the caller since its last look */
};

struct mt_headroom_sample {
	uint64_t now_ns;
	uint64_t used_bytes;          /* charged to the limit */
	uint64_t limit_bytes;         /* not 0 */
	uint64_t sample_growth_bytes; /* growth that asks for another look */
	/* used bytes at which Python's garbage is worth a collection; 0: never */
	uint64_t critical_bytes;
	uint64_t clear_bytes; /* and below which it was worth it */
	uint64_t anon_bytes;  /* anonymous resident memory of the process */
	struct mt_heap_size heap;
	bool purged; /* free memory has been returned since the last look */
};

/* Remembered from look to look; all 0 to begin with. */
struct mt_headroom {
	bool known, exact;
	uint64_t window_ns; /* when recent_bytes began */
	int64_t recent_bytes, older_bytes;
	int64_t floor_bytes;
	uint64_t used_bytes;
	uint64_t pause_ns; /* after a purge without effect; not exact alone */
};

/* What threads go by until the next look. */
struct mt_ceiling {
	int64_t limit_bytes; /* 0: there is no limit */
	int64_t outside_bytes;
	int64_t floor_bytes; /* of them, not free memory of the heap; exact: all */
	int64_t used_bytes;
	int64_t sample_at_bytes; /* live and free bytes at which another look is due */
	/* live bytes at which Python is asked for a collection; INT64_MAX: never */
	int64_t critical_bytes;
	int64_t clear_bytes; /* live bytes below which it is asked at once the next time */
	bool exact;
	uint64_t sample_ns;
	uint64_t pause_until_ns; /* until then only an eighth of the limit is worth a purge */
};

struct mt_reclaimable {
	/* of all that is charged or will be, what a purge cannot return */
	int64_t live_bytes;
	int64_t free_bytes;    /* what it can */
	int64_t allowed_bytes; /* how much of it may stay: up to the margin below the limit */
};

void mt_headroom_update(struct mt_headroom *headroom, const struct mt_headroom_sample *now,
			struct mt_ceiling *out);

struct mt_reclaimable mt_ceiling_reclaimable(const struct mt_ceiling *ceiling,
					     const struct mt_heap_size *heap);

/* Free memory is to go back now. */
bool mt_ceiling_is_passed(const struct mt_ceiling *ceiling, const struct mt_reclaimable *left,
			  uint64_t now_ns);

#endif
