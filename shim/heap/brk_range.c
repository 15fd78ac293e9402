#include "heap/brk_range.h"

#include <sys/syscall.h>

#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"

#define FROZEN   ((uintptr_t)1)
#define GIVEN_UP ((uintptr_t)2) /* the length is as good as infinite */
#define FLAGS    ((uintptr_t)15)

uintptr_t mt_brk_range_base;
_Atomic uintptr_t mt_brk_range_word; /* acquire/release: it alone decides */
uintptr_t mt_brk_range_end = UINTPTR_MAX;

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

void mt_brk_range_begin(void)
{
	mt_brk_range_base = read_break();
}

bool mt_brk_range_has_begun(void)
{
	return mt_brk_range_base != 0;
}

MT_COLD enum mt_brk_place mt_brk_range_add(const void *block)
{
	uintptr_t at = (uintptr_t)block - mt_brk_range_base;
	uintptr_t word = read_word();
	uintptr_t length;

	do {
		if (!block || (word & GIVEN_UP) || at < (word & ~FLAGS))
			return MT_BRK_INSIDE;
		if (word & FROZEN)
			return MT_BRK_FROZEN;
		length = (read_break() - mt_brk_range_base) & ~FLAGS;
		if (at >= length)
			return MT_BRK_OUTSIDE;
	} while (!swap(&word, length));
	return MT_BRK_EXTENDED;
}

bool mt_brk_range_freeze(void)
{
	uintptr_t word = read_word();
	uintptr_t length;

	do {
		uintptr_t now = read_break();

		if (word & GIVEN_UP)
			return false;
		/* the program break may have sunk */
		length = word & ~FLAGS;
		if (now > mt_brk_range_base && ((now - mt_brk_range_base) & ~FLAGS) > length)
			length = (now - mt_brk_range_base) & ~FLAGS;
		if (!mt_brk_range_base)
			length = 0;
	} while (!swap(&word, length | FROZEN));
	__atomic_store_n(&mt_brk_range_end, length ? mt_brk_range_base + length : 0,
			 __ATOMIC_RELAXED);
	return true;
}

bool mt_brk_range_give_up(void)
{
	uintptr_t word = read_word();

	do
		if (word & FROZEN)
			return false;
	while (!swap(&word, ~FLAGS | GIVEN_UP));
	return true;
}

bool mt_brk_range_is_given_up(void)
{
	return read_word() & GIVEN_UP;
}

size_t mt_brk_range_bytes(void)
{
	uintptr_t word = read_word();

	return word & GIVEN_UP ? 0 : word & ~FLAGS;
}

bool mt_brk_range_overlaps(const void *address, size_t bytes)
{
	uintptr_t from = (uintptr_t)address;

	return from < mt_brk_range_base + mt_brk_range_bytes() && from + bytes > mt_brk_range_base;
}

bool mt_brk_range_has(const void *ptr)
{
	return (uintptr_t)ptr - mt_brk_range_base < mt_brk_range_bytes();
}
