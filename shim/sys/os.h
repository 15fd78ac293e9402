/* sys/os.h -- system calls, and the parsers for small files of /proc and /sys. Owns no state. Any
 * thread may call, also inside malloc and in signal handlers. Takes no lock, never allocates, keeps
 * no descriptor, never changes errno: errors are return values, but for mt_raw_syscall. */
#ifndef MT_SYS_OS_H
#define MT_SYS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>

#include "sys/attr.h"

#define MT_NS_PER_MS 1000000ull
#define MT_NS_PER_S  1000000000ull
#define MT_MIB       (1024ull * 1024ull)
#define MT_MB(bytes) ((unsigned long long)((bytes) / MT_MIB)) /* for "%llu MB" */

enum mt_futex_scope { MT_FUTEX_PRIVATE, MT_FUTEX_SHARED };

/* Tells the CPU that the caller spins. */
static inline void mt_os_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* ---- clocks: 0 if the kernel refuses ---- */

uint64_t mt_os_now_ns(void); /* CLOCK_MONOTONIC */
/* CLOCK_MONOTONIC_COARSE: a few ms behind mt_os_now_ns, never ahead of it, and cheaper */
uint64_t mt_os_coarse_ns(void);
uint64_t mt_os_realtime_ns(void);    /* CLOCK_REALTIME */
uint64_t mt_os_thread_cpu_ns(void);  /* CPU time of the calling thread */
uint64_t mt_os_process_cpu_ns(void); /* CPU time of all threads */

/* ---- the process ---- */

/* Returns the page size in bytes: 4, 16 or 64 KiB. */
uint64_t mt_os_page_bytes(void);

/* The kernel's ids, by system call: libraries interpose libc's functions and may return others.
 * Return -1 if the call is refused. Touch no thread-local data. */
pid_t mt_os_gettid(void);
pid_t mt_os_getpid(void);

/* No mask of the kernel: SIGKILL is never in one. */
#define MT_SIGNALS_UNKNOWN UINT64_MAX

/* Blocks all signals of the calling thread, also those that libc never blocks: one of them cancels
 * threads. Those that an instruction of its own raises stay open (SIGSEGV, SIGSYS and the like):
 * blocked, they would kill. Returns the mask before, bit n - 1 for signal n. MT_SIGNALS_UNKNOWN: a
 * sandbox refuses, and nothing is blocked, or the thread has blocked them here already. Bare system
 * calls. */
uint64_t mt_os_block_signals(void);

/* Sets the mask that mt_os_block_signals returned. Does nothing for MT_SIGNALS_UNKNOWN. */
void mt_os_restore_signals(uint64_t before);

/* Returns the signals that the program has blocked in this thread; 0 if a sandbox refuses. */
uint64_t mt_os_blocked_signals(void);

/* Reads memory of this process by the kernel: an address that is not there is no crash. Returns how
 * many bytes were read; -1: it cannot be told, as in a sandbox. Keeps errno. */
ssize_t mt_os_read_own(const void *from, void *out, size_t bytes);

/* ---- futexes ---- */

/* Sleeps while *word == expected, up to timeout_ns; UINT64_MAX: no limit. Returns 0 when woken,
 * else the errno: ETIMEDOUT, EAGAIN (*word differed), EINTR, EFAULT (the page is gone). If a
 * sandbox refuses futexes it sleeps up to 10 ms, so that a loop around it does not spin. */
int mt_os_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns,
		     enum mt_futex_scope scope);

/* Sleeps for span_ns; less if a signal interrupts it. */
void mt_os_sleep_ns(uint64_t span_ns);

/* Wakes up to count threads that sleep on word. */
void mt_os_futex_wake(_Atomic uint32_t *word, int count, enum mt_futex_scope scope);

/* Adds 1 to *word and wakes one thread, all in the kernel (FUTEX_WAKE_OP). Returns 0 or the errno:
 * a page that was truncated is EFAULT, where a store would raise SIGBUS. */
int mt_os_futex_add_wake(_Atomic uint32_t *word);

/* ---- files ---- */

/* open, openat, close, pread and pwrite as bare system calls. libc's are cancellation points: a
 * thread that is cancelled inside malloc would leave a lock taken. Return the system call's result,
 * or -errno. */
int mt_os_open(const char *path, int flags, unsigned int mode);
int mt_os_open_at(int folder, const char *name, int flags, unsigned int mode);
void mt_os_close(int fd);
ssize_t mt_os_read_at(int fd, void *out, size_t bytes, uint64_t offset);
ssize_t mt_os_write_at(int fd, const void *from, size_t bytes, uint64_t offset);
/* The same until all is written, and adds to *offset what is. Returns false if a write fails. */
bool mt_os_write_whole(int fd, const void *from, size_t bytes, uint64_t *offset);

/* stat, lstat and fstat as bare system calls. libfaketime's wait for a semaphore that exists
 * neither early in the process nor at its end. Return 0, or -errno. */
int mt_os_stat(const char *path, struct stat *out);
int mt_os_lstat(const char *path, struct stat *out);
int mt_os_fstat(int fd, struct stat *out);

/* Returns whether RLIMIT_FSIZE allows a file of this many bytes. A write beyond the limit raises
 * SIGXFSZ; mt_os_write_at returns -EFBIG instead. */
bool mt_os_file_size_is_allowed(uint64_t bytes);

/* Reads up to out_bytes - 1 bytes from the start of a file and adds a NUL. Never blocks on a FIFO.
 * Returns the length, or -errno; out is then "". */
ssize_t mt_os_read_file(const char *path, char *out, size_t out_bytes);
/* The same for an open file, which is closed. A negative fd is an error that is returned. */
ssize_t mt_os_read_and_close(int fd, char *out, size_t out_bytes);

/* Passes each line of a file, without its newline, to visit until that returns true. text: a buffer
 * of text_bytes; longer lines are left out. */
void mt_os_each_line(const char *path, char *text, size_t text_bytes,
		     bool (*visit)(char *line, void *context), void *context);

/* ---- text of the kernel's small files; pure ---- */

/* Returns the decimal number at *text, which then is what follows it; 0 if there is none,
 * UINT64_MAX for a larger one. */
uint64_t mt_os_parse_digits(const char **text);

/* The same for the number at text, after spaces and tabs. */
uint64_t mt_os_parse_number(const char *text);

/* Returns the text after key, in the first line that starts with key; NULL if no line does. */
const char *mt_os_find_line(const char *text, const char *key);

/* Returns the number that follows key ("VmHWM:") at the start of a line, in the file's own unit; 0
 * if no line starts with key. */
uint64_t mt_os_parse_keyed_number(const char *text, const char *key);

/* Returns the start of a field in the text of /proc/PID/stat; NULL if it is missing. number: the
 * field's number in proc(5), 3 or larger. */
const char *mt_os_procstat_at(const char *stat, int number);

#define MT_PROCSTAT_THREADS 20 /* proc(5), num_threads */

/* Returns such a field as a number; 0 if it is missing. */
uint64_t mt_os_procstat_number(const char *stat, int number);

/* Returns a field of /proc/self/stat as a number; 0 if it cannot be read. Reads the file. */
uint64_t mt_os_own_procstat_number(int number);

/* Returns whether the user `own` may write to a file without being tricked. folder: the directory
 * of its name. Pure. In a folder that others can write to, or that another user owns, a hard link
 * may lead to a file that must not change. In a folder that everybody can write to, another user
 * may own the file, to read the output. The owner of a folder for a group is trusted with its
 * files. The group bits are also the mask of an ACL, so no group counts as private. In other
 * folders the owner of the file does not matter: a network file system may map this user to
 * nobody. */
static inline bool mt_os_may_write(const struct stat *file, const struct stat *folder, uid_t own)
{
	bool everybodys = folder->st_mode & S_IWOTH, shared = folder->st_mode & (S_IWOTH | S_IWGRP);
	bool ours = folder->st_uid == own || folder->st_uid == 0;

	if (!shared && ours)
		return true;
	if (S_ISREG(file->st_mode) && file->st_nlink != 1)
		return false;
	return !shared || file->st_uid == own || file->st_uid == 0 ||
	       (!everybodys && file->st_uid == folder->st_uid);
}

/* ---- own stack ---- */

/* Runs a function on a stack of its own, for work that needs more stack than the caller may have: a
 * coroutine, a thread of PTHREAD_STACK_MIN, a signal stack of SIGSTKSZ. Takes no lock. Any thread,
 * also in a signal handler. */

/* Calls function(argument) on a fresh mapping of 256 kB, or on the caller's stack if there is no
 * address space. The function must return. Signals wait for its end (mt_os_block_signals): a
 * handler may need more stack, or scan the thread's own for the roots of a garbage collector. */
void mt_os_own_stack_call(void (*function)(void *), void *argument);

/* ---- system calls ---- */

/* System calls without libc's syscall(). The shim exports that name (compat/compat.c), and
 * libraries such as libfaketime interpose it and allocate. May be called before any constructor. Is
 * never a cancellation point. Numbers of newer calls are __NR_name: the kernel's headers have them
 * before libc's SYS_name. */

/* Makes a system call with up to six arguments, each a number or a pointer. Returns its result, or
 * -1 with errno set, as syscall(2). */
#define mt_raw_syscall(...) MT_RAW_SYSCALL_SIX(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define MT_RAW_SYSCALL_SIX(number, a, b, c, d, e, f, ...)                                          \
	mt_raw_syscall_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e),         \
			    (long)(f))

long mt_raw_syscall_call(long number, long a, long b, long c, long d, long e, long f);

/* The same without errno and without a relocation, for code that runs before the loader has
 * relocated this library. Returns an error as the negative errno. Source: syscall(2). */
static inline long mt_raw_syscall_asm(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return answer;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
#error "the library is built for x86-64 and aarch64"
#endif
}

#endif
