#include "ctl/figures/memory_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ctl/output/error.h"
#include "ctl/output/json.h"
#include "sys/saturating.h"

struct mt_memory_parts mt_memory_parts_of(const struct mt_memory_figures *figures)
{
	uint64_t anon = mt_min_u64(figures->anon_bytes, figures->rss_bytes);
	uint64_t live = mt_min_u64(figures->live_bytes, anon),
		 reusable = mt_min_u64(figures->dirty_bytes, anon);

	if (figures->live_bytes > figures->dirty_bytes)
		live = mt_min_u64(live, anon - reusable);
	else
		reusable = mt_min_u64(reusable, anon - live);
	return (struct mt_memory_parts){.bytes = {[MT_PART_LIVE] = live,
						  [MT_PART_REUSABLE] = reusable,
						  [MT_PART_FILES] = figures->rss_bytes - anon,
						  [MT_PART_OTHER] = anon - live - reusable},
					.is_known = figures->live_bytes || figures->dirty_bytes};
}

static void shrink(struct mt_memory_parts *parts, uint64_t bytes)
{
	static const enum mt_memory_part order[MT_PARTS_COUNT] = {MT_PART_REUSABLE, MT_PART_OTHER,
								  MT_PART_LIVE, MT_PART_FILES};

	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		uint64_t *part = &parts->bytes[order[i]], less = mt_min_u64(*part, bytes);

		*part -= less;
		bytes -= less;
	}
}

struct mt_memory_parts mt_memory_parts_of_snapshot(const struct mt_stats_snapshot *now,
						   uint64_t rss_bytes)
{
	struct mt_memory_parts parts = mt_memory_parts_of(&(struct mt_memory_figures){
		now->rss_bytes, now->rss_anon_bytes, now->heap_live_bytes, now->heap_dirty_bytes});

	parts.bytes[MT_PART_OTHER] += mt_sat_sub(rss_bytes, now->rss_bytes);
	shrink(&parts, mt_sat_sub(now->rss_bytes, rss_bytes));
	parts.is_known = mt_memory_parts_are_known(now);
	return parts;
}

struct mt_memory_parts mt_memory_parts_of_sample(const struct mt_stats_sample *sample)
{
	return mt_memory_parts_of(&(struct mt_memory_figures){
		sample->rss_bytes, sample->anon_bytes, sample->live_bytes, sample->dirty_bytes});
}

struct mt_memory_parts mt_memory_parts_unknown(uint64_t rss_bytes)
{
	return (struct mt_memory_parts){.bytes[MT_PART_OTHER] = rss_bytes};
}

bool mt_memory_parts_are_known(const struct mt_stats_snapshot *now)
{
	return now->heap_live_bytes || now->heap_allocated_bytes || now->heap_resident_bytes ||
	       now->heap_mapped_bytes;
}

void mt_memory_parts_add(struct mt_memory_parts *to, const struct mt_memory_parts *from)
{
	for (int i = 0; i < MT_PARTS_COUNT; i++)
		to->bytes[i] += from->bytes[i];
	to->is_known |= from->is_known;
}

uint64_t mt_memory_parts_sum(const struct mt_memory_parts *parts)
{
	uint64_t sum = 0;

	for (int i = 0; i < MT_PARTS_COUNT; i++)
		sum += parts->bytes[i];
	return sum;
}

static const struct {
	const char *word, *meaning;
	char glyph;
} parts_table[MT_PARTS_COUNT] = {
#define X(id, word, glyph, meaning) {word, meaning, glyph},
	MT_MEMORY_PARTS(X)
#undef X
};

const char *mt_memory_part_word(enum mt_memory_part part)
{
	return parts_table[part].word;
}

const char *mt_memory_part_meaning(enum mt_memory_part part)
{
	return parts_table[part].meaning;
}

json_t *mt_memory_parts_json(const struct mt_memory_parts *parts)
{
	json_t *object = json_object();
	char name[32];

	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		snprintf(name, sizeof(name), "%s_bytes", parts_table[i].word);
		mt_json_set_u64_if(object, name, parts->is_known || i >= MT_PART_FILES,
				   parts->bytes[i]);
	}
	return object;
}

/* ---- parts bar ---- */

/* Blocks that leave a gap to the line above. */
wchar_t mt_memory_part_cell(const struct mt_cells *cells, enum mt_memory_part part)
{
	return cells->coloured && cells->unicode ? L'\u2586' : (wchar_t)parts_table[part].glyph;
}

/* Each part ends where the sum of it and of those before ends. The bar is a cell long at least if
 * there is memory. */
void mt_memory_parts_draw(struct mt_cells *cells, struct mt_cell_place at,
			  const struct mt_memory_parts *parts, uint64_t full_bytes)
{
	int from = at.column, width = at.end - from;
	double sum = 0;

	for (int i = 0; i < MT_PARTS_COUNT; i++) {
		double end;

		sum += (double)parts->bytes[i];
		end = full_bytes ? fmin(sum / (double)full_bytes * width + 0.5, width) : 0;
		if (i == MT_PARTS_COUNT - 1 && sum > 0)
			end = fmax(end, 1);
		for (; at.column < from + (int)end; at.column++)
			mt_cells_put_glyph(cells, at, (enum mt_cell_style)(MT_STYLE_LIVE + i),
					   mt_memory_part_cell(cells, (enum mt_memory_part)i));
	}
}

static struct mt_parts_bar text_of(struct mt_cells *cells)
{
	struct mt_parts_bar bar = {""};
	FILE *to = mt_error_check_memory(fmemopen(bar.text, sizeof(bar.text), "w"));

	mt_cells_write_row(cells, 0, to);
	fclose(to);
	mt_cells_free(cells);
	return bar;
}

struct mt_parts_bar mt_parts_bar(const struct mt_memory_parts *parts, uint64_t full_bytes,
				 int width)
{
	struct mt_cells cells =
		mt_cells_for_stdout(mt_min_u64((uint64_t)width, MT_PARTS_BAR_MAX), 1);

	mt_memory_parts_draw(&cells, (struct mt_cell_place){0, 0, cells.columns}, parts,
			     full_bytes);
	return text_of(&cells);
}

struct mt_parts_bar mt_parts_bar_cell(enum mt_memory_part part)
{
	struct mt_cells cells = mt_cells_for_stdout(1, 1);

	mt_cells_put_glyph(&cells, (struct mt_cell_place){0, 0, 1},
			   (enum mt_cell_style)(MT_STYLE_LIVE + (int)part),
			   mt_memory_part_cell(&cells, part));
	return text_of(&cells);
}

/* ---- sums over a tree ---- */

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
#define X(name, json_key, from, in_tree, in_cell, in_ps, top, sort, rank, title, help)             \
	{.key = json_key,                                                                          \
	 .heading = title,                                                                         \
	 .tree = MT_SUM_##in_tree,                                                                 \
	 .cell = MT_SUM_##in_cell,                                                                 \
	 .ps = MT_PS_##in_ps,                                                                      \
	 .offset = offsetof(struct mt_process_tree_sums, name),                                    \
	 .from_offset = offsetof(struct from_snapshot, from)},
#define PART(part, ...) X(parts.bytes[MT_PART_##part], __VA_ARGS__)
		MT_TREE_FIGURES(X, PART){0}
#undef PART
#undef X
	};

	return figures;
}

static uint64_t *sum_in(const struct mt_tree_figure *figure, struct mt_process_tree_sums *sums)
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

/* Resident bytes that are neither live, dirty, nor the allocator's own. If the allocator counts
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
			memcpy(sum_in(figure, sums), (const char *)now + figure->from_offset,
			       sizeof(uint64_t));
	sums->parts.is_known = mt_memory_parts_are_known(now);
	sums->gpu_bytes = now->gpu_reserved_bytes + now->gpu_other_bytes;
	sums->resident_bytes = mt_max_u64(now->heap_resident_bytes, now->heap_active_bytes);
	sums->fragmented_bytes = fragmented_bytes(now);
}

void mt_tree_sums_add(struct mt_process_tree_sums *to, const struct mt_process_tree_sums *from)
{
	for (const struct mt_tree_figure *figure = mt_tree_figures(); figure->key; figure++)
		*sum_in(figure, to) += mt_tree_figure_value(figure, from);
	to->parts.is_known |= from->parts.is_known;
}

void mt_tree_sums_set_json(json_t *object, const struct mt_process_tree_sums *sums, unsigned has,
			   bool listed)
{
	has |= MT_SUM_any | (sums->parts.is_known ? MT_SUM_heap : 0u);
	for (const struct mt_tree_figure *figure = mt_tree_figures(); figure->key; figure++)
		if (*figure->key && (!listed || figure->ps))
			mt_json_set_u64_if(object, figure->key, figure->cell & has,
					   mt_tree_figure_value(figure, sums));
}
