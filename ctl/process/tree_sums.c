#include "ctl/process/tree_sums.h"

#include <string.h>

#include "ctl/output/json.h"
#include "sys/saturating.h"

enum { LISTED_no, LISTED_yes };

/* For the column `from`: `apart` lies behind all figures. */
struct from_snapshot {
#define X(name, kind, known, recorded, help) uint64_t name;
	MT_STATS_FIELDS(X)
#undef X
	uint64_t apart;
};

const struct mt_tree_figure *mt_tree_figures(void)
{
	static const struct mt_tree_figure figures[] = {
#define X(name, json_key, from, in_tree, in_cell, listed, title, help)                             \
	{.key = json_key,                                                                          \
	 .heading = title,                                                                         \
	 .column = MT_SUM_##in_tree,                                                               \
	 .cell = MT_SUM_##in_cell,                                                                 \
	 .is_listed = LISTED_##listed,                                                             \
	 .offset = offsetof(struct mt_process_tree_sums, name),                                    \
	 .from_offset = offsetof(struct from_snapshot, from)},
		MT_TREE_FIGURES(X){0}
#undef X
	};

	return figures;
}

static uint64_t *place_of(const struct mt_tree_figure *figure, struct mt_process_tree_sums *sums)
{
	return (uint64_t *)(void *)((char *)sums + figure->offset);
}

uint64_t mt_tree_figure_value(const struct mt_tree_figure *figure,
			      const struct mt_process_tree_sums *sums)
{
	uint64_t value;

	memcpy(&value, (const char *)sums + figure->offset, sizeof(value));
	return value;
}

/* Resident bytes that are neither live, dirty, nor the allocator's own. Where the allocator counts
 * active pages, their bytes less the live ones: these counts are newer. */
static uint64_t fragmented_bytes(const struct mt_stats_snapshot *now)
{
	if (now->heap_active_bytes)
		return mt_sat_sub(now->heap_active_bytes, now->heap_live_bytes);
	return mt_sat_sub(mt_sat_sub(mt_sat_sub(now->heap_resident_bytes, now->heap_live_bytes),
				     now->heap_dirty_bytes),
			  now->heap_metadata_bytes);
}

void mt_tree_sums_read(struct mt_process_tree_sums *sums, const struct mt_stats_snapshot *now)
{
	for (const struct mt_tree_figure *figure = mt_tree_figures(); figure->key; figure++)
		if (figure->from_offset < sizeof(*now))
			memcpy(place_of(figure, sums), (const char *)now + figure->from_offset,
			       sizeof(uint64_t));
	sums->gpu_bytes = now->gpu_reserved_bytes + now->gpu_other_bytes;
	sums->resident_bytes = mt_max_u64(now->heap_resident_bytes, now->heap_active_bytes);
	sums->fragmented_bytes = fragmented_bytes(now);
}

void mt_tree_sums_add(struct mt_process_tree_sums *to, const struct mt_process_tree_sums *from)
{
	for (const struct mt_tree_figure *figure = mt_tree_figures(); figure->key; figure++)
		*place_of(figure, to) += mt_tree_figure_value(figure, from);
	mt_memory_parts_add(&to->parts, &from->parts);
}

void mt_tree_sums_set_json(json_t *object, const struct mt_process_tree_sums *sums, unsigned has,
			   bool listed)
{
	for (const struct mt_tree_figure *figure = mt_tree_figures(); figure->key; figure++)
		if (*figure->key && (!listed || figure->is_listed))
			mt_json_set_u64_if(object, figure->key, figure->cell & (has | MT_SUM_any),
					   mt_tree_figure_value(figure, sums));
}
