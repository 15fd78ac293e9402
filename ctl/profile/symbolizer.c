/* ctl/profile/symbolizer.c -- see symbolizer.h. */
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
#include "ctl/process/control_file.h"
#include "ctl/output/error.h"
#include "ctl/output/text.h"

#define NOBODY      65534
#define SECONDS_MAX 10u
/* more than any program has call sites that allocate; the others get offsets */
#define NAMES_MAX ((size_t)1 << 18)
/* of address space: a larger file is read in pieces instead of mapped */
#define BYTES_MAX ((rlim_t)1 << 30)

#ifndef SYS_open
#define SYS_open 0xffffffffu /* newer architectures have openat alone */
#endif

/* ---- the child ---- */

/* What libdw reads makes it open more files, by any name (.gnu_debugaltlink, DW_AT_dwo_name); of a
 * FIFO the open waits for ever. Only our own opens pass, which look at what they open, and do not
 * wait. A kernel without filters leaves the bound of time. */
static void keep_libdw_from_opening(void)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 6, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		/* openat's flags */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (uint32_t)offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
		/* open's */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (uint32_t)offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_NONBLOCK | O_PATH, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
	};
	static const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	(void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Whoever needs memory that is short gets it from here first. Anybody may ask for that, and nobody
 * takes it back. */
static void be_first_to_go(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "1000", 4);
	close(fd);
}

/* False: it could not be given up, and nothing may be read. Who was root cannot be traced by the
 * other nobodies: the kernel makes who changes his user undumpable. */
static bool give_up_rights(void)
{
	const struct rlimit seconds = {SECONDS_MAX, SECONDS_MAX}, bytes = {BYTES_MAX, BYTES_MAX},
			    core = {0, 0};

	(void)setrlimit(RLIMIT_CPU, &seconds);
	(void)setrlimit(RLIMIT_AS, &bytes);
	(void)setrlimit(RLIMIT_CORE, &core);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return false;
	keep_libdw_from_opening();
	return geteuid() != 0 ||
	       (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
		setresuid(NOBODY, NOBODY, NOBODY) == 0);
}

/* Each name as soon as it is there: what follows may be the end of us. */
static void child(struct mt_symbols *symbols, const uint64_t *addresses, size_t count, int to)
{
	be_first_to_go();
	mt_symbols_open(symbols, addresses, count);
	if (!give_up_rights())
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

/* Until the end, or until it has taken too long. How many bytes. */
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

/* Where all is well as many texts as addresses. How many. */
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

/* By one child. How many of the first have got a text. */
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

/* A child that ends early does so over one file: the next goes on behind it, so that the others
 * keep their names. */
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
