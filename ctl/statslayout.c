/* ctl/statslayout.c -- see statslayout.h. */
#include "ctl/statslayout.h"

#include <string.h>

#define FIELDS_OWN (sizeof(struct mt_stats_snapshot) / sizeof(uint64_t))
#define FIXED_OWN  offsetof(struct mt_stats_head, snapshot)

/* What version 4 has appended to version 3. */
#define FIXED_OLDEST  offsetof(struct mt_stats_head, world_size)
#define SAMPLE_OLDEST offsetof(struct mt_stats_sample, rounds_count)

/* What was appended since version 4 began. */
#define DEVICE_TEXTS (sizeof(struct mt_stats_device) - offsetof(struct mt_stats_device, name))
#define DEVICE_FIRST (offsetof(struct mt_stats_device, nvml_age_ms) + DEVICE_TEXTS)
#define RECORD_FIRST offsetof(struct mt_stats_cleanup, pinned_before_bytes)

/* A table behind the settings, in the order of the file. */
struct table {
	size_t size_at; /* in the head: how long an entry is in the file */
	size_t place;   /* in struct mt_stats_file */
	size_t count, own_bytes;
	size_t oldest_bytes, first_bytes; /* least in a file of the oldest version, and of ours */
	/* at the end of an entry, behind where fields are appended */
	size_t text_bytes;
};

#define ENTRY(member) sizeof(((struct mt_stats_file *)0)->member[0])
#define TABLE(member, size, oldest, first, texts)                                                  \
	{                                                                                          \
		offsetof(struct mt_stats_head, size), offsetof(struct mt_stats_file, member),      \
			sizeof(((struct mt_stats_file *)0)->member) / ENTRY(member),               \
			ENTRY(member), oldest, first, texts                                        \
	}

static const struct table tables[] = {
	TABLE(devices, device_bytes, DEVICE_FIRST, DEVICE_FIRST, DEVICE_TEXTS),
	TABLE(ooms, oom_bytes, ENTRY(ooms), ENTRY(ooms), 0),
	TABLE(alarms, alarm_bytes, ENTRY(alarms), ENTRY(alarms), 0),
	TABLE(classes, class_bytes, ENTRY(classes), ENTRY(classes), 0),
	TABLE(records, record_bytes, RECORD_FIRST, RECORD_FIRST, 0),
	TABLE(samples, sample_bytes, SAMPLE_OLDEST, ENTRY(samples), 0),
};

#define TABLES_COUNT (sizeof(tables) / sizeof(tables[0]))

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* As it is in the file. */
static size_t entry_bytes(const struct mt_stats_head *head, const struct table *table)
{
	uint32_t bytes;

	memcpy(&bytes, (const char *)head + table->size_at, sizeof(bytes));
	return bytes;
}

static bool is_size(size_t bytes, size_t least, size_t own)
{
	return bytes >= least && bytes <= own + MT_STATSLAYOUT_GROWTH && bytes % 8 == 0;
}

/* Without the figures, which come last, and the checksum. */
static size_t fixed_bytes(const struct mt_stats_head *head)
{
	return head->head_bytes - head->fields_count * sizeof(uint64_t) - sizeof(uint64_t);
}

bool mt_statslayout_can_be(const struct mt_stats_head *head)
{
	bool is_oldest = head->version < MT_STATS_VERSION;

	if (head->fields_count < 1 || head->fields_count > MT_STATSLAYOUT_FIELDS_MAX ||
	    head->head_bytes <
		    FIXED_OLDEST + head->fields_count * sizeof(uint64_t) + sizeof(uint64_t) ||
	    !is_size(fixed_bytes(head), is_oldest ? FIXED_OLDEST : FIXED_OWN, FIXED_OWN))
		return false;
	for (size_t i = 0; i < TABLES_COUNT; i++)
		if (!is_size(entry_bytes(head, &tables[i]),
			     is_oldest ? tables[i].oldest_bytes : tables[i].first_bytes,
			     tables[i].own_bytes))
			return false;
	return head->settings_count <= MT_SETTINGS_COUNT &&
	       head->devices_count <= MT_DEVICES_COUNT && head->classes_count <= MT_CLASSES_COUNT;
}

void mt_statslayout_take_head(const unsigned char *bytes, struct mt_stats_head *out)
{
	struct mt_stats_head sizes;
	size_t fixed;

	memcpy(&sizes, bytes, FIXED_OLDEST);
	fixed = fixed_bytes(&sizes);
	memset(out, 0, sizeof(*out));
	memcpy(out, bytes, smaller(fixed, FIXED_OWN));
	memcpy(&out->snapshot, bytes + fixed,
	       smaller(sizes.fields_count, FIELDS_OWN) * sizeof(uint64_t));
}

/* An entry of a file into one of ours: fields from the front, texts that end it from the back. */
static void take_entry(const struct table *table, const unsigned char *from, size_t bytes,
		       unsigned char *out)
{
	size_t own = table->own_bytes, texts = table->text_bytes;

	memset(out, 0, own);
	memcpy(out, from, smaller(bytes - texts, own - texts));
	memcpy(out + own - texts, from + bytes - texts, texts);
}

size_t mt_statslayout_tail_bytes(const struct mt_stats_head *head)
{
	size_t bytes = sizeof(((struct mt_stats_file *)0)->settings);

	for (size_t i = 0; i < TABLES_COUNT; i++)
		bytes += tables[i].count * entry_bytes(head, &tables[i]);
	return bytes;
}

void mt_statslayout_take_tail(const struct mt_stats_head *head, const unsigned char *tail,
			      struct mt_stats_file *out)
{
	memcpy(out->settings, tail, sizeof(out->settings));
	tail += sizeof(out->settings);
	for (size_t i = 0; i < TABLES_COUNT; i++) {
		const struct table *table = &tables[i];
		size_t bytes = entry_bytes(head, table);

		for (size_t slot = 0; slot < table->count; slot++, tail += bytes)
			take_entry(table, tail, bytes,
				   (unsigned char *)out + table->place + slot * table->own_bytes);
	}
}

size_t mt_statslayout_devices_at(const struct mt_stats_head *head)
{
	return head->head_bytes + sizeof(((struct mt_stats_file *)0)->settings);
}

size_t mt_statslayout_devices_bytes(const struct mt_stats_head *head)
{
	return (size_t)head->devices_count * head->device_bytes;
}

void mt_statslayout_take_devices(const struct mt_stats_head *head, const unsigned char *from,
				 struct mt_stats_device *out)
{
	for (size_t i = 0; i < head->devices_count; i++)
		take_entry(&tables[0], from + i * head->device_bytes, head->device_bytes,
			   (unsigned char *)&out[i]);
}
