/* driver_random_storm.c -- four threads that allocate and free at once: only how many calls
 * answered what is compared. */
#include "driver_random_model.h"

#include <stdatomic.h>

static struct {
	size_t largest;
	uint32_t seed;
	_Atomic unsigned int good, full, other, frees_failed, slowest_us;
	_Atomic bool freed_in[CONTEXTS];
} storm;

/* One block of each thread is at most largest: all live ones fit with a fifth to spare, or no
 * single one does. */
bool storm_begin(const struct draw *draw)
{
	const size_t limit = (size_t)MEMORY_MB * MB;
	int i, captures = 0;
	size_t live = 0;

	open_gates();
	for (i = 0; i < STREAMS; i++)
		captures += streams[i].captures;
	for (i = 0; i < DEVICES; i++)
		live = live_bytes(i) > live ? live_bytes(i) : live;
	if (captures > 1)
		return false;
	/* Small ones share a piece of 2 MB for each context. */
	live += CONTEXTS * 2 * MB + 16 * MB;
	storm.largest = live < limit ? (limit - live) * 8 / 10 / (THREADS * 2) : 0;
	if (storm.largest < 4 * MB)
		storm.largest = 0;
	else if (storm.largest > 40 * MB)
		storm.largest = 40 * MB;
	storm.seed = draw->b;
	for (i = 0; i < CONTEXTS; i++)
		storm.freed_in[i] = false;
	storm.good = storm.full = storm.other = storm.frees_failed = storm.slowest_us = 0;
	in_progress = "the storm";
	return true;
}

static void storm_free(uint64_t dptr)
{
	if (dptr != 0 && cuMemFree_v2(dptr) != OK)
		storm.frees_failed++;
}

void storm_run(unsigned int thread)
{
	uint32_t dice = storm.seed + thread * 7919;
	uint64_t held[2] = {0};
	int i;

	for (i = 0; i < STORM_ROUNDS; i++) {
		uint64_t *place = &held[i % 2];
		int result;

		dice = dice * 1103515245u + 12345u;
		storm_free(*place);
		*place = 0;
		const size_t bytes = storm.largest == 0
					     ? (size_t)(MEMORY_MB + 1 + dice % 4096) * MB
					     : 1 + (size_t)(dice >> 4) % (storm.largest - 2 * MB);
		const uint64_t start = now_us();
		result = cuMemAlloc_v2(place, bytes);
		const unsigned int us = (unsigned int)(now_us() - start);
		if (us > storm.slowest_us)
			storm.slowest_us = us;
		(*(result == OK              ? &storm.good
		   : result == OUT_OF_MEMORY ? &storm.full
					     : &storm.other))++;
		if (result != OK)
			*place = 0;
	}
	storm_free(held[0]);
	storm_free(held[1]);
	if (current_slot() >= 0)
		storm.freed_in[current_slot()] = true;
}

void storm_end(void)
{
	const uint64_t start = now_us() - storm.slowest_us;
	int i;

	note("storm: allocations", start, OK, storm.largest, storm.good);
	note("storm: out of memory", now_us(), OK, storm.largest, storm.full);
	note("storm: other errors", now_us(), OK, storm.largest, storm.other);
	note("storm: frees refused", now_us(), OK, storm.largest, storm.frees_failed);
	for (i = 0; i < CONTEXTS; i++)
		if (storm.freed_in[i])
			contexts[i].freed_bytes += storm.largest;
}
