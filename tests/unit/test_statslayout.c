/* tests/unit/test_statslayout.c -- stats files of older and newer shims, made here by the rule of
 * stats_layout.h. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "ctl/statslayout.h"

#define GROWN 24u /* what a newer shim has appended to everything */
#define TEXTS (sizeof(struct mt_stats_device) - offsetof(struct mt_stats_device, name))

static struct mt_stats_file good, seen;
static unsigned char made[4u << 20];
static size_t made_bytes;

static void set_up(void)
{
	struct mt_stats_head *head = &good.head;

	memset(&good, 0, sizeof(good));
	memset(&seen, 0x5a, sizeof(seen));
	made_bytes = 0;
	head->magic = MT_STATS_MAGIC;
	head->version = MT_STATS_VERSION;
	head->head_bytes = sizeof(*head);
	head->fields_count = sizeof(head->snapshot) / sizeof(uint64_t);
	head->record_bytes = sizeof(good.records[0]);
	head->sample_bytes = sizeof(good.samples[0]);
	head->device_bytes = sizeof(good.devices[0]);
	head->oom_bytes = sizeof(good.ooms[0]);
	head->alarm_bytes = sizeof(good.alarms[0]);
	head->class_bytes = sizeof(good.classes[0]);
	head->devices_count = MT_DEVICES_COUNT;
}

TestSuite(statslayout, .init = set_up);

static void append(const void *bytes, size_t count)
{
	memcpy(made + made_bytes, bytes, count);
	made_bytes += count;
}

static void append_grown(const void *bytes, size_t count)
{
	append(bytes, count);
	memset(made + made_bytes, 0xee, GROWN);
	made_bytes += GROWN;
}

static void append_table(const void *from, size_t count, size_t bytes, size_t texts)
{
	for (size_t i = 0; i < count; i++) {
		append_grown((const char *)from + i * bytes, bytes - texts);
		append((const char *)from + (i + 1) * bytes - texts, texts);
	}
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* `good` as a newer shim would write it. */
static void make_grown(void)
{
	struct mt_stats_head *head = &good.head;
	uint32_t *const sizes[] = {&head->record_bytes, &head->sample_bytes, &head->device_bytes,
				   &head->oom_bytes,    &head->alarm_bytes,  &head->class_bytes};

	for (size_t i = 0; i < COUNT(sizes); i++)
		*sizes[i] += GROWN;
	head->fields_count += 2;
	head->head_bytes += GROWN + 2 * sizeof(uint64_t);
	append_grown(head, offsetof(struct mt_stats_head, snapshot));
	append(&head->snapshot, sizeof(head->snapshot));
	made_bytes += 3 * sizeof(uint64_t); /* two figures more, and the checksum */
	cr_assert_eq(made_bytes, head->head_bytes);
	append(good.settings, sizeof(good.settings));
	append_table(good.devices, MT_DEVICES_COUNT, sizeof(good.devices[0]), TEXTS);
	append_table(good.ooms, MT_OOMS_COUNT, sizeof(good.ooms[0]), 0);
	append_table(good.alarms, MT_ALARMS_COUNT, sizeof(good.alarms[0]), 0);
	append_table(good.classes, MT_CLASSES_COUNT, sizeof(good.classes[0]), 0);
	append_table(good.records, MT_CLEANUPS_COUNT, sizeof(good.records[0]), 0);
	append_table(good.samples, MT_SAMPLES_COUNT, sizeof(good.samples[0]), 0);
}

Test(statslayout, what_a_newer_shim_has_appended_anywhere_is_passed_over)
{
	size_t tail;

	good.head.snapshot.rss_bytes = 42;
	good.head.snapshot.budget_ratio_thousandths = 43;
	good.head.stack_start = 44;
	good.devices[15].nvml_age_ms = 1;
	strcpy(good.devices[15].mode, "pool");
	strcpy(good.ooms[3].advice, "more");
	strcpy(good.alarms[3].advice, "less");
	good.classes[255].live_count = 45;
	good.records[63].pinned_after_bytes = 46;
	good.samples[1023].pressure_level = 47;
	make_grown();

	cr_assert(mt_statslayout_can_be(&good.head));
	mt_statslayout_take_head(made, &seen.head);
	tail = mt_statslayout_tail_bytes(&seen.head);
	cr_assert_eq(seen.head.head_bytes + tail, made_bytes);
	mt_statslayout_take_tail(&seen.head, made + seen.head.head_bytes, &seen);
	good.head.checksum = 0;
	cr_expect_arr_eq(&seen, &good, sizeof(good), "nothing of it has moved");
}

Test(statslayout, devices_single_are_read_by_the_same_rule)
{
	struct mt_stats_device devices[MT_DEVICES_COUNT];

	good.devices[7].total_bytes = 80;
	strcpy(good.devices[7].name, "a GPU");
	make_grown();
	cr_expect_eq(mt_statslayout_devices_bytes(&good.head),
		     MT_DEVICES_COUNT * good.head.device_bytes);
	mt_statslayout_take_devices(&good.head, made + mt_statslayout_devices_at(&good.head),
				    devices);
	cr_expect_arr_eq(devices, good.devices, sizeof(devices));
}

Test(statslayout, what_an_older_shim_lacks_is_0)
{
	struct mt_stats_head *head = &good.head;
	const size_t fixed = offsetof(struct mt_stats_head, world_size);

	strcpy(head->limit_source, "memory.max");
	head->world_size = 1;
	head->snapshot.rss_bytes = 42;
	head->version = MT_STATS_VERSION_OLDEST;
	head->fields_count = 90;
	head->head_bytes = (uint32_t)(fixed + 91 * sizeof(uint64_t));
	head->sample_bytes = offsetof(struct mt_stats_sample, rounds_count);
	append(head, fixed);
	append(&head->snapshot, 90 * sizeof(uint64_t));

	cr_assert(mt_statslayout_can_be(head));
	mt_statslayout_take_head(made, &seen.head);
	cr_expect_str_eq(seen.head.limit_source, "memory.max");
	cr_expect_eq(seen.head.world_size, 0);
	cr_expect_eq(seen.head.stack_start, 0);
	cr_expect_eq(seen.head.snapshot.rss_bytes, 42);
	cr_expect_eq(seen.head.snapshot.budget_ratio_thousandths, 0);
	cr_expect_eq(seen.head.fields_count, 90);
}

/* Appended without a new version: a process may still run the library of before. */
Test(statslayout, what_was_appended_since_the_version_began_is_0_in_a_file_of_before)
{
	struct mt_stats_device devices[MT_DEVICES_COUNT];

	good.devices[0].others_known = 1;
	good.devices[0].nvml_age_ms = 7;
	strcpy(good.devices[0].name, "a GPU");
	good.head.devices_count = 1;
	good.head.device_bytes -= sizeof(uint64_t);
	good.head.record_bytes = offsetof(struct mt_stats_cleanup, pinned_before_bytes);
	cr_assert(mt_statslayout_can_be(&good.head));
	append(&good.devices[0], offsetof(struct mt_stats_device, nvml_age_ms));
	append(good.devices[0].name, TEXTS);
	mt_statslayout_take_devices(&good.head, made, devices);
	cr_expect_eq(devices[0].others_known, 1);
	cr_expect_eq(devices[0].nvml_age_ms, 0);
	cr_expect_str_eq(devices[0].name, "a GPU");
}

Test(statslayout, entries_are_neither_shorter_than_their_version_nor_much_longer_nor_odd)
{
	uint32_t *const sizes[] = {&good.head.head_bytes,   &good.head.record_bytes,
				   &good.head.sample_bytes, &good.head.device_bytes,
				   &good.head.oom_bytes,    &good.head.alarm_bytes,
				   &good.head.class_bytes};

	/* Appended since the version began, and not there in every file of it. */
	const uint32_t appended[COUNT(sizes)] = {
		[1] = 2 * sizeof(uint64_t), [3] = sizeof(uint64_t)};

	cr_assert(mt_statslayout_can_be(&good.head));
	for (size_t i = 0; i < COUNT(sizes); i++) {
		uint32_t kept = *sizes[i];
		const uint32_t wrong[] = {0,
					  8,
					  kept - appended[i] - 8,
					  kept + 4,
					  kept + MT_STATSLAYOUT_GROWTH + 8,
					  UINT32_MAX - 7};

		*sizes[i] = kept + MT_STATSLAYOUT_GROWTH;
		cr_expect(mt_statslayout_can_be(&good.head), "size %zu", i);
		for (size_t j = 0; j < COUNT(wrong); j++) {
			*sizes[i] = wrong[j];
			cr_expect_not(mt_statslayout_can_be(&good.head), "size %zu: %u", i,
				      wrong[j]);
		}
		*sizes[i] = kept;
	}
}
