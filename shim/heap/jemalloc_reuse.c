#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include "core/config.h"
#include "heap/glibc.h"
#include "heap/jemalloc_internal.h"
#include "heap/trim.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"
#include "sys/saturating.h"

#define LEAST_LOG   16
#define LEAST_BYTES ((size_t)1 << LEAST_LOG)
#define ORDERS      5u  /* of size, each four times the one before; the last has no end */
#define WORDS       16u /* of a sample: each in a page of its own, if the block has so many */
/* Bytes handed out between two looks, at first: a look takes 2 us, to write so many bytes takes
 * 800. After each sample that was freed soon it is eight times as many, up to 4 GB. */
#define PATIENCE_BYTES (8l << 20)
#define PATIENCE_SHIFT 3
#define SOON_MOST      3u
/* A block that is freed sooner has saved less than the faults of its pages cost. */
#define SOON_NS (5 * MT_NS_PER_S)
/* libc maps larger blocks each time, unless M_MMAP_MAX forbids it: to return their pages costs no
 * more than that. */
#define LIBC_MAPS_BYTES MT_GLIBC_MMAP_THRESHOLD_MOST
/* what a return costs with the faults of pages that the program uses: so many times its own time */
#define FAULTS_SHARE 6u
/* Blocks that came without pages and were the next to be freed: so many of them, and one in
 * WASTED_SHARE of all, show that such blocks do not stay. */
#define WASTED_LEAST 8u
#define WASTED_SHARE 4u
/* from the word in one page to that in the next: programs may use the beginning of each */
#define WORD_STEP 1016u

/* No ordering: a value that is lost or old makes one block faster or slower. */
struct order {
	_Atomic(char *) sample; /* a block of the program; NULL: none */
	_Atomic size_t bytes;   /* of the sample */
	_Atomic uint64_t since_ns;
	_Atomic long left; /* bytes; the thread that takes it below 0 has the next turn */
	_Atomic unsigned int soon_count; /* of samples that were freed soon, up to SOON_MOST */
	_Atomic bool is_sparse;
	/* since the sample is one */
	_Atomic(const void *) last;                       /* block that came without pages */
	_Atomic unsigned int emptied_count, wasted_count; /* blocks without pages */
};

static struct order orders[2][ORDERS]; /* of blocks that are not zeroed, and of the others */

static _Atomic uint64_t paid_ns;  /* until then the budget is used up; no ordering */
static _Atomic uint64_t spent_ns; /* counter, no ordering */
static _Atomic bool has_ended;    /* for good; no ordering */

static struct order *order_of(size_t bytes, bool zero)
{
	unsigned int index;

	mt_assert(bytes >= LEAST_BYTES);
	index = (63u - (unsigned int)__builtin_clzll(bytes) - LEAST_LOG) / 2;
	return &orders[zero][index < ORDERS ? index : ORDERS - 1];
}

/* Returns where the first whole page of the block begins. */
static char *first_page(char *block)
{
	return mt_jemalloc_page_of(block + mt_jemalloc_page_bytes() - 1);
}

static char *word_of(char *block, size_t bytes, unsigned int index)
{
	size_t page = mt_jemalloc_page_bytes();
	size_t pages = bytes / page;

	mt_assert(pages >= WORDS || page > LEAST_BYTES / WORDS);
	return first_page(block) + (pages - 1) * index / WORDS * page +
	       (index + 1) * WORD_STEP % 4096;
}

/* What a word holds until the program writes it. */
static uint32_t mark_of(const char *word, bool zero)
{
	return zero ? 0 : (uint32_t)(uintptr_t)word ^ 0x6d747368u;
}

static MT_COLD void place(struct order *order, char *block, size_t bytes, bool zero)
{
	for (unsigned int i = 0; i < WORDS && !zero; i++) {
		char *word = word_of(block, bytes, i);
		uint32_t mark = mark_of(word, zero);

		memcpy(word, &mark, sizeof(mark));
	}
	mt_store_relaxed(&order->bytes, bytes);
	mt_store_relaxed(&order->since_ns, mt_os_now_ns());
	mt_store_relaxed(&order->emptied_count, 0);
	mt_store_relaxed(&order->wasted_count, 0);
	mt_store_relaxed(&order->sample, block);
}

/* Returns whether the program has written less than a quarter of the sample's words. It may have
 * freed, protected or unmapped the block, and may have entered a seccomp filter: futex(2) compares
 * a word, and fails where a load would be a signal. It wakes nobody. */
static MT_COLD bool is_untouched(const struct order *order, char *sample, bool zero)
{
	static uint32_t nobody;
	size_t bytes = mt_load_relaxed(&order->bytes);
	unsigned int touched = 0;

	for (unsigned int i = 0; i < WORDS; i++) {
		char *word = word_of(sample, bytes, i);

		if (mt_raw_syscall(SYS_futex, word, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 0, 0,
				   &nobody, mark_of(word, zero)) == 0)
			continue;
		if (errno != EAGAIN)
			return false;
		touched++;
	}
	return touched < WORDS / 4;
}

static MT_COLD void return_pages(char *block, size_t bytes)
{
	char *from = first_page(block);
	char *end = mt_jemalloc_page_of(block + bytes);
	uint64_t budget_pct = mt_config()->budget_pct; /* once: it may become 0 at any time */
	uint64_t now_ns = mt_os_now_ns(), cost_ns;

	if (end <= from || !budget_pct ||
	    (mt_load_relaxed(&paid_ns) > now_ns && bytes <= LIBC_MAPS_BYTES))
		return;
	cost_ns = mt_os_thread_cpu_ns();
	(void)mt_raw_syscall(SYS_madvise, from, end - from, MADV_DONTNEED);
	cost_ns = mt_sat_sub(mt_os_thread_cpu_ns(), cost_ns) * FAULTS_SHARE;
	mt_add_relaxed(&spent_ns, cost_ns);
	mt_heap_pay(&paid_ns, now_ns, budget_pct, cost_ns);
}

uint64_t mt_jemalloc_reuse_take_cost_ns(void)
{
	return mt_exchange_relaxed(&spent_ns, 0);
}

bool mt_jemalloc_reuse_is_sparse(size_t bytes)
{
	return bytes >= LEAST_BYTES && mt_load_relaxed(&order_of(bytes, true)->is_sparse);
}

/* A sample that the program leaves alone stays one until it has lived long enough: only its free
 * shows that such blocks do not stay. */
static void look(struct order *order, char *block, size_t bytes, bool zero)
{
	uint64_t since_ns = mt_load_relaxed(&order->since_ns);
	char *sample = mt_load_relaxed(&order->sample);
	bool is_sparse = sample && is_untouched(order, sample, zero);

	mt_store_relaxed(&order->is_sparse, is_sparse);
	if (!is_sparse || mt_os_now_ns() - since_ns >= SOON_NS)
		place(order, block, bytes, zero);
}

/* The next turn comes after one to two times the patience, at random: a program whose blocks take
 * turns would show the same kind of them each time. */
static MT_COLD void take_turn(struct order *order, char *block, size_t bytes, bool zero)
{
	long patience = PATIENCE_BYTES << (PATIENCE_SHIFT * mt_load_relaxed(&order->soon_count));

	look(order, block, bytes, zero);
	patience += (long)(mt_os_now_ns() * 4096 % (uint64_t)patience);
	mt_store_relaxed(&order->left, patience);
}

void mt_jemalloc_reuse_end(void)
{
	mt_store_relaxed(&has_ended, true);
}

/* jemalloc has returned the pages of a zeroed block. */
static MT_COLD void take_empty(struct order *order, char *block, size_t bytes, bool zero)
{
	if (!zero)
		return_pages(block, bytes);
	mt_store_relaxed(&order->last, block);
	mt_add_relaxed(&order->emptied_count, 1);
}

void mt_jemalloc_reuse_take(void *block, size_t bytes, bool zero)
{
	struct order *order;
	int kept = errno;
	long left;

	if (bytes < LEAST_BYTES || mt_load_relaxed(&has_ended) ||
	    !mt_jemalloc_has_own_arenas_only())
		return;
	order = order_of(bytes, zero);
	if (mt_unlikely(mt_load_relaxed(&order->is_sparse)))
		take_empty(order, block, bytes, zero);
	left = mt_sub_relaxed(&order->left, (long)bytes);
	if (mt_unlikely(left >= 0 && left < (long)bytes))
		take_turn(order, block, bytes, zero);
	errno = kept;
}

/* Blocks of this order do not stay: to return their pages saves nothing. */
static MT_COLD void end_sample(struct order *order)
{
	unsigned int soon_count = mt_load_relaxed(&order->soon_count);

	mt_assert(soon_count <= SOON_MOST);
	if (!mt_load_relaxed(&order->is_sparse))
		return;
	mt_store_relaxed(&order->is_sparse, false);
	if (mt_load_relaxed(&order->bytes) <= LIBC_MAPS_BYTES && soon_count < SOON_MOST &&
	    mt_os_now_ns() - mt_load_relaxed(&order->since_ns) < SOON_NS)
		mt_store_relaxed(&order->soon_count, soon_count + 1);
}

static MT_COLD void free_last(struct order *order)
{
	unsigned int wasted = mt_add_relaxed(&order->wasted_count, 1) + 1;

	mt_store_relaxed(&order->last, NULL);
	if (wasted >= WASTED_LEAST &&
	    wasted >= mt_load_relaxed(&order->emptied_count) / WASTED_SHARE)
		end_sample(order);
}

void mt_jemalloc_reuse_free(const void *block, size_t bytes)
{
	if (bytes < LEAST_BYTES)
		return;
	for (unsigned int zero = 0; zero < 2; zero++) {
		struct order *order = order_of(bytes, zero);

		if (mt_unlikely(mt_load_relaxed(&order->sample) == block)) {
			mt_store_relaxed(&order->sample, NULL);
			end_sample(order);
		}
		if (mt_unlikely(mt_load_relaxed(&order->last) == block))
			free_last(order);
	}
}
