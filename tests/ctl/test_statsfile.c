/* tests/ctl/test_statsfile.c -- mtctl's reader against files that are not what they should be. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/stats_layout.h"
#include "ctl/figures/figures.h"
#include "ctl/figures/stats_file.h"

static struct mt_stats_file good;
static struct mt_stats_file seen;
static struct mt_error_reason why;

static void seal(struct mt_stats_head *head)
{
	head->checksum = mt_stats_checksum(MT_CHECKSUM_START, head,
					   offsetof(struct mt_stats_head, checksum));
}

static void make_good(void)
{
	memset(&good, 0, sizeof(good));
	memset(&seen, 0x5a, sizeof(seen));
	good.head.magic = MT_STATS_MAGIC;
	good.head.version = MT_STATS_VERSION;
	good.head.head_bytes = sizeof(good.head);
	good.head.fields_count = sizeof(good.head.snapshot) / sizeof(uint64_t);
	good.head.cleanup_bytes = sizeof(struct mt_stats_cleanup);
	good.head.sample_bytes = sizeof(struct mt_stats_sample);
	good.head.device_bytes = sizeof(struct mt_stats_device);
	good.head.oom_bytes = sizeof(struct mt_stats_oom);
	good.head.limit_report_bytes = sizeof(struct mt_stats_limit_report);
	good.head.class_bytes = sizeof(struct mt_stats_class);
	good.head.settings_count = 1;
	good.head.cleanups_count = 70;
	strcpy(good.head.comm, "python3");
	strcpy(good.settings[0].name, "gc_rounds");
	good.head.snapshot.rss_bytes = 42;
	for (uint64_t number = 7; number <= 70; number++)
		good.cleanups[(number - 1) % MT_CLEANUPS_COUNT] = (struct mt_stats_cleanup){
			.number = number, .request_seq = number + 1000, .result = 1};
	seal(&good.head);
}

static int file_of(const void *bytes, size_t count)
{
	int fd = memfd_create("stats", MFD_CLOEXEC);

	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, bytes, count), (ssize_t)count);
	return fd;
}

/* Reads `good` as a whole; every test spoils it first. */
static enum mt_err read_good(void)
{
	int fd = file_of(&good, sizeof(good));
	enum mt_err error = mt_stats_file_read(fd, &seen, &why);

	close(fd);
	return error;
}

TestSuite(statsfile, .init = make_good);

Test(statsfile, a_good_file_is_read)
{
	cr_assert_eq(read_good(), MT_ERR_OK, "%s", why.text);
	cr_expect_eq(seen.head.snapshot.rss_bytes, 42);
	cr_expect_str_eq(seen.head.comm, "python3");
	cr_expect_str_eq(seen.settings[0].name, "gc_rounds");
	cr_expect_eq(mt_stats_file_cleanup(&seen, 70)->request_seq, 1070);
}

Test(statsfile, nothing_is_written_on_failure)
{
	struct mt_stats_file before = seen;

	good.head.checksum ^= 1;
	cr_expect_eq(read_good(), MT_ERR_INVALID);
	cr_expect_arr_eq(&seen, &before, sizeof(seen));
}

Test(statsfile, every_flipped_byte_of_the_head_is_noticed)
{
	unsigned char *bytes = (unsigned char *)&good.head;
	struct mt_stats_head head;

	/* A file that is wrong is read for 50 ms: a prime step keeps this within seconds and meets
	 * every field kind. */
	for (size_t i = 0; i < sizeof(good.head); i += 37) {
		int fd;

		bytes[i] ^= 0x10;
		fd = file_of(&good, sizeof(good));
		cr_expect_neq(mt_stats_file_read_head(fd, &head, &why), MT_ERR_OK, "byte %zu", i);
		close(fd);
		bytes[i] ^= 0x10;
	}
	cr_expect_eq(read_good(), MT_ERR_OK);
}

Test(statsfile, every_length_is_survived)
{
	static const size_t lengths[] = {0,
					 1,
					 7,
					 8,
					 12,
					 39,
					 40,
					 sizeof(good.head) - 1,
					 sizeof(good.head),
					 sizeof(good) / 2,
					 sizeof(good) - 1};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		int fd = file_of(&good, lengths[i]);

		cr_expect_eq(mt_stats_file_read(fd, &seen, &why), MT_ERR_INVALID, "%zu bytes",
			     lengths[i]);
		close(fd);
	}
}

Test(statsfile, another_version_is_named_and_the_process_is_to_be_restarted)
{
	static const uint32_t versions[] = {0, MT_STATS_VERSION - 1, MT_STATS_VERSION + 1, 77,
					    UINT32_MAX};

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		char wanted[64];

		snprintf(wanted, sizeof(wanted), "another version (%u): restart the process",
			 versions[i]);
		good.head.version = versions[i];
		seal(&good.head);
		cr_expect_eq(read_good(), MT_ERR_INVALID);
		cr_expect_not_null(strstr(why.text, wanted), "%s", why.text);
	}
}

/* As an older version was laid out: sizes of its own, and another place of the checksum. */
Test(statsfile, another_version_is_named_before_its_checksum_is_looked_for)
{
	good.head.version = MT_STATS_VERSION - 1;
	good.head.head_bytes -= 344;
	good.head.sample_bytes -= 16;
	cr_expect_eq(read_good(), MT_ERR_INVALID);
	cr_expect_not_null(strstr(why.text, "another version"), "%s", why.text);
}

Test(statsfile, another_layout_under_the_same_version_is_another_version)
{
	uint32_t *const sizes[] = {&good.head.head_bytes,         &good.head.fields_count,
				   &good.head.cleanup_bytes,      &good.head.sample_bytes,
				   &good.head.device_bytes,       &good.head.oom_bytes,
				   &good.head.limit_report_bytes, &good.head.class_bytes};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		*sizes[i] += 8;
		seal(&good.head);
		cr_expect_eq(read_good(), MT_ERR_INVALID, "size %zu", i);
		cr_expect_not_null(strstr(why.text, "another version"), "%s", why.text);
		*sizes[i] -= 8;
	}
}

Test(statsfile, sizes_that_lie_are_refused_even_with_a_right_checksum)
{
	uint32_t *const sizes[] = {&good.head.head_bytes,         &good.head.fields_count,
				   &good.head.cleanup_bytes,      &good.head.sample_bytes,
				   &good.head.device_bytes,       &good.head.oom_bytes,
				   &good.head.limit_report_bytes, &good.head.class_bytes};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		static const uint32_t values[] = {0, 8, 0x7fffffff, 0xffffffff};
		uint32_t kept = *sizes[i];

		for (size_t j = 0; j < sizeof(values) / sizeof(values[0]); j++) {
			*sizes[i] = values[j];
			seal(&good.head);
			cr_expect_eq(read_good(), MT_ERR_INVALID, "size %zu, value %u", i,
				     values[j]);
		}
		*sizes[i] = kept;
	}
	good.head.settings_count = MT_SETTINGS_COUNT + 1;
	seal(&good.head);
	cr_expect_eq(read_good(), MT_ERR_INVALID);
}

Test(statsfile, noise_is_refused)
{
	static unsigned char noise[sizeof(struct mt_stats_file) + 4096];
	int fd;

	srand(1);
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (unsigned char)rand();
	fd = file_of(noise, sizeof(noise));
	cr_expect_eq(mt_stats_file_read(fd, &seen, &why), MT_ERR_INVALID);
	close(fd);
}

Test(statsfile, text_is_ended_and_printable)
{
	memset(good.head.evidence, 0xff, sizeof(good.head.evidence));
	strcpy(good.head.comm, "\033[31mred\n");
	memset(&good.settings[0], 0x1b, sizeof(good.settings[0]));
	seal(&good.head);
	cr_assert_eq(read_good(), MT_ERR_OK, "%s", why.text);
	cr_expect_str_eq(seen.head.comm, "?[31mred?");
	cr_expect_eq(strlen(seen.head.evidence), sizeof(seen.head.evidence) - 1);
	cr_expect_eq(strspn(seen.head.evidence, "?"), strlen(seen.head.evidence));
	cr_expect_eq(strspn(seen.settings[0].value, "?"), sizeof(seen.settings[0].value) - 1);
}

Test(statsfile, text_of_devices_and_reports_is_ended_and_printable)
{
	memset(good.devices[15].name, 0xff, sizeof(good.devices[15].name));
	strcpy(good.devices[0].mode, "po\033[1mol");
	good.ooms[1].number = 2;
	memset(good.ooms[1].function, 0x9b, sizeof(good.ooms[1].function));
	memset(good.head.cuda, 0x07, sizeof(good.head.cuda));
	seal(&good.head);
	cr_assert_eq(read_good(), MT_ERR_OK, "%s", why.text);
	cr_expect_str_eq(seen.devices[0].mode, "po?[1mol");
	cr_expect_eq(strspn(seen.devices[15].name, "?"), sizeof(seen.devices[15].name) - 1);
	cr_expect_eq(strspn(seen.ooms[1].function, "?"), sizeof(seen.ooms[1].function) - 1);
	cr_expect_eq(strspn(seen.head.cuda, "?"), sizeof(seen.head.cuda) - 1);
}

Test(statsfile, sizes_and_counts_of_devices_that_lie_are_refused)
{
	good.head.devices_count = MT_DEVICES_COUNT;
	seal(&good.head);
	cr_expect_eq(read_good(), MT_ERR_OK, "%s", why.text);
	good.head.devices_count = MT_DEVICES_COUNT + 1;
	seal(&good.head);
	cr_expect_eq(read_good(), MT_ERR_INVALID);
	good.head.devices_count = 0;
	good.head.device_bytes += 8;
	seal(&good.head);
	cr_expect_eq(read_good(), MT_ERR_INVALID);
	good.head.device_bytes -= 8;
	good.head.oom_bytes -= 8;
	seal(&good.head);
	cr_expect_eq(read_good(), MT_ERR_INVALID);
}

Test(statsfile, reports_out_of_place_come_back_empty)
{
	good.ooms[1].number = 6;
	good.ooms[2].number = 6;
	good.ooms[2].asked_bytes = 42;
	cr_assert_eq(read_good(), MT_ERR_OK, "%s", why.text);
	cr_expect_eq(mt_stats_file_oom(&seen, 6), &seen.ooms[1]);
	cr_expect_eq(seen.ooms[2].number, 0);
	cr_expect_eq(seen.ooms[2].asked_bytes, 0);
	cr_expect_null(mt_stats_file_oom(&seen, 2), "overwritten long ago");
	cr_expect_null(mt_stats_file_oom(&seen, 0));
	cr_expect_null(mt_stats_file_oom(&seen, UINT64_MAX));
}

Test(statsfile, a_setting_is_found_by_its_name_among_those_that_are_filled)
{
	strcpy(good.settings[0].value, "7");
	strcpy(good.settings[1].name, "later");
	cr_assert_eq(read_good(), MT_ERR_OK, "%s", why.text);
	cr_expect_str_eq(mt_stats_file_setting(&seen, "gc_rounds"), "7");
	cr_expect_null(mt_stats_file_setting(&seen, "later"), "beyond settings_count");
}

Test(statsfile, a_process_uses_cuda_when_it_says_how_or_has_a_device)
{
	cr_expect_not(mt_stats_file_uses_cuda(&good.head));
	good.head.devices_count = 1;
	cr_expect(mt_stats_file_uses_cuda(&good.head));
	good.head.devices_count = 0;
	strcpy(good.head.cuda, "off");
	cr_expect(mt_stats_file_uses_cuda(&good.head));
}

Test(statsfile, the_drivers_version_is_written_as_people_do)
{
	cr_expect_str_eq(mt_stats_word_driver(&good.head).text, "unknown");
	good.head.driver_version = 12080;
	cr_expect_str_eq(mt_stats_word_driver(&good.head).text, "12.8");
	good.head.driver_version = 11000;
	cr_expect_str_eq(mt_stats_word_driver(&good.head).text, "11.0");
}

Test(statsfile, every_field_of_a_device_is_read_from_its_own_place)
{
	struct mt_stats_device device;
	const struct mt_figure *figures = mt_figures(MT_FIGURES_DEVICE);
	const size_t count = offsetof(struct mt_stats_device, name) / sizeof(uint64_t);
	uint64_t *words = (uint64_t *)&device;

	for (size_t i = 0; i < count; i++)
		words[i] = i + 1;
	for (size_t i = 0; i < count; i++)
		cr_expect_eq(mt_figure_value(&figures[i], &device), i + 1, "%s", figures[i].name);
	cr_expect_null(figures[count].name);
}

Test(statsfile, records_out_of_place_come_back_empty)
{
	good.cleanups[3].number = 5;
	good.cleanups[9].result = 99;
	cr_assert_eq(read_good(), MT_ERR_OK, "%s", why.text);
	cr_expect_eq(seen.cleanups[3].number, 0);
	cr_expect_eq(seen.cleanups[9].result, MT_NULL_RESULT);
	cr_expect_null(mt_stats_file_cleanup(&seen, 6), "overwritten long ago");
	cr_expect_null(mt_stats_file_cleanup(&seen, 0));
	cr_expect_null(mt_stats_file_cleanup(&seen, UINT64_MAX));
}

Test(statsfile, a_merged_record_is_answered_by_the_one_that_did_the_work)
{
	good.cleanups[(68 - 1) % MT_CLEANUPS_COUNT].merged = 1;
	good.cleanups[(69 - 1) % MT_CLEANUPS_COUNT].merged = 1;
	cr_assert_eq(read_good(), MT_ERR_OK, "%s", why.text);
	cr_expect_eq(mt_stats_file_cleanup_of_request(&seen, 1068)->number, 70);
	cr_expect_null(mt_stats_file_cleanup_of_request(&seen, 5));
	cr_expect_null(mt_stats_file_cleanup_of_request(&seen, 0));
}

Test(statsfile, records_that_are_all_merged_end_the_search)
{
	for (size_t slot = 0; slot < MT_CLEANUPS_COUNT; slot++)
		good.cleanups[slot].merged = 1;
	cr_assert_eq(read_good(), MT_ERR_OK, "%s", why.text);
	cr_expect_null(mt_stats_file_cleanup_of_request(&seen, 1010));
}

Test(statsfile, words_for_numbers_out_of_range_are_a_question_mark)
{
	cr_expect_str_eq(mt_stats_word_reason(MT_REASON_COUNT), "?");
	cr_expect_str_eq(mt_stats_word_level(UINT32_MAX), "?");
	cr_expect_str_eq(mt_stats_word_gc_state(MT_GC_COUNT), "?");
	cr_expect_str_eq(mt_stats_word_disposition(UINT64_MAX), "?");
	cr_expect_str_eq(mt_stats_word_gpu_state(MT_GPU_STATE_COUNT), "?");
	cr_expect_str_eq(mt_stats_word_gpu_state(MT_GPU_RANKS), "ranks");
	cr_expect_str_eq(mt_stats_word_oom_cause(MT_OOM_CAUSE_COUNT), "?");
	cr_expect_str_eq(mt_stats_word_oom_cause(MT_OOM_LIVE), "live tensors");
	cr_expect_str_eq(mt_stats_word_reason(MT_REASON_LATE_GC), "late_gc");
}

/* A process of 20 GB is told "freed" by a single page; who reads that looks no further. */
Test(statsfile, a_cleanup_that_brought_less_than_a_megabyte_is_not_said_to_have_freed)
{
	struct mt_stats_cleanup record = {
		.result = 1, .rss_before_bytes = 300 << 20, .rss_after_bytes = (299 << 20) + 1};

	cr_expect_str_eq(mt_stats_word_outcome(&record), "freed less than 1 MB");
	record.rss_after_bytes--;
	cr_expect_str_eq(mt_stats_word_outcome(&record), "freed");
	record.rss_after_bytes = 400 << 20;
	cr_expect_str_eq(mt_stats_word_outcome(&record), "freed less than 1 MB");
	record.gpu_before_bytes = 1 << 20;
	cr_expect_str_eq(mt_stats_word_outcome(&record), "freed", "of a device");
	record.result = 0;
	cr_expect_str_eq(mt_stats_word_outcome(&record), "nothing to free");
	record.result = MT_NULL_RESULT;
	cr_expect_str_eq(mt_stats_word_outcome(&record), "nothing could be trimmed");
}
