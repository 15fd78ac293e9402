/* log.c -- the shim's own lines, and a formatter that neither allocates nor asks the locale. See
 * log.h. */
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
#include "sys/os.h"
#include "sys/path_walk.h"

#define LINE_BYTES          1000u /* of a line, with its newline */
#define KERNEL_SIGSET_BYTES 8u

struct sink {
	char *out;
	size_t room; /* without the NUL */
	size_t length;
	bool is_cut;
};

struct arguments {
	va_list list; /* in a struct: a va_list that is an array cannot be handed down by address */
};

enum size { SIZE_INT, SIZE_LONG, SIZE_LONG_LONG, SIZE_SIZE };

static void put(struct sink *sink, const char *text, size_t length)
{
	size_t left = sink->room - sink->length;

	if (length > left) {
		length = left;
		sink->is_cut = true;
	}
	memcpy(sink->out + sink->length, text, length);
	sink->length += length;
}

static void put_number(struct sink *sink, uint64_t value, unsigned base, bool is_negative)
{
	char digits[24];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value != 0);
	if (is_negative)
		digits[--at] = '-';
	put(sink, digits + at, sizeof(digits) - at);
}

static uint64_t take_unsigned(struct arguments *arguments, enum size size)
{
	switch (size) {
	case SIZE_LONG:
		return va_arg(arguments->list, unsigned long);
	case SIZE_LONG_LONG:
		return va_arg(arguments->list, unsigned long long);
	case SIZE_SIZE:
		return va_arg(arguments->list, size_t);
	case SIZE_INT:
		break;
	}
	return va_arg(arguments->list, unsigned);
}

static int64_t take_signed(struct arguments *arguments, enum size size)
{
	switch (size) {
	case SIZE_LONG:
		return va_arg(arguments->list, long);
	case SIZE_LONG_LONG:
		return va_arg(arguments->list, long long);
	case SIZE_SIZE:
		return va_arg(arguments->list, ssize_t);
	case SIZE_INT:
		break;
	}
	return va_arg(arguments->list, int);
}

static enum size read_size(const char **format)
{
	if (**format == 'z') {
		++*format;
		return SIZE_SIZE;
	}
	if (**format != 'l')
		return SIZE_INT;
	if (*++*format != 'l')
		return SIZE_LONG;
	++*format;
	return SIZE_LONG_LONG;
}

static void put_text(struct sink *sink, const char *text, size_t most)
{
	if (text == NULL)
		text = "(null)";
	put(sink, text, strnlen(text, most));
}

/* One conversion, *format behind its %. False, with nothing taken or put, when it is not one of
 * ours. */
static bool put_conversion(struct sink *sink, const char **format, struct arguments *arguments)
{
	const char *at = *format;
	bool has_precision = at[0] == '.' && at[1] == '*';
	enum size size;
	size_t most = SIZE_MAX;
	int64_t number;
	char one;

	at += has_precision ? 2 : 0;
	size = read_size(&at);
	if (*at == '\0' || strchr("sduxc%", *at) == NULL || (*at != 's' && has_precision))
		return false;
	if (has_precision) {
		number = va_arg(arguments->list, int);
		/* negative: as if there were none, as for printf */
		most = number < 0 ? SIZE_MAX : (size_t)number;
	}
	switch (*at) {
	case 's':
		put_text(sink, va_arg(arguments->list, const char *), most);
		break;
	case 'd':
		number = take_signed(arguments, size);
		put_number(sink, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 10,
			   number < 0);
		break;
	case 'u':
	case 'x':
		put_number(sink, take_unsigned(arguments, size), *at == 'u' ? 10 : 16, false);
		break;
	case 'c':
		one = (char)va_arg(arguments->list, int);
		put(sink, &one, 1);
		break;
	default:
		put(sink, "%", 1);
	}
	*format = at + 1;
	return true;
}

static void put_format(struct sink *sink, const char *format, struct arguments *arguments)
{
	while (*format != '\0') {
		size_t plain = strcspn(format, "%");

		put(sink, format, plain);
		format += plain;
		if (*format == '\0')
			break;
		format++;
		if (!put_conversion(sink, &format, arguments)) {
			/* What it would take from the list is unknown, so nothing after it can be
			 * printed either. */
			put(sink, format - 1, strlen(format - 1));
			break;
		}
	}
}

size_t mt_format(char *out, size_t out_bytes, const char *format, ...)
{
	struct sink sink = {.out = out, .room = out_bytes - 1};
	struct arguments arguments;

	if (out_bytes == 0)
		return 0;
	va_start(arguments.list, format);
	put_format(&sink, format, &arguments);
	va_end(arguments.list);
	out[sink.length] = '\0';
	return sink.length;
}

/* Keeps a line one line, and from steering a terminal: control characters, also the C1 set as UTF-8
 * (C2 80..9F). */
static void scrub(char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < ' ' || c == 0x7f)
			text[i] = '?';
		else if (c >= 0x80 && c <= 0x9f && i > 0 && (unsigned char)text[i - 1] == 0xc2)
			text[i - 1] = text[i] = '?';
	}
}

/* Marks that something is missing, without leaving half a character behind. */
static size_t mark_cut(char *line, size_t length)
{
	length -= 3;
	while (length > 0 && ((unsigned char)line[length] & 0xc0) == 0x80)
		length--;
	memcpy(line + length, "...", 3);
	return length + 3;
}

/* For a walk. What reads links may be no call that a sandbox knows: links are not followed in one.
 */
static long ask_kernel(long number, long a, long b, long c, long d, long e, long f)
{
	if ((number == SYS_readlinkat || number == SYS_fstatfs) && mt_log_is_sandboxed()) {
		errno = EPERM;
		return -1;
	}
	return mt_raw_syscall_call(number, a, b, c, d, e, f);
}

/* Another user could have made the file first, to read our lines, or have linked one of ours there,
 * to have them written into it: the kernel's fs.protected_regular and protected_hardlinks, which
 * may be off. */
static bool is_trusted(int fd, int folder)
{
	struct stat seen;
	struct stat beside;

	if (mt_os_look_at_fd(fd, &seen) != 0)
		return false;
	if (S_ISCHR(seen.st_mode))
		return true;
	return mt_os_look_at_fd(folder, &beside) == 0 &&
	       mt_walk_may_write(&seen, &beside, geteuid());
}

/* The last link of all is not followed, whoever made it. -1: errno says why. */
static int open_walked(char *path, size_t room, int flags)
{
	struct mt_walk walk = {.call = ask_kernel,
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

/* MT_LOG, opened for one line; -1 when there is none or it cannot be opened. Raw system calls here
 * and below: libc's open, write and close are cancellation points, and a thread that unwinds out of
 * malloc leaves it broken. */
static int open_file(const char *pattern, int pid)
{
	/* Not blocking: a FIFO without a reader would stop the program in open. */
	const int flags =
		O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	char path[4 * MT_TEXT_MAX]; /* with room for what links say */
	struct sink sink = {.out = path, .room = 2 * MT_TEXT_MAX - 1};

	if (*pattern == '\0')
		return -1;
	while (*pattern != '\0') {
		if (pattern[0] == '%' && pattern[1] == 'p') {
			put_number(&sink, (uint64_t)pid, 10, false);
			pattern += 2;
		} else {
			put(&sink, pattern++, 1);
		}
	}
	path[sink.length] = '\0';
	errno = ENAMETOOLONG;
	return sink.is_cut ? -1 : open_walked(path, sizeof(path), flags);
}

/* Whether a line can be written now: nobody's thread waits for a reader of the shim's lines, and a
 * pipe that has no reader any more is not written to. Where the kernel cannot say, it is tried. */
static bool fd_takes_a_line(int fd)
{
	struct pollfd poll = {.fd = fd, .events = POLLOUT};
	struct timespec none = {0};

	if (mt_raw_syscall(SYS_ppoll, &poll, 1, &none, NULL, 0) < 0)
		return true;
	return (poll.revents & (POLLOUT | POLLERR | POLLNVAL)) == POLLOUT;
}

/* What comes of a line that cannot be written must not end the program: the reader may still leave
 * between the poll and the write (SIGPIPE), and the file may have grown to what RLIMIT_FSIZE allows
 * (SIGXFSZ). */
static void write_line(int fd, const char *line, size_t length)
{
	struct timespec none = {0};
	sigset_t blocked;
	sigset_t before;
	sigset_t pending;
	long written;
	int raised = 0;
	bool is_blocked;

	if (!fd_takes_a_line(fd))
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

/* Once a process: the line that was meant for the file follows. */
static void tell_unopened(const char *pattern, int pid, int reason)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	char line[LINE_BYTES];
	size_t length;

	/* a flag alone, no ordering */
	if (atomic_flag_test_and_set_explicit(&told, memory_order_relaxed))
		return;
	length = mt_format(
		line, sizeof(line) - 1,
		"mtshim[%d]: warn: MT_LOG=%s: cannot be opened for writing (%serrno %d); stderr is "
		"taken",
		pid, pattern,
		reason == EPERM ? "another user's, or a file of more than one name: " : "", reason);
	scrub(line, length);
	line[length++] = '\n';
	write_to_stderr(line, length);
}

/* Apart from mt_log, so that a line below the level costs no stack. */
MT_COLD static void log_line(const char *word, const char *format, struct arguments *arguments)
{
	char line[LINE_BYTES];
	struct sink sink = {.out = line, .room = sizeof(line) - 1};
	const char *pattern = mt_config()->log;
	int pid = mt_os_getpid();
	int file;

	sink.length = mt_format(line, sizeof(line), "mtshim[%d]: %s", pid, word);
	put_format(&sink, format, arguments);
	if (sink.is_cut)
		sink.length = mark_cut(line, sink.length);
	scrub(line, sink.length);
	line[sink.length++] = '\n';
	file = open_file(pattern, pid);
	if (file < 0 && *pattern != '\0')
		tell_unopened(pattern, pid, errno);
	if (file < 0) {
		write_to_stderr(line, sink.length);
		return;
	}
	write_line(file, line, sink.length);
	(void)mt_raw_syscall(SYS_close, file);
}

void mt_log(enum mt_log_level level, const char *format, ...)
{
	static const char *const words[] = {"error: ", "warn: ", "info: ", "debug: "};
	struct arguments arguments;
	int saved_errno = errno;

	/* The worker may be setting it: the old or the new one will do, no ordering. */
	if (level > MT_LOG_DEBUG ||
	    level > __atomic_load_n(&mt_config()->log_level, __ATOMIC_RELAXED))
		return;
	va_start(arguments.list, format);
	log_line(words[level], format, &arguments);
	va_end(arguments.list);
	errno = saved_errno;
}

void mt_log_plain(const char *format, ...)
{
	struct arguments arguments;
	int saved_errno = errno;

	va_start(arguments.list, format);
	log_line("", format, &arguments);
	va_end(arguments.list);
	errno = saved_errno;
}

void mt_log_raw(const char *text)
{
	int saved_errno = errno;

	write_to_stderr(text, strlen(text));
	errno = saved_errno;
}
