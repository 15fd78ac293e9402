#include "heap/glibc.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "sys/atomic.h"
#include "sys/rss.h"
#include "heap/alignment.h"
#include "heap/brk_range.h"
#include "heap/purge_lock.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/os.h"

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
	return mt_aligned_alloc_by(libc.memalign, alignment, size);
}

static int libc_posix_memalign(void **out, size_t alignment, size_t size)
{
	return mt_posix_memalign_by(libc.memalign, out, alignment, size);
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

	mt_elf_libc_functions(names, found, NAMES_COUNT);
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

/* A process wakes up with 16 MB of old blocks as a maximum: their trims take some ms in all. */
#define TRIM_OLD_BYTES (1u << 20)

/* Freed since the last trim. The first one also finds what was free before. No ordering. */
static _Atomic size_t old_freed_bytes = TRIM_OLD_BYTES;

bool mt_glibc_note_old_free(size_t bytes)
{
	return bytes + mt_add_relaxed(&old_freed_bytes, bytes) >= TRIM_OLD_BYTES;
}

void mt_glibc_trim_old(void)
{
	int kept = errno;

	if (!mt_exchange_relaxed(&old_freed_bytes, 0) || !mt_brk_range_bytes() ||
	    !mt_shared_pages_are_few())
		return;
	/* what is freed later at the end goes back at once, as it would without the shim */
	mt_glibc_mallopt(M_TRIM_THRESHOLD, MT_GLIBC_TRIM_THRESHOLD);
	(void)mt_glibc_trim(0);
	errno = kept;
}

bool mt_glibc_check(const struct mt_heap_ops *heap)
{
	static const size_t sizes[] = {0, 24, 25, 5000};
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

	mt_purge_enter();
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

	return read_info(&info) ? info.fsmblks : 0;
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
	.purge_stalls = true,
	.figures = glibc_figures,
	.purge = glibc_purge,
	.unmerged_bytes = glibc_unmerged,
	.reclaim = glibc_reclaim,
};
