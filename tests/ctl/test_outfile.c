/* test_outfile.c -- ctl/outfile and what ctl/text opens: names that others may have prepared. The
 * folder is as /tmp is, or not. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ctl/output/outfile.h"
#include "ctl/output/text.h"
#include "ctl/process/read_file.h"

static char folder[64];

static void begin(void)
{
	strcpy(folder, "/tmp/mtshim-outfile-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);
}

/* Criterion runs no .fini behind a skip. */
static void skip(const char *reason)
{
	end();
	cr_skip_test("%s", reason);
}

TestSuite(outfile, .init = begin, .fini = end);
TestSuite(text_file, .init = begin, .fini = end);

static const char *path_of(const char *name)
{
	static char paths[4][128];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const char *text)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static off_t size_of(const char *name)
{
	struct stat seen;

	return stat(path_of(name), &seen) == 0 ? seen.st_size : -1;
}

static enum mt_err try_open(const char *name)
{
	struct mt_error_reason why;
	int fd = -1;
	enum mt_err error = mt_outfile_open(path_of(name), 0600, &fd, &why);

	cr_expect_eq(fd >= 0, error == MT_ERR_OK);
	if (fd >= 0)
		close(fd);
	return error;
}

Test(outfile, makes_a_file_that_is_not_there_for_its_owner_single)
{
	struct stat seen;

	umask(0);
	chmod(folder, 01777);
	cr_expect_eq(try_open("new"), MT_ERR_OK);
	cr_assert_eq(stat(path_of("new"), &seen), 0);
	cr_expect_eq(seen.st_mode & 07777, 0600);
}

Test(outfile, empties_a_file_of_ones_own)
{
	chmod(folder, 01777);
	write_file("own", "old");
	cr_expect_eq(try_open("own"), MT_ERR_OK);
	cr_expect_eq(size_of("own"), 0);
}

Test(outfile, in_a_folder_of_everybodys_leaves_a_file_of_two_names_single)
{
	write_file("precious", "text");
	cr_assert_eq(link(path_of("precious"), path_of("other")), 0);
	chmod(folder, 01777);
	cr_expect_eq(try_open("other"), MT_ERR_FOREIGN);
	cr_expect_eq(size_of("precious"), 4);
	chmod(folder, 0755);
	cr_expect_eq(try_open("other"), MT_ERR_OK, "elsewhere it is one's own doing");
}

Test(outfile, in_a_folder_of_everybodys_leaves_what_is_another_users_single)
{
	if (geteuid() != 0)
		skip("needs root");
	write_file("precious", "text");
	write_file("file", "text");
	cr_assert_eq(symlink(path_of("precious"), path_of("link")), 0);
	cr_assert_eq(mkfifo(path_of("fifo"), 0666), 0);
	cr_assert_eq(chown(path_of("file"), 65534, 65534) | lchown(path_of("link"), 65534, 65534) |
			     chown(path_of("fifo"), 65534, 65534),
		     0);
	chmod(folder, 01777);
	cr_expect_eq(try_open("file"), MT_ERR_FOREIGN);
	cr_expect_eq(try_open("link"), MT_ERR_FOREIGN);
	cr_expect_eq(try_open("fifo"), MT_ERR_FOREIGN, "and it does not wait for a reader");
	cr_expect_eq(size_of("precious"), 4);
	cr_expect_eq(size_of("file"), 4);
	chmod(folder, 0755);
	cr_expect_eq(try_open("file"), MT_ERR_OK);
}

Test(outfile, in_a_folder_that_its_group_may_write_takes_ones_own_files_and_those_of_its_owner)
{
	if (geteuid() != 0)
		skip("needs root");
	write_file("own", "text");
	write_file("his", "text");
	cr_assert_eq(chown(path_of("his"), 65534, 65534), 0);
	cr_assert_eq(chown(folder, 0, 65534) | chmod(folder, 02775), 0);
	cr_expect_eq(try_open("own"), MT_ERR_OK);
	cr_expect_eq(try_open("his"), MT_ERR_FOREIGN);
	cr_expect_eq(size_of("his"), 4);
	cr_assert_eq(link(path_of("own"), path_of("second")), 0);
	cr_expect_eq(try_open("own"), MT_ERR_FOREIGN);
	cr_assert_eq(chown(folder, 65534, 65534), 0);
	cr_expect_eq(try_open("his"), MT_ERR_OK, "its owner may do anything to it there");
}

Test(outfile, follows_no_link_of_another_users_anywhere_in_the_path)
{
	if (geteuid() != 0)
		skip("needs root");
	cr_assert_eq(mkdir(path_of("own"), 0700), 0);
	write_file("own/precious", "text");
	cr_assert_eq(symlink("own", path_of("folder")), 0);
	cr_expect_eq(try_open("folder/new"), MT_ERR_OK, "of one's own");
	cr_assert_eq(lchown(path_of("folder"), 65534, 65534), 0);
	cr_expect_eq(try_open("folder/precious"), MT_ERR_FOREIGN);
	cr_expect_eq(try_open("folder/other"), MT_ERR_FOREIGN);
	cr_expect_eq(size_of("own/precious"), 4);
	cr_expect_eq(size_of("own/other"), -1);
}

Test(outfile, in_a_folder_of_another_users_empties_nothing_that_has_a_second_name)
{
	if (geteuid() != 0)
		skip("needs root");
	write_file("precious", "text");
	cr_assert_eq(mkdir(path_of("his"), 0755) | chown(path_of("his"), 65534, 65534), 0);
	cr_assert_eq(link(path_of("precious"), path_of("his/name")), 0);
	cr_expect_eq(try_open("his/name"), MT_ERR_FOREIGN);
	cr_expect_eq(size_of("precious"), 4);
}

Test(outfile, follows_links_of_ones_own_as_far_as_the_kernel_would)
{
	write_file("last", "old");
	cr_assert_eq(symlink("last", path_of("b")) | symlink(path_of("b"), path_of("a")) |
			     symlink("loop", path_of("loop")),
		     0);
	cr_assert_eq(symlink("new", path_of("dangling")) | mkdir(path_of("sub"), 0700) |
			     symlink("../a", path_of("sub/c")),
		     0);
	chmod(folder, 01777);

	cr_expect_eq(try_open("sub/../sub//c"), MT_ERR_OK);
	cr_expect_eq(size_of("last"), 0);
	cr_expect_eq(try_open("dangling"), MT_ERR_OK);
	cr_expect_eq(size_of("new"), 0);
	cr_expect_eq(try_open("loop"), MT_ERR_SYSTEM);
	cr_expect_eq(try_open("none/file"), MT_ERR_SYSTEM);
	cr_expect_eq(try_open("last/file"), MT_ERR_SYSTEM);
	cr_expect_eq(try_open("sub"), MT_ERR_SYSTEM);
	cr_expect_eq(try_open("sub/"), MT_ERR_SYSTEM);
}

Test(outfile, takes_what_proc_says_of_our_own_files_and_names_without_a_folder)
{
	struct mt_error_reason why;
	char path[64];
	int fd = open(path_of("open"), O_RDWR | O_CREAT, 0600), again = -1;

	cr_assert_eq(write(fd, "old", 3), 3);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cr_assert_eq(unlink(path_of("open")), 0);
	cr_expect_eq(mt_outfile_open(path, 0600, &again, &why), MT_ERR_OK, "%s", why.text);
	cr_expect_eq(lseek(again, 0, SEEK_END), 0);
	close(again);
	cr_assert_eq(chdir(folder), 0);
	cr_expect_eq(mt_outfile_open("name", 0600, &again, &why), MT_ERR_OK, "%s", why.text);
	close(again);
	cr_expect_eq(size_of("name"), 0);
	cr_expect_eq(mt_outfile_open("/dev/null", 0600, &again, &why), MT_ERR_OK, "%s", why.text);
	close(again);
	close(fd);
}

/* Somebody who is quick: when a file is looked at it is a link to what is to be lost by then. */
static const char *victim, *place;

int openat(int at, const char *name, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, mode_t);
	va_end(arguments);
	if (victim && (flags & O_PATH)) {
		unlink(place);
		cr_assert_eq(symlink(victim, place) | lchown(place, 65534, 65534), 0);
	}
	return (int)syscall(SYS_openat, at, name, flags, mode);
}

Test(outfile, is_not_led_elsewhere_by_who_is_quick)
{
	enum mt_err error;

	if (geteuid() != 0)
		skip("needs root");
	write_file("precious", "text");
	write_file("name", "own");
	chmod(folder, 01777);
	victim = path_of("precious");
	place = path_of("name");
	error = try_open("name");
	victim = NULL;
	cr_expect_eq(error, MT_ERR_FOREIGN);
	cr_expect_eq(size_of("precious"), 4);
}

Test(outfile, follows_ones_own_links_and_writes_to_devices)
{
	chmod(folder, 01777);
	cr_assert_eq(symlink("target", path_of("link")), 0);
	cr_expect_eq(try_open("link"), MT_ERR_OK);
	cr_expect_eq(size_of("target"), 0);
	cr_assert_eq(symlink("/dev/null", path_of("null")), 0);
	cr_expect_eq(try_open("null"), MT_ERR_OK);
	cr_expect_eq(try_open("no/such/folder"), MT_ERR_SYSTEM);
}

Test(outfile, says_the_name_and_the_reason)
{
	struct mt_error_reason why;
	int fd = -1;

	cr_expect_eq(mt_outfile_open("/proc/no/such", 0600, &fd, &why), MT_ERR_SYSTEM);
	cr_expect_str_eq(why.text, "/proc/no/such: No such file or directory");
	cr_expect_eq(mt_outfile_open("", 0600, &fd, &why), MT_ERR_SYSTEM);
	cr_expect_eq(fd, -1);
}

/* ---- what is read by a name from elsewhere ---- */

Test(text_file, is_a_regular_file_or_nothing)
{
	static const char *const names[] = {"fifo", "link", "device", "folder"};

	cr_assert_eq(mkfifo(path_of("fifo"), 0600) | symlink("fifo", path_of("link")) |
			     symlink("/dev/zero", path_of("device")) |
			     mkdir(path_of("folder"), 0700),
		     0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		errno = 0;
		cr_expect_null(mt_read_file(path_of(names[i]), NULL), "%s", names[i]);
		cr_expect_eq(errno, EINVAL);
	}
	cr_expect_null(mt_read_file(path_of("nothing"), NULL));
	cr_expect_eq(errno, ENOENT);
}

Test(text_file, is_read_whole_by_its_own_name_or_a_link)
{
	size_t length = 0;
	char *text;

	write_file("file", "one\ntwo\n");
	cr_assert_eq(symlink("file", path_of("link")), 0);
	text = mt_read_file(path_of("link"), &length);
	cr_assert_not_null(text);
	cr_expect_str_eq(text, "one\ntwo\n");
	cr_expect_eq(length, 8);
	free(text);
	text = mt_read_file("/proc/self/status", &length);
	cr_expect(text && length > 100 && strstr(text, "Name:"));
	free(text);
}

Test(text_file, that_the_user_has_named_may_be_a_pipe)
{
	char name[64], *text;
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(write(ends[1], "piped", 5), 5);
	close(ends[1]);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", ends[0]);
	text = mt_read_file_stream(name, NULL);
	cr_assert_not_null(text);
	cr_expect_str_eq(text, "piped");
	free(text);
	close(ends[0]);
}

Test(text_file, leaves_no_descriptor_behind)
{
	int before = open("/dev/null", O_RDONLY), after;

	close(before);
	free(mt_read_file("/proc/self/status", NULL));
	(void)mt_read_file("/dev/zero", NULL);
	after = open("/dev/null", O_RDONLY);
	cr_expect_eq(before, after);
	close(after);
}
