#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "heap/jemalloc_internal.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"

#define LEAST_BYTES ((size_t)64 << 10)
#define LEAST_LOG   16
#define ORDERS      5u  /* of size, each four times the one before; the last has no end */
#define WORDS       16u /* of a sample: each in a page of its own, if the block has so many */
/* Bytes handed out between two looks, at first and in the end. A look takes 2 us, to write so many
 * bytes takes 800. */
#define PATIENCE_BYTES      (8l << 20)
#define PATIENCE_MOST_BYTES (4l << 30)
#define PATIENCE_FACTOR     8
/* where in its page a word lies: programs write headers to the beginning */
#define WORD_OFFSET 2048u

/* No ordering: a value that is lost or old makes one block faster or slower. */
struct order {
	_Atomic(char *) sample; /* a block of the program; NULL: none */
	_Atomic size_t bytes;   /* of the sample */
	_Atomic long left;     /* bytes; the thread that takes it to 0 or below has the next turn */
	_Atomic long patience; /* bytes */
	_Atomic bool is_sparse;
};

#define FIRST                                                                                      \
	{                                                                                          \
		.left = 1, .patience = PATIENCE_BYTES                                              \
	}
#define ALL                                                                                        \
	{                                                                                          \
		FIRST, FIRST, FIRST, FIRST, FIRST                                                  \
	}
/* of blocks that are zeroed, and of the others */
static struct order orders[2][ORDERS] = {ALL, ALL};

_Static_assert(LEAST_BYTES == (size_t)1 << LEAST_LOG, "the first order begins there");

static struct order *order_of(size_t bytes, bool zero)
{
	unsigned int index;

	mt_assert(bytes >= LEAST_BYTES);
	index = (63u - (unsigned int)__builtin_clzll(bytes) - LEAST_LOG) / 2;
	return &orders[zero][index < ORDERS ? index : ORDERS - 1];
}

static char *word_of(char *block, size_t bytes, unsigned int index)
{
	size_t page = mt_jemalloc_page_bytes();
	size_t pages = bytes / page;

	return mt_jemalloc_page_of(block + page - 1) + (pages - 1) * index / WORDS * page +
	       WORD_OFFSET;
}

/* What a word holds until the program writes it. */
static uint64_t mark_of(const char *word, bool zero)
{
	return zero ? 0 : (uintptr_t)word ^ UINT64_C(0x6d74736869720000);
}

static MT_COLD void place(struct order *order, char *block, size_t bytes, bool zero)
{
	uint64_t mark;

	for (unsigned int i = 0; i < WORDS && !zero; i++) {
		mark = mark_of(word_of(block, bytes, i), zero);
		memcpy(word_of(block, bytes, i), &mark, sizeof(mark));
	}
	mt_store_relaxed(&order->bytes, bytes);
	mt_store_relaxed(&order->sample, block);
}

/* Reads the sample, which the program may have unmapped: process_vm_readv(2) fails then. Does
 * nothing if it does. is_freed: it is final. */
static MT_COLD void read_sample(struct order *order, char *sample, bool zero, bool is_freed)
{
	uint64_t words[WORDS];
	struct iovec from[WORDS], to = {words, sizeof(words)};
	size_t bytes = mt_load_relaxed(&order->bytes);
	unsigned int touched = 0;
	bool was_sparse = mt_load_relaxed(&order->is_sparse), is_sparse;
	long patience = mt_load_relaxed(&order->patience);

	for (unsigned int i = 0; i < WORDS; i++)
		from[i] = (struct iovec){word_of(sample, bytes, i), sizeof(words[i])};
	if (mt_raw_syscall(SYS_process_vm_readv, mt_os_getpid(), &to, 1, from, WORDS, 0) !=
	    (long)sizeof(words))
		return;
	for (unsigned int i = 0; i < WORDS; i++)
		touched += words[i] != mark_of(from[i].iov_base, zero);
	is_sparse = touched < WORDS / 2;
	/* It was judged before the program had filled it. */
	if (is_freed && was_sparse && !is_sparse && patience < PATIENCE_MOST_BYTES)
		mt_store_relaxed(&order->patience, patience * PATIENCE_FACTOR);
	mt_store_relaxed(&order->is_sparse, is_sparse);
}

static void return_pages(char *block, size_t bytes)
{
	char *from = mt_jemalloc_page_of(block + mt_jemalloc_page_bytes() - 1);
	char *end = mt_jemalloc_page_of(block + bytes);

	if (end > from)
		(void)mt_raw_syscall(SYS_madvise, from, end - from, MADV_DONTNEED);
}

bool mt_jemalloc_reuse_is_sparse(size_t bytes)
{
	return bytes >= LEAST_BYTES && mt_load_relaxed(&order_of(bytes, true)->is_sparse);
}

static MT_COLD void take_turn(struct order *order, char *block, size_t bytes, bool zero)
{
	char *sample = mt_exchange_relaxed(&order->sample, NULL);

	if (sample)
		read_sample(order, sample, zero, false);
	place(order, block, bytes, zero);
	mt_store_relaxed(&order->left, mt_load_relaxed(&order->patience));
}

void mt_jemalloc_reuse_take(void *block, size_t bytes, bool zero)
{
	struct order *order;
	int kept = errno;
	long left;

	/* The program's own arenas may have memory of another kind. */
	if (bytes < LEAST_BYTES || !je_narenas_total_get ||
	    je_narenas_total_get() > je_manual_arena_base)
		return;
	order = order_of(bytes, zero);
	if (mt_unlikely(mt_load_relaxed(&order->is_sparse)) && !zero)
		return_pages(block, bytes);
	left = mt_sub_relaxed(&order->left, (long)bytes);
	if (mt_unlikely(left > 0 && left <= (long)bytes))
		take_turn(order, block, bytes, zero);
	errno = kept;
}

void mt_jemalloc_reuse_free(void *block, size_t bytes)
{
	int kept = errno;

	if (bytes < LEAST_BYTES)
		return;
	for (unsigned int zero = 0; zero < 2; zero++) {
		struct order *order = order_of(bytes, zero);

		if (mt_likely(mt_load_relaxed(&order->sample) != block) ||
		    mt_exchange_relaxed(&order->sample, NULL) != block)
			continue;
		read_sample(order, block, zero, true);
	}
	errno = kept;
}
