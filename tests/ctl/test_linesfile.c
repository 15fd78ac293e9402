/* The file of a look at Python lines, which any process may write. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/stats_layout.h"
#include "ctl/profile/lines.h"
#include "ctl/profile/profile_internal.h"

#define NAMES                                                                                      \
	"/app/train.py\0/usr/lib/python3.11/json/decoder.py\0/venv/lib/python3.11/site-packages/"  \
	"x.py\0"

enum { TRAIN = 0, DECODER = 14, PACKAGE = 50 };

struct content {
	struct mt_lines_stack stacks[2];
	struct mt_lines_frame frames[4];
	char names[96];
};

/* One stack from a library that the program called, and one within the program. */
static struct content good_content(void)
{
	struct content content = {
		.stacks = {{.bytes = {10, 20, 30, 40, 50, 60},
			    .first_count = 1,
			    .last_count = 6,
			    .first_frame = 0,
			    .frames_count = 3},
			   {.bytes = {900, 100, 900, 100, 900, 800},
			    .first_count = 9,
			    .last_count = 8,
			    .first_frame = 3,
			    .frames_count = 1}},
		.frames = {{DECODER, 353}, {PACKAGE, 7}, {TRAIN, 14}, {TRAIN, 20}},
		.names = NAMES,
	};

	return content;
}

static struct mt_lines_head good_head(void)
{
	return (struct mt_lines_head){
		.magic = MT_LINES_MAGIC,
		.version = MT_LINES_VERSION,
		.head_bytes = sizeof(struct mt_lines_head),
		.stack_bytes = sizeof(struct mt_lines_stack),
		.stacks_count = 2,
		.frames_count = 4,
		.names_bytes = sizeof(((struct content *)NULL)->names),
		.readings_count = 6,
		.look_ns = 6000000000,
		.readings_ns = {1000000000},
	};
}

/* Writes the file with right checksums, and reads it. */
static enum mt_err read_back(struct mt_lines_head head, const struct content *content,
			     struct mt_lines_file *out)
{
	int fd = memfd_create("lines", MFD_CLOEXEC);
	struct mt_error_reason why;
	enum mt_err error;

	head.content_sum = mt_stats_checksum(MT_CHECKSUM_START, content, sizeof(*content));
	head.checksum = mt_stats_checksum(MT_CHECKSUM_START, &head,
					  offsetof(struct mt_lines_head, checksum));
	cr_assert_eq(write(fd, &head, sizeof(head)), sizeof(head));
	cr_assert_eq(write(fd, content, sizeof(*content)), sizeof(*content));
	error = mt_lines_file_read(fd, out, &why);
	close(fd);
	return error;
}

static bool is_refused(struct mt_lines_head head, struct content content)
{
	struct mt_lines_file file;

	if (read_back(head, &content, &file) == MT_ERR_INVALID)
		return true;
	mt_lines_file_free(&file);
	return false;
}

Test(lines, are_the_program_s_own_with_steady_growth_first)
{
	struct content content = good_content();
	struct mt_lines_file file;
	struct mt_lines lines;

	cr_assert_eq(read_back(good_head(), &content, &file), MT_ERR_OK);
	mt_lines_read(&file, &lines);

	cr_assert_eq(lines.count, 2);
	cr_expect_str_eq(lines.list[0].file, "/app/train.py");
	cr_expect_eq(lines.list[0].line, 14);
	cr_expect(lines.list[0].is_steady);
	cr_expect_eq(lines.list[0].growth_bytes, 50);
	cr_expect_eq(lines.list[0].growth_count, 5);
	cr_expect_eq(lines.list[1].line, 20);
	cr_expect_not(lines.list[1].is_steady);
	cr_expect_eq(lines.list[1].growth_bytes, -100);
	cr_expect_eq(lines.growth_ns, 5000000000);
	mt_lines_free(&lines);
}

Test(lines, of_one_stack_in_a_library_are_the_innermost_ones)
{
	struct content content = good_content();
	struct mt_lines_file file;
	struct mt_lines lines;

	content.frames[2].name = PACKAGE;
	content.frames[3].name = PACKAGE;
	cr_assert_eq(read_back(good_head(), &content, &file), MT_ERR_OK);
	mt_lines_read(&file, &lines);

	cr_expect_str_eq(lines.list[0].file, "/usr/lib/python3.11/json/decoder.py");
	mt_lines_free(&lines);
}

Test(lines, of_a_single_reading_have_grown_since_the_beginning)
{
	struct content content = good_content();
	struct mt_lines_head head = good_head();
	struct mt_lines_file file;
	struct mt_lines lines;

	head.readings_count = 1;
	cr_assert_eq(read_back(head, &content, &file), MT_ERR_OK);
	mt_lines_read(&file, &lines);

	cr_expect_eq(lines.list[0].growth_bytes, 900);
	cr_expect_eq(lines.growth_ns, head.look_ns);
	mt_lines_free(&lines);
}

Test(lines, that_cannot_be_are_refused)
{
	const struct content good = good_content();
	const struct mt_lines_head head = good_head();
	struct content content;
	struct mt_lines_head bad;

#define HEAD(field, value)                                                                         \
	bad = head;                                                                                \
	bad.field = (value);                                                                       \
	cr_expect(is_refused(bad, good), #field)
#define CONTENT(field, value)                                                                      \
	content = good;                                                                            \
	content.field = (value);                                                                   \
	cr_expect(is_refused(head, content), #field)
	cr_expect_not(is_refused(head, good));
	HEAD(magic, 0);
	HEAD(version, MT_LINES_VERSION + 1);
	HEAD(stack_bytes, 8);
	HEAD(stacks_count, 3);
	HEAD(stacks_count, UINT32_MAX);
	HEAD(frames_count, UINT32_MAX);
	HEAD(names_bytes, 80);
	HEAD(outcome, MT_LINES_OUTCOME_COUNT);
	HEAD(cut, MT_LINES_CUT_COUNT);
	HEAD(readings_count, MT_LINES_READINGS + 1);
	CONTENT(stacks[0].frames_count, 0);
	CONTENT(stacks[0].frames_count, 5);
	CONTENT(stacks[1].first_frame, 4);
	CONTENT(stacks[1].first_frame, UINT32_MAX);
	CONTENT(stacks[0].bytes[3], UINT64_MAX);
	CONTENT(stacks[0].last_count, UINT64_MAX);
	CONTENT(frames[1].name, sizeof(good.names));
	CONTENT(names[sizeof(good.names) - 1], 'x');
#undef HEAD
#undef CONTENT
}

Test(lines, have_names_that_a_terminal_can_show)
{
	struct content content = good_content();
	struct mt_lines_file file;

	content.names[1] = '\033';
	cr_assert_eq(read_back(good_head(), &content, &file), MT_ERR_OK);

	cr_expect_str_eq(file.names, "/?pp/train.py");
	mt_lines_file_free(&file);
}
