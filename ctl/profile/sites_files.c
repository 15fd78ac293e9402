/* ctl/profile/sites_files.c -- writes sites as files for other tools.
 *
 * pprof: a gzip'ed protobuf, profile.proto of github.com/google/pprof, with four kinds of messages
 * and a dozen fields. It contains the names. For the older text format pprof would read the
 * program's files again, which may be missing on another machine. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "ctl/channel/target.h"
#include "ctl/output/json.h"
#include "ctl/output/outfile.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/profile/sites.h"

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

/* ---- sites print ---- */

/* with fewer, an estimate is only a hint: its error is about 1 / sqrt(samples) */
#define FEW_SAMPLES  10
#define FRAMES_SHOWN 12

size_t mt_sites_shown(const struct mt_sites_view *view, size_t count)
{
	return view->top && view->top < count ? (size_t)view->top : count;
}

static void print_summary(const struct mt_sites *sites, const struct mt_sites_view *view)
{
	printf("process %d (%s): ", (int)view->process->pid, view->process->comm);
	if (view->over_ms)
		printf("%s more within %.1f s", mt_text_bytes(sites->live_bytes).text,
		       (double)view->over_ms / 1000);
	else
		printf("%s live", mt_text_bytes(sites->live_bytes).text);
	printf(" at %s, estimated from %s, one in %s\n",
	       mt_text_counted(sites->count, "site", "sites").text,
	       mt_text_counted(sites->sampled_count, "sample", "samples").text,
	       mt_text_bytes(sites->rate_bytes).text);
	if (!sites->samples)
		puts("it does not sample any more: what was allocated since is missing");
}

static void add_site(struct mt_table *table, const struct mt_site *site,
		     const struct mt_sites *sites, const struct mt_sites_view *view)
{
	char text[48], *where = mt_sites_where(site);

	mt_table_add(table, mt_text_bytes(site->live_bytes).text);
	snprintf(text, sizeof(text), "%.1f%%",
		 mt_stats_percent(site->live_bytes, sites->live_bytes));
	mt_table_add(table, text);
	mt_table_add(table, mt_text_count(site->live_count).text);
	mt_table_addf(table, "%s%s", mt_text_count(site->sampled_count).text,
		      site->sampled_count < FEW_SAMPLES ? "?" : "");
	if (view->over_ms) {
		snprintf(text, sizeof(text), "%.2f MB/s",
			 (double)site->live_bytes / 1048576.0 / ((double)view->over_ms / 1000));
		mt_table_add(table, text);
	}
	mt_table_add(table, where);
	free(where);
}

static void print_stack(size_t number, const struct mt_site *site)
{
	size_t first = mt_sites_first_frame(site);

	printf("\n%zu. %s, %s\n", number, mt_text_bytes(site->live_bytes).text,
	       site->frames[first]);
	for (size_t i = first + 1; i < site->frames_count && i < first + FRAMES_SHOWN; i++)
		printf("   %s\n", site->frames[i]);
	if (site->frames_count > first + FRAMES_SHOWN)
		printf("   and %zu more\n", site->frames_count - first - FRAMES_SHOWN);
}

void mt_sites_print_table(const struct mt_sites *sites, const struct mt_sites_view *view)
{
	struct mt_table *table = mt_table_new(">BYTES|>SHARE|>BLOCKS|>SAMPLES");
	size_t count = mt_sites_shown(view, sites->count);

	print_summary(sites, view);
	if (view->over_ms)
		mt_table_add_columns(table, ">GROWS");
	mt_table_add_columns(table, "<WHERE");
	for (size_t i = 0; i < count; i++)
		add_site(table, &sites->list[i], sites, view);
	putchar('\n');
	mt_table_print(table);
	for (size_t i = 0; i < count; i++)
		print_stack(i + 1, &sites->list[i]);
	if (count < sites->count)
		printf("\n%s; --top=0 shows all\n",
		       mt_text_counted(sites->count - count, "more site", "more sites").text);
}

static json_t *site_json(const struct mt_site *site, const struct mt_sites *sites)
{
	json_t *object = json_object(), *frames = json_array();

	mt_json_set_text(object, "where", mt_sites_name(site));
	mt_json_set_text_or_null(object, "python", site->python ? site->python : "");
	mt_json_set_u64(object, "bytes", site->live_bytes);
	mt_json_set(object, "share_pct",
		    json_real(mt_stats_percent(site->live_bytes, sites->live_bytes)));
	mt_json_set_u64(object, "blocks_count", site->live_count);
	mt_json_set_u64(object, "samples_count", site->sampled_count);
	for (size_t i = 0; i < site->frames_count; i++)
		mt_json_append(frames, json_string(site->frames[i]));
	mt_json_set(object, "frames", frames);
	return object;
}

json_t *mt_sites_json(const struct mt_sites *sites, const struct mt_sites_view *view)
{
	json_t *object = mt_process_json(view->process), *list = json_array();

	mt_json_set_text(object, "kind", view->over_ms ? "growth" : "live");
	mt_json_set_u64_if(object, "over_ms", view->over_ms, view->over_ms);
	mt_json_set_bool(object, "samples", sites->samples);
	mt_json_set_u64(object, "rate_bytes", sites->rate_bytes);
	mt_json_set_u64(object, "bytes", sites->live_bytes);
	mt_json_set_u64(object, "samples_count", sites->sampled_count);
	mt_json_set_u64(object, "sites_count", sites->count);
	for (size_t i = 0; i < mt_sites_shown(view, sites->count); i++)
		mt_json_append(list, site_json(&sites->list[i], sites));
	mt_json_set(object, "sites", list);
	return object;
}

void mt_sites_print_json(const struct mt_sites *sites, const struct mt_sites_view *view)
{
	mt_json_print(mt_sites_json(sites, view), true);
}

/* Outermost first, separated by semicolons: for flamegraph.pl, inferno and speedscope. */
void mt_sites_print_folded(const struct mt_sites *sites, const struct mt_sites_view *view)
{
	for (size_t i = 0; i < mt_sites_shown(view, sites->count); i++) {
		const struct mt_site *site = &sites->list[i];

		for (size_t frame = site->frames_count; frame-- > 0;) {
			for (const char *at = site->frames[frame]; *at; at++)
				putchar(*at == ';' ? ':' : *at);
			if (frame)
				putchar(';');
		}
		printf(" %" PRIu64 "\n", site->live_bytes);
	}
}
