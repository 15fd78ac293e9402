#include "sys/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sys/atomic.h"
#include "sys/attr.h"

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

uint64_t mt_os_process_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t mt_os_page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Not by errno: a child may have no thread-local data. Chromium makes one by clone with
 * CLONE_SETTLS, which calls _exit. */
static pid_t own_id(long number)
{
	long id = mt_raw_syscall_asm(number, 0, 0, 0, 0, 0, 0);

	return id < 0 ? -1 : (pid_t)id;
}

pid_t mt_os_gettid(void)
{
	return own_id(SYS_gettid);
}

pid_t mt_os_getpid(void)
{
	return own_id(SYS_getpid);
}

/* size of the mask of rt_sigprocmask */
#define KERNEL_MASK_BYTES 8
_Static_assert(_NSIG / 8 == KERNEL_MASK_BYTES, "the kernel's signal mask is 64 bits here");

#define SIGNAL_BIT(number) (UINT64_C(1) << ((number)-1))
/* What the kernel raises for an instruction of the thread's. Blocked, they would kill: a sandbox
 * may answer system calls in its handler of SIGSYS. */
#define FAULTS                                                                                     \
	(SIGNAL_BIT(SIGILL) | SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGFPE) |      \
	 SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGSYS))

static MT_TLS bool are_signals_blocked; /* by mt_os_block_signals */
static MT_TLS uint64_t own_mask;        /* the mask before, while they are */

uint64_t mt_os_block_signals(void)
{
	const uint64_t all = ~FAULTS;
	uint64_t before = MT_SIGNALS_UNKNOWN;
	int kept = errno;

	if (are_signals_blocked)
		return MT_SIGNALS_UNKNOWN;
	(void)mt_raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, KERNEL_MASK_BYTES);
	own_mask = before;
	are_signals_blocked = before != MT_SIGNALS_UNKNOWN;
	errno = kept;
	return before;
}

uint64_t mt_os_blocked_signals(void)
{
	uint64_t now = 0;
	int kept = errno;

	if (are_signals_blocked)
		return own_mask;
	(void)mt_raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, KERNEL_MASK_BYTES);
	errno = kept;
	return now;
}

void mt_os_restore_signals(uint64_t before)
{
	int kept = errno;

	if (before == MT_SIGNALS_UNKNOWN)
		return;
	are_signals_blocked = false; /* first: a handler may run before the call returns */
	(void)mt_raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, KERNEL_MASK_BYTES);
	errno = kept;
}

ssize_t mt_os_read_own(const void *from, void *out, size_t bytes)
{
	struct iovec local = {out, bytes};
	struct iovec remote = {(void *)(uintptr_t)from, bytes};
	int kept = errno;
	ssize_t got = process_vm_readv(mt_os_getpid(), &local, 1, &remote, 1, 0);

	if (got < 0 && errno == EFAULT)
		got = 0;
	errno = kept;
	return got;
}

#define REFUSED_SLEEP_NS (10 * MT_NS_PER_MS)

/* Sleeps if a sandbox refused the futex call: the caller waits in a loop, which would otherwise
 * spin. */
static void sleep_if_refused(int answer, uint64_t timeout_ns)
{
	uint64_t span_ns = timeout_ns < REFUSED_SLEEP_NS ? timeout_ns : REFUSED_SLEEP_NS;
	struct timespec span = {.tv_nsec = (long)span_ns};

	if (answer && answer != ETIMEDOUT && answer != EAGAIN && answer != EINTR &&
	    answer != EFAULT)
		mt_raw_syscall(SYS_nanosleep, &span, NULL);
}

int mt_os_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns,
		     enum mt_futex_scope scope)
{
	int kept = errno;
	struct timespec span = {
		.tv_sec = (time_t)(timeout_ns / MT_NS_PER_S),
		.tv_nsec = (long)(timeout_ns % MT_NS_PER_S),
	};
	int operation = FUTEX_WAIT | (scope == MT_FUTEX_PRIVATE ? FUTEX_PRIVATE_FLAG : 0);
	int answer = 0;

	if (mt_raw_syscall(SYS_futex, word, operation, expected,
			   timeout_ns == UINT64_MAX ? NULL : &span, NULL, 0) != 0)
		answer = errno;
	sleep_if_refused(answer, timeout_ns);
	errno = kept;
	return answer;
}

void mt_os_sleep_ns(uint64_t span_ns)
{
	_Atomic uint32_t never_woken = 0;

	(void)mt_os_futex_wait(&never_woken, 0, span_ns, MT_FUTEX_PRIVATE);
}

void mt_os_futex_wake(_Atomic uint32_t *word, int count, enum mt_futex_scope scope)
{
	int kept = errno;

	mt_raw_syscall(SYS_futex, word,
		       FUTEX_WAKE | (scope == MT_FUTEX_PRIVATE ? FUTEX_PRIVATE_FLAG : 0), count,
		       NULL, NULL, 0);
	errno = kept;
}

int mt_os_futex_add_wake(_Atomic uint32_t *word)
{
	int kept = errno;
	int answer = 0;
	/* *word += 1, then wake one waiter. The second wake (if the old value < 0) never
	 * happens. */
	unsigned int operation = FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_LT, 0);

	if (mt_raw_syscall(SYS_futex, word, FUTEX_WAKE_OP, 1, 0, word, operation) < 0)
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

int mt_os_open_at(int folder, const char *name, int flags, unsigned int mode)
{
	int kept = errno;

	return (int)keep_errno(mt_raw_syscall(SYS_openat, folder, name, flags, mode), kept);
}

int mt_os_open(const char *path, int flags, unsigned int mode)
{
	return mt_os_open_at(AT_FDCWD, path, flags, mode);
}

void mt_os_close(int fd)
{
	int kept = errno;

	(void)keep_errno(mt_raw_syscall(SYS_close, fd), kept);
}

static int stat_path(const char *path, struct stat *out, int flags)
{
	int kept = errno;

	return (int)keep_errno(mt_raw_syscall(SYS_newfstatat, AT_FDCWD, path, out, flags), kept);
}

int mt_os_stat(const char *path, struct stat *out)
{
	return stat_path(path, out, 0);
}

int mt_os_lstat(const char *path, struct stat *out)
{
	return stat_path(path, out, AT_SYMLINK_NOFOLLOW);
}

int mt_os_fstat(int fd, struct stat *out)
{
	int kept = errno;

	return (int)keep_errno(mt_raw_syscall(SYS_fstat, fd, out), kept);
}

ssize_t mt_os_read_at(int fd, void *out, size_t bytes, uint64_t offset)
{
	int kept = errno;

	return keep_errno(mt_raw_syscall(SYS_pread64, fd, out, bytes, offset), kept);
}

bool mt_os_file_size_is_allowed(uint64_t bytes)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
	int kept = errno;

	(void)getrlimit(RLIMIT_FSIZE, &limit);
	errno = kept;
	return bytes <= limit.rlim_cur;
}

ssize_t mt_os_write_at(int fd, const void *from, size_t bytes, uint64_t offset)
{
	int kept = errno;

	if (!mt_os_file_size_is_allowed(offset + bytes))
		return -EFBIG;
	return keep_errno(mt_raw_syscall(SYS_pwrite64, fd, from, bytes, offset), kept);
}

bool mt_os_write_whole(int fd, const void *from, size_t bytes, uint64_t *offset)
{
	const char *at = from;

	while (bytes > 0) {
		ssize_t written = mt_os_write_at(fd, at, bytes, *offset);

		if (written == -EINTR)
			continue;
		if (written <= 0)
			return false;
		at += written;
		bytes -= (size_t)written;
		*offset += (uint64_t)written;
	}
	return true;
}

ssize_t mt_os_read_and_close(int fd, char *out, size_t out_bytes)
{
	size_t length = 0;

	out[0] = 0;
	if (fd < 0)
		return fd;
	while (length < out_bytes - 1) {
		int kept = errno;
		/* Not pread: for another offset the kernel generates a file of /proc again. */
		ssize_t got = keep_errno(
			mt_raw_syscall(SYS_read, fd, out + length, out_bytes - 1 - length), kept);

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

ssize_t mt_os_read_file(const char *path, char *out, size_t out_bytes)
{
	/* Not blocking: a path from a setting may name a FIFO. */
	return mt_os_read_and_close(
		mt_os_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0), out, out_bytes);
}

uint64_t mt_os_parse_digits(const char **text)
{
	uint64_t value = 0;

	for (; **text >= '0' && **text <= '9'; ++*text)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(**text - '0'), &value))
			value = UINT64_MAX;
	return value;
}

uint64_t mt_os_parse_number(const char *text)
{
	while (*text == ' ' || *text == '\t')
		text++;
	return mt_os_parse_digits(&text);
}

const char *mt_os_find_line(const char *text, const char *key)
{
	size_t length = strlen(key);

	while (text && strncmp(text, key, length) != 0) {
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	return text ? text + length : NULL;
}

uint64_t mt_os_parse_keyed_number(const char *text, const char *key)
{
	const char *value = mt_os_find_line(text, key);

	return value ? mt_os_parse_number(value) : 0;
}

/* Also a last line without a newline. */
void mt_os_each_line(const char *path, char *text, size_t text_bytes,
		     bool (*visit)(char *line, void *context), void *context)
{
	int fd = mt_os_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
	bool skips_line = false, is_done = false;
	uint64_t offset = 0;
	size_t length = 0;

	while (fd >= 0 && !is_done) {
		ssize_t got = mt_os_read_at(fd, text + length, text_bytes - 1 - length, offset);
		char *line = text, *end;

		if (got == -EINTR)
			continue;
		if (got <= 0)
			break;
		offset += (uint64_t)got;
		length += (size_t)got;
		for (; !is_done && (end = memchr(line, '\n', length)); line = end + 1) {
			*end = 0;
			is_done = !skips_line && visit(line, context);
			skips_line = false;
			length -= (size_t)(end + 1 - line);
		}
		mt_assert(length < text_bytes);
		memmove(text, line, length);
		if (length == text_bytes - 1) {
			skips_line = true;
			length = 0;
		}
	}
	text[length] = 0;
	if (length && !is_done && !skips_line)
		(void)visit(text, context);
	if (fd >= 0)
		mt_os_close(fd);
}

const char *mt_os_procstat_at(const char *stat, int number)
{
	const char *at = strrchr(stat, ')'); /* the name before it may contain any character */

	for (int field = 2; at && field < number; field++) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	return at;
}

uint64_t mt_os_procstat_number(const char *stat, int number)
{
	const char *at = mt_os_procstat_at(stat, number);

	return at ? mt_os_parse_number(at) : 0;
}

uint64_t mt_os_own_procstat_number(int number)
{
	char text[1024];

	return mt_os_read_file("/proc/self/stat", text, sizeof(text)) > 0
		       ? mt_os_procstat_number(text, number)
		       : 0;
}

/* ---- own stack ---- */

#define STACK_BYTES (256u << 10)

/* The stack pointer of the caller is kept in a register that the function preserves. The use of the
 * frame's address makes the compiler keep a frame pointer, by which unwinders find the caller: by
 * the stack pointer they would read what lies above the new stack. */
static __attribute__((noinline)) void call_on(void *top, void (*function)(void *), void *argument)
{
	__asm__ volatile("" : : "r"(__builtin_frame_address(0)));
#if defined(__x86_64__)
	__asm__ volatile("movq %%rsp, %%rbx\n\t"
			 "movq %[top], %%rsp\n\t"
			 "callq *%[function]\n\t"
			 "movq %%rbx, %%rsp"
			 : "+D"(argument)
			 : [top] "r"(top), [function] "r"(function)
			 : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0",
			   "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
			   "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
#elif defined(__aarch64__)
	register void *first __asm__("x0") = argument;

	__asm__ volatile("mov x19, sp\n\t"
			 "mov sp, %[top]\n\t"
			 "blr %[function]\n\t"
			 "mov sp, x19"
			 : "+r"(first)
			 : [top] "r"(top), [function] "r"(function)
			 : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
			   "x12", "x13", "x14", "x15", "x16", "x17", "x19", "x30", "v0", "v1", "v2",
			   "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
			   "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",
			   "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory");
#else
	(void)top;
	function(argument);
#endif
}

MT_COLD void mt_os_own_stack_call(void (*function)(void *), void *argument)
{
	int kept = errno;
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	uint64_t signals;

	errno = kept;
	if (stack == MAP_FAILED) {
		function(argument);
		return;
	}
	mt_assert((uintptr_t)(stack + STACK_BYTES) % 16 == 0); /* the ABI's alignment */
	signals = mt_os_block_signals();
	call_on(stack + STACK_BYTES, function, argument);
	mt_os_restore_signals(signals);
	kept = errno;
	(void)munmap(stack, STACK_BYTES);
	errno = kept;
}
