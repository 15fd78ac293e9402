/* sys/os.h -- what the shim asks of the kernel. Nothing here allocates, takes a lock, keeps a
 * descriptor or touches errno: answers are returned, so that every caller can stand inside malloc
 * or a signal handler. */
#ifndef MT_SYS_OS_H
#define MT_SYS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "sys/attr.h"

#define MT_NS_PER_MS 1000000ull
#define MT_NS_PER_S  1000000000ull
#define MT_MIB       (1024ull * 1024ull)

enum mt_futex_scope { MT_FUTEX_PRIVATE, MT_FUTEX_SHARED };

static inline void mt_os_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* By libc's own clock_gettime, past whoever stands before it: libfaketime lets time stand still,
 * leap, and go back, and asks for memory meanwhile. */
uint64_t mt_os_now_ns(void); /* CLOCK_MONOTONIC */
/* the same as of the kernel's last tick: some ms behind, never ahead, at a quarter of the cost */
uint64_t mt_os_coarse_ns(void);
uint64_t mt_os_realtime_ns(void); /* CLOCK_REALTIME */
uint64_t mt_os_thread_cpu_ns(void);
uint64_t mt_os_process_cpu_ns(void);

/* libc's own clock_gettime, found past whoever stands before it: mt_os_clock asks it from now on.
 * Before that, and with NULL, the kernel is asked by a system call. */
void mt_os_set_clock(int (*libcs)(clockid_t clock, struct timespec *out));

/* clock_gettime(2) itself. */
int mt_os_clock(clockid_t clock, struct timespec *out);
/* asked of the kernel: never a constant (4, 16 and 64 kB exist) */
uint64_t mt_os_page_bytes(void);
pid_t mt_os_gettid(void);
/* what the kernel says: libfaketime stands before libc's, and may say another's */
pid_t mt_os_getpid(void);

/* Sleeps while *word == expected, at most timeout_ns (UINT64_MAX: for ever). Answers 0 when woken,
 * else the errno: ETIMEDOUT, EAGAIN (it had changed), EINTR, EFAULT (the page behind it is gone).
 * Where the kernel refuses futexes it sleeps some milliseconds all the same, so that a loop around
 * it is no busy one. */
int mt_os_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns,
		     enum mt_futex_scope scope);
void mt_os_sleep_ns(uint64_t span_ns);
void mt_os_futex_wake(_Atomic uint32_t *word, int count, enum mt_futex_scope scope);

/* Adds 1 to the word and wakes one sleeper, all in the kernel: a vanished page is an answer
 * (EFAULT), not a SIGBUS. */
int mt_os_futex_add_wake(_Atomic uint32_t *word);

/* open, close, read and write at an offset, as the bare system calls: libc's are cancellation
 * points, and a thread that is cancelled inside malloc would take a lock with it. Answers as the
 * system call does, or -errno. */
int mt_os_open(const char *path, int flags, unsigned int mode);
int mt_os_open_at(int folder, const char *name, int flags, unsigned int mode);
void mt_os_close(int fd);
ssize_t mt_os_read_at(int fd, void *out, size_t bytes, uint64_t offset);
ssize_t mt_os_write_at(int fd, const void *from, size_t bytes, uint64_t offset);

/* stat, lstat and fstat as the bare system calls, for another reason: libfaketime's wait for a
 * semaphore, which is not there yet when a thread of ours asks early, and not there any more when
 * the process ends. Answer 0, or -errno. */
int mt_os_stat(const char *path, struct stat *out);
int mt_os_lstat(const char *path, struct stat *out);
int mt_os_fstat(int fd, struct stat *out);

/* Whether a file may grow to so many bytes by RLIMIT_FSIZE, which a sandbox sets to nothing. What
 * is written beyond it ends the program by SIGXFSZ; mt_os_write_at answers -EFBIG before that. */
bool mt_os_file_size_is_allowed(uint64_t bytes);

/* Reads at most out_bytes - 1 of a file from its start and ends them with NUL. Answers the length,
 * or -errno. */
ssize_t mt_os_read_file(const char *path, char *out, size_t out_bytes);

/* The whole number at text (decimal, after spaces and tabs); 0 where there is none. */
uint64_t mt_os_parse_number(const char *text);

/* The number after the line that starts with key ("VmHWM:"), in its own unit; 0 where there is no
 * such line. */
const char *mt_os_find_line(const char *text, const char *key);
uint64_t mt_os_read_number(const char *path);
uint64_t mt_os_parse_keyed_number(const char *text, const char *key);

/* Where a field stands in the text of a /proc/PID/stat, by its number in proc(5), from 3 on; NULL
 * where there is none. */
const char *mt_os_procstat_at(const char *stat, int number);

/* Such a field as a number, 0 where there is none; and one of this process, 0 where it cannot be
 * read. */
uint64_t mt_os_procstat_number(const char *stat, int number);
uint64_t mt_os_own_procstat_number(int number);

#endif
