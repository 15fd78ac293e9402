/* forge.c -- see forge.h. */
#include "forge.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/figures/stats_file.h"
#include "fuzz.h"
#include "core/stats_layout.h"
#include "core/dump_layout.h"

#define FIELDS_OWN  (sizeof(struct mt_stats_snapshot) / sizeof(uint64_t))
#define FIELDS_MOST 1024u
#define TAIL        offsetof(struct mt_stats_file, settings)

struct member {
	const char *name;
	size_t offset, bytes;
	bool is_text;
};

/* Rows of a table, of members of the structure OWNER: N of a number, T of text. */
/* clang-format off */
#define ROW(member, is_text) \
	{#member, offsetof(struct OWNER, member), sizeof(((struct OWNER *)0)->member), is_text}
#define N(member) ROW(member, false)
#define T(member) ROW(member, true)

#define OWNER mt_stats_head
static const struct member head_members[] = {
	N(magic), N(version), N(head_bytes), N(fields_count), N(cleanup_bytes), N(sample_bytes),
	N(settings_count), N(device_bytes), N(devices_count), N(oom_bytes), N(limit_report_bytes),
	N(class_bytes), N(classes_count), N(driver_version), N(pid), N(start_ticks), N(pidns),
	T(shim_version), T(comm), T(allocator), T(evidence), T(mode), T(conf), T(python), T(cuda),
	N(time_ns), N(cleanups_count), N(samples_count), N(ooms_count), N(limit_reports_count),
	N(classes_time_ns), T(limit_source), N(world_size), T(rank), T(rank_source), N(stack_start),
#define X(name, kind, known, recorded, help) \
	{#name, offsetof(struct mt_stats_head, snapshot.name), sizeof(uint64_t), false},
	MT_STATS_FIELDS(X)
#undef X
};
#undef OWNER

#define OWNER mt_stats_setting
static const struct member setting_members[] = {
	T(name), T(value), T(origin),
};
#undef OWNER

#define OWNER mt_stats_device
static const struct member device_members[] = {
#define X(name, kind, known, recorded, help) N(name),
	MT_DEVICE_FIELDS(X)
#undef X
	T(name), T(pci), T(mode),
};
#undef OWNER

#define X(bits, name, known, label, help) N(name),
#define OWNER mt_stats_oom
static const struct member oom_members[] = {MT_OOM_FIELDS(X) T(function)};
#undef OWNER

#define OWNER mt_stats_limit_report
static const struct member limit_report_members[] = {MT_LIMIT_REPORT_FIELDS(X) T(advice)};
#undef OWNER
#undef X

#define OWNER mt_stats_class
static const struct member class_members[] = {
	N(block_bytes), N(live_count),
};
#undef OWNER

#define OWNER mt_stats_cleanup
#define X(bits, name, known, help) N(name),
static const struct member record_members[] = {MT_CLEANUP_FIELDS(X)};
#undef X
#undef OWNER

#define OWNER mt_stats_sample
#define X(name, known, figure) N(name),
static const struct member sample_members[] = {N(time_ns), MT_SAMPLE_FIELDS(X)};
#undef X
#undef OWNER

#define OWNER mt_blocks_head
static const struct member blocks_members[] = {
	N(magic), N(version), N(head_bytes), N(entry_bytes), N(entries_count), N(left_out_count),
	N(time_ns), N(duration_ns), N(decay_ms),
};
#undef OWNER
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LIST(word, list, type)                                                                     \
	{                                                                                          \
		word, offsetof(struct mt_stats_file, list), sizeof(struct type),                   \
			COUNT(((struct mt_stats_file *)0)->list), type##_rows, COUNT(type##_rows)  \
	}
#define mt_stats_setting_rows      setting_members
#define mt_stats_device_rows       device_members
#define mt_stats_oom_rows          oom_members
#define mt_stats_limit_report_rows limit_report_members
#define mt_stats_class_rows        class_members
#define mt_stats_cleanup_rows      record_members
#define mt_stats_sample_rows       sample_members

static const struct list {
	const char *word;
	size_t offset, element_bytes, elements;
	const struct member *members;
	size_t members_count;
} lists[] = {
	LIST("setting", settings, mt_stats_setting),
	LIST("device", devices, mt_stats_device),
	LIST("oom", ooms, mt_stats_oom),
	LIST("limit_report", limit_reports, mt_stats_limit_report),
	LIST("class", classes, mt_stats_class),
	LIST("record", cleanups, mt_stats_cleanup),
	LIST("sample", samples, mt_stats_sample),
};

/* What follows the first word, which ends with a blank; NULL: it is another one. */
static const char *after(const char *line, const char *word)
{
	size_t length = strlen(word);

	return strncmp(line, word, length) == 0 && line[length] == ' ' ? line + length + 1 : NULL;
}

/* Text is what is left of the line, without an end where there is no room for it. */
static bool set(void *to, const struct member *members, size_t count, const char *line)
{
	for (size_t i = 0; i < count; i++) {
		const char *value = after(line, members[i].name);
		char *at = (char *)to + members[i].offset;
		uint64_t number;

		if (!value)
			continue;
		if (members[i].is_text) {
			size_t length = strlen(value);

			memset(at, 0, members[i].bytes);
			memcpy(at, value, length < members[i].bytes ? length : members[i].bytes);
		} else {
			number = fuzz_number(value);
			/* little-endian machines alone are fuzzed on */
			memcpy(at, &number, members[i].bytes);
		}
		return true;
	}
	return false;
}

static bool set_in_list(struct mt_stats_file *file, const char *line)
{
	for (size_t i = 0; i < COUNT(lists); i++) {
		const char *rest = after(line, lists[i].word),
			   *member = rest ? strchr(rest, ' ') : NULL;
		size_t place = rest ? (size_t)fuzz_number(rest) % lists[i].elements : 0;

		if (member)
			return set((char *)file + lists[i].offset + place * lists[i].element_bytes,
				   lists[i].members, lists[i].members_count, member + 1);
	}
	return false;
}

static void begin(struct mt_stats_file *file)
{
	memset(file, 0, sizeof(*file));
	file->head.magic = MT_STATS_MAGIC;
	file->head.version = MT_STATS_VERSION;
	file->head.head_bytes = sizeof(file->head);
	file->head.fields_count = FIELDS_OWN;
	file->head.cleanup_bytes = sizeof(struct mt_stats_cleanup);
	file->head.sample_bytes = sizeof(struct mt_stats_sample);
	file->head.device_bytes = sizeof(struct mt_stats_device);
	file->head.oom_bytes = sizeof(struct mt_stats_oom);
	file->head.limit_report_bytes = sizeof(struct mt_stats_limit_report);
	file->head.class_bytes = sizeof(struct mt_stats_class);
	file->head.pid = 42;
	file->head.start_ticks = 4242;
	file->head.pidns = 4026531836;
	file->head.time_ns = 1700000000000000000;
	strcpy(file->head.comm, "python3");
	strcpy(file->head.allocator, "jemalloc");
	file->head.mode = MT_MODE_JEMALLOC;
}

struct spoil {
	size_t fields, cut;
	bool is_unsealed;
};

static void take_lines(char *text, struct mt_stats_file *file, struct spoil *spoil)
{
	const char *value;

	for (char *line; (line = fuzz_line(&text));) {
		if (strcmp(line, "unsealed") == 0)
			spoil->is_unsealed = true;
		else if ((value = after(line, "cut")))
			spoil->cut = (size_t)fuzz_number(value);
		else if ((value = after(line, "fields")))
			spoil->fields = (size_t)fuzz_number(value) % FIELDS_MOST + 1;
		else if (!set_in_list(file, line))
			(void)set(&file->head, head_members, COUNT(head_members), line);
	}
}

size_t fuzz_forge_stats(char *text, unsigned char **out)
{
	struct mt_stats_file *file = malloc(sizeof(*file));
	struct spoil spoil = {.fields = FIELDS_OWN, .cut = SIZE_MAX};
	const size_t before = offsetof(struct mt_stats_head, snapshot);
	size_t head_bytes, own;
	uint64_t sum;

	if (!file)
		abort();
	begin(file);
	take_lines(text, file, &spoil);
	head_bytes = before + spoil.fields * sizeof(uint64_t) + sizeof(sum);
	if (spoil.fields != FIELDS_OWN) {
		file->head.fields_count = (uint32_t)spoil.fields;
		file->head.head_bytes = (uint32_t)head_bytes;
	}
	own = spoil.fields < FIELDS_OWN ? spoil.fields : FIELDS_OWN;
	*out = calloc(1, head_bytes + sizeof(*file) - TAIL);
	if (!*out)
		abort();
	memcpy(*out, &file->head, before + own * sizeof(uint64_t));
	sum = mt_stats_checksum(MT_CHECKSUM_START, *out, head_bytes - sizeof(sum)) +
	      spoil.is_unsealed;
	memcpy(*out + head_bytes - sizeof(sum), &sum, sizeof(sum));
	memcpy(*out + head_bytes, file->settings, sizeof(*file) - TAIL);
	free(file);
	head_bytes += sizeof(*file) - TAIL;
	return spoil.cut < head_bytes ? spoil.cut : head_bytes;
}

void fuzz_forge_read(char *text, struct mt_stats_file *out)
{
	unsigned char *bytes;
	size_t count = fuzz_forge_stats(text, &bytes);
	struct mt_error_reason why;
	int fd = fuzz_file(bytes, count);

	if (mt_stats_file_read(fd, out, &why) != MT_ERR_OK)
		memset(out, 0, sizeof(*out));
	close(fd);
	free(bytes);
}

/* ---- blocks ---- */

static bool take_block(const char *line, struct mt_blocks_entry *out)
{
	uint64_t numbers[7];
	char *end;

	for (size_t i = 0; i < COUNT(numbers); i++, line = end) {
		numbers[i] = strtoull(line, &end, 0);
		if (end == line)
			return false;
	}
	*out = (struct mt_blocks_entry){
		numbers[0],           numbers[1],          numbers[2],         (uint32_t)numbers[3],
		(uint16_t)numbers[4], (uint8_t)numbers[5], (uint8_t)numbers[6]};
	return true;
}

size_t fuzz_forge_blocks(char *text, unsigned char **out)
{
	struct mt_blocks_head head = {.magic = MT_BLOCKS_MAGIC,
				      .version = MT_BLOCKS_VERSION,
				      .head_bytes = sizeof(head),
				      .entry_bytes = sizeof(struct mt_blocks_entry),
				      .time_ns = 1700000000000000000,
				      .decay_ms = 5000};
	size_t room = strlen(text) / 14 + 1, count = 0, cut = SIZE_MAX, bytes;
	struct mt_blocks_entry *entries = calloc(room, sizeof(*entries));
	bool is_unsealed = false, is_counted = false;
	const char *value;

	if (!entries)
		abort();
	for (char *line; (line = fuzz_line(&text));) {
		if (count < room && take_block(line, &entries[count]))
			count++;
		else if (strcmp(line, "unsealed") == 0)
			is_unsealed = true;
		else if ((value = after(line, "cut")))
			cut = (size_t)fuzz_number(value);
		else
			is_counted |= set(&head, blocks_members, COUNT(blocks_members), line) &&
				      after(line, "entries_count");
	}
	if (!is_counted)
		head.entries_count = (uint32_t)count;
	bytes = count * sizeof(*entries);
	head.entries_sum = mt_stats_checksum(MT_CHECKSUM_START, entries, bytes) + is_unsealed;
	head.checksum = mt_stats_checksum(MT_CHECKSUM_START, &head,
					  offsetof(struct mt_blocks_head, checksum));
	*out = malloc(sizeof(head) + bytes);
	if (!*out)
		abort();
	memcpy(*out, &head, sizeof(head));
	memcpy(*out + sizeof(head), entries, bytes);
	free(entries);
	bytes += sizeof(head);
	return cut < bytes ? cut : bytes;
}

size_t fuzz_forge_lines(const char *text, size_t bytes, unsigned char **out)
{
	struct mt_lines_head head = {.magic = 0};
	size_t rest = bytes > sizeof(head) ? (bytes - sizeof(head)) / 8 * 8 : 0, fixed;
	unsigned char *file = calloc(1, sizeof(head) + rest + 1);

	if (!file)
		abort();
	memcpy(&head, text, bytes < sizeof(head) ? bytes : sizeof(head));
	if (rest)
		memcpy(file + sizeof(head), text + sizeof(head), rest);
	head.magic = MT_LINES_MAGIC;
	head.version = MT_LINES_VERSION;
	head.head_bytes = sizeof(head);
	head.stack_bytes = sizeof(struct mt_lines_stack);
	head.stacks_count = (uint32_t)(head.stacks_count % (rest / head.stack_bytes + 1));
	fixed = head.stacks_count * sizeof(struct mt_lines_stack);
	head.frames_count = (uint32_t)(head.frames_count %
				       ((rest - fixed) / sizeof(struct mt_lines_frame) + 1));
	fixed += head.frames_count * sizeof(struct mt_lines_frame);
	head.names_bytes = (uint32_t)(rest - fixed);
	if (head.names_bytes)
		file[sizeof(head) + rest - 1] = '\0';
	head.content_sum = mt_stats_checksum(MT_CHECKSUM_START, file + sizeof(head), rest);
	head.checksum = mt_stats_checksum(MT_CHECKSUM_START, &head,
					  offsetof(struct mt_lines_head, checksum));
	memcpy(file, &head, sizeof(head));
	*out = file;
	return sizeof(head) + rest;
}
