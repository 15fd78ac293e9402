#include "pressure/direct_reclaim.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "heap/account.h"
#include "heap/backend.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/os.h"
#include "core/cleanup.h"
#include "core/control_file.h"
#include "core/interpreter.h"
#include "core/thread.h"
#include "heap/trim.h"
#include "pressure/unsampled.h"

#define STEP_BYTES  ((int64_t)MT_MIB)
#define PATIENCE_NS (100 * MT_NS_PER_MS) /* for who returns memory at the moment */
/* where a free would wait: it is going back already */
#define SPARE_PATIENCE_NS (10 * MT_NS_PER_MS)
#define MOST_PATIENCE     10 /* times that, for a large block */
/* allocated before the worker's first look: who does that waits for it */
#define FIRST_BYTES ((int64_t)(64 * MT_MIB))
/* of the limit: threads do not wait for looks at a smaller distance */
#define SAFE_SHARE 32
/* of the limit: no more stays when a large block is freed */
#define SPARED_SHARE 8
/* of the limit: a smaller fall of live bytes is memory that is turned over */
#define STEP_SHARE 64
/* over glibc a thread tells every 4 MB: before the look, and before now */
#define UNTOLD_BYTES ((int64_t)(8 * MT_MIB))
/* between two collections while the limit stays near */
#define COLLECT_NS (10 * MT_NS_PER_S)
#define RING_NS    (10 * MT_NS_PER_MS) /* between two looks that growth asks for */

/* The ceiling, word by word: a thread that reads words of two looks compares a little too early or
 * too late. No ordering. */
#define CEILING_WORDS (sizeof(struct mt_ceiling) / sizeof(uint64_t))
static_assert(sizeof(struct mt_ceiling) % sizeof(uint64_t) == 0, "it is copied by words");
static _Atomic uint64_t shared[CEILING_WORDS];

static _Atomic bool is_limited;     /* there is a ceiling; no ordering */
static _Atomic int64_t left_bytes;  /* to allocate until somebody compares; counter, no ordering */
static _Atomic bool has_rung;       /* no ordering: the control file has its own */
static _Atomic bool was_purged;     /* since the last look began; no ordering */
static _Atomic uint64_t runs_count; /* counters, no ordering */
static _Atomic uint64_t runs_ns;
/* when Python may be asked again while the limit stays near; no ordering */
static _Atomic uint64_t collect_ns;
static struct mt_headroom headroom; /* the worker's */

static struct mt_ceiling read_ceiling(void)
{
	uint64_t words[CEILING_WORDS];
	struct mt_ceiling ceiling;

	for (size_t i = 0; i < CEILING_WORDS; i++)
		words[i] = atomic_load_explicit(&shared[i], memory_order_relaxed);
	memcpy(&ceiling, words, sizeof(ceiling));
	return ceiling;
}

static void write_ceiling(const struct mt_ceiling *ceiling)
{
	uint64_t words[CEILING_WORDS];

	memcpy(words, ceiling, sizeof(words));
	for (size_t i = 0; i < CEILING_WORDS; i++)
		atomic_store_explicit(&shared[i], words[i], memory_order_relaxed);
}

static bool is_set(_Atomic bool *flag)
{
	return atomic_load_explicit(flag, memory_order_relaxed);
}

static void set(_Atomic bool *flag, bool value)
{
	atomic_store_explicit(flag, value, memory_order_relaxed);
}

static bool read_heap(bool may_be_exact, struct mt_heap_size *out)
{
	const struct mt_backend *backend = mt_backend();
	struct mt_heap_figures pages = {0};
	struct mt_account_totals totals;

	*out = (struct mt_heap_size){.exact = may_be_exact && backend->pages &&
					      backend->pages(&pages)};
	if (out->exact) {
		out->held_bytes = (int64_t)pages.active_bytes;
		out->free_bytes = (int64_t)pages.dirty_bytes;
		return true;
	}
	if (backend->counting == MT_COUNTING_NONE || !mt_account_read(&totals))
		return false;
	out->held_bytes = (int64_t)totals.live_bytes;
	return true;
}

bool mt_reclaim_read_heap(struct mt_heap_size *out)
{
	return read_heap(true, out);
}

/* ---- comparing ---- */

bool mt_reclaim_note(uint64_t allocated_bytes)
{
	int64_t bytes = (int64_t)allocated_bytes;

	return is_set(&is_limited) &&
	       atomic_fetch_sub_explicit(&left_bytes, bytes, memory_order_relaxed) <= bytes;
}

/* How much more may be allocated before only another look could tell whether the limit is reached.
 */
static int64_t safe_bytes(const struct mt_ceiling *ceiling, const struct mt_headroom_left *room)
{
	int64_t used =
		ceiling->used_bytes > room->live_bytes ? ceiling->used_bytes : room->live_bytes;
	int64_t most = room->live_bytes + room->room_bytes - used - UNTOLD_BYTES;

	if (ceiling->exact)
		return INT64_MAX;
	if (most < ceiling->limit_bytes / SAFE_SHARE)
		most = ceiling->limit_bytes / SAFE_SHARE;
	return most - mt_unsampled_bytes();
}

static int64_t least_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void start_left(int64_t left)
{
	atomic_store_explicit(&left_bytes, left, memory_order_relaxed);
}

/* The heap does not grow by more than is allocated; half of it, since blocks are smaller than the
 * pages that they lie in. */
static void set_left(const struct mt_ceiling *ceiling, const struct mt_headroom_left *room)
{
	int64_t to_room = room->room_bytes - room->free_bytes;
	int64_t to_ring = ceiling->ring_at_bytes - room->live_bytes - room->free_bytes;
	int64_t to_critical = ceiling->critical_bytes - room->live_bytes;
	int64_t left = least_of(least_of(to_room, to_ring), safe_bytes(ceiling, room)) / 2;

	if (to_critical > 0)
		left = least_of(left, to_critical / 2);
	start_left(left > STEP_BYTES ? left : STEP_BYTES);
}

static void ring(void)
{
	set(&has_rung, true);
	mt_control_notify(MT_CONTROL_GROWTH);
}

/* Where free memory is only reckoned, all of it is taken for returned until the next look. */
static void note_run(const struct mt_ceiling *ceiling, const struct mt_headroom_left *room,
		     uint64_t began_ns)
{
	struct mt_ceiling lower = *ceiling;

	if (!ceiling->exact) {
		lower.outside_bytes = ceiling->floor_bytes;
		lower.used_bytes = room->live_bytes;
		write_ceiling(&lower);
		mt_unsampled_forget(room->live_bytes - ceiling->floor_bytes);
	}
	atomic_fetch_add_explicit(&runs_count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&runs_ns, mt_os_now_ns() - began_ns, memory_order_relaxed);
}

/* Who has allocated little comes back with the next MB; a large block is there at once. */
static uint64_t patience_ns(uint64_t fresh_bytes)
{
	uint64_t times = fresh_bytes / MT_MIB;

	return PATIENCE_NS * (times < 1 ? 1 : times > MOST_PATIENCE ? MOST_PATIENCE : times);
}

static void reclaim(const struct mt_ceiling *ceiling, const struct mt_headroom_left *room,
		    uint64_t keep_bytes, uint64_t patience)
{
	uint64_t began_ns = mt_os_now_ns();
	struct mt_heap_size after;

	if (mt_heap_purge_copies(false) ||
	    mt_backend()->reclaim(keep_bytes, patience) != MT_RECLAIMED_SOME)
		return;
	mt_reclaim_note_purge();
	if (ceiling->exact && mt_reclaim_read_heap(&after) && after.free_bytes < room->free_bytes)
		mt_cleanup_note_program((uint64_t)(room->free_bytes - after.free_bytes));
	note_run(ceiling, room, began_ns);
	ring();
}

/* What no purge can return may be Python's garbage, and the worker may come too late to ask for it:
 * a program that fills the room to its limit in a tenth of a second was killed on a busy machine.
 * Once each time that the limit comes near, then at a distance. */
static void collect_garbage(const struct mt_ceiling *ceiling, const struct mt_headroom_left *room,
			    uint64_t now)
{
	uint64_t due = atomic_load_explicit(&collect_ns, memory_order_relaxed);

	if (room->live_bytes < ceiling->clear_bytes && due)
		atomic_store_explicit(&collect_ns, 0, memory_order_relaxed);
	if (room->live_bytes < ceiling->critical_bytes || now < due)
		return;
	if (atomic_compare_exchange_strong_explicit(&collect_ns, &due, now + COLLECT_NS,
						    memory_order_relaxed, memory_order_relaxed) &&
	    mt_interpreter_collect_soon(mt_backend()->flush_thread))
		ring();
}

/* A new worker has yet to look: on a busy machine that may come after a program has filled its
 * limit. */
static bool is_limit_known(void)
{
	if (read_ceiling().limit_bytes)
		return true;
	start_left(FIRST_BYTES);
	return !mt_thread_is_ours() && mt_unsampled_await_look(ring, PATIENCE_NS) &&
	       read_ceiling().limit_bytes;
}

/* Before a large block much may have been freed. */
static void note_live(const struct mt_heap_size *heap, int64_t step_bytes)
{
	if (heap->fresh_bytes >= 2 * step_bytes)
		mt_unsampled_note(heap->held_bytes - heap->fresh_bytes, step_bytes);
	mt_unsampled_note(heap->held_bytes, step_bytes);
}

/* The heap's pages may have come to be believed since the look: they are compared with what a look
 * measured in pages alone. */
static bool read_room(uint64_t fresh_bytes, struct mt_ceiling *ceiling,
		      struct mt_headroom_left *out)
{
	struct mt_heap_size heap;

	*ceiling = read_ceiling();
	if (!read_heap(ceiling->exact, &heap) || heap.exact != ceiling->exact)
		return false;
	heap.fresh_bytes = (int64_t)fresh_bytes;
	if (!heap.exact)
		note_live(&heap, ceiling->limit_bytes / STEP_SHARE);
	*out = mt_ceiling_room(ceiling, &heap);
	return true;
}

static void compare(uint64_t fresh_bytes)
{
	uint64_t now = mt_os_now_ns();
	struct mt_ceiling ceiling;
	struct mt_headroom_left room;

	if (!is_limit_known())
		return;
	if (!read_room(fresh_bytes, &ceiling, &room))
		return;
	/* The look that is under way may have measured before. */
	for (int i = 0; i < 2 && !mt_thread_is_ours() && safe_bytes(&ceiling, &room) <= 0 &&
			mt_unsampled_await_look(ring, PATIENCE_NS);
	     i++)
		if (!read_room(fresh_bytes, &ceiling, &room))
			return;
	set_left(&ceiling, &room);
	if (!mt_thread_is_ours())
		collect_garbage(&ceiling, &room, now);
	/* Half of the room may stay: who is at the ceiling would be there again with the next MB.
	 */
	if (mt_ceiling_is_passed(&ceiling, &room, now))
		reclaim(&ceiling, &room, (uint64_t)room.room_bytes / 2, patience_ns(fresh_bytes));
	else if (room.live_bytes + room.free_bytes >= ceiling.ring_at_bytes &&
		 now - ceiling.look_ns >= RING_NS)
		ring();
}

MT_COLD void mt_reclaim_run(uint64_t fresh_bytes)
{
	int kept = errno;

	/* A fork waits for who is in the loader, no longer than a walk takes. */
	if (!mt_thread_is_ours() && !mt_loader_is_inside())
		compare(fresh_bytes);
	errno = kept;
}

/* What an unmapped block would leave to others is theirs. A program whose free memory is little
 * beside its limit keeps it: it will use it again. */
static void spare(void)
{
	struct mt_ceiling ceiling;
	struct mt_headroom_left room;
	int64_t most;

	if (!read_room(0, &ceiling, &room) || !ceiling.exact)
		return;
	most = least_of(ceiling.limit_bytes / SPARED_SHARE,
			ceiling.limit_bytes - room.live_bytes - room.free_bytes);
	if (room.free_bytes > most && room.free_bytes >= STEP_BYTES)
		reclaim(&ceiling, &room, most > 0 ? (uint64_t)most / 2 : 0, SPARE_PATIENCE_NS);
}

MT_COLD void mt_reclaim_spare(void)
{
	int kept = errno;

	if (is_set(&is_limited) && !mt_thread_is_ours() && !mt_loader_is_inside())
		spare();
	errno = kept;
}

void mt_reclaim_note_purge(void)
{
	set(&was_purged, true);
}

/* ---- the worker ---- */

bool mt_reclaim_has_notified(void)
{
	return is_set(&has_rung);
}

void mt_reclaim_expect_look(void)
{
	const struct mt_ceiling unknown = {0};

	write_ceiling(&unknown);
	start_left(FIRST_BYTES);
	set(&is_limited, true);
}

bool mt_reclaim_begin_look(void)
{
	set(&has_rung, false);
	mt_unsampled_begin_look();
	return atomic_exchange_explicit(&was_purged, false, memory_order_relaxed);
}

void mt_reclaim_look(const struct mt_headroom_look *look)
{
	struct mt_ceiling ceiling;

	mt_headroom_look(&headroom, look, &ceiling);
	write_ceiling(&ceiling);
	set(&is_limited, true);
	start_left(STEP_BYTES);
	mt_unsampled_end_look();
}

void mt_reclaim_check(void)
{
	if (is_set(&is_limited))
		compare(0);
}

void mt_reclaim_off(void)
{
	set(&is_limited, false);
	set(&has_rung, false);
	mt_unsampled_end_look();
	headroom = (struct mt_headroom){0};
}

void mt_reclaim_read(uint64_t *out_count, uint64_t *out_ns)
{
	*out_count = atomic_load_explicit(&runs_count, memory_order_relaxed);
	*out_ns = atomic_load_explicit(&runs_ns, memory_order_relaxed);
}

void mt_reclaim_fork_child(void)
{
	mt_reclaim_off();
	set(&was_purged, false);
	atomic_store_explicit(&collect_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&runs_count, 0, memory_order_relaxed);
	atomic_store_explicit(&runs_ns, 0, memory_order_relaxed);
}
