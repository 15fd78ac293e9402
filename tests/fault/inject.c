/* inject.c -- linked into a shim for tests, between it and libc (fault.mk): counts the calls of
 * each function of inject.def that the shim and the jemalloc inside it make, and lets those fail
 * that it is told to. By the environment:
 *   INJECT_FAULTS  faults separated by commas, NAME:WHICH or NAME:WHICH=WHAT. NAME: a function, or
 *     * for all. WHICH: 3,
 *                  3-8, 3+ (from the third call on) or /7 (every seventh). WHAT: an errno by name;
 *                    HALF: a read or write
 *                  does half of it; END: a read finds the end, a write has no room. Without: the
 *                    errno that is usual for it.
 *   INJECT_COUNTS  a file of COUNTS_BYTES zero bytes, into which is counted: struct row for each
 *     function, in the order of
 *                  the list. Shared with children, so that the third call is the third of all of
 *                    them.
 * The first call of all reads them: long before any constructor. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "heap/backend.h"
#include "inject.def"

#ifndef SYS_open
#define SYS_open (-1L) /* architectures that began with openat */
#endif

#define COUNTS_BYTES 16384
#define FAULTS_MAX   16

/* What a fault answers beside an errno. */
enum { CODE_HALF = -1, CODE_END = -2 };

enum function {
#define X(type, name, parameters, arguments, failed, usual) FN_##name,
	INJECT_FUNCTIONS(X)
#undef X
#define X(name, usual) FN_##name,
		INJECT_BY_HAND(X)
#undef X
#define X(name, parameters, arguments) FN_next_##name,
			INJECT_NEXT(X)
#undef X
#define X(name, usual) FN_sys_##name,
				INJECT_SYSCALLS(X)
#undef X
					FN_COUNT
};

static const struct {
	char name[32];
	int usual;
} functions[FN_COUNT] = {
#define X(type, name, parameters, arguments, failed, usual) {#name, usual},
	INJECT_FUNCTIONS(X)
#undef X
#define X(name, usual) {#name, usual},
		INJECT_BY_HAND(X)
#undef X
#define X(name, parameters, arguments) {"next_" #name, ENOMEM},
			INJECT_NEXT(X)
#undef X
#define X(name, usual) {"sys_" #name, usual},
				INJECT_SYSCALLS(X)
#undef X
};

static const struct {
	char name[16];
	int code;
} codes[] = {
#define X(name) {#name, name},
	X(EACCES) X(EAGAIN) X(EBADF) X(EBUSY) X(ECONNREFUSED) X(EEXIST) X(EFAULT) X(EFBIG) X(EINTR)
		X(EINVAL) X(EIO) X(EISDIR) X(ELOOP) X(EMFILE) X(ENAMETOOLONG) X(ENFILE) X(ENODEV)
			X(ENOENT) X(ENOMEM) X(ENOSPC) X(ENOSYS) X(ENOTCONN) X(ENOTDIR) X(EOVERFLOW)
				X(EPERM) X(EPIPE) X(EROFS) X(ESRCH) X(ETIMEDOUT) X(ETXTBSY)
#undef X
					{"HALF", CODE_HALF},
	{"END", CODE_END},
};

struct row {
	char name[32];
	_Atomic uint64_t calls;
	_Atomic uint64_t faults;
};
_Static_assert(sizeof(struct row) * FN_COUNT <= COUNTS_BYTES, "the file has room for all rows");

struct fault {
	int function;      /* FN_COUNT: all */
	uint64_t from, to; /* the first and last call that fails */
	uint64_t every;    /* 0: not by steps */
	int code;          /* 0: the usual one */
};

static struct row own_rows[FN_COUNT];
static struct row *rows = own_rows;
static struct fault faults[FAULTS_MAX];
static int faults_count;
static _Atomic int state; /* 0 new, 1 being read, 2 ready; release/acquire with all above */

#define X(type, name, parameters, arguments, failed, usual)                                        \
	extern type __real_##name parameters;                                                      \
	type __wrap_##name parameters;
INJECT_FUNCTIONS(X)
#undef X
extern int __real_open(const char *path, int flags, ...);
extern int __real_close(int fd);
extern ssize_t __real_read(int fd, void *out, size_t bytes);
extern ssize_t __real_write(int fd, const void *from, size_t bytes);
extern int __real_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
			unsigned long d);
extern long __real_sysconf(int name);
extern void *__real_mremap(void *from, size_t bytes, size_t fresh_bytes, int flags, ...);
extern long __real_mt_raw_syscall_call(long number, long a, long b, long c, long d, long e, long f);
extern void *__real_mt_loader_symbol(void *handle, const char *name);
extern const struct mt_heap_ops *__real_mt_system_plain_ops(void);
const struct mt_heap_ops *__wrap_mt_system_plain_ops(void);
extern const struct mt_heap_ops *__real_mt_glibc_ops(void);
const struct mt_heap_ops *__wrap_mt_glibc_ops(void);
int __wrap_open(const char *path, int flags, ...);
int __wrap_close(int fd);
ssize_t __wrap_read(int fd, void *out, size_t bytes);
ssize_t __wrap_write(int fd, const void *from, size_t bytes);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
long __wrap_sysconf(int name);
void *__wrap_mremap(void *from, size_t bytes, size_t fresh_bytes, int flags, ...);
long __wrap_mt_raw_syscall_call(long number, long a, long b, long c, long d, long e, long f);
void *__wrap_mt_loader_symbol(void *handle, const char *name);

/* ---- what to do ---- */

static const char *variable(const char *name)
{
	size_t length = strlen(name);

	for (char **at = environ; *at; at++)
		if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
			return *at + length + 1;
	return NULL;
}

static bool is_word(const char *text, size_t length, const char *word)
{
	return strlen(word) == length && strncmp(text, word, length) == 0;
}

static uint64_t number(const char **text)
{
	uint64_t value = 0;

	while (**text >= '0' && **text <= '9')
		value = value * 10 + (uint64_t)(*(*text)++ - '0');
	return value;
}

/* WHICH, up to its end. */
static void parse_which(const char **at, struct fault *out)
{
	if (**at == '/') {
		++*at;
		out->every = number(at);
		out->from = 1;
		out->to = UINT64_MAX;
		return;
	}
	out->from = out->to = number(at);
	if (**at == '+') {
		++*at;
		out->to = UINT64_MAX;
	} else if (**at == '-') {
		++*at;
		out->to = number(at);
	}
}

/* One fault, to the comma; false for what is none: a test that names nothing must not pass. */
static bool parse_fault(const char *text, size_t length, struct fault *out)
{
	const char *colon = memchr(text, ':', length);
	const char *at;

	*out = (struct fault){.function = -1};
	if (!colon)
		return false;
	for (int i = 0; i < FN_COUNT; i++)
		if (is_word(text, (size_t)(colon - text), functions[i].name))
			out->function = i;
	if (is_word(text, (size_t)(colon - text), "*"))
		out->function = FN_COUNT;
	at = colon + 1;
	parse_which(&at, out);
	if (*at == '=')
		for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
			if (is_word(at + 1, (size_t)(text + length - at) - 1, codes[i].name))
				out->code = codes[i].code;
	return out->function >= 0 && out->from &&
	       (at == text + length || (*at == '=' && out->code));
}

static void parse_faults(const char *text)
{
	while (text && *text && faults_count < FAULTS_MAX) {
		size_t length = strcspn(text, ",");

		if (!parse_fault(text, length, &faults[faults_count++])) {
			static const char words[] = "inject: INJECT_FAULTS makes no sense\n";

			(void)__real_write(STDERR_FILENO, words, sizeof(words) - 1);
			_exit(120);
		}
		text += length + (text[length] == ',');
	}
}

static void share_rows(const char *path)
{
	int fd = path ? __real_open(path, O_RDWR | O_CLOEXEC) : -1;
	void *area = MAP_FAILED;

	if (fd >= 0) {
		area = __real_mmap(NULL, COUNTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		(void)__real_close(fd);
	}
	if (area != MAP_FAILED)
		rows = area;
	for (int i = 0; i < FN_COUNT; i++)
		memcpy(rows[i].name, functions[i].name, sizeof(rows[i].name));
}

/* False before libc has set environ, and for what another thread or a signal handler calls
 * meanwhile. */
static bool is_ready(void)
{
	int expected = 0;
	int kept = errno;

	if (atomic_load_explicit(&state, memory_order_acquire) == 2)
		return true;
	if (!environ || !atomic_compare_exchange_strong(&state, &expected, 1))
		return false;
	share_rows(variable("INJECT_COUNTS"));
	parse_faults(variable("INJECT_FAULTS"));
	atomic_store_explicit(&state, 2, memory_order_release);
	errno = kept;
	return true;
}

/* "*" leaves out those that no kernel refuses once and grants the next moment: whoever blocks
 * signals must open them again. */
static bool is_one_of_all(int function)
{
	return function != FN_pthread_sigmask && function != FN_sigprocmask &&
	       function != FN_sys_rt_sigprocmask;
}

static bool applies(const struct fault *fault, int function, uint64_t call)
{
	if (fault->function != function &&
	    (fault->function != FN_COUNT || !is_one_of_all(function)))
		return false;
	return call >= fault->from && call <= fault->to &&
	       (!fault->every || call % fault->every == 0);
}

/* 0: this call is to be made; else what it fails with. */
static int fault_of(enum function function)
{
	uint64_t call;

	if (!is_ready())
		return 0;
	call = atomic_fetch_add_explicit(&rows[function].calls, 1, memory_order_relaxed) + 1;
	for (int i = 0; i < faults_count; i++) {
		if (!applies(&faults[i], function, call))
			continue;
		atomic_fetch_add_explicit(&rows[function].faults, 1, memory_order_relaxed);
		return faults[i].code ? faults[i].code : functions[function].usual;
	}
	return 0;
}

/* Where half of it cannot be done. */
static int whole(int code)
{
	return code < 0 ? EIO : code;
}

/* ---- the calls ---- */

#define X(type, name, parameters, arguments, failed, usual)                                        \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		int code = whole(fault_of(FN_##name));                                             \
                                                                                                   \
		return code ? (failed) : __real_##name arguments;                                  \
	}
INJECT_FUNCTIONS(X)
#undef X

static const struct mt_heap_ops *next_real;
#define X(name, parameters, arguments)                                                             \
	static void *next_##name parameters                                                        \
	{                                                                                          \
		int code = whole(fault_of(FN_next_##name));                                        \
                                                                                                   \
		return code ? ERRNO(NULL) : next_real->name arguments;                             \
	}
INJECT_NEXT(X)
#undef X

const struct mt_heap_ops *__wrap_mt_system_plain_ops(void)
{
	static struct mt_heap_ops ops;

	next_real = __real_mt_system_plain_ops();
	ops = *next_real;
#define X(name, parameters, arguments) ops.name = next_##name;
	INJECT_NEXT(X)
#undef X
	return &ops;
}

/* The same functions, under libc's own names. */
const struct mt_heap_ops *__wrap_mt_glibc_ops(void)
{
	static struct mt_heap_ops ops;
	const struct mt_heap_ops *real = __real_mt_glibc_ops();

	if (!real)
		return NULL;
	if (!next_real)
		next_real = real;
	ops = *real;
#define X(name, parameters, arguments) ops.name = next_##name;
	INJECT_NEXT(X)
#undef X
	return &ops;
}

int __wrap_open(const char *path, int flags, ...)
{
	int code = whole(fault_of(FN_open));
	va_list list;
	mode_t mode;

	va_start(list, flags);
	mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
	va_end(list);
	return code ? ERRNO(-1) : __real_open(path, flags, mode);
}

/* The descriptor is gone all the same, as the kernel has it. */
int __wrap_close(int fd)
{
	int code = whole(fault_of(FN_close));
	int answer = __real_close(fd);

	return code ? ERRNO(-1) : answer;
}

ssize_t __wrap_read(int fd, void *out, size_t bytes)
{
	int code = fault_of(FN_read);

	if (code == CODE_END)
		return 0;
	if (code == CODE_HALF)
		return __real_read(fd, out, bytes > 1 ? bytes / 2 : bytes);
	return code ? ERRNO(-1) : __real_read(fd, out, bytes);
}

ssize_t __wrap_write(int fd, const void *from, size_t bytes)
{
	int code = fault_of(FN_write);

	if (code == CODE_HALF)
		return __real_write(fd, from, bytes > 1 ? bytes / 2 : bytes);
	if (code == CODE_END)
		code = ENOSPC;
	return code ? ERRNO(-1) : __real_write(fd, from, bytes);
}

int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	int code = whole(fault_of(FN_prctl));

	return code ? ERRNO(-1) : __real_prctl(option, a, b, c, d);
}

long __wrap_sysconf(int name)
{
	int code = name == _SC_PAGESIZE ? 0 : whole(fault_of(FN_sysconf));

	return code ? ERRNO(-1) : __real_sysconf(name);
}

void *__wrap_mremap(void *from, size_t bytes, size_t fresh_bytes, int flags, ...)
{
	int code = whole(fault_of(FN_mremap));
	va_list list;
	void *to;

	va_start(list, flags);
	to = va_arg(list, void *);
	va_end(list);
	return code ? ERRNO(MAP_FAILED) : __real_mremap(from, bytes, fresh_bytes, flags, to);
}

/* libc itself has the names that are looked for behind us. */
void *__wrap_mt_loader_symbol(void *handle, const char *name)
{
	if (handle != RTLD_NEXT && fault_of(FN_mt_loader_symbol))
		return NULL;
	return __real_mt_loader_symbol(handle, name);
}

static int function_of(long number)
{
#define X(name, usual)                                                                             \
	if (number == SYS_##name)                                                                  \
		return FN_sys_##name;
	INJECT_SYSCALLS(X)
#undef X
	return -1;
}

/* As much of a read or a write as `code` leaves. */
static long do_part(int function, int code, const long words[7])
{
	bool reads = function == FN_sys_read || function == FN_sys_pread64;
	bool writes = function == FN_sys_write || function == FN_sys_pwrite64;

	if (reads && code == CODE_END)
		return 0;
	if ((reads || writes) && code == CODE_HALF)
		return __real_mt_raw_syscall_call(words[0], words[1], words[2], (words[3] + 1) / 2,
						  words[4], words[5], words[6]);
	errno = code > 0 ? code : code == CODE_END && writes ? ENOSPC : EIO;
	return -1;
}

long __wrap_mt_raw_syscall_call(long number, long a, long b, long c, long d, long e, long f)
{
	const long words[7] = {number, a, b, c, d, e, f};
	int function = function_of(number);
	int code = function < 0 ? 0 : fault_of((enum function)function);

	if (!code)
		return __real_mt_raw_syscall_call(number, a, b, c, d, e, f);
	if (function == FN_sys_close)
		(void)__real_mt_raw_syscall_call(number, a, b, c, d, e, f);
	return do_part(function, code, words);
}
