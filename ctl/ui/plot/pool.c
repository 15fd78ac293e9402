/* ctl/ui/plot/pool.c -- see plot.h: reads the blocks. */
#include "ctl/ui/plot/plot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/json.h"
#include "ctl/process/read_file.h"

static int compare_blocks(const void *a, const void *b)
{
	const struct mt_pool_block *left = a, *right = b;

	if (left->device != right->device)
		return left->device < right->device ? -1 : 1;
	if (left->state != right->state)
		return left->state < right->state ? -1 : 1;
	return (left->held_bytes < right->held_bytes) - (left->held_bytes > right->held_bytes);
}

static void sort(struct mt_pool_picture *pool)
{
	if (pool->count)
		qsort(pool->list, pool->count, sizeof(*pool->list), compare_blocks);
}

void mt_pool_picture_of(const struct mt_pool_snapshot *snapshot, struct mt_pool_picture *out)
{
	const struct mt_blocks_file *blocks = &snapshot->blocks;

	*out = (struct mt_pool_picture){.pid = (uint64_t)snapshot->target.process.pid,
					.time_ns = blocks->head.time_ns,
					.left_out_count = blocks->head.left_out_count};
	snprintf(out->comm, sizeof(out->comm), "%s", snapshot->target.process.comm);
	snprintf(out->rank, sizeof(out->rank), "%s", snapshot->target.file.head.rank);
	out->list = mt_error_check_memory(calloc(blocks->count + 1, sizeof(*out->list)));
	for (size_t i = 0; i < blocks->count; i++)
		if (blocks->entries[i].device < MT_DEVICES_COUNT)
			out->list[out->count++] = (struct mt_pool_block){
				blocks->entries[i].held_bytes, blocks->entries[i].age_ms,
				blocks->entries[i].device, blocks->entries[i].state};
	sort(out);
}

/* ---- a file ---- */

static bool read_block(const json_t *object, struct mt_pool_block *out)
{
	const char *word = json_string_value(json_object_get(object, "state"));
	uint64_t device, age_ms;

	if (!word ||
	    !mt_json_get_u64(object, "held_bytes", MT_BLOCKS_FILE_BYTES_MAX, &out->held_bytes) ||
	    !mt_json_get_u64(object, "device", MT_DEVICES_COUNT - 1, &device) ||
	    !mt_json_get_u64(object, "age_ms", UINT32_MAX, &age_ms))
		return false;
	out->device = (uint8_t)device;
	out->age_ms = (uint32_t)age_ms;
	for (out->state = 0; out->state < MT_BLOCKS_STATES; out->state++)
		if (strcmp(word, mt_blocks_file_state(out->state)) == 0)
			return true;
	return false;
}

static enum mt_err read_root(const json_t *root, struct mt_pool_picture *out,
			     struct mt_error_reason *why)
{
	const json_t *blocks = json_object_get(root, "blocks"), *one;
	size_t i;

	if (!json_is_array(blocks) || !mt_json_get_u64(root, "pid", INT32_MAX, &out->pid) ||
	    !mt_json_get_u64(root, "time_ns", INT64_MAX, &out->time_ns))
		return mt_error_because(why, MT_ERR_INVALID,
					"not what mtctl snapshot --json prints");
	(void)mt_json_get_u64(root, "left_out_count", INT64_MAX, &out->left_out_count);
	mt_json_get_text(root, "comm", out->comm, sizeof(out->comm));
	mt_json_get_text(root, "rank", out->rank, sizeof(out->rank));
	out->list = mt_error_check_memory(calloc(json_array_size(blocks) + 1, sizeof(*out->list)));
	json_array_foreach(blocks, i, one) if (
		!read_block(one,
			    &out->list[out->count++])) return mt_error_because(why, MT_ERR_INVALID,
									       "block %zu makes no "
									       "sense",
									       i + 1);
	sort(out);
	return MT_ERR_OK;
}

enum mt_err mt_pool_picture_read(const char *path, struct mt_pool_picture *out,
				 struct mt_error_reason *why)
{
	size_t length = 0;
	char *text = mt_read_file_stream(path, &length);
	json_t *root = text ? json_loadb(text, length, 0, NULL) : NULL;
	enum mt_err error;

	*out = (struct mt_pool_picture){0};
	error = text ? read_root(root, out, why)
		     : mt_error_because(why, MT_ERR_SYSTEM, "%s", strerror(errno));
	if (error)
		mt_pool_picture_free(out);
	json_decref(root);
	free(text);
	return error;
}

void mt_pool_picture_free(struct mt_pool_picture *pool)
{
	free(pool->list);
	*pool = (struct mt_pool_picture){0};
}

/* ---- drawing ---- */

#define TITLE      54.0 /* with the legend below it */
#define STRIP      44.0 /* for each device, with the text above it */
#define BARS       190.0
#define BARS_SPLIT 0.6 /* of the width for sizes, the rest for ages */
#define SIZES      MT_POOL_SNAPSHOT_SIZES
#define AGES       MT_POOL_SNAPSHOT_AGES
#define STRIPS_MAX 8u

/* Live and exported blocks are solid, free ones striped. */
static const struct {
	struct mt_paint paint;
	double step;
} styles[MT_BLOCKS_STATES] = {
	[MT_BLOCKS_LIVE] = {{MT_RGB_GREEN, 0.75, 0, MT_DASH_NONE}, 1e9},
	[MT_BLOCKS_EXPORTED] = {{MT_RGB_BLUE, 0.8, 0, MT_DASH_NONE}, 1e9},
	[MT_BLOCKS_PENDING] = {{MT_RGB_PURPLE, 0.55, 0, MT_DASH_NONE}, 4},
	[MT_BLOCKS_IDLE] = {{MT_RGB_ORANGE, 0.4, 0, MT_DASH_NONE}, 7},
};

/* A bar: bytes by state. */
struct bar {
	uint64_t bytes[MT_BLOCKS_STATES];
	char label[24];
};

static size_t devices_of(const struct mt_pool_picture *pool, uint64_t *bytes)
{
	size_t count = 0;

	memset(bytes, 0, MT_DEVICES_COUNT * sizeof(*bytes));
	for (size_t i = 0; i < pool->count; i++)
		bytes[pool->list[i].device] += pool->list[i].held_bytes;
	for (size_t device = 0; device < MT_DEVICES_COUNT; device++)
		count += bytes[device] > 0;
	return count < STRIPS_MAX ? count : STRIPS_MAX;
}

double mt_pool_picture_height(const struct mt_pool_picture *pool)
{
	uint64_t bytes[MT_DEVICES_COUNT];

	return TITLE + STRIP * (double)devices_of(pool, bytes) + BARS + 30;
}

/* ---- strips ---- */

static void draw_block(struct mt_canvas *canvas, const struct mt_box *box, unsigned state)
{
	const struct mt_paint edge = {0xffffff, 1, 0.8, MT_DASH_NONE};
	const struct mt_point right[] = {{box->right, box->top}, {box->right, box->bottom}};

	mt_hatch_draw(canvas, box, &styles[state].paint, styles[state].step);
	if (box->right - box->left > 3)
		mt_canvas_line(canvas, right, 2, &edge);
}

/* Blocks of one state shorter than a pixel are drawn together: there may be a million. */
static void draw_strip(struct mt_canvas *canvas, const struct mt_pool_picture *pool,
		       const struct mt_box *box, unsigned device)
{
	struct mt_box piece = *box;
	uint64_t total = 0, done = 0;
	unsigned state = 0;

	for (size_t i = 0; i < pool->count; i++)
		total += pool->list[i].device == device ? pool->list[i].held_bytes : 0;
	piece.right = piece.left;
	for (size_t i = 0; i < pool->count; i++) {
		if (pool->list[i].device != device)
			continue;
		if (pool->list[i].state != state && piece.right > piece.left) {
			draw_block(canvas, &piece, state);
			piece.left = piece.right;
		}
		state = pool->list[i].state;
		done += pool->list[i].held_bytes;
		piece.right = box->left + (double)done / (double)total * (box->right - box->left);
		if (piece.right - piece.left < 1)
			continue;
		draw_block(canvas, &piece, state);
		piece.left = piece.right;
	}
	if (piece.right > piece.left)
		draw_block(canvas, &piece, state);
}

static double draw_strips(struct mt_canvas *canvas, const struct mt_pool_picture *pool,
			  const struct mt_box *box, double top)
{
	const struct mt_font font = {12, true, MT_RGB_TEXT, MT_ANCHOR_START};
	uint64_t bytes[MT_DEVICES_COUNT];
	size_t left = devices_of(pool, bytes);
	char text[160];

	for (unsigned device = 0; device < MT_DEVICES_COUNT && left; device++) {
		const struct mt_box strip = {box->left, top + 16, box->right, top + 34};

		if (!bytes[device])
			continue;
		left--;
		snprintf(text, sizeof(text), "GPU %u: %s in blocks, the largest of each kind first",
			 device, mt_text_bytes(bytes[device]).text);
		mt_canvas_begin(canvas, "strip", NULL);
		mt_canvas_text(canvas, (struct mt_point){box->left, top + 10}, text, &font);
		draw_strip(canvas, pool, &strip, device);
		mt_canvas_end(canvas);
		top += STRIP;
	}
	return top;
}

/* ---- bars ---- */

static double sum_of(const struct bar *bar)
{
	double sum = 0;

	for (unsigned state = 0; state < MT_BLOCKS_STATES; state++)
		sum += (double)bar->bytes[state];
	return sum;
}

static void draw_bar(struct mt_canvas *canvas, const struct bar *bar, struct mt_box box,
		     const struct mt_scale *scale)
{
	const struct mt_font font = {10, false, MT_RGB_TEXT, MT_ANCHOR_MIDDLE};
	double sum = 0;

	mt_canvas_text(canvas, (struct mt_point){(box.left + box.right) / 2, scale->from + 15},
		       bar->label, &font);
	for (unsigned state = 0; state < MT_BLOCKS_STATES; state++) {
		if (!bar->bytes[state])
			continue;
		box.bottom = mt_scale_position(scale, sum);
		sum += (double)bar->bytes[state];
		box.top = mt_scale_position(scale, sum);
		mt_canvas_begin(canvas, mt_blocks_file_state(state),
				mt_text_bytes(bar->bytes[state]).text);
		mt_hatch_draw(canvas, &box, &styles[state].paint, styles[state].step);
		mt_canvas_end(canvas);
	}
}

static void draw_bars(struct mt_canvas *canvas, const struct bar *bars, size_t count,
		      const struct mt_box *box)
{
	double high = 0, step = (box->right - box->left) / (double)(count ? count : 1),
	       half = fmin(step * 0.38, 30);
	struct mt_scale scale;

	for (size_t i = 0; i < count; i++)
		high = fmax(high, sum_of(&bars[i]));
	scale = mt_panel_draw_bytes(canvas, box, high, 4);
	for (size_t i = 0; i < count; i++) {
		double middle = box->left + step * ((double)i + 0.5);

		draw_bar(canvas, &bars[i], (struct mt_box){middle - half, 0, middle + half, 0},
			 &scale);
	}
}

/* "64 kB" for blocks from 64 kB up to less than 128. */
static void name_size(struct bar *bar, size_t size)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};

	snprintf(bar->label, sizeof(bar->label), "%u %s", 1u << size % 10, units[size / 10]);
}

/* Fills bars from the smallest size to the largest one. *out has room for all sizes. Returns how
 * many. */
static size_t sort_by_size(const struct mt_pool_picture *pool, struct bar *out)
{
	size_t first = SIZES, last = 0;

	memset(out, 0, SIZES * sizeof(*out));
	for (size_t i = 0; i < pool->count; i++) {
		size_t size = mt_pool_snapshot_size(pool->list[i].held_bytes);

		out[size].bytes[pool->list[i].state] += pool->list[i].held_bytes;
		first = size < first ? size : first;
		last = size > last ? size : last;
	}
	for (size_t size = 0; size < SIZES; size++)
		name_size(&out[size], size);
	if (first > last)
		return 0;
	memmove(out, out + first, (last - first + 1) * sizeof(*out));
	return last - first + 1;
}

static void sort_by_age(const struct mt_pool_picture *pool, struct bar *out)
{
	static const char *const names[AGES] = {"< 1 s",    "< 10 s", "< 1 min",
						"< 10 min", "< 1 h",  "older"};

	memset(out, 0, AGES * sizeof(*out));
	for (size_t i = 0; i < pool->count; i++) {
		size_t age = 0;

		while (age + 1 < AGES && pool->list[i].age_ms >= mt_pool_snapshot_age_ms(age))
			age++;
		out[age].bytes[pool->list[i].state] += pool->list[i].held_bytes;
	}
	for (size_t age = 0; age < AGES; age++)
		snprintf(out[age].label, sizeof(out[age].label), "%s", names[age]);
}

/* ---- the whole drawing ---- */

static void draw_head(struct mt_canvas *canvas, const struct mt_pool_picture *pool,
		      const struct mt_box *box)
{
	const struct mt_font bold = {13, true, MT_RGB_TEXT, MT_ANCHOR_START};
	struct mt_legend_item items[MT_BLOCKS_STATES];
	const struct mt_box row = {box->left, box->top + 22, box->right, 0};
	char text[160];

	for (unsigned state = 0; state < MT_BLOCKS_STATES; state++)
		items[state] = (struct mt_legend_item){.text = mt_blocks_file_state(state),
						       .kind = MT_LEGEND_HATCH,
						       .paint = styles[state].paint,
						       .step = styles[state].step};
	snprintf(text, sizeof(text), "GPU pool at %.8s: %s", mt_text_clock(pool->time_ns).text,
		 mt_text_counted(pool->count, "block", "blocks").text);
	if (pool->left_out_count)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), ", and %s left out",
			 mt_text_counted(pool->left_out_count, "that was", "that were").text);
	mt_canvas_text(canvas, (struct mt_point){box->left, box->top + 12}, text, &bold);
	(void)mt_legend_draw(canvas, &row, items, MT_BLOCKS_STATES);
}

void mt_pool_picture_draw(struct mt_canvas *canvas, const struct mt_pool_picture *pool,
			  const struct mt_box *box)
{
	const struct mt_font bold = {12, true, MT_RGB_TEXT, MT_ANCHOR_START};
	struct bar bars[SIZES];
	double top, split = box->left + (box->right - box->left) * BARS_SPLIT;
	struct mt_box sizes = {box->left, 0, split - 20, box->bottom - 24},
		      ages = {split + 60, 0, box->right, box->bottom - 24};

	mt_canvas_begin(canvas, "pool", NULL);
	draw_head(canvas, pool, box);
	top = draw_strips(canvas, pool, box, box->top + TITLE);
	mt_canvas_text(canvas, (struct mt_point){sizes.left, top + 16},
		       "Held in blocks from this size on", &bold);
	mt_canvas_text(canvas, (struct mt_point){ages.left, top + 16},
		       "Held, by time since taken or freed", &bold);
	sizes.top = ages.top = top + 28;
	mt_canvas_begin(canvas, "sizes", NULL);
	draw_bars(canvas, bars, sort_by_size(pool, bars), &sizes);
	mt_canvas_end(canvas);
	sort_by_age(pool, bars);
	mt_canvas_begin(canvas, "ages", NULL);
	draw_bars(canvas, bars, AGES, &ages);
	mt_canvas_end(canvas);
	mt_canvas_end(canvas);
}
