/* tests/ctl/test_recording.c -- ctl/recording: files that may be anything are read as far as they
 * are sound. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/metrics/recording.h"

#define HEADER                                                                                     \
	"{\"kind\":\"header\",\"time_ns\":1000,\"pid\":7,\"format\":\"mtshim-recording\","         \
	"\"version\":1,\"comm\":\"a\","                                                            \
	"\"command\":\"a b\"}\n"
#define SAMPLE(time, rss)                                                                          \
	"{\"kind\":\"sample\",\"time_ns\":" #time ",\"pid\":7,\"rss_bytes\":" #rss "}\n"

static struct mt_recording recording;
static struct mt_error_reason why;
static char path[64];

static enum mt_err read_bytes(const char *bytes, size_t count)
{
	enum mt_err error;
	int fd;

	strcpy(path, "/tmp/mtshim-recording-XXXXXX");
	fd = mkstemp(path);
	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, bytes, count), (ssize_t)count);
	close(fd);
	error = mt_recording_read(path, &recording, &why);
	unlink(path);
	return error;
}

static enum mt_err read_text(const char *text)
{
	return read_bytes(text, strlen(text));
}

static void expect_refused(const char *text, const char *reason)
{
	cr_expect_eq(read_text(text), MT_ERR_INVALID, "%s", text);
	cr_expect(strstr(why.text, reason), "%s: %s", text, why.text);
}

Test(recording, reads_samples_marks_and_the_end)
{
	cr_assert_eq(
		read_text(HEADER SAMPLE(
			2000, 10) "{\"kind\":\"round\",\"time_ns\":2500,\"pid\":7,\"number\":3,"
				  "\"rounds_count\":1}\n"
				  "{\"kind\":\"cleanup\",\"time_ns\":2600,\"pid\":7,\"number\":4,"
				  "\"level\":\"heavy\",\"reason\":"
				  "\"round\","
				  "\"duration_ns\":30,\"rss_before_bytes\":90,\"rss_after_bytes\":"
				  "20,\"live_after_bytes\":15}\n"
				  "{\"kind\":\"cleanup\",\"time_ns\":2600,\"pid\":7,\"number\":5,"
				  "\"merged\":true}\n"
				  "{\"kind\":\"pressure\",\"time_ns\":2700,\"pid\":7,\"level\":"
				  "\"critical\"}\n"
				  "{\"kind\":\"of a later version\"}\n" SAMPLE(
					  3000, 20) "{\"kind\":\"sample\",\"time_ns\":3050,\"pid\":"
						    "7,\"rss_bytes\":30,"
						    "\"rss_peak_bytes\":95}\n"
						    "{\"kind\":\"end\",\"time_ns\":3100,\"pid\":7,"
						    "\"exit_code\":null,\"signal\":9,"
						    "\"rss_peak_bytes\":500}\n"),
		MT_ERR_OK, "%s", why.text);

	cr_expect_str_empty(recording.warning.text);
	cr_assert_eq(recording.samples_count, 3);
	cr_expect_eq(recording.samples[1].bytes[MT_RECORDING_RSS], 20);
	cr_expect_eq(recording.samples[1].bytes[MT_RECORDING_LIVE], MT_RECORDING_UNKNOWN);
	cr_assert_eq(recording.marks_count, 3);
	cr_expect_eq(recording.marks[0].number, 3);
	cr_expect(recording.marks[1].level == MT_LEVEL_HEAVY &&
		  recording.marks[1].freed_bytes == 70);
	cr_expect_eq(recording.marks[2].level, MT_PRESSURE_CRITICAL);
	cr_expect(recording.marks[1].duration_ns == 30 &&
		  recording.marks[1].rss_bytes[MT_RECORDING_BEFORE] == 90 &&
		  recording.marks[1].rss_bytes[MT_RECORDING_AFTER] == 20);
	cr_expect(recording.marks[1].live_bytes[MT_RECORDING_BEFORE] == MT_RECORDING_UNKNOWN &&
		  recording.marks[1].live_bytes[MT_RECORDING_AFTER] == 15);
	cr_expect(recording.ended && recording.killed && recording.code == 9);
	cr_expect_eq(mt_recording_end_ns(&recording), 3100, "the end, not the last sample");
	cr_expect_eq(recording.rss_peak_bytes, 95,
		     "its own, not that of a child that it has waited for");
	cr_expect_str_eq(mt_recording_process(&recording, 7)->command, "a b");
	mt_recording_free(&recording);
}

Test(recording, refuses_what_is_none_and_says_in_which_line)
{
	expect_refused("", "empty");
	expect_refused("\n", ":1: empty");
	expect_refused("hello\n", ":1: not JSON");
	expect_refused("[1]\n", ":1: not an object");
	expect_refused("{\"kind\":\"sample\",\"time_ns\":1}\n", ":1: neither a recording nor");
	expect_refused("{\"kind\":\"header\",\"format\":\"other\",\"version\":1,\"pid\":7}\n",
		       ":1: not a recording");
	expect_refused(
		"{\"kind\":\"header\",\"format\":\"mtshim-recording\",\"version\":2,\"pid\":7}\n",
		"version 2");
	expect_refused(
		"{\"kind\":\"header\",\"format\":\"mtshim-recording\",\"version\":1,\"pid\":0}\n",
		"the header makes no sense");
	expect_refused(HEADER, "no samples");
	expect_refused(HEADER "{\"kind\":\"sample\",\"time_ns\":5,\"pid\":7,\"rss_bytes\":NaN}\n",
		       ":2: not JSON");
}

/* What stands before the broken line is drawn; the line is named. */
static void expect_cut(const char *line, const char *reason)
{
	char text[4096];

	snprintf(text, sizeof(text), HEADER SAMPLE(2000, 10) "%s\n" SAMPLE(3000, 10), line);
	cr_assert_eq(read_text(text), MT_ERR_OK, "%s: %s", line, why.text);
	cr_expect_eq(recording.samples_count, 1, "%s", line);
	cr_expect(strstr(recording.warning.text, ":3: ") &&
			  strstr(recording.warning.text, reason) &&
			  strstr(recording.warning.text, "read up to there"),
		  "%s: %s", line, recording.warning.text);
	mt_recording_free(&recording);
}

Test(recording, a_cleanup_whose_memory_could_not_be_read_is_no_fall_to_nothing)
{
	cr_assert_eq(
		read_text(HEADER SAMPLE(
			2000, 10) "{\"kind\":\"cleanup\",\"time_ns\":2600,\"pid\":7,\"number\":4,"
				  "\"rss_before_bytes\":0,\"rss_after_bytes\":0}\n"),
		MT_ERR_OK, "%s", why.text);

	cr_assert_eq(recording.marks_count, 1);
	cr_expect(recording.marks[0].rss_bytes[MT_RECORDING_BEFORE] == MT_RECORDING_UNKNOWN &&
		  recording.marks[0].rss_bytes[MT_RECORDING_AFTER] == MT_RECORDING_UNKNOWN);
	mt_recording_free(&recording);
}

Test(recording, is_read_up_to_the_first_line_that_makes_no_sense)
{
	expect_cut("{\"kind\":\"sample\",\"time_ns\":30", "not JSON");
	expect_cut("{\"kind\":\"sample\",\"pid\":7,\"rss_bytes\":5}", "a sample");
	expect_cut("{\"kind\":\"sample\",\"time_ns\":3000,\"pid\":7}", "a sample");
	expect_cut("{\"kind\":\"sample\",\"time_ns\":-5,\"pid\":7,\"rss_bytes\":5}", "a sample");
	expect_cut("{\"kind\":\"sample\",\"time_ns\":3000,\"pid\":7,\"rss_bytes\":-1}", "a sample");
	expect_cut("{\"kind\":\"sample\",\"time_ns\":3000,\"pid\":7,\"rss_bytes\":1e3}",
		   "a sample");
	expect_cut("{\"kind\":\"sample\",\"time_ns\":3000,\"pid\":7,\"rss_bytes\":"
		   "9223372036854775807}",
		   "a sample");
	expect_cut("{\"kind\":\"sample\",\"time_ns\":3000,\"pid\":7,\"rss_bytes\":"
		   "99999999999999999999}",
		   "not JSON");
	expect_cut("{\"kind\":\"sample\",\"time_ns\":3000,\"pid\":7,\"rss_bytes\":5,\"devices\":[{"
		   "\"ordinal\":99}]}",
		   "a device");
	expect_cut("{\"kind\":\"cleanup\",\"time_ns\":3000,\"pid\":7,\"rss_before_bytes\":\"x\"}",
		   "a cleanup");
	expect_cut("{\"kind\":\"cleanup\",\"time_ns\":3000,\"pid\":7,\"duration_ns\":-1}",
		   "a cleanup");
	expect_cut("{\"kind\":\"sample\",\"time_ns\":3000,\"pid\":7,\"rss_bytes\":5,\"rss_peak_"
		   "bytes\":-1}",
		   "a sample");
	expect_cut("{\"kind\":\"round\",\"pid\":7}", "a round");
	expect_cut("{\"time_ns\":3000}", "neither a recording nor");
	expect_cut("{\"kind\":\"sample\",\"time_ns\":3000,\"pid\":4294967296,\"rss_bytes\":5}",
		   "such a pid");
	expect_cut("{\"kind\":\"header\",\"format\":\"mtshim-recording\",\"version\":1,\"pid\":8}",
		   "another recording");
}

Test(recording, a_nul_within_a_line_ends_it)
{
	static const char text[] = HEADER SAMPLE(2000, 10) "{\"kind\":\"x\"\0}\n" SAMPLE(3000, 10);

	cr_assert_eq(read_bytes(text, sizeof(text) - 1), MT_ERR_OK);
	cr_expect_eq(recording.samples_count, 1);
	cr_expect(strstr(recording.warning.text, ":3: not JSON"));
	mt_recording_free(&recording);
}

Test(recording, a_line_without_end_is_no_line)
{
	const size_t most = (size_t)8 << 20;
	char *text = malloc(most);

	memset(text, 'x', most);
	memcpy(text, HEADER SAMPLE(2000, 10), strlen(HEADER SAMPLE(2000, 10)));
	cr_assert_eq(read_bytes(text, most), MT_ERR_OK);
	cr_expect_eq(recording.samples_count, 1);
	cr_expect(strstr(recording.warning.text, ":3: longer than any line"));
	mt_recording_free(&recording);
	free(text);
}

Test(recording, comes_back_in_order_whatever_the_order_was)
{
	cr_assert_eq(read_text(HEADER SAMPLE(3000, 3) SAMPLE(1000, 1) SAMPLE(2000, 2)), MT_ERR_OK);

	for (size_t i = 0; i < 3; i++)
		cr_expect_eq(recording.samples[i].bytes[MT_RECORDING_RSS], i + 1);
	cr_expect_eq(mt_recording_begin_ns(&recording), 1000);
	cr_expect_eq(mt_recording_end_ns(&recording), 3000);
	mt_recording_free(&recording);
}

Test(recording, text_is_clean)
{
	cr_assert_eq(read_text("{\"kind\":\"header\",\"time_ns\":1,\"pid\":7,\"format\":\"mtshim-"
			       "recording\",\"version\":1,"
			       "\"command\":\"\\u001b[31mred\\n<b>\",\"rank\":"
			       "\"0123456789012345678901234567890123456789\"}"
			       "\n" SAMPLE(1, 1)),
		     MT_ERR_OK, "%s", why.text);

	cr_expect_str_eq(mt_recording_process(&recording, 7)->command, "?[31mred?<b>");
	cr_expect_eq(strlen(mt_recording_process(&recording, 7)->rank), 15);
	mt_recording_free(&recording);
}

#define RING(samples, records)                                                                     \
	"{\"pid\":9,\"comm\":\"b\",\"time_ns\":5000,\"rss_bytes\":50,\"heap_live_bytes\":40,"      \
	"\"samples\":[" samples "],\"records\":[" records "]}"
#define SLOT(time, rounds, level)                                                                  \
	"{\"time_ns\":" #time ",\"rss_bytes\":10,\"live_bytes\":5,\"rounds_count\":" #rounds       \
	",\"pressure_level\":" #level "}"

Test(recording, the_ring_of_a_process_is_one_too_with_rounds_and_pressure_where_they_changed)
{
	cr_assert_eq(read_text(RING(SLOT(1000, 4, 0) "," SLOT(2000, 5, 0) "," SLOT(
					    3000, 5, 1) "," SLOT(4000, 5, 0),
				    "{\"time_ns\":2200,\"number\":1,\"level\":\"light\",\"rss_"
				    "before_bytes\":9,\"rss_after_bytes\":4}")),
		     MT_ERR_OK, "%s", why.text);

	cr_assert_eq(recording.samples_count, 5); /* and one of now */
	cr_expect_eq(recording.samples[4].bytes[MT_RECORDING_LIVE], 40);
	cr_expect_eq(recording.samples[0].bytes[MT_RECORDING_LIVE], 5);
	cr_assert_eq(recording.marks_count, 4);
	cr_expect(recording.marks[0].kind == MT_RECORDING_ROUND && recording.marks[0].number == 5);
	cr_expect(recording.marks[1].kind == MT_RECORDING_CLEANUP &&
		  recording.marks[1].freed_bytes == 5);
	cr_expect(recording.marks[2].level == MT_PRESSURE_WARN &&
		  recording.marks[3].level == MT_PRESSURE_NONE);
	mt_recording_free(&recording);
}

Test(recording, of_a_ring_that_is_printed_again_and_again_each_sample_counts_once)
{
	cr_assert_eq(read_text(RING(SLOT(1000, 0, 0) "," SLOT(2000, 0, 0),
				    "") "\n" RING(SLOT(2000, 0, 0) "," SLOT(6000, 0, 0), "") "\n"),
		     MT_ERR_OK, "%s", why.text);

	cr_expect_eq(recording.samples_count, 4);
	mt_recording_free(&recording);
}

Test(recording, any_half_of_a_file_is_read_or_refused)
{
	static const char text[] = HEADER SAMPLE(
		2000,
		10) "{\"kind\":\"round\",\"time_ns\":2500,\"pid\":7,\"number\":3}\n" SAMPLE(3000,
											    20);

	for (size_t length = 0; length < sizeof(text); length++)
		if (read_bytes(text, length) == MT_ERR_OK) {
			cr_expect_geq(recording.samples_count, 1);
			mt_recording_free(&recording);
		}
}

Test(recorder, samples_often_at_first_and_once_a_second_in_a_long_run)
{
	const struct mt_recorder_options automatic = {0}, fixed = {.interval_ns = 5000000};
	const uint64_t second = 1000000000;

	cr_expect_eq(mt_recorder_interval_ns(&automatic, 0), second / 10);
	cr_expect_eq(mt_recorder_interval_ns(&automatic, 60 * second), second / 10);
	cr_expect_eq(mt_recorder_interval_ns(&automatic, 300 * second), second / 2);
	cr_expect_eq(mt_recorder_interval_ns(&automatic, 600 * second), second);
	cr_expect_eq(mt_recorder_interval_ns(&automatic, 7 * 86400 * second), second);
	cr_expect_eq(mt_recorder_interval_ns(&fixed, 7 * 86400 * second), fixed.interval_ns);
}

Test(recording, the_cpu_time_is_that_of_the_end_or_else_what_passed_between_samples)
{
#define CPU_SAMPLE(time, cpu)                                                                      \
	"{\"kind\":\"sample\",\"time_ns\":" #time ",\"pid\":7,\"rss_bytes\":1,\"cpu_ns\":" #cpu    \
	"}\n"
	cr_assert_eq(read_text(HEADER CPU_SAMPLE(2000, 500) CPU_SAMPLE(3000, 700)), MT_ERR_OK);
	cr_expect_eq(recording.cpu_ns, 200);
	mt_recording_free(&recording);
	cr_assert_eq(read_text(HEADER CPU_SAMPLE(2000, 500) CPU_SAMPLE(
			     3000,
			     700) "{\"kind\":\"end\",\"time_ns\":4000,\"pid\":7,\"cpu_ns\":900}\n"),
		     MT_ERR_OK);
	cr_expect_eq(recording.cpu_ns, 900);
	mt_recording_free(&recording);
	cr_assert_eq(read_text(HEADER SAMPLE(2000, 10)), MT_ERR_OK);
	cr_expect_eq(recording.cpu_ns, MT_RECORDING_UNKNOWN);
	mt_recording_free(&recording);
}
