/* test_log.c -- core/log: the formatter, and where a line goes when its way is blocked. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/config.h"
#include "core/log.h"
#include "sys/format.h"

static char directory[64];

static void make_directory(void)
{
	strcpy(directory, "/tmp/mtshim-log-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
}

static void remove_directory(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	cr_assert_eq(system(command), 0);
}

TestSuite(log, .init = make_directory, .fini = remove_directory);

/* Reads the settings: MT_LOG=directory/name and a level; each may be NULL. */
static void configure(const char *name, const char *level)
{
	static char log[128];
	static char log_level[64];
	const char *list[3] = {NULL};
	size_t count = 0;

	snprintf(log, sizeof(log), "MT_LOG=%s/%s", directory, name == NULL ? "" : name);
	snprintf(log_level, sizeof(log_level), "MT_LOG_LEVEL=%s", level == NULL ? "" : level);
	if (name != NULL)
		list[count++] = log;
	if (level != NULL)
		list[count++] = log_level;
	mt_config_read(list);
}

/* Checks the time in what each line begins with, and removes it. */
static void take_times(char *text)
{
	char start[32];
	int length = snprintf(start, sizeof(start), "mtshim[%d] ", getpid());

	for (char *at = text; (at = strstr(at, start)); at += length) {
		struct tm when = {0};
		struct timespec now;
		unsigned ms;
		int end = 0;

		/* time(2) is of the last timer tick, and may be a second behind the line */
		clock_gettime(CLOCK_REALTIME, &now);
		if (sscanf(at + length, "%4d-%2d-%2dT%2d:%2d:%2d.%3uZ: %n", &when.tm_year,
			   &when.tm_mon, &when.tm_mday, &when.tm_hour, &when.tm_min, &when.tm_sec,
			   &ms, &end) != 7 ||
		    end != 26)
			continue;
		when.tm_year -= 1900;
		when.tm_mon--;
		cr_expect(timegm(&when) <= now.tv_sec && timegm(&when) > now.tv_sec - 600);
		/* "mtshim[12] TIME: text" becomes "mtshim[12]: text" */
		memmove(at + length - 1, at + length + end - 2, strlen(at + length + end - 2) + 1);
	}
}

static char *raw_contents(const char *name)
{
	static char text[8192];
	char path[128];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return NULL;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got < 0 ? 0 : got] = '\0';
	return text;
}

static const char *contents(const char *name)
{
	char *text = raw_contents(name);

	if (text)
		take_times(text);
	return text;
}

/* Puts a file of the directory in the place of stderr. */
static void stderr_to(const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_geq(dup2(fd, STDERR_FILENO), 0);
	close(fd);
}

static const char *prefixed(const char *text)
{
	static char line[512];

	snprintf(line, sizeof(line), "mtshim[%d]: %s", getpid(), text);
	return line;
}

#define SAME(...)                                                                                  \
	do {                                                                                       \
		char theirs[256];                                                                  \
		char ours[256];                                                                    \
		int want = snprintf(theirs, sizeof(theirs), __VA_ARGS__);                          \
                                                                                                   \
		cr_expect_eq(mt_format(ours, sizeof(ours), __VA_ARGS__), (size_t)want);            \
		cr_expect_str_eq(ours, theirs);                                                    \
	} while (0)

Test(log, formats_as_libc_does)
{
	SAME("plain");
	SAME("%s and %s", "one", "");
	SAME("%d %d %d %d", 0, -1, INT_MAX, INT_MIN);
	SAME("%ld %ld %lld %lld", LONG_MAX, LONG_MIN, LLONG_MAX, LLONG_MIN);
	SAME("%u %lu %llu", UINT_MAX, ULONG_MAX, ULLONG_MAX);
	SAME("%x %lx %llx %zx", 0xbeefu, 0x1234567890abcdeful, ULLONG_MAX, (size_t)0);
	SAME("%zu %zd", SIZE_MAX, (ssize_t)-5);
	SAME("%c%c%%", 'a', 'z');
	SAME("%.*s|%.*s|%.*s", 3, "abcdef", 0, "abc", 9, "abc");
	SAME("%.*s", -1, "whole");
	SAME("%s %d %s %u %s %x %s %c", "many", 1, "arguments", 2u, "of", 3u, "all", '4');
}

Test(log, reads_no_further_than_a_precision)
{
	char unended[3] = {'a', 'b', 'c'};
	char out[8];

	cr_expect_eq(mt_format(out, sizeof(out), "%.*s", 3, unended), 3);
	cr_expect_str_eq(out, "abc");
}

Test(log, stops_at_what_it_does_not_understand)
{
	/* no literal: the compiler knows only printf's rules */
	const char *volatile format = "%d then %5d %s";
	char out[64];

	mt_format(out, sizeof(out), format, 1, 2, "three");
	cr_expect_str_eq(out, "1 then %5d %s");
	format = "half a %";
	mt_format(out, sizeof(out), format);
	cr_expect_str_eq(out, "half a %");
	format = "%l";
	mt_format(out, sizeof(out), format, 3L);
	cr_expect_str_eq(out, "%l");
	format = "%s";
	mt_format(out, sizeof(out), format, (char *)NULL);
	cr_expect_str_eq(out, "(null)");
}

Test(log, cuts_to_the_buffer_and_always_ends_it)
{
	char out[16];

	for (size_t bytes = 1; bytes <= 8; bytes++) {
		memset(out, '#', sizeof(out));
		cr_expect_eq(mt_format(out, bytes, "%s%d", "ab", 123456), bytes - 1);
		cr_expect_eq(out[bytes - 1], '\0');
		cr_expect_eq(strncmp(out, "ab123456", bytes - 1), 0);
		cr_expect_eq(out[bytes], '#');
	}
	memset(out, '#', sizeof(out));
	cr_expect_eq(mt_format(out, 0, "abc"), 0);
	cr_expect_eq(out[0], '#');
}

Test(log, writes_to_stderr_from_warn_up_until_told_otherwise)
{
	stderr_to("err");
	mt_log(MT_LOG_INFO, "not this");
	mt_log(MT_LOG_WARN, "but %s", "this");
	cr_expect_str_eq(contents("err"), prefixed("warn: but this\n"));
}

Test(log, appends_to_its_file_readable_by_its_user_single)
{
	char name[64];
	char path[160];
	struct stat st;

	stderr_to("err");
	configure("log.%p", "debug");
	mt_log(MT_LOG_DEBUG, "first");
	mt_log(MT_LOG_ERROR, "second");
	snprintf(name, sizeof(name), "log.%d", getpid());
	cr_assert_not_null(contents(name));
	cr_expect(strstr(contents(name), prefixed("debug: first\n")) == contents(name));
	cr_expect_not_null(strstr(contents(name), prefixed("error: second\n")));
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0600);
	cr_expect_str_empty(contents("err"));
}

Test(log, leaves_no_descriptor_and_keeps_errno)
{
	int before = open("/dev/null", O_RDONLY);
	int after;

	stderr_to("err");
	configure("log", "info");
	errno = 4711;
	mt_log(MT_LOG_INFO, "written");
	cr_expect_eq(errno, 4711);
	mt_log(MT_LOG_DEBUG, "not written");
	cr_expect_eq(errno, 4711);
	configure("no/such/directory/log", NULL);
	errno = 4711;
	mt_log(MT_LOG_WARN, "to stderr");
	cr_expect_eq(errno, 4711);
	after = open("/dev/null", O_RDONLY);
	cr_expect_eq(after, before + 1);
}

Test(log, says_once_that_its_file_cannot_be_opened_and_goes_on_to_stderr)
{
	char path[128];
	char target[128];

	snprintf(path, sizeof(path), "%s/link", directory);
	snprintf(target, sizeof(target), "%s/target", directory);
	cr_assert_eq(symlink(target, path), 0);
	stderr_to("err");
	configure("link", NULL);
	mt_log(MT_LOG_WARN, "one");
	mt_log(MT_LOG_WARN, "two");
	cr_expect_null(contents("target"), "a symlink is not followed");
	cr_expect_not_null(strstr(
		contents("err"), "/link: cannot be opened for writing (errno 40); using stderr\n"));
	cr_expect_not_null(strstr(contents("err"), prefixed("warn: one\nmtshim[")), "%s",
			   contents("err"));
	cr_expect_not_null(strstr(contents("err"), prefixed("warn: two\n")));
	cr_expect_eq(strstr(strstr(contents("err"), "cannot") + 1, "cannot"), NULL);
}

/* What lies in the place of the log, in a folder of everybody's or not: does a line get there? */
static bool takes_a_line(const char *name, mode_t folder_mode)
{
	struct stat before;
	struct stat after;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	cr_assert_eq(chmod(directory, folder_mode), 0);
	cr_assert_eq(stat(path, &before), 0);
	configure(name, NULL);
	mt_log(MT_LOG_WARN, "a line");
	cr_assert_eq(stat(path, &after), 0);
	return after.st_size > before.st_size;
}

static void make_log(const char *name, const char *other_name, uid_t owner)
{
	char path[128];
	char other[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	snprintf(other, sizeof(other), "%s/%s", directory, other_name == NULL ? "" : other_name);
	fd = open(path, O_WRONLY | O_CREAT, 0666);
	cr_assert_geq(fd, 0);
	close(fd);
	cr_assert(other_name == NULL || link(path, other) == 0);
	cr_assert(geteuid() != 0 || chown(path, owner, owner) == 0);
}

Test(log, writes_into_no_file_that_another_user_may_have_put_there)
{
	stderr_to("err");
	make_log("own", NULL, geteuid());
	cr_expect(takes_a_line("own", 01777));
	make_log("linked", "other_name", geteuid());
	cr_expect_not(takes_a_line("linked", 01777));
	cr_expect(takes_a_line("linked", 0755),
		  "where nobody else makes files it is one's own doing");
	cr_expect_not_null(strstr(contents("err"), "/linked: cannot be opened for writing (another "
						   "user's, or a file of more than one "
						   "name: errno 1); using stderr\n"),
			   "%s", contents("err"));
	cr_expect_not_null(strstr(contents("err"), prefixed("warn: a line\n")));
	if (geteuid() != 0)
		return;
	make_log("foreign", NULL, 65534);
	cr_expect_not(takes_a_line("foreign", 01777));
	cr_expect(takes_a_line("foreign", 0755));
}

Test(log, makes_one_line_of_at_most_1000_bytes_of_anything)
{
	char text[3000];
	const char *line;

	for (size_t i = 0; i < sizeof(text) - 1; i++)
		text[i] = (char)(i < 40 ? i % 32 + 1 : 'x');
	text[sizeof(text) - 1] = '\0';
	stderr_to("err");
	mt_log(MT_LOG_WARN, "%s", text);
	line = raw_contents("err");
	cr_expect_eq(strlen(line), 1000);
	cr_expect_eq(strchr(line, '\n'), line + 999);
	cr_expect_str_eq(line + 996, "...\n");
	for (const char *c = line; c < line + 999; c++)
		cr_assert((unsigned char)*c >= ' ' && *c != 0x7f);
}

Test(log, cuts_between_characters_and_leaves_whole_ones_single)
{
	char text[2001];

	for (size_t i = 0; i < 2000; i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	text[2000] = '\0';
	for (int shift = 0; shift < 2; shift++) {
		const char *line;
		size_t length;

		stderr_to(shift == 0 ? "even" : "odd");
		mt_log(MT_LOG_WARN, "%s%s", shift == 0 ? "" : "x", text);
		line = raw_contents(shift == 0 ? "even" : "odd");
		length = strlen(line);
		cr_expect_geq(length, 999);
		cr_expect_str_eq(line + length - 6, "\xc3\xa9...\n");
	}
	stderr_to("c1");
	mt_log(MT_LOG_WARN, "caf\xc3\xa9 \xc2\x9b"
			    "31m");
	cr_expect_str_eq(contents("c1"), prefixed("warn: caf\xc3\xa9 ??31m\n"));
}

Test(log, survives_a_stderr_that_is_closed_or_read_only)
{
	close(STDERR_FILENO);
	mt_log(MT_LOG_WARN, "nowhere");
	cr_assert_eq(open("/dev/null", O_RDONLY), STDERR_FILENO);
	errno = 0;
	mt_log(MT_LOG_WARN, "nowhere");
	cr_expect_eq(errno, 0);
}

Test(log, is_not_killed_by_a_pipe_without_a_reader)
{
	sigset_t pending;
	int ends[2];

	signal(SIGPIPE, SIG_DFL);
	cr_assert_eq(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[0]);
	mt_log(MT_LOG_WARN, "into the void");
	sigpending(&pending);
	cr_expect_not(sigismember(&pending, SIGPIPE));
}

Test(log, is_not_killed_by_a_limit_on_the_size_of_files)
{
	const struct rlimit nothing = {0, RLIM_INFINITY};
	const struct rlimit before = {RLIM_INFINITY, RLIM_INFINITY};
	sigset_t pending;

	signal(SIGXFSZ, SIG_DFL);
	stderr_to("err");
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &nothing), 0);
	mt_log(MT_LOG_WARN, "one line too many");
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
	sigpending(&pending);
	cr_expect_not(sigismember(&pending, SIGXFSZ));
	cr_expect_str_empty(contents("err"));
}

/* A socket whose other end is gone takes a line, says poll, and then raises SIGPIPE: the mask has
 * to catch that. */
Test(log, is_not_killed_by_a_socket_without_a_reader)
{
	sigset_t before;
	sigset_t after;
	int ends[2];

	signal(SIGPIPE, SIG_DFL);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[0]);
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	mt_log(MT_LOG_WARN, "into the void");
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int number = 1; number < NSIG; number++)
		cr_expect_eq(sigismember(&before, number), sigismember(&after, number), "%d",
			     number);
}

static void *close_later(void *fd)
{
	usleep(300 * 1000);
	close(*(int *)fd);
	return NULL;
}

Test(log, does_not_wait_for_a_pipe_that_is_full)
{
	char block[4096] = {0};
	pthread_t thread;
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (write(ends[1], block, sizeof(block)) > 0)
		;
	fcntl(ends[1], F_SETFL, 0);
	dup2(ends[1], STDERR_FILENO);
	pthread_create(&thread, NULL, close_later, &ends[0]);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < 100; i++)
		mt_log(MT_LOG_WARN, "dropped");
	cr_expect_eq(fcntl(ends[0], F_GETFD), 0, "it came back while the reader was still there");
	pthread_join(thread, NULL);
}

Test(log, does_not_wait_for_the_reader_of_a_fifo)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/fifo", directory);
	cr_assert_eq(mkfifo(path, 0600), 0);
	stderr_to("err");
	configure("fifo", NULL);
	mt_log(MT_LOG_WARN, "here");
	cr_expect_not_null(strstr(contents("err"), prefixed("warn: here\n")));
}

/* A thread that a cancellation waits for must not unwind out of a line: it may stand inside malloc.
 */
static void *log_while_cancelled(void *reached)
{
	pthread_cancel(pthread_self());
	mt_log(MT_LOG_WARN, "still here");
	*(int *)reached = 1;
	pthread_testcancel();
	*(int *)reached = 2;
	return NULL;
}

Test(log, is_no_cancellation_point)
{
	pthread_t thread;
	int reached = 0;

	stderr_to("err");
	configure("log", NULL);
	cr_assert_eq(pthread_create(&thread, NULL, log_while_cancelled, &reached), 0);
	pthread_join(thread, NULL);
	cr_expect_eq(reached, 1);
	cr_expect_str_eq(contents("log"), prefixed("warn: still here\n"));
}

static void *log_many(void *number)
{
	for (int i = 0; i < 200; i++)
		mt_log(MT_LOG_WARN, "thread %d line %d of some length to be torn apart",
		       *(int *)number, i);
	return NULL;
}

Test(log, does_not_mix_the_lines_of_threads)
{
	char path[128];
	char line[256];
	pthread_t threads[4];
	int numbers[4];
	int count = 0;
	int thread;
	int which;
	int end;
	FILE *file;

	configure("log", NULL);
	for (int i = 0; i < 4; i++) {
		numbers[i] = i;
		pthread_create(&threads[i], NULL, log_many, &numbers[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	snprintf(path, sizeof(path), "%s/log", directory);
	file = fopen(path, "r");
	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file) != NULL) {
		end = 0;
		cr_expect_eq(sscanf(line,
				    "mtshim[%*d] %*s warn: thread %d line %d of some length to be "
				    "torn apart\n%n",
				    &thread, &which, &end),
			     2);
		cr_expect_eq((size_t)end, strlen(line));
		count++;
	}
	fclose(file);
	cr_expect_eq(count, 800);
}
