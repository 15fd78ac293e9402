/* test_text.c -- ctl/text: files whose names another user may have chosen. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/output/text.h"
#include "ctl/process/read_file.h"

static char folder[64];

static void begin(void)
{
	strcpy(folder, "/tmp/mtshim-text-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(text, .init = begin, .fini = end);

static const char *in_folder(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void put(const char *name, const char *content)
{
	FILE *file = fopen(in_folder(name), "w");

	cr_assert_not_null(file);
	cr_assert(fputs(content, file) >= 0);
	cr_assert_eq(fclose(file), 0);
}

Test(text, a_regular_file_is_read_also_behind_a_link)
{
	char target[128];
	size_t length = 0;
	char *text;

	put("file", "12 MB\n");
	strcpy(target, in_folder("file"));
	cr_assert_eq(symlink(target, in_folder("link")), 0);
	text = mt_read_file(in_folder("link"), &length);
	cr_assert_not_null(text);
	cr_expect_str_eq(text, "12 MB\n");
	cr_expect_eq(length, 6);
	free(text);
	text = mt_read_file("/proc/self/status", &length);
	cr_assert_not_null(text);
	cr_expect_eq(strlen(text), length);
	free(text);
}

/* MT_CGROUP of somebody's process may name a directory of theirs, and root's mtctl reads
 * memory.current there. */
Test(text, a_pipe_in_the_place_of_a_file_is_not_waited_for)
{
	cr_assert_eq(mkfifo(in_folder("memory.current"), 0600), 0);
	errno = 0;
	cr_expect_null(mt_read_file(in_folder("memory.current"), NULL));
	cr_expect_eq(errno, EINVAL);
}

/* To open a watchdog is to start it, and to open a tape is to wind it. */
Test(text, a_device_in_the_place_of_a_file_is_not_opened)
{
	cr_assert_eq(symlink("/dev/zero", in_folder("memory.current")), 0);
	errno = 0;
	cr_expect_null(mt_read_file(in_folder("memory.current"), NULL));
	cr_expect_eq(errno, EINVAL);
}

Test(text, what_is_not_there_is_told_by_its_errno)
{
	errno = 0;
	cr_expect_null(mt_read_file(in_folder("nothing"), NULL));
	cr_expect_eq(errno, ENOENT);
	errno = 0;
	cr_expect_null(mt_read_file(folder, NULL));
	cr_expect_eq(errno, EINVAL, "a directory");
}

Test(text, no_descriptor_is_kept)
{
	int before = dup(0), after;

	close(before);
	put("file", "1\n");
	for (int i = 0; i < 3; i++) {
		free(mt_read_file(in_folder("file"), NULL));
		free(mt_read_file("/dev/null", NULL));
	}
	after = dup(0);
	close(after);
	cr_expect_eq(after, before);
}

/* A process with a hundred thousand mappings has more of them than that, and sums over half of them
 * are wrong ones. */
Test(text, a_file_that_is_too_long_is_an_error_and_not_the_half_of_it)
{
	size_t length = 0;
	char *text;

	put("long", "0123456789");
	cr_expect_null(mt_read_file_max(in_folder("long"), 4, &length));
	cr_expect_eq(errno, EFBIG);
	text = mt_read_file_max(in_folder("long"), 11, &length);
	cr_assert_not_null(text);
	cr_expect_str_eq(text, "0123456789");
	free(text);
	cr_assert_eq(truncate(in_folder("long"), (off_t)65 << 20), 0);
	cr_expect_null(mt_read_file(in_folder("long"), &length));
	cr_expect_eq(errno, EFBIG);
}

/* What a forged file says may come to more than there are bytes; a conversion that has no room is
 * undefined. */
Test(text, a_figure_that_was_computed_is_whole_again_whatever_it_is)
{
	cr_expect_eq(mt_text_round_u64(0), 0);
	cr_expect_eq(mt_text_round_u64(12.9), 12);
	cr_expect_eq(mt_text_round_u64(-5), 0);
	cr_expect_eq(mt_text_round_u64(18446744073709549568.0), 18446744073709549568u,
		     "the last that has room");
	cr_expect_eq(mt_text_round_u64(18446744073709551616.0), UINT64_MAX);
	cr_expect_eq(mt_text_round_u64(1e300), UINT64_MAX);
	cr_expect_eq(mt_text_round_u64((double)INFINITY), UINT64_MAX);
	cr_expect_eq(mt_text_round_u64((double)NAN), 0);
}

Test(text, what_was_not_typed_to_its_end_is_meant_before_what_looks_alike)
{
	static const char *const words[] = {"only", "framework_decay_ms", "idle_longer_ms",
					    "idle_ms", "trim"};

	cr_expect_str_eq(mt_text_nearest("idle", words, 5), "idle_ms", "and the shortest of those");
	cr_expect_str_eq(mt_text_nearest("framework", words, 5), "framework_decay_ms",
			 "however long it is");
	cr_expect_str_eq(mt_text_nearest("tirm", words, 5), "trim");
	cr_expect_str_eq(mt_text_nearest("idel_ms", words, 5), "idle_ms");
	cr_expect_null(mt_text_nearest("f", words, 5), "one letter says nothing");
	cr_expect_null(mt_text_nearest("", words, 5));
}

Test(text, one_is_no_plural)
{
	cr_expect_str_eq(mt_text_counted(0, "round has ended", "rounds have ended").text,
			 "0 rounds have ended");
	cr_expect_str_eq(mt_text_counted(1, "round has ended", "rounds have ended").text,
			 "1 round has ended");
	cr_expect_str_eq(mt_text_counted(1234, "block", "blocks").text, "1,234 blocks");
	cr_expect_str_eq(mt_text_counted(UINT64_MAX, "block", "blocks").text,
			 "18,446,744,073,709,551,615 blocks");
}

Test(text, what_markup_gives_a_meaning_to_is_escaped)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	mt_markup_text(to, "<a title=\"x\" id='y'>&\xc3\xa9");
	fclose(to);
	cr_expect_str_eq(text, "&lt;a title=&quot;x&quot; id=&#39;y&#39;&gt;&amp;\xc3\xa9");
	free(text);
}
