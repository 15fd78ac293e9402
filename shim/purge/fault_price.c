#include "purge/fault_price.h"

#include <stddef.h>
#include <sys/mman.h>

#include "sys/os.h"
#include "sys/rss.h"
#include "sys/saturating.h"

#define BATCHES     4 /* the fastest batch counts: the others were disturbed */
#define BATCH_PAGES 32
#define SMALL_PAGES (BATCHES * BATCH_PAGES)
#define ASSUMED_NS  1000 /* used where nothing can be measured */
/* A huge page of 512 MB (base pages of 64 KiB) is not touched for a measurement. */
#define LARGEST_TIMED_BYTES (4 * MT_MIB)

static uint64_t touch_ns(volatile unsigned char *at, uint64_t step, uint64_t count)
{
	uint64_t began = mt_os_now_ns();

	for (uint64_t i = 0; i < count; i++)
		at[i * step] = 1;
	return (mt_os_now_ns() - began) / count;
}

uint64_t mt_fault_price_limit_huge_ns(uint64_t measured_ns, uint64_t small_ns, uint64_t small_count)
{
	uint64_t max_ns = small_ns * small_count;

	return mt_min_u64(measured_ns, max_ns);
}

size_t mt_fault_price_sample_bytes(uint64_t page_bytes, uint64_t huge_bytes)
{
	size_t small = SMALL_PAGES * page_bytes;
	size_t huge = huge_bytes <= LARGEST_TIMED_BYTES ? 3 * huge_bytes : 0;

	return mt_max_u64(small, huge);
}

/* Measures a huge page where the kernel gives one at the first touch. Where it is too large,
 * returns the cost of the small pages in its place. */
static uint64_t huge_ns(unsigned char *area, size_t bytes, uint64_t huge, uint64_t small_ns)
{
	uint64_t small_count = huge / mt_os_page_bytes();
	uintptr_t aligned = ((uintptr_t)area + huge) & ~(uintptr_t)(huge - 1);

	if (huge > LARGEST_TIMED_BYTES)
		return small_ns * small_count;
	(void)madvise(area, bytes, MADV_DONTNEED);
	if (madvise((void *)aligned, huge, MADV_HUGEPAGE) != 0)
		return 0;
	return mt_fault_price_limit_huge_ns(touch_ns((unsigned char *)aligned, huge, 1), small_ns,
					    small_count);
}

void mt_fault_price_measure(uint64_t *out_small_ns, uint64_t *out_huge_ns, uint64_t *out_huge_bytes)
{
	uint64_t page = mt_os_page_bytes();
	uint64_t huge = mt_rss_thp() == MT_THP_NEVER ? 0 : mt_rss_huge_page_bytes();
	size_t bytes = mt_fault_price_sample_bytes(page, huge);
	unsigned char *area =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*out_small_ns = ASSUMED_NS;
	*out_huge_ns = 0;
	*out_huge_bytes = 0;
	if (area == MAP_FAILED)
		return;
	(void)madvise(area, bytes, MADV_NOHUGEPAGE);
	*out_small_ns = UINT64_MAX;
	for (size_t batch = 0; batch < BATCHES; batch++) {
		uint64_t each = touch_ns(area + batch * BATCH_PAGES * page, page, BATCH_PAGES);

		*out_small_ns = mt_min_u64(*out_small_ns, each);
	}
	if (huge)
		*out_huge_ns = huge_ns(area, bytes, huge, *out_small_ns);
	*out_huge_bytes = *out_huge_ns ? huge : 0;
	munmap(area, bytes);
}
