/* ctl/profile/sites_files.c -- writes sites as files for other tools.
 *
 * pprof: a gzip'ed protobuf, profile.proto of github.com/google/pprof, with four kinds of messages
 * and a dozen fields. It contains the names. For the older text format pprof would read the
 * program's files again, which may be missing on another machine.
 *
 * speedscope: JSON, src/lib/file-format-spec.ts of github.com/jlfwong/speedscope. */
#include "ctl/profile/sites.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "ctl/output/json.h"
#include "ctl/output/outfile.h"

/* Field numbers of profile.proto. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	VALUE_TYPE = 1,
	VALUE_UNIT = 2,
	SAMPLE_LOCATION = 1,
	SAMPLE_VALUE = 2,
	LOCATION_ID = 1,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2
};

/* The first strings of the table; the names follow. String 0 must be empty. */
static const char *const fixed_strings[] = {"",      "inuse_objects", "count", "inuse_space",
					    "bytes", "space"};
enum {
	STRING_EMPTY,
	STRING_OBJECTS,
	STRING_COUNT,
	STRING_SPACE,
	STRING_BYTES,
	STRING_PERIOD,
	STRINGS_FIXED
};

struct buffer {
	unsigned char *bytes;
	size_t used, room;
};

static void put_bytes(struct buffer *out, const void *from, size_t bytes)
{
	if (out->used + bytes > out->room) {
		out->room = (out->used + bytes) * 2;
		out->bytes = mt_error_check_memory(realloc(out->bytes, out->room));
	}
	if (bytes)
		memcpy(out->bytes + out->used, from, bytes);
	out->used += bytes;
}

/* Seven bits per byte, the lowest first. */
static void put_varint(struct buffer *out, uint64_t value)
{
	unsigned char bytes[10];
	size_t count = 0;

	do {
		bytes[count] = (unsigned char)(value & 0x7f);
		value >>= 7;
		bytes[count] |= value ? 0x80 : 0;
		count++;
	} while (value);
	put_bytes(out, bytes, count);
}

static void put_number(struct buffer *out, unsigned field, uint64_t value)
{
	put_varint(out, field << 3);
	put_varint(out, value);
}

static void put_text(struct buffer *out, unsigned field, const void *text, size_t bytes)
{
	put_varint(out, field << 3 | 2);
	put_varint(out, bytes);
	put_bytes(out, text, bytes);
}

/* Appends the inner message, and empties it. */
static void put_message(struct buffer *out, unsigned field, struct buffer *inner)
{
	put_text(out, field, inner->bytes, inner->used);
	inner->used = 0;
}

static void put_value_type(struct buffer *out, unsigned field, uint64_t type, uint64_t unit)
{
	struct buffer inner = {0};

	put_number(&inner, VALUE_TYPE, type);
	put_number(&inner, VALUE_UNIT, unit);
	put_message(out, field, &inner);
	free(inner.bytes);
}

/* ---- names, each once ---- */

struct table {
	const char **names;
	size_t count;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static struct table list_names(const struct mt_sites *sites)
{
	struct table table = {0};
	size_t all = 0;

	for (size_t i = 0; i < sites->count; i++)
		all += sites->list[i].frames_count;
	table.names = mt_error_check_memory(calloc(all + 1, sizeof(*table.names)));
	for (size_t i = 0, at = 0; i < sites->count; i++)
		for (size_t frame = 0; frame < sites->list[i].frames_count; frame++)
			table.names[at++] = sites->list[i].frames[frame];
	qsort(table.names, all, sizeof(*table.names), compare_names);
	for (size_t i = 0; i < all; i++)
		if (!table.count || strcmp(table.names[table.count - 1], table.names[i]) != 0)
			table.names[table.count++] = table.names[i];
	return table;
}

/* Locations and functions are one to one here, numbered from 1. */
static uint64_t id_of(const struct table *table, const char *name)
{
	const char **at = bsearch(&name, table->names, table->count, sizeof(name), compare_names);

	return (uint64_t)(at - table->names) + 1;
}

static void put_samples(struct buffer *out, const struct mt_sites *sites, const struct table *table)
{
	struct buffer sample = {0};

	for (size_t i = 0; i < sites->count; i++) {
		const struct mt_site *site = &sites->list[i];

		for (size_t frame = 0; frame < site->frames_count; frame++)
			put_number(&sample, SAMPLE_LOCATION, id_of(table, site->frames[frame]));
		put_number(&sample, SAMPLE_VALUE, site->live_count);
		put_number(&sample, SAMPLE_VALUE, site->live_bytes);
		put_message(out, PROFILE_SAMPLE, &sample);
	}
	free(sample.bytes);
}

static void put_names(struct buffer *out, const struct table *table)
{
	struct buffer inner = {0}, line = {0};

	for (size_t i = 0; i < table->count; i++) {
		put_number(&inner, LOCATION_ID, i + 1);
		put_number(&line, LINE_FUNCTION, i + 1);
		put_message(&inner, LOCATION_LINE, &line);
		put_message(out, PROFILE_LOCATION, &inner);
	}
	for (size_t i = 0; i < table->count; i++) {
		put_number(&inner, FUNCTION_ID, i + 1);
		put_number(&inner, FUNCTION_NAME, STRINGS_FIXED + i);
		put_message(out, PROFILE_FUNCTION, &inner);
	}
	for (size_t i = 0; i < STRINGS_FIXED; i++)
		put_text(out, PROFILE_STRING, fixed_strings[i], strlen(fixed_strings[i]));
	for (size_t i = 0; i < table->count; i++)
		put_text(out, PROFILE_STRING, table->names[i], strlen(table->names[i]));
	free(inner.bytes);
	free(line.bytes);
}

static struct buffer make(const struct mt_sites *sites)
{
	struct table table = list_names(sites);
	struct buffer out = {0};

	put_value_type(&out, PROFILE_SAMPLE_TYPE, STRING_OBJECTS, STRING_COUNT);
	put_value_type(&out, PROFILE_SAMPLE_TYPE, STRING_SPACE, STRING_BYTES);
	put_samples(&out, sites, &table);
	put_names(&out, &table);
	put_value_type(&out, PROFILE_PERIOD_TYPE, STRING_PERIOD, STRING_BYTES);
	put_number(&out, PROFILE_PERIOD, sites->rate_bytes);
	free(table.names);
	return out;
}

enum mt_err mt_sites_write_pprof(const struct mt_sites *sites, const char *path,
				 struct mt_error_reason *why)
{
	struct buffer out = make(sites);
	int fd = -1;
	enum mt_err error = mt_outfile_open(path, 0600, &fd, why);
	gzFile file = error ? NULL : gzdopen(fd, "wb");
	bool good = file && gzwrite(file, out.bytes, (unsigned)out.used) == (int)out.used &&
		    gzflush(file, Z_FINISH) == Z_OK;

	if (fd >= 0 && !good)
		mt_outfile_remove(fd, path);
	if (file)
		good = gzclose(file) == Z_OK && good;
	else if (fd >= 0)
		close(fd);
	free(out.bytes);
	if (error || good)
		return error;
	return mt_error_because(why, MT_ERR_SYSTEM, "%s: %s", path, strerror(errno));
}

/* ---- speedscope ---- */

/* A sampled profile: stacks of indices into the frames, outermost first, and their weights. Its
 * axis is the sum of the weights. */
static json_t *speedscope_profile(const struct mt_sites *sites, const struct table *table,
				  bool of_bytes)
{
	json_t *object = json_object(), *samples = json_array(), *weights = json_array();
	uint64_t end = 0;

	for (size_t i = 0; i < sites->count; i++) {
		const struct mt_site *site = &sites->list[i];
		uint64_t weight = of_bytes ? site->live_bytes : site->live_count;
		json_t *stack = json_array();

		for (size_t frame = site->frames_count; frame-- > 0;)
			mt_json_append(stack, mt_json_u64(id_of(table, site->frames[frame]) - 1));
		mt_json_append(samples, stack);
		mt_json_append(weights, mt_json_u64(weight));
		end += weight;
	}
	mt_json_set_text(object, "type", "sampled");
	mt_json_set_text(object, "name", of_bytes ? "bytes" : "blocks");
	mt_json_set_text(object, "unit", of_bytes ? "bytes" : "none");
	mt_json_set_u64(object, "startValue", 0);
	mt_json_set_u64(object, "endValue", end);
	mt_json_set(object, "samples", samples);
	mt_json_set(object, "weights", weights);
	return object;
}

static json_t *speedscope_file(const struct mt_sites *sites, const struct mt_sites_view *view)
{
	struct table table = list_names(sites);
	json_t *root = json_object(), *shared = json_object(), *frames = json_array(),
	       *profiles = json_array();
	char name[96];

	snprintf(name, sizeof(name), "%s (%d)", view->process->comm, (int)view->process->pid);
	for (size_t i = 0; i < table.count; i++) {
		json_t *frame = json_object();

		mt_json_set_text(frame, "name", table.names[i]);
		mt_json_append(frames, frame);
	}
	mt_json_set(shared, "frames", frames);
	mt_json_append(profiles, speedscope_profile(sites, &table, true));
	mt_json_append(profiles, speedscope_profile(sites, &table, false));
	mt_json_set_text(root, "$schema", "https://www.speedscope.app/file-format-schema.json");
	mt_json_set_text(root, "exporter", "mtctl " MT_VERSION);
	mt_json_set_text(root, "name", name);
	mt_json_set_u64(root, "activeProfileIndex", 0);
	mt_json_set(root, "shared", shared);
	mt_json_set(root, "profiles", profiles);
	free(table.names);
	return root;
}

enum mt_err mt_sites_write_speedscope(const struct mt_sites *sites,
				      const struct mt_sites_view *view, const char *path,
				      struct mt_error_reason *why)
{
	FILE *file;
	enum mt_err error = mt_outfile_stream(path, 0600, &file, why);
	json_t *root;

	if (error)
		return error;
	root = speedscope_file(sites, view);
	json_dumpf(root, file, JSON_COMPACT);
	json_decref(root);
	return mt_outfile_finish(file, path, why);
}
