#include "sense/faults.h"

#include <stddef.h>
#include <sys/mman.h>

#include "base/os.h"
#include "sense/rss.h"

#define BATCHES       4    /* the cheapest counts: the others were disturbed */
#define BATCH_PAGES   32
#define SMALL_PAGES   (BATCHES * BATCH_PAGES)
#define ASSUMED_NS    1000 /* where nothing could be measured */

static uint64_t touch_ns(volatile unsigned char *at, uint64_t step, uint64_t count)
{
	uint64_t began = mt_os_now_ns();

	for (uint64_t i = 0; i < count; i++)
		at[i * step] = 1;
	return (mt_os_now_ns() - began) / count;
}

static uint64_t huge_page_bytes(void)
{
	char text[32];

	if (mt_os_read_file("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", text, sizeof(text)) <= 0)
		return 0;
	return mt_os_number(text);
}

uint64_t mt_faults_huge_ns(uint64_t measured_ns, uint64_t small_ns, uint64_t small_count)
{
	uint64_t most = small_ns * small_count;

	return measured_ns < most ? measured_ns : most;
}

void mt_faults_measure(uint64_t *out_small_ns, uint64_t *out_huge_ns, uint64_t *out_huge_bytes)
{
	uint64_t page = mt_os_page_bytes();
	uint64_t huge = mt_rss_thp() == MT_THP_NEVER ? 0 : huge_page_bytes();
	size_t bytes = huge ? 3 * huge : SMALL_PAGES * page;
	unsigned char *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t aligned;

	*out_small_ns = ASSUMED_NS;
	*out_huge_ns = 0;
	*out_huge_bytes = 0;
	if (area == MAP_FAILED)
		return;
	(void)madvise(area, bytes, MADV_NOHUGEPAGE);
	*out_small_ns = UINT64_MAX;
	for (size_t batch = 0; batch < BATCHES; batch++) {
		uint64_t each = touch_ns(area + batch * BATCH_PAGES * page, page, BATCH_PAGES);

		if (each < *out_small_ns)
			*out_small_ns = each;
	}
	if (huge) {
		aligned = ((uintptr_t)area + huge) & ~(uintptr_t)(huge - 1);
		(void)madvise(area, bytes, MADV_DONTNEED);
		if (madvise((void *)aligned, huge, MADV_HUGEPAGE) == 0) {
			*out_huge_ns = mt_faults_huge_ns(touch_ns((unsigned char *)aligned, huge, 1), *out_small_ns, huge / page);
			*out_huge_bytes = huge;
		}
	}
	munmap(area, bytes);
}
