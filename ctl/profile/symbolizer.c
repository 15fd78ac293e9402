#include "ctl/profile/symbolizer.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/process/clock.h"
#include "ctl/output/error.h"
#include "ctl/output/text.h"

#define NOBODY_ID   65534
#define SECONDS_MAX 10u
/* more call sites than any program has; further addresses get offsets */
#define NAMES_MAX ((size_t)1 << 18)
/* of address space: a larger file is read in pieces, not mapped */
#define BYTES_MAX ((rlim_t)1 << 30)

#ifndef SYS_open
#define SYS_open 0xffffffffu /* newer architectures only have openat */
#endif

/* ---- the child ---- */

/* Files make libdw open more files, by any name (.gnu_debugaltlink, DW_AT_dwo_name), and opening a
 * FIFO blocks. A seccomp filter allows only our own opens, which use O_NONBLOCK or O_PATH and check
 * the file. Without seccomp only the time is bounded. */
static void restrict_opens(void)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat2, 6, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		/* openat's flags */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (uint32_t)offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
		/* open's flags */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (uint32_t)offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_NONBLOCK | O_PATH, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
	};
	static const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	(void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* The kernel kills this child first where memory is short. Any process may raise its own
 * oom_score_adj. */
static void prefer_oom_kill(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "1000", 4);
	close(fd);
}

/* Returns false where rights could not be dropped: then nothing may be read. The kernel makes a
 * process undumpable that changes its user, so that other processes of nobody cannot trace it. */
static bool drop_rights(void)
{
	const struct rlimit seconds = {SECONDS_MAX, SECONDS_MAX}, bytes = {BYTES_MAX, BYTES_MAX},
			    core = {0, 0};

	(void)setrlimit(RLIMIT_CPU, &seconds);
	(void)setrlimit(RLIMIT_AS, &bytes);
	(void)setrlimit(RLIMIT_CORE, &core);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return false;
	restrict_opens();
	return geteuid() != 0 ||
	       (setgroups(0, NULL) == 0 && setresgid(NOBODY_ID, NOBODY_ID, NOBODY_ID) == 0 &&
		setresuid(NOBODY_ID, NOBODY_ID, NOBODY_ID) == 0);
}

/* Writes each name at once: a later file may end the child. */
static void child(struct mt_symbols *symbols, const uint64_t *addresses, size_t count, int to)
{
	prefer_oom_kill();
	mt_symbols_open(symbols, addresses, count);
	if (!drop_rights())
		_exit(1);
	for (size_t i = 0; i < count; i++) {
		char *text = mt_symbols_name(symbols, addresses[i]);
		size_t left = strlen(text) + 1;

		for (const char *at = text; left;) {
			ssize_t put = write(to, at, left);

			if (put <= 0)
				_exit(1);
			at += put;
			left -= (size_t)put;
		}
		free(text);
	}
	_exit(0);
}

/* ---- the parent ---- */

/* Reads to the end, or until end_ns. Returns how many bytes. */
static size_t read_all(int from, char *out, size_t room, uint64_t end_ns)
{
	struct pollfd wait = {.fd = from, .events = POLLIN};
	uint64_t now_ns;
	size_t used = 0;
	ssize_t got = 1;

	while (got > 0 && used < room && (now_ns = mt_clock_now_ns()) < end_ns) {
		if (poll(&wait, 1, (int)((end_ns - now_ns) / 1000000u) + 1) <= 0)
			continue;
		got = read(from, out + used, room - used);
		used += got > 0 ? (size_t)got : 0;
	}
	return used;
}

/* Splits the text at its NULs. Returns how many texts there are. */
static size_t split(const char *read, size_t bytes, char **texts, size_t count)
{
	const char *at = read, *end;
	size_t i = 0;

	for (; i < count && (end = memchr(at, '\0', bytes - (size_t)(at - read)));
	     i++, at = end + 1) {
		texts[i] = mt_error_check_memory(strdup(at));
		mt_text_clean(texts[i], strlen(at) + 1);
	}
	return i;
}

/* Names addresses by one child. Returns how many of the first ones have a text. */
static size_t fill_by_child(struct mt_symbols *symbols, const uint64_t *addresses, size_t count,
			    char **texts, uint64_t end_ns)
{
	size_t room = count * MT_SYMBOLS_NAME_BYTES + 1, done = 0;
	char *read;
	int ends[2];
	pid_t pid;

	if (pipe(ends) != 0)
		return 0;
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		child(symbols, addresses, count, ends[1]);
	}
	close(ends[1]);
	if (pid > 0) {
		read = mt_error_check_memory(malloc(room));
		done = split(read, read_all(ends[0], read, room, end_ns), texts, count);
		free(read);
		(void)kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			continue;
	}
	close(ends[0]);
	return done;
}

/* A child that ends early failed on one file: the next child starts after that file. */
void mt_symbolizer_fill(struct mt_symbols *symbols, const uint64_t *addresses, size_t count,
			char **texts)
{
	size_t asked = count < NAMES_MAX ? count : NAMES_MAX, at = 0, bad;
	uint64_t end_ns = mt_clock_now_ns() + SECONDS_MAX * UINT64_C(1000000000);

	while (at < asked && mt_clock_now_ns() < end_ns) {
		at += fill_by_child(symbols, addresses + at, asked - at, texts + at, end_ns);
		for (bad = at;
		     at < asked &&
		     (at == bad || mt_symbols_same_file(symbols, addresses[at], addresses[bad]));)
			at++;
	}
	for (size_t i = 0; i < count; i++)
		if (!texts[i])
			texts[i] = mt_symbols_offset(symbols, addresses[i]);
}
