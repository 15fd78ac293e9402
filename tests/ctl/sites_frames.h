/* sites_frames.h -- unwind tables registered by hand, as a JIT compiler registers its code. libgcc
 * keeps them in a list under a lock, and sorts a table the first time that it is looked at: with
 * that lock held, and in memory from malloc. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void __register_frame_info(const void *begin, void *object);
int _Unwind_Backtrace(int (*trace)(void *, void *), void *argument);

/* of 4 bytes: length, distance to the CIE, begin and range of 8 bytes each */
#define FRAME_WORDS 6

/* One CIE of the least there may be, `count` FDEs for code from `first` on that does not exist, and
 * the end. Kept for ever. */
static inline void register_frames(uint64_t first, size_t count)
{
	static const unsigned char cie[] = {20, 0,    0, 0, 0,    0, 0, 0, 1, 0, 1, 0x78,
					    16, 0x0c, 7, 8, 0x90, 1, 0, 0, 0, 0, 0, 0};
	uint32_t *table = calloc(1, sizeof(cie) + count * (FRAME_WORDS * 4) + 8);
	uint32_t *at = table + sizeof(cie) / 4;
	void *object = calloc(1, 128);

	memcpy(table, cie, sizeof(cie));
	for (size_t i = 0; i < count; i++, at += FRAME_WORDS) {
		uint64_t begin = first + i * 16, range = 16;

		at[0] = (FRAME_WORDS - 1) * 4;
		at[1] = (uint32_t)((char *)&at[1] - (char *)table);
		memcpy(&at[2], &begin, 8);
		memcpy(&at[4], &range, 8);
	}
	__register_frame_info(table, object);
}

static inline int count_frame(void *context, void *count)
{
	(void)context;
	++*(int *)count;
	return 0;
}

static inline int unwind_once(void)
{
	int count = 0;

	_Unwind_Backtrace(count_frame, &count);
	return count;
}
