#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "sys/format.h"
#include "sys/os.h"

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
	mt_assert(length >= 3 && length < LINE_BYTES);
	length -= 3;
	while (length > 0 && ((unsigned char)line[length] & 0xc0) == 0x80)
		length--;
	memcpy(line + length, "...", 3);
	return length + 3;
}

/* Returns whether a file may receive lines. folder: of its name. Another user could have made it
 * first, to read them, or hard-linked a file of this user there, to have it overwritten. The
 * kernel's fs.protected_regular and fs.protected_hardlinks may be off. */
static bool is_trusted(int fd, int folder)
{
	struct stat seen, beside;

	if (mt_os_fstat(fd, &seen) != 0)
		return false;
	if (S_ISCHR(seen.st_mode))
		return true;
	return mt_os_fstat(folder, &beside) == 0 && mt_os_may_write(&seen, &beside, geteuid());
}

/* Opens a file for one line. Never follows a link in the last component; the kernel's
 * fs.protected_symlinks is for those in the folders. path: is cut at its last slash. */
static int open_trusted(char *path)
{
	/* Not blocking: open would wait for the reader of a FIFO. */
	const int flags =
		O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const char *folder_name = !slash ? "." : slash == path ? "/" : path;
	int folder, fd;

	if (slash)
		*slash = '\0';
	folder = (int)mt_raw_syscall(SYS_openat, AT_FDCWD, folder_name,
				     O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -1;
	fd = (int)mt_raw_syscall(SYS_openat, folder, name, flags, 0600);
	if (fd >= 0 && !is_trusted(fd, folder)) {
		mt_os_close(fd);
		errno = EPERM;
		fd = -1;
	}
	mt_os_close(folder);
	return fd;
}

/* Opens MT_LOG; -1 with errno if it is unset or cannot be opened. Bare system calls here and
 * below: libc's open, write and close are cancellation points, and a thread that is cancelled
 * inside malloc leaves it broken. */
static int open_file(const char *pattern, int pid)
{
	char path[2 * PATH_BYTES];
	size_t length = 0;

	if (*pattern == '\0')
		return -1;
	errno = ENAMETOOLONG;
	for (const char *at = pattern; *at != '\0'; at++) {
		if (length + NUMBER_BYTES > sizeof(path))
			return -1;
		if (at[0] == '%' && at[1] == 'p') {
			length += mt_format(path + length, NUMBER_BYTES, "%d", pid);
			at++;
		} else {
			path[length++] = *at;
		}
	}
	mt_assert(length < sizeof(path));
	path[length] = '\0';
	return open_trusted(path);
}

/* Returns whether a write would not block: a thread of the program never waits for the reader of
 * the log, and a pipe without a reader gets no line. True if poll fails. */
static bool fd_is_writable(int fd)
{
	struct pollfd poll = {.fd = fd, .events = POLLOUT};
	struct timespec none = {0};

	if (mt_raw_syscall(SYS_ppoll, &poll, 1, &none, NULL, 0) < 0)
		return true;
	return (poll.revents & (POLLOUT | POLLERR | POLLNVAL)) == POLLOUT;
}

/* Writes a line. A failed write must not end the program: the reader may leave between poll and
 * write (SIGPIPE), and the file may have reached RLIMIT_FSIZE (SIGXFSZ). Nor may it stop the
 * program: one in the background of a terminal that wants that (stty tostop) writes if it blocks
 * SIGTTOU. */
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
	sigaddset(&blocked, SIGTTOU);
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

/* ---- stderr: whether descriptor 2 is still it ---- */

/* The identity of an open file, without values that change (size, position). */
struct target {
	dev_t device;
	ino_t inode;
	/* of a device file: a pseudo-terminal's inode number may be reused */
	dev_t special;
	mode_t kind;
	int access; /* O_RDONLY, O_WRONLY or O_RDWR; -1: not known */
};

/* Written once, before the first line; read by all threads. */
static bool is_initialized;
static bool has_stderr;
static struct target at_start;

static MT_TLS bool has_private_fds;

static struct target target_of(const struct stat *seen, int access)
{
	return (struct target){seen->st_dev, seen->st_ino, seen->st_rdev, seen->st_mode & S_IFMT,
			       access};
}

static bool is_same(const struct target *one, const struct target *other)
{
	return one->device == other->device && one->inode == other->inode &&
	       one->special == other->special && one->kind == other->kind &&
	       one->access == other->access;
}

/* Returns whether the file may be stderr. A log file is open for writing only; a data file also for
 * reading; a terminal for both. A socket belongs to a client: one that inetd or systemd connected
 * expects no log lines. */
static bool accepts_lines(const struct target *target)
{
	if (S_ISSOCK(target->kind))
		return false;
	if (S_ISREG(target->kind) || S_ISBLK(target->kind))
		return target->access == O_WRONLY;
	return target->access != O_RDONLY;
}

static bool is_stderr(const struct target *target)
{
	return accepts_lines(target) &&
	       (!is_initialized || (has_stderr && is_same(target, &at_start)));
}

static bool read_own_target(struct target *out)
{
	struct stat seen;
	long flags;

	if (mt_os_fstat(STDERR_FILENO, &seen) != 0)
		return false;
	flags = mt_raw_syscall(SYS_fcntl, STDERR_FILENO, F_GETFL);
	*out = target_of(&seen, flags < 0 ? -1 : (int)flags & O_ACCMODE);
	return true;
}

void mt_log_init_stderr(void)
{
	int kept = errno;

	has_stderr = read_own_target(&at_start);
	is_initialized = true;
	errno = kept;
}

/* ---- stderr of a thread with its own descriptor table ---- */

void mt_log_use_private_fds(void)
{
	has_private_fds = true;
}

/* Returns whether the calling thread has, or may have, a seccomp filter: then makes no system call
 * that the filter may not know. Reads /proc, since the filter may forbid prctl. */
static bool is_sandboxed(void)
{
	char status[4096];

	return mt_os_read_file("/proc/thread-self/status", status, sizeof(status)) <= 0 ||
	       strstr(status, "\nSeccomp:\t0") == NULL;
}

/* Duplicates the program's descriptor, with its file position: a line appended elsewhere would be
 * overwritten by the program. Also works for a pipe of a former user, which cannot be opened again.
 * Uses system calls that a sandbox may not know (Linux 5.3, 5.6). */
static int dup_from_program(void)
{
	int process;
	int fd;

	if (is_sandboxed())
		return -1;
	process = (int)mt_raw_syscall(SYS_pidfd_open, mt_os_getpid(), 0);
	if (process < 0)
		return -1;
	fd = (int)mt_raw_syscall(__NR_pidfd_getfd, process, STDERR_FILENO, 0);
	(void)mt_raw_syscall(SYS_close, process);
	return fd;
}

/* Source: proc(5), fdinfo: "flags:", in octal, whose last digit has the access mode. */
static int read_program_access(void)
{
	char text[512];

	if (mt_os_read_file("/proc/self/fdinfo/2", text, sizeof(text)) <= 0 ||
	    strstr(text, "flags:") == NULL)
		return -1;
	return (int)(mt_os_parse_keyed_number(text, "flags:") % 10) & O_ACCMODE;
}

/* Opens the program's stderr. Checks the file before, since opening a device may have an effect,
 * and after, since the program may replace it meanwhile. Not blocking: it may be a FIFO without a
 * reader. */
static int open_program_stderr(void)
{
	const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	struct stat seen;
	struct target target;
	int access;
	int fd;

	if (mt_os_stat("/proc/self/fd/2", &seen) != 0)
		return -1;
	access = read_program_access();
	target = target_of(&seen, access);
	if (!is_stderr(&target))
		return -1;
	fd = dup_from_program();
	if (fd < 0)
		fd = (int)mt_raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/fd/2", flags);
	if (fd < 0)
		return -1;
	if (mt_os_fstat(fd, &seen) == 0) {
		target = target_of(&seen, access);
		if (is_stderr(&target))
			return fd;
	}
	mt_os_close(fd);
	return -1;
}

static int open_stderr(void)
{
	struct target target;

	if (has_private_fds)
		return open_program_stderr();
	return read_own_target(&target) && is_stderr(&target) ? STDERR_FILENO : -1;
}

static void close_stderr(int fd)
{
	if (has_private_fds)
		mt_os_close(fd);
}

static void write_to_stderr(const char *text, size_t length)
{
	int fd = open_stderr();

	if (fd < 0)
		return;
	write_line(fd, text, length);
	close_stderr(fd);
}

/* Splits days since 1970-01-01. libc's functions read the time zone from files, and take a lock.
 * Counts years from March, so that a leap day is the last one, in cycles of 400 years. */
static void split_days(uint64_t days, unsigned *out_year, unsigned *out_month, unsigned *out_day)
{
	const uint64_t shifted = days + 719468; /* since 0000-03-01 */
	const unsigned cycle = (unsigned)(shifted / 146097), left = (unsigned)(shifted % 146097);
	const unsigned year = (left - left / 1460 + left / 36524 - left / 146096) / 365;
	const unsigned day = left - (365 * year + year / 4 - year / 100);
	const unsigned month = (5 * day + 2) / 153; /* 0 is March */

	*out_day = day - (153 * month + 2) / 5 + 1;
	*out_month = month < 10 ? month + 3 : month - 9;
	*out_year = cycle * 400 + year + (*out_month <= 2);
	mt_assert(*out_month >= 1 && *out_month <= 12 && *out_day >= 1 && *out_day <= 31);
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
	mt_assert((size_t)(at - out) < MT_LOG_PREFIX_BYTES);
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
	mt_assert(length <= sizeof(line));
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
