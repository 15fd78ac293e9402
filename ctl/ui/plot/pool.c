/* ctl/ui/plot/pool.c -- see pool.h: reads the blocks. */
#include "ctl/ui/plot/pool.h"
#include "ctl/process/read_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Returns false where it is missing, or no whole number up to `most`. */
static bool get(const json_t *object, const char *name, uint64_t most, uint64_t *out)
{
	const json_t *value = json_object_get(object, name);
	json_int_t number = json_integer_value(value);

	if (!json_is_integer(value) || number < 0 || (uint64_t)number > most)
		return false;
	*out = (uint64_t)number;
	return true;
}

static void get_text(const json_t *object, const char *name, char *out, size_t out_bytes)
{
	const char *text = json_string_value(json_object_get(object, name));

	snprintf(out, out_bytes, "%s", text ? text : "");
	mt_text_clean(out, out_bytes);
}

static bool read_block(const json_t *object, struct mt_pool_block *out)
{
	const char *word = json_string_value(json_object_get(object, "state"));
	uint64_t device, age_ms;

	if (!word || !get(object, "held_bytes", MT_BLOCKS_FILE_BYTES_MAX, &out->held_bytes) ||
	    !get(object, "device", MT_DEVICES_COUNT - 1, &device) ||
	    !get(object, "age_ms", UINT32_MAX, &age_ms))
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

	if (!json_is_array(blocks) || !get(root, "pid", INT32_MAX, &out->pid) ||
	    !get(root, "time_ns", INT64_MAX, &out->time_ns))
		return mt_error_because(why, MT_ERR_INVALID,
					"not what mtctl snapshot --json prints");
	(void)get(root, "left_out_count", INT64_MAX, &out->left_out_count);
	get_text(root, "comm", out->comm, sizeof(out->comm));
	get_text(root, "rank", out->rank, sizeof(out->rank));
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
