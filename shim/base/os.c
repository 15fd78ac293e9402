#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	if (clock_gettime(clock, &now) != 0)
		return 0;
	return (uint64_t)now.tv_sec * MT_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t mt_os_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t mt_os_coarse_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC_COARSE);
}

uint64_t mt_os_realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

uint64_t mt_os_thread_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t mt_os_page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

pid_t mt_os_gettid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

int mt_os_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns, enum mt_futex_scope scope)
{
	int kept = errno;
	struct timespec span = {
		.tv_sec = (time_t)(timeout_ns / MT_NS_PER_S),
		.tv_nsec = (long)(timeout_ns % MT_NS_PER_S),
	};
	int operation = FUTEX_WAIT | (scope == MT_FUTEX_PRIVATE ? FUTEX_PRIVATE_FLAG : 0);
	int answer = 0;

	if (syscall(SYS_futex, word, operation, expected, timeout_ns == UINT64_MAX ? NULL : &span, NULL, 0) != 0)
		answer = errno;
	errno = kept;
	return answer;
}

void mt_os_futex_wake(_Atomic uint32_t *word, int count, enum mt_futex_scope scope)
{
	int kept = errno;

	syscall(SYS_futex, word, FUTEX_WAKE | (scope == MT_FUTEX_PRIVATE ? FUTEX_PRIVATE_FLAG : 0), count, NULL, NULL,
		0);
	errno = kept;
}

int mt_os_futex_bump_wake(_Atomic uint32_t *word)
{
	int kept = errno;
	int answer = 0;
	/* *word += 1; then wake one that waits on word. The second wake (condition "old value < 0") never happens. */
	unsigned int operation = FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_LT, 0);

	if (syscall(SYS_futex, word, FUTEX_WAKE_OP, 1, 0, word, operation) < 0)
		answer = errno;
	errno = kept;
	return answer;
}

static long keep_errno(long answer, int kept)
{
	if (answer < 0)
		answer = -errno;
	errno = kept;
	return answer;
}

int mt_os_open(const char *path, int flags, unsigned int mode)
{
	int kept = errno;

	return (int)keep_errno(syscall(SYS_openat, AT_FDCWD, path, flags, mode), kept);
}

void mt_os_close(int fd)
{
	int kept = errno;

	(void)keep_errno(syscall(SYS_close, fd), kept);
}

ssize_t mt_os_read_at(int fd, void *out, size_t bytes, uint64_t offset)
{
	int kept = errno;

	return keep_errno(syscall(SYS_pread64, fd, out, bytes, offset), kept);
}

ssize_t mt_os_write_at(int fd, const void *from, size_t bytes, uint64_t offset)
{
	int kept = errno;

	return keep_errno(syscall(SYS_pwrite64, fd, from, bytes, offset), kept);
}

ssize_t mt_os_read_file(const char *path, char *out, size_t out_bytes)
{
	size_t length = 0;
	/* Not blocking: a path may come from a setting, and be a FIFO. */
	int fd = mt_os_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);

	out[0] = 0;
	if (fd < 0)
		return fd;
	while (length < out_bytes - 1) {
		int kept = errno;
		/* Not at an offset: the kernel would make up a file of /proc anew for it. */
		ssize_t got = keep_errno(syscall(SYS_read, fd, out + length, out_bytes - 1 - length), kept);

		if (got == -EINTR)
			continue;
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	out[length] = 0;
	mt_os_close(fd);
	return (ssize_t)length;
}

uint64_t mt_os_number(const char *text)
{
	uint64_t value = 0;

	while (*text == ' ' || *text == '\t')
		text++;
	while (*text >= '0' && *text <= '9')
		value = value * 10 + (uint64_t)(*text++ - '0');
	return value;
}

uint64_t mt_os_keyed_number(const char *text, const char *key)
{
	size_t length = strlen(key);

	while (text && *text) {
		if (strncmp(text, key, length) == 0)
			return mt_os_number(text + length);
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	return 0;
}

uint64_t mt_os_stat_field(int number)
{
	char text[1024];
	const char *at;

	if (mt_os_read_file("/proc/self/stat", text, sizeof(text)) <= 0)
		return 0;
	at = strrchr(text, ')'); /* the name before it may hold anything */
	for (int field = 2; at && field < number; field++) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	return at ? mt_os_number(at) : 0;
}
