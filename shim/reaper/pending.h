/* reaper/pending.h -- memory that the program has allocated lately and not touched yet. It counts as live, is not resident, and may
 * be the next moment: who meets a limit meets it there. Pure. Reaper only. */
#ifndef MT_PENDING_H
#define MT_PENDING_H

#include <stdbool.h>
#include <stdint.h>

/* Of the heap, more than what is resident, as one look has found it. Only its growth says something, since other memory of the
 * process is resident too. */
struct mt_untouched {
	bool known;
	int64_t space_bytes;      /* by the address space of the process */
	bool exact;               /* the allocator tells its figures, too */
	int64_t heap_bytes;       /* by them; they count where both looks have them */
};

/* All 0 to begin with. */
struct mt_pending {
	struct mt_untouched seen; /* at the last look */
	uint64_t bytes;           /* pending now */
	uint64_t early_bytes;     /* seen, and nobody has told of them yet */
	uint64_t early_ns;        /* when they last became more */
	uint64_t grown_ns;        /* when they last became more */
};

/* One look; taken_bytes: by the program's threads since the last one, as they tell. */
void mt_pending_look(struct mt_pending *pending, const struct mt_untouched *now, uint64_t taken_bytes, uint64_t now_ns);

/* A purge has given so many bytes back: they are untouched now, and nobody has taken them. Before the look. */
void mt_pending_discarded(struct mt_pending *pending, uint64_t bytes);

/* In a child nothing that was seen can be compared. */
void mt_pending_fork_child(struct mt_pending *pending);

#endif
