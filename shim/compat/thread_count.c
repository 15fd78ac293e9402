/* compat/thread_count.c -- wraps fopen for one file and one reader. Python 3.12 and later open
 * /proc/self/stat in the parent right after a fork, read num_threads, and warn of "multi-threaded,
 * use of fork() may lead to deadlocks" if it is not 1. Fork's handlers take care of the shim's
 * threads (core/init.c), so this check must not count them. The thread of Python that forked sees
 * num_threads without them at its next open of the file. Every other reader and call gets the
 * kernel's text. Decision: docs/decisions/0002. Source: warn_about_fork_with_threads in
 * Modules/posixmodule.c of CPython 3.12 to 3.14. */
#include "compat/compat.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/os.h"
#include "core/init.h"
#include "core/worker.h"
#include "core/interpreter.h"
#include "sys/format.h"

#define STAT_PATH     "/proc/self/stat"
#define THREADS_FIELD 20 /* proc(5) */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3; some systems refuse a memfd without it */
#endif

typedef FILE *(*open_fn)(const char *path, const char *mode);

MT_EXPORT FILE *fopen(const char *path, const char *mode);
MT_EXPORT FILE *fopen64(const char *path, const char *mode);

/* Each store has the same value; no ordering. */
static _Atomic(open_fn) next_fopen;
static _Atomic(open_fn) next_fopen64;

static MT_TLS bool has_forked; /* and has not opened the file since */

/* In a child without fork's handlers the loader must not be called (compat/single_thread.c). */
static MT_COLD open_fn find(const char *name, _Atomic(open_fn) *next)
{
	bool is_raw_child = mt_state_is_on() && !mt_state_is_own_process();
	open_fn found = (open_fn)(uintptr_t)(is_raw_child ? mt_elf_libc_function(name)
							  : mt_symbol(RTLD_NEXT, name));

	if (!is_raw_child)
		mt_store_relaxed(next, found);
	return found;
}

void mt_thread_count_start(void)
{
	(void)find("fopen", &next_fopen);
	(void)find("fopen64", &next_fopen64);
}

void mt_thread_count_note_fork(void)
{
	has_forked = true;
}

/* Returns a descriptor, open for reading, of a memfd with the kernel's text without the shim's
 * threads. Returns -1 if that fails or the text has none of them. */
static int open_own_stat(void)
{
	char text[1024];
	char own[1024];
	uint64_t ours = mt_main_exit_own_threads();
	ssize_t length = mt_os_read_file(STAT_PATH, text, sizeof(text));
	const char *field = length > 0 ? mt_os_procstat_at(text, THREADS_FIELD) : NULL;
	uint64_t count = field ? mt_os_parse_number(field) : 0;
	size_t bytes;
	int readable = -1;
	int fd;

	if (!ours || count <= ours)
		return -1;
	mt_assert(field > text && field < text + length);
	mt_format(own, sizeof(own), "%.*s%llu%s", (int)(field - text), text,
		  (unsigned long long)(count - ours), field + strspn(field, "0123456789"));
	bytes = strlen(own);
	fd = (int)mt_raw_syscall(SYS_memfd_create, "stat", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd < 0)
		fd = (int)mt_raw_syscall(SYS_memfd_create, "stat", MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	if (mt_os_write_at(fd, own, bytes, 0) == (ssize_t)bytes) {
		mt_format(text, sizeof(text), "/proc/self/fd/%d", fd);
		readable = (int)mt_raw_syscall(SYS_openat, AT_FDCWD, text, O_RDONLY | O_CLOEXEC);
	}
	mt_os_close(fd);
	return readable;
}

/* Replaces the file behind the stream, which has read nothing yet, under the same descriptor. */
static MT_COLD FILE *replace_stat(FILE *file, const char *path, const char *mode)
{
	int kept = errno;
	int number, fd;
	long flags;

	if (!file || strcmp(path, STAT_PATH) != 0)
		return file;
	has_forked = false;
	if (mode[0] != 'r' || strchr(mode, '+') || !mt_interpreter_is_running())
		return file;
	number = fileno(file);
	flags = mt_raw_syscall(SYS_fcntl, number, F_GETFD);
	fd = open_own_stat();
	if (fd >= 0) {
		(void)mt_raw_syscall(SYS_dup3, fd, number,
				     flags > 0 && (flags & FD_CLOEXEC) ? O_CLOEXEC : 0);
		mt_os_close(fd);
	}
	errno = kept;
	return file;
}

static FILE *open_by(open_fn next, const char *path, const char *mode)
{
	FILE *file = next(path, mode);

	return mt_unlikely(has_forked) ? replace_stat(file, path, mode) : file;
}

MT_EXPORT FILE *fopen(const char *path, const char *mode)
{
	open_fn next = mt_load_relaxed(&next_fopen);

	return open_by(mt_likely(next) ? next : find("fopen", &next_fopen), path, mode);
}

/* The same function on 64-bit systems; a libc may lack the name. */
MT_EXPORT FILE *fopen64(const char *path, const char *mode)
{
	open_fn next = mt_load_relaxed(&next_fopen64);

	if (mt_unlikely(!next))
		next = find("fopen64", &next_fopen64);
	return next ? open_by(next, path, mode) : fopen(path, mode);
}
