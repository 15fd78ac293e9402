#include "ctl/profile/symbolizer.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ctl/process/clock.h"
#include "ctl/process/watchdog.h"
#include "ctl/output/error.h"
#include "ctl/output/text.h"
#include "sys/saturating.h"

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

struct job {
	struct mt_symbols *symbols;
	const uint64_t *addresses;
	size_t count;
};

/* Writes each name at once: a later file may end the child. */
static void work(const void *argument, int to)
{
	const struct job *job = argument;

	prefer_oom_kill();
	mt_symbols_open(job->symbols, job->addresses, job->count);
	if (!drop_rights())
		_exit(1);
	for (size_t i = 0; i < job->count; i++) {
		char *text = mt_symbols_name(job->symbols, job->addresses[i]);

		mt_watchdog_write(to, text, strlen(text) + 1);
		free(text);
	}
}

/* ---- the parent ---- */

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
static size_t fill_by_child(const struct job *job, char **texts, uint64_t end_ns)
{
	const unsigned left_ms = (unsigned)(mt_sat_sub(end_ns, mt_clock_now_ns()) / 1000000u) + 1;
	const struct mt_watchdog watchdog = {.work = work,
					     .argument = job,
					     .max_bytes = job->count * MT_SYMBOLS_NAME_BYTES + 1,
					     .max_ms = left_ms,
					     .wait_ms = left_ms};
	struct mt_watchdog_end end;
	size_t length, done;
	char *read = mt_watchdog_run(&watchdog, &length, &end);

	done = split(read, length, texts, job->count);
	free(read);
	return done;
}

/* A child that ends early failed on one file: the next child starts after that file. */
void mt_symbolizer_fill(struct mt_symbols *symbols, const uint64_t *addresses, size_t count,
			char **texts)
{
	size_t asked = count < NAMES_MAX ? count : NAMES_MAX, at = 0, bad;
	uint64_t end_ns = mt_clock_now_ns() + SECONDS_MAX * UINT64_C(1000000000);

	while (at < asked && mt_clock_now_ns() < end_ns) {
		const struct job job = {symbols, addresses + at, asked - at};

		at += fill_by_child(&job, texts + at, end_ns);
		for (bad = at;
		     at < asked &&
		     (at == bad || mt_symbols_same_file(symbols, addresses[at], addresses[bad]));)
			at++;
	}
	for (size_t i = 0; i < count; i++)
		if (!texts[i])
			texts[i] = mt_symbols_offset(symbols, addresses[i]);
}
