#include "sys/raw_syscall.h"
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "core/log_stderr.h"
#include "sys/format.h"
#include "sys/os.h"
#include "sys/path_walk.h"

#define LINE_BYTES          1000u /* of a line, with its newline */
#define KERNEL_SIGSET_BYTES 8u
#define PATH_BYTES          256u /* of MT_LOG */
#define NUMBER_BYTES        16u  /* of a process id, with its NUL */

/* Replaces control characters, so that the text stays on one line and cannot control a terminal.
 * Also the C1 set in UTF-8 (C2 80..9F). */
static void escape_controls(char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < ' ' || c == 0x7f)
			text[i] = '?';
		else if (c >= 0x80 && c <= 0x9f && i > 0 && (unsigned char)text[i - 1] == 0xc2)
			text[i - 1] = text[i] = '?';
	}
}

/* Ends a truncated line with "...", without half a UTF-8 character before it. */
static size_t append_ellipsis(char *line, size_t length)
{
	length -= 3;
	while (length > 0 && ((unsigned char)line[length] & 0xc0) == 0x80)
		length--;
	memcpy(line + length, "...", 3);
	return length + 3;
}

/* Makes a system call for mt_walk. A sandbox may not know readlinkat: there links are not
 * followed. */
static long walk_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if ((number == SYS_readlinkat || number == SYS_fstatfs) && mt_log_is_sandboxed()) {
		errno = EPERM;
		return -1;
	}
	return mt_raw_syscall_call(number, a, b, c, d, e, f);
}

/* Returns whether a file may receive lines. Another user could have made it first, to read them, or
 * hard-linked a file of this user there, to have it overwritten. The kernel's fs.protected_regular
 * and fs.protected_hardlinks may be off. */
static bool is_trusted(int fd, int folder)
{
	struct stat seen;
	struct stat beside;

	if (mt_os_fstat(fd, &seen) != 0)
		return false;
	if (S_ISCHR(seen.st_mode))
		return true;
	return mt_os_fstat(folder, &beside) == 0 && mt_walk_may_write(&seen, &beside, geteuid());
}

/* Never follows a link in the last component. Returns -1 with errno on failure. */
static int open_walked(char *path, size_t room, int flags)
{
	struct mt_walk walk = {.call = walk_syscall,
			       .own = geteuid(),
			       .text = path,
			       .room = room,
			       .folder = -1,
			       .name = path};
	int fd = -1;

	if (mt_walk_to_last(&walk))
		fd = (int)mt_raw_syscall(SYS_openat, walk.folder, walk.name, flags, 0600);
	if (fd >= 0 && !is_trusted(fd, walk.folder)) {
		(void)mt_raw_syscall(SYS_close, fd);
		errno = EPERM;
		fd = -1;
	}
	mt_walk_finish(&walk);
	return fd;
}

/* Opens MT_LOG for one line; -1 where it is unset or cannot be opened. Bare system calls here and
 * below: libc's open, write and close are cancellation points, and a thread that is cancelled
 * inside malloc leaves it broken. */
static int open_file(const char *pattern, int pid)
{
	/* Not blocking: open would wait for the reader of a FIFO. */
	const int flags =
		O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	char path[4 * PATH_BYTES]; /* with space for the targets of links */
	size_t length = 0;

	if (*pattern == '\0')
		return -1;
	errno = ENAMETOOLONG;
	for (const char *at = pattern; *at != '\0'; at++) {
		if (length + NUMBER_BYTES > 2 * PATH_BYTES)
			return -1;
		if (at[0] == '%' && at[1] == 'p') {
			length += mt_format(path + length, NUMBER_BYTES, "%d", pid);
			at++;
		} else {
			path[length++] = *at;
		}
	}
	path[length] = '\0';
	return open_walked(path, sizeof(path), flags);
}

/* Returns whether a write would not block: a thread of the program never waits for the reader of
 * the log, and a pipe without a reader gets no line. True where poll fails. */
static bool fd_is_writable(int fd)
{
	struct pollfd poll = {.fd = fd, .events = POLLOUT};
	struct timespec none = {0};

	if (mt_raw_syscall(SYS_ppoll, &poll, 1, &none, NULL, 0) < 0)
		return true;
	return (poll.revents & (POLLOUT | POLLERR | POLLNVAL)) == POLLOUT;
}

/* Writes a line. A failed write must not end the program: the reader may leave between poll and
 * write (SIGPIPE), and the file may have reached RLIMIT_FSIZE (SIGXFSZ). */
static void write_line(int fd, const char *line, size_t length)
{
	struct timespec none = {0};
	sigset_t blocked;
	sigset_t before;
	sigset_t pending;
	long written;
	int raised = 0;
	bool is_blocked;

	if (!fd_is_writable(fd))
		return;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGPIPE);
	sigaddset(&blocked, SIGXFSZ);
	sigemptyset(&pending);
	is_blocked = pthread_sigmask(SIG_BLOCK, &blocked, &before) == 0;
	(void)sigpending(&pending);
	do
		written = mt_raw_syscall(SYS_write, fd, line, length);
	while (written < 0 && errno == EINTR);
	if (written < 0)
		raised = errno == EPIPE ? SIGPIPE : errno == EFBIG ? SIGXFSZ : 0;
	if (raised && !sigismember(&pending, raised)) {
		sigemptyset(&blocked);
		sigaddset(&blocked, raised);
		(void)mt_raw_syscall(SYS_rt_sigtimedwait, &blocked, NULL, &none,
				     KERNEL_SIGSET_BYTES);
	}
	if (is_blocked)
		(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void write_to_stderr(const char *text, size_t length)
{
	int fd = mt_log_open_stderr();

	if (fd < 0)
		return;
	write_line(fd, text, length);
	mt_log_close_stderr(fd);
}

static bool has_366_days(unsigned year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Splits days since 1970-01-01. libc's functions read the time zone from files, and take a lock. */
static void split_days(uint64_t days, unsigned *out_year, unsigned *out_month, unsigned *out_day)
{
	static const unsigned char lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	unsigned year = 1970;
	unsigned month = 0;
	unsigned length;

	for (length = 365; days >= length; length = has_366_days(year) ? 366 : 365) {
		days -= length;
		year++;
	}
	for (length = 31; days >= length && month < 11;
	     length = lengths[month] + (month == 1 && has_366_days(year))) {
		days -= length;
		month++;
	}
	*out_year = year;
	*out_month = month + 1;
	*out_day = (unsigned)days + 1;
}

/* Writes a number with leading zeros. Returns the end. */
static char *write_digits(char *out, unsigned value, size_t count)
{
	for (size_t i = count; i-- > 0; value /= 10)
		out[i] = (char)('0' + value % 10);
	return out + count;
}

size_t mt_log_prefix(char *out)
{
	const uint64_t now_ms = mt_os_realtime_ns() / 1000000u;
	const unsigned of_day = (unsigned)(now_ms / 1000u % 86400u);
	size_t length = mt_format(out, MT_LOG_PREFIX_BYTES, "mtshim[%d] ", mt_os_getpid());
	const char marks[] = "--T::.Z";
	const size_t digits[] = {4, 2, 2, 2, 2, 2, 3};
	unsigned parts[] = {0,
			    0,
			    0,
			    of_day / 3600u,
			    of_day / 60u % 60u,
			    of_day % 60u,
			    (unsigned)(now_ms % 1000u)};
	char *at = out + length;

	split_days(now_ms / 86400000u, &parts[0], &parts[1], &parts[2]);
	for (size_t i = 0; i < sizeof(digits) / sizeof(digits[0]); i++) {
		at = write_digits(at, parts[i], digits[i]);
		*at++ = marks[i];
	}
	*at++ = ':';
	*at++ = ' ';
	*at = '\0';
	return (size_t)(at - out);
}

/* Warns once in a process; the line for the file follows on stderr. */
static void warn_unopened(const char *pattern, int reason)
{
	static atomic_flag is_told = ATOMIC_FLAG_INIT;
	char line[LINE_BYTES];
	size_t length;

	/* a flag alone, no ordering */
	if (atomic_flag_test_and_set_explicit(&is_told, memory_order_relaxed))
		return;
	length = mt_log_prefix(line);
	length += mt_format(
		line + length, sizeof(line) - 1 - length,
		"warn: MT_LOG=%s: cannot be opened for writing (%serrno %d); using stderr", pattern,
		reason == EPERM ? "another user's, or a file of more than one name: " : "", reason);
	escape_controls(line, length);
	line[length++] = '\n';
	write_to_stderr(line, length);
}

/* Not inlined into mt_log: a line below the level needs no stack for a buffer. */
static const uint64_t default_level = MT_LOG_WARN;
static const uint64_t *active_level = &default_level;
static const char *pattern = "";

void mt_log_use(const uint64_t *level, const char *file_pattern)
{
	active_level = level;
	pattern = file_pattern;
}

MT_COLD static void log_line(const char *word, const char *format, va_list list)
{
	char line[LINE_BYTES];
	int pid = mt_os_getpid();
	bool is_cut;
	size_t length;
	int file;

	length = mt_log_prefix(line);
	length += mt_format(line + length, sizeof(line) - length, "%s", word);
	length += mt_format_list(line + length, sizeof(line) - length, format, list, &is_cut);
	if (is_cut)
		length = append_ellipsis(line, length);
	escape_controls(line, length);
	line[length++] = '\n';
	file = open_file(pattern, pid);
	if (file < 0 && *pattern != '\0')
		warn_unopened(pattern, errno);
	if (file < 0) {
		write_to_stderr(line, length);
		return;
	}
	write_line(file, line, length);
	(void)mt_raw_syscall(SYS_close, file);
}

void mt_log(enum mt_log_level level, const char *format, ...)
{
	static const char *const words[] = {"error: ", "warn: ", "info: ", "debug: "};
	va_list list;
	int saved_errno = errno;

	/* The worker may change it meanwhile: either value is right, no ordering. */
	if (level > MT_LOG_DEBUG || level > __atomic_load_n(active_level, __ATOMIC_RELAXED))
		return;
	va_start(list, format);
	log_line(words[level], format, list);
	va_end(list);
	errno = saved_errno;
}

void mt_log_plain(const char *format, ...)
{
	va_list list;
	int saved_errno = errno;

	va_start(list, format);
	log_line("", format, list);
	va_end(list);
	errno = saved_errno;
}

void mt_log_raw(const char *text)
{
	int saved_errno = errno;

	write_to_stderr(text, strlen(text));
	errno = saved_errno;
}
