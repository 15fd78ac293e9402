#include "heap/ranges.h"

#include <string.h>

#include "sys/attr.h"

/* Returns the first range that ends behind the address. */
static uint32_t find(const struct mt_ranges *set, uintptr_t address)
{
	uint32_t low = 0, high = set->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (set->at[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	mt_assert(low == set->count || set->at[low].end > address);
	return low;
}

/* Removes the ranges from first up to end, and makes room for `room` in their place. */
static void replace(struct mt_ranges *set, uint32_t first, uint32_t end, uint32_t room)
{
	mt_assert(first <= end && end <= set->count);
	mt_assert(set->count - (end - first) + room <= MT_RANGES_MOST);
	memmove(&set->at[first + room], &set->at[end], (set->count - end) * sizeof(set->at[0]));
	set->count = set->count - (end - first) + room;
	mt_assert(set->count <= MT_RANGES_MOST);
}

/* Of two neighbours of a new range, at `next` and before it, extends the one that is nearer. */
static void join_nearest(struct mt_ranges *set, uint32_t next, uintptr_t begin, uintptr_t end)
{
	if (next == set->count ||
	    (next > 0 && begin - set->at[next - 1].end < set->at[next].begin - end))
		set->at[next - 1].end = end;
	else
		set->at[next].begin = begin;
}

void mt_ranges_add(struct mt_ranges *set, uintptr_t begin, uintptr_t end)
{
	uint32_t first = find(set, begin ? begin - 1 : 0);
	uint32_t behind = first;

	mt_assert(begin < end);
	while (behind < set->count && set->at[behind].begin <= end)
		behind++;
	if (behind == first && set->count == MT_RANGES_MOST) {
		join_nearest(set, first, begin, end);
		return;
	}
	if (behind > first && set->at[first].begin < begin)
		begin = set->at[first].begin;
	if (behind > first && set->at[behind - 1].end > end)
		end = set->at[behind - 1].end;
	replace(set, first, behind, 1);
	set->at[first].begin = begin;
	set->at[first].end = end;
	mt_assert(first + 1 >= set->count || end < set->at[first + 1].begin);
}

void mt_ranges_remove(struct mt_ranges *set, uintptr_t begin, uintptr_t end)
{
	uint32_t first = find(set, begin);
	uint32_t behind;

	if (first < set->count && set->at[first].begin < begin && set->at[first].end > end) {
		if (set->count == MT_RANGES_MOST)
			return;
		replace(set, first, first, 1);
		set->at[first].begin = set->at[first + 1].begin;
		set->at[first].end = begin;
		set->at[first + 1].begin = end;
		return;
	}
	if (first < set->count && set->at[first].begin < begin)
		set->at[first++].end = begin;
	behind = first;
	while (behind < set->count && set->at[behind].end <= end)
		behind++;
	if (behind < set->count && set->at[behind].begin < end)
		set->at[behind].begin = end;
	replace(set, first, behind, 0);
}

bool mt_ranges_overlap(const struct mt_ranges *set, uintptr_t begin, uintptr_t end)
{
	uint32_t first = find(set, begin);

	return first < set->count && set->at[first].begin < end;
}

bool mt_ranges_clip(const struct mt_ranges *set, uintptr_t *begin, uintptr_t *end)
{
	uint32_t first = find(set, *begin);
	uint32_t last = first;

	if (first == set->count || set->at[first].begin >= *end)
		return false;
	while (last + 1 < set->count && set->at[last + 1].begin < *end)
		last++;
	if (set->at[first].begin > *begin)
		*begin = set->at[first].begin;
	if (set->at[last].end < *end)
		*end = set->at[last].end;
	mt_assert(*begin < *end);
	return true;
}
