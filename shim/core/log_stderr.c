/* core/log_stderr.c -- decides whether descriptor 2 is stderr. A daemon closes it, and the next
 * file that it opens has its number: a line of the shim would damage a database or a protocol.
 * Contract: core/log_stderr.h. */
#include "core/log_stderr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/raw_syscall.h"
#include "sys/os.h"

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

/* ---- a thread with its own descriptor table ---- */

void mt_log_use_private_fds(void)
{
	has_private_fds = true;
}

bool mt_log_is_sandboxed(void)
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

	if (mt_log_is_sandboxed())
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

int mt_log_open_stderr(void)
{
	struct target target;

	if (has_private_fds)
		return open_program_stderr();
	return read_own_target(&target) && is_stderr(&target) ? STDERR_FILENO : -1;
}

void mt_log_close_stderr(int fd)
{
	if (has_private_fds)
		mt_os_close(fd);
}
