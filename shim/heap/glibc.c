#include "heap/glibc.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "heap/backend.h"
#include "heap/purge_lock.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/os.h"
#include "sys/rss.h"
#include "sys/saturating.h"

/* ---- the address range of its heap ---- */

#define FROZEN   ((uintptr_t)1)
#define GIVEN_UP ((uintptr_t)2) /* the length is as good as infinite */
#define FLAGS    ((uintptr_t)15)

uintptr_t mt_glibc_range_base;
_Atomic uintptr_t mt_brk_range_word; /* acquire/release: it alone decides */
uintptr_t mt_glibc_range_end = UINTPTR_MAX;

static uintptr_t read_break(void)
{
	return (uintptr_t)mt_raw_syscall(SYS_brk, 0);
}

static uintptr_t read_word(void)
{
	return mt_load_acquire(&mt_brk_range_word);
}

/* On failure *word is the present one. */
static bool swap(uintptr_t *word, uintptr_t wanted)
{
	return atomic_compare_exchange_strong_explicit(&mt_brk_range_word, word, wanted,
						       memory_order_acq_rel, memory_order_acquire);
}

void mt_glibc_range_begin(void)
{
	mt_assert(!mt_glibc_range_has_begun() && !read_word());
	mt_glibc_range_base = read_break();
}

bool mt_glibc_range_has_begun(void)
{
	return mt_glibc_range_base != 0;
}

MT_COLD enum mt_brk_place mt_glibc_range_add(const void *block)
{
	uintptr_t at = (uintptr_t)block - mt_glibc_range_base;
	uintptr_t word = read_word();
	uintptr_t length;

	do {
		if (!block || (word & GIVEN_UP) || at < (word & ~FLAGS))
			return MT_BRK_INSIDE;
		if (word & FROZEN)
			return MT_BRK_FROZEN;
		length = (read_break() - mt_glibc_range_base) & ~FLAGS;
		if (at >= length)
			return MT_BRK_OUTSIDE;
	} while (!swap(&word, length));
	return MT_BRK_EXTENDED;
}

bool mt_glibc_range_freeze(void)
{
	uintptr_t word = read_word();
	uintptr_t length;

	mt_assert(!(word & FROZEN)); /* jemalloc begins once */
	do {
		uintptr_t now = read_break();

		if (word & GIVEN_UP)
			return false;
		/* the program break may have sunk */
		length = word & ~FLAGS;
		if (now > mt_glibc_range_base && ((now - mt_glibc_range_base) & ~FLAGS) > length)
			length = (now - mt_glibc_range_base) & ~FLAGS;
		if (!mt_glibc_range_base)
			length = 0;
	} while (!swap(&word, length | FROZEN));
	__atomic_store_n(&mt_glibc_range_end, length ? mt_glibc_range_base + length : 0,
			 __ATOMIC_RELAXED);
	return true;
}

bool mt_glibc_range_give_up(void)
{
	uintptr_t word = read_word();

	do
		if (word & FROZEN)
			return false;
	while (!swap(&word, ~FLAGS | GIVEN_UP));
	return true;
}

bool mt_glibc_range_is_given_up(void)
{
	return read_word() & GIVEN_UP;
}

size_t mt_glibc_range_bytes(void)
{
	uintptr_t word = read_word();

	return word & GIVEN_UP ? 0 : word & ~FLAGS;
}

bool mt_glibc_range_overlaps(const void *address, size_t bytes)
{
	uintptr_t from = (uintptr_t)address;

	return from < mt_glibc_range_base + mt_glibc_range_bytes() &&
	       from + bytes > mt_glibc_range_base;
}

bool mt_glibc_range_has(const void *ptr)
{
	return (uintptr_t)ptr - mt_glibc_range_base < mt_glibc_range_bytes();
}

/* ---- libc's own functions ---- */

/* Their addresses, found by one walk; all calls store the same values. */
static struct {
	void *(*malloc)(size_t size);
	void (*free)(void *ptr);
	void *(*calloc)(size_t count, size_t size);
	void *(*realloc)(void *ptr, size_t size);
	void *(*memalign)(size_t alignment, size_t size);
	size_t (*malloc_usable_size)(void *ptr);
	int (*mallopt)(int parameter, int value);
	int (*malloc_trim)(size_t pad);
	struct mt_mallinfo (*mallinfo2)(void);
} libc;

static const char *const names[] = {
	"__libc_malloc",  "__libc_free",     "__libc_calloc",
	"__libc_realloc", "__libc_memalign", "malloc_usable_size",
	"__libc_mallopt", "malloc_trim",     "mallinfo2",
};

#define NAMES_COUNT (sizeof(names) / sizeof(names[0]))
/* the first ones, without which there is no libc.so.6 for us */
#define FAMILY_COUNT 7

_Static_assert(sizeof(libc) == NAMES_COUNT * sizeof(void *), "one name for each function");

static void *libc_aligned_alloc(size_t alignment, size_t size)
{
	return mt_heap_aligned_alloc_by(libc.memalign, alignment, size);
}

static int libc_posix_memalign(void **out, size_t alignment, size_t size)
{
	return mt_heap_posix_memalign_by(libc.memalign, out, alignment, size);
}

static struct mt_heap_ops ops;

/* 0 not looked for, 1 there, -1 not there; release/acquire with the two tables */
static _Atomic int ops_state;

size_t mt_glibc_mapped_less_bytes = sizeof(size_t);

/* malloc_usable_size reads the header of a mapped chunk and nothing else, so it is asked about one
 * that is none. */
static void find_mapped_less_bytes(void)
{
	size_t chunk[4] = {0, 4096 | 2};
	size_t usable;

	if (!libc.malloc_usable_size)
		return;
	usable = libc.malloc_usable_size(&chunk[2]);
	if (usable == mt_glibc_heap_usable(chunk[1]))
		mt_glibc_mapped_less_bytes = 0;
}

static MT_COLD void find_functions(void)
{
	void *found[NAMES_COUNT];
	bool is_whole = true;

	mt_loader_libc_functions(names, found, NAMES_COUNT);
	for (size_t i = 0; i < FAMILY_COUNT; i++)
		is_whole = is_whole && found[i];
	memcpy(&libc, found, sizeof(libc));
	find_mapped_less_bytes();
	ops = (struct mt_heap_ops){
		.malloc = libc.malloc,
		.calloc = libc.calloc,
		.realloc = libc.realloc,
		.memalign = libc.memalign,
		.aligned_alloc = libc_aligned_alloc,
		.posix_memalign = libc_posix_memalign,
		.free = libc.free,
		.malloc_usable_size = libc.malloc_usable_size,
	};
	mt_store_release(&ops_state, is_whole ? 1 : -1);
}

const struct mt_heap_ops *mt_glibc_ops(void)
{
	if (mt_unlikely(!mt_load_acquire(&ops_state)))
		find_functions();
	return mt_load_acquire(&ops_state) > 0 ? &ops : NULL;
}

void mt_glibc_mallopt(int parameter, int value)
{
	if (mt_glibc_ops())
		(void)libc.mallopt(parameter, value);
}

int mt_glibc_trim(size_t pad)
{
	return mt_glibc_ops() && libc.malloc_trim ? libc.malloc_trim(pad) : 0;
}

/* A trim comes after so many bytes of old blocks, or half of those that are left: if they go in no
 * order, most pages come free with the last ones. A process wakes up with 16 MB as a maximum: the
 * trims take some ms in all. */
#define TRIM_OLD_MOST  (1u << 20)
#define TRIM_OLD_LEAST (16u << 10)

/* In fast bins, that such a trim merges: 64 of the smallest blocks, each with two neighbours, whose
 * own in two lists are written to. That is less than what may be shared anyway. */
#define OLD_UNMERGED_MOST (2u << 10)

/* Freed since the last trim. The first one also finds what was free before. No ordering. */
static _Atomic size_t old_freed_bytes = TRIM_OLD_MOST;
static _Atomic size_t trim_old_bytes = TRIM_OLD_MOST;

/* libc's cache of a thread: more blocks of a size than it holds (7, from 2.42 on 16), and its
 * sizes, as malloc_usable_size tells them, that no fast bin takes with any M_MXFAST: there libc
 * would not notice a block that is freed twice. */
#define CACHED_MOST  24
#define CACHED_FIRST 168u
#define CACHED_STEP  16u
#define CACHED_SIZES 55u

static _Atomic uint64_t filled_sizes; /* a bit for each, of one thread; no ordering */

/* What a thread that was inside libc's malloc needs to leave it, also if it does not run for a
 * while. Not by its lock: a handler may move the break that has interrupted malloc. */
#define LEAVE_NS (20 * MT_NS_PER_MS)

static _Atomic bool is_break_left; /* flag, no ordering */

void mt_glibc_leave_break(void)
{
	if (!mt_exchange_relaxed(&is_break_left, true))
		mt_os_sleep_ns(LEAVE_NS);
}

bool mt_glibc_note_old_free(size_t bytes)
{
	return bytes + mt_add_relaxed(&old_freed_bytes, bytes) >= mt_load_relaxed(&trim_old_bytes);
}

/* Returns whether a trim writes to few pages that are shared with forked processes. */
static bool copies_little(size_t unmerged_bytes)
{
	return mt_rss_shared_are_known_few() || unmerged_bytes <= OLD_UNMERGED_MOST ||
	       mt_rss_shared_are_few();
}

/* What a thread frees stays in its cache of libc's, and each block there keeps a page of old ones.
 * So the cache is filled with blocks that lie together. What is in it stays, since libc knows a
 * block by it that is freed twice. Not if pages are shared with forked processes: past the cache a
 * free writes to its neighbours, too. */
static void fill_cache(size_t bytes)
{
	size_t size = (bytes - CACHED_FIRST) / CACHED_STEP;
	int kept = errno;
	uint64_t bit;
	void *blocks[CACHED_MOST];

	if (bytes < CACHED_FIRST || size >= CACHED_SIZES)
		return;
	bit = (uint64_t)1 << size;
	if ((mt_load_relaxed(&filled_sizes) & bit) || !mt_rss_shared_are_known_few())
		return;
	atomic_fetch_or_explicit(&filled_sizes, bit, memory_order_relaxed);
	for (int i = 0; i < CACHED_MOST; i++)
		blocks[i] = libc.malloc(bytes);
	for (int i = 0; i < CACHED_MOST; i++)
		libc.free(blocks[i]);
	errno = kept;
}

void mt_glibc_prepare_old_free(size_t bytes)
{
	if (mt_load_relaxed(&is_break_left))
		mt_glibc_mallopt(M_TRIM_THRESHOLD, INT_MAX);
	else
		fill_cache(bytes);
}

void mt_glibc_trim_old(void)
{
	bool is_left = mt_load_relaxed(&is_break_left);
	struct mt_mallinfo info;
	int kept = errno;

	if (!mt_exchange_relaxed(&old_freed_bytes, 0) || !mt_glibc_range_bytes() ||
	    !copies_little(mt_glibc_info(&info) ? info.fsmblks : SIZE_MAX))
		return;
	if (info.uordblks)
		mt_store_relaxed(
			&trim_old_bytes,
			mt_max_u64(mt_min_u64(info.uordblks / 2, TRIM_OLD_MOST), TRIM_OLD_LEAST));
	/* what is freed later at the end goes back at once, as it would without the shim */
	if (!is_left && mt_glibc_adapts())
		mt_glibc_mallopt(M_TRIM_THRESHOLD, MT_GLIBC_TRIM_THRESHOLD);
	(void)mt_glibc_trim(is_left ? SIZE_MAX / 2 : 0);
	errno = kept;
}

bool mt_glibc_check(const struct mt_heap_ops *heap)
{
	static const size_t sizes[] = {0, 24, 25, 1500};
	bool is_same = true;

	(void)mt_glibc_ops();
	for (size_t i = 0; is_same && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		void *block = heap->malloc(sizes[i]);

		is_same = block && mt_glibc_usable(block) == heap->malloc_usable_size(block);
		heap->free(block);
	}
	return is_same;
}

/* ---- the backend ---- */

bool mt_glibc_info(struct mt_mallinfo *out)
{
	bool is_known = mt_glibc_ops() && libc.mallinfo2;

	*out = is_known ? libc.mallinfo2() : (struct mt_mallinfo){0};
	return is_known;
}

static bool read_info(struct mt_mallinfo *out)
{
	bool is_known;

	*out = (struct mt_mallinfo){0};
	if (!mt_purge_enter_within(MT_NS_PER_S))
		return false;
	is_known = mt_glibc_info(out);
	mt_purge_leave();
	return is_known;
}

static bool glibc_figures(struct mt_heap_figures *out)
{
	struct mt_mallinfo info;

	memset(out, 0, sizeof(*out));
	if (!read_info(&info))
		return false;
	out->live_bytes = info.uordblks + info.hblkhd;
	out->mapped_bytes = info.arena + info.hblkhd;
	out->free_bytes = info.fordblks;
	return true;
}

/* In fast bins; one walk through all bins. */
static uint64_t glibc_unmerged(void)
{
	struct mt_mallinfo info;

	/* Unknown while another thread purges for long: as if there were many. */
	return read_info(&info) ? info.fsmblks : UINT64_MAX;
}

static void glibc_purge(struct mt_purge_outcome *out)
{
	uint64_t began;

	*out = (struct mt_purge_outcome){.possible = true};
	mt_purge_enter();
	began = mt_os_now_ns();
	if (mt_purge_may_trim())
		(void)mt_glibc_trim(0);
	out->longest_hold_ns = mt_os_now_ns() - began;
	mt_purge_leave();
}

/* malloc_trim(3) has a limit for the top of the heap alone, so all free memory goes. */
static enum mt_reclaimed glibc_reclaim(uint64_t keep_bytes, uint64_t patience_ns)
{
	bool does_trim;

	(void)keep_bytes;
	if (!mt_purge_enter_within(patience_ns))
		return MT_RECLAIMED_BUSY;
	does_trim = mt_purge_may_trim();
	if (does_trim)
		(void)mt_glibc_trim(0);
	mt_purge_leave();
	return does_trim ? MT_RECLAIMED_SOME : MT_RECLAIMED_NOTHING;
}

const struct mt_backend mt_glibc_backend = {
	.counting = MT_COUNTING_CHUNKS,
	.figures = glibc_figures,
	.purge = glibc_purge,
	.unmerged_bytes = glibc_unmerged,
	.reclaim = glibc_reclaim,
};

/* ---- counting ---- */

/* A copy of glibc's functions, and a wrapper's free: one load finds each. */
static struct mt_heap_ops next;

static void no_event(void)
{
}

static void (*on_event)(void) = no_event;

void mt_glibc_accounting_use(void (*event)(void))
{
	on_event = event;
}

MT_COLD void *mt_glibc_event(void *block)
{
	int kept = errno;

	mt_thread_counters.next_event_bytes =
		mt_thread_counters.allocated_bytes + MT_GLIBC_EVENT_BYTES;
	mt_account_thread_born(NULL);
	on_event();
	errno = kept;
	return block;
}

MT_COLD void *mt_glibc_count_mapped(void *block)
{
	return mt_glibc_count_bytes(block, mt_glibc_usable(block));
}

void mt_glibc_uncount(size_t bytes)
{
	mt_account_thread_born(NULL); /* does nothing for a registered thread */
	(void)mt_account_bump(&mt_thread_counters.freed_bytes, bytes);
}

#define X(type, name, params, args)                                                                \
	static type accounted_##name params                                                        \
	{                                                                                          \
		return mt_glibc_count(next.name args);                                             \
	}
MT_HEAP_MAKING(X)
#undef X

static void *accounted_realloc(void *ptr, size_t size)
{
	size_t old = ptr ? mt_glibc_usable(ptr) : 0;
	void *fresh = next.realloc(ptr, size);

	/* realloc(ptr, 0) frees, and returns NULL */
	if (ptr && (fresh || size == 0))
		mt_glibc_uncount(old);
	return mt_glibc_count(fresh);
}

static int accounted_posix_memalign(void **out, size_t alignment, size_t size)
{
	int answer = next.posix_memalign(out, alignment, size);

	if (answer == 0)
		mt_glibc_count(*out);
	return answer;
}

/* Also the first thing that a thread does with the heap: accounted_free has counted the bytes. */
static MT_COLD void free_unregistered(void *ptr)
{
	mt_account_thread_born(NULL);
	next.free(ptr);
}

/* M_MMAP_THRESHOLD; 0: not adapted here. No ordering: a lost value comes with another free. */
static _Atomic size_t threshold_bytes;

/* What a user may set from outside; the names stand in malloc/arena.c and in the list of tunables.
 */
static const struct parameter {
	int number;
	const char *tunable, *variable;
} parameters[] = {
	{M_ARENA_MAX, "glibc.malloc.arena_max=", "MALLOC_ARENA_MAX="},
	{M_MMAP_THRESHOLD, "glibc.malloc.mmap_threshold=", "MALLOC_MMAP_THRESHOLD_="},
	{M_TRIM_THRESHOLD, "glibc.malloc.trim_threshold=", "MALLOC_TRIM_THRESHOLD_="},
	{M_TOP_PAD, "glibc.malloc.top_pad=", "MALLOC_TOP_PAD_="},
	{M_MMAP_MAX, "glibc.malloc.mmap_max=", "MALLOC_MMAP_MAX_="},
};

#define PARAMETERS_COUNT (sizeof(parameters) / sizeof(parameters[0]))

/* M_ARENA_MAX until it is set, on 64-bit machines */
#define ARENAS_PER_CPU 8

static _Atomic bool is_programs[PARAMETERS_COUNT]; /* set by mallopt; no ordering */

void mt_glibc_note_mallopt(int number, int value)
{
	for (size_t i = 0; i < PARAMETERS_COUNT; i++) {
		/* libc passes over such a number of arenas */
		if (parameters[i].number != number || (number == M_ARENA_MAX && value <= 0))
			continue;
		mt_store_relaxed(&is_programs[i], true);
		if (number != M_ARENA_MAX)
			mt_store_relaxed(&threshold_bytes, 0);
	}
}

/* Returns the text behind the last place of the name in a list of tunables, or NULL. */
static const char *value_in(const char *list, const char *name)
{
	const char *found = NULL;

	for (const char *at = list; (at = strstr(at, name)); at++)
		if (at[-1] == '=' || at[-1] == ':')
			found = at + strlen(name);
	return found;
}

/* Returns the text behind the name, or NULL. A tunable goes before a variable. */
static const char *value_outside(const struct parameter *parameter)
{
	static const char tunables[] = "GLIBC_TUNABLES=";
	const char *found = NULL;

	for (char **at = environ; at && *at; at++) {
		const char *tunable = strncmp(*at, tunables, strlen(tunables)) == 0
					      ? value_in(*at + strlen(tunables), parameter->tunable)
					      : NULL;

		if (tunable)
			return tunable;
		if (strncmp(*at, parameter->variable, strlen(parameter->variable)) == 0)
			found = *at + strlen(parameter->variable);
	}
	return found;
}

#define NO_VALUE (-1)

/* By the environment at the start, or NO_VALUE: libc passes over what is no number, and over no
 * arena. */
static int users_values[PARAMETERS_COUNT];

void mt_glibc_read_users_parameters(void)
{
	for (size_t i = 0; i < PARAMETERS_COUNT; i++) {
		const char *text = value_outside(&parameters[i]);
		char *end = NULL;
		unsigned long long wanted = text ? strtoull(text, &end, 0) : 0;
		bool is_set = end != text && (wanted || parameters[i].number != M_ARENA_MAX);

		users_values[i] = is_set ? (int)mt_min_u64(wanted, INT_MAX) : NO_VALUE;
	}
}

bool mt_glibc_adapts(void)
{
	for (size_t i = 0; i < PARAMETERS_COUNT; i++)
		if (parameters[i].number != M_ARENA_MAX &&
		    (mt_load_relaxed(&is_programs[i]) || users_values[i] != NO_VALUE))
			return false;
	return true;
}

void mt_glibc_reset_parameters(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const int values[PARAMETERS_COUNT] = {(int)(ARENAS_PER_CPU * (cpus > 0 ? cpus : 1)),
					      MT_GLIBC_MMAP_THRESHOLD, MT_GLIBC_TRIM_THRESHOLD,
					      NO_VALUE, NO_VALUE};

	for (size_t i = 0; i < PARAMETERS_COUNT; i++)
		if (values[i] != NO_VALUE && !mt_load_relaxed(&is_programs[i]))
			mt_glibc_mallopt(parameters[i].number,
					 users_values[i] != NO_VALUE ? users_values[i] : values[i]);
	mt_store_relaxed(&threshold_bytes, mt_glibc_adapts() ? MT_GLIBC_MMAP_THRESHOLD : 0);
}

/* A mapped block of this size was freed: the next one comes from the heap. */
static void adapt_to(size_t bytes)
{
	size_t now = mt_load_relaxed(&threshold_bytes);

	if (!now || bytes <= now || bytes > MT_GLIBC_MMAP_THRESHOLD_MOST)
		return;
	mt_store_relaxed(&threshold_bytes, bytes);
	mt_glibc_mallopt(M_MMAP_THRESHOLD, (int)bytes);
	mt_glibc_mallopt(M_TRIM_THRESHOLD, (int)(2 * bytes));
}

static MT_COLD void free_mapped(void *ptr)
{
	size_t bytes = mt_glibc_usable(ptr);

	mt_glibc_uncount(bytes);
	next.free(ptr);
	adapt_to(bytes + 2 * sizeof(size_t)); /* with the chunk's header, as libc counts */
}

static void accounted_free(void *ptr)
{
	size_t header;

	if (mt_unlikely(!ptr))
		return;
	header = mt_glibc_header(ptr);
	if (mt_unlikely(mt_glibc_is_mapped(header)))
		free_mapped(ptr);
	else if (mt_unlikely(!mt_account_bump_known(&mt_thread_counters.freed_bytes,
						    mt_glibc_heap_usable(header))))
		free_unregistered(ptr);
	else
		next.free(ptr);
}

static size_t accounted_malloc_usable_size(void *ptr)
{
	return ptr ? mt_glibc_usable(ptr) : 0;
}

static const struct mt_heap_ops accounting_ops = {
#define X(type, name, params, args) .name = accounted_##name,
	MT_HEAP_ALLOCATING(X) MT_HEAP_EXISTING(X)
#undef X
};

const struct mt_heap_ops *mt_glibc_accounting_ops(void)
{
	next = *mt_system_plain_ops();
	return &accounting_ops;
}
