/* ctl/naming.c -- see naming.h. */
#include "ctl/naming.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/bellfile.h"
#include "ctl/error.h"
#include "ctl/text.h"

#define NOBODY       65534
#define SECONDS_MOST 60u
#define NAMES_MOST   ((size_t)1 << 18)  /* more than any program has call sites that allocate; the others get offsets */
#define BYTES_MOST   ((rlim_t)8 << 30) /* of address space: files are mapped, those of large programs are gigabytes */

/* ---- the child ---- */

/* False: it could not be given up, and nothing may be read. Who was root cannot be traced by the other nobodies: the kernel
 * makes who changes his user undumpable. */
static bool give_up_rights(void)
{
	const struct rlimit seconds = {SECONDS_MOST, SECONDS_MOST}, bytes = {BYTES_MOST, BYTES_MOST}, core = {0, 0};

	(void)setrlimit(RLIMIT_CPU, &seconds);
	(void)setrlimit(RLIMIT_AS, &bytes);
	(void)setrlimit(RLIMIT_CORE, &core);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return false;
	return geteuid() != 0 || (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
				  setresuid(NOBODY, NOBODY, NOBODY) == 0);
}

static void child(struct mt_symbols *symbols, const uint64_t *addresses, size_t count, int to)
{
	FILE *out = fdopen(to, "w");

	mt_symbols_open(symbols, addresses, count);
	if (!out || !give_up_rights())
		_exit(1);
	for (size_t i = 0; i < count; i++) {
		char *text = mt_symbols_name(symbols, addresses[i]);

		fwrite(text, 1, strlen(text) + 1, out);
		free(text);
	}
	fflush(out);
	_exit(0);
}

/* ---- the parent ---- */

/* Until the end, or until it has taken too long. How many bytes. */
static size_t read_all(int from, char *out, size_t room)
{
	uint64_t end_ns = mt_bellfile_now_ns() + SECONDS_MOST * UINT64_C(1000000000), now_ns;
	struct pollfd wait = {.fd = from, .events = POLLIN};
	size_t used = 0;
	ssize_t got = 1;

	while (got > 0 && used < room && (now_ns = mt_bellfile_now_ns()) < end_ns) {
		if (poll(&wait, 1, (int)((end_ns - now_ns) / 1000000u) + 1) <= 0)
			continue;
		got = read(from, out + used, room - used);
		used += got > 0 ? (size_t)got : 0;
	}
	return used;
}

/* Where all is well as many texts as addresses. */
static void split(const char *read, size_t bytes, char **texts, size_t count)
{
	const char *at = read, *end;

	for (size_t i = 0; i < count && (end = memchr(at, '\0', bytes - (size_t)(at - read))); i++, at = end + 1) {
		texts[i] = mt_error_check_memory(strdup(at));
		mt_text_clean(texts[i], strlen(at) + 1);
	}
}

void mt_naming_fill(struct mt_symbols *symbols, const uint64_t *addresses, size_t count, char **texts)
{
	size_t asked = count < NAMES_MOST ? count : NAMES_MOST;
	size_t room = asked * MT_SYMBOLS_NAME_BYTES + 1;
	char *read = mt_error_check_memory(malloc(room));
	int ends[2];
	pid_t pid = -1;

	if (asked && pipe(ends) == 0) {
		pid = fork();
		if (pid == 0) {
			close(ends[0]);
			child(symbols, addresses, asked, ends[1]);
		}
		close(ends[1]);
		if (pid > 0) {
			split(read, read_all(ends[0], read, room), texts, asked);
			(void)kill(pid, SIGKILL);
			while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
				continue;
		}
		close(ends[0]);
	}
	for (size_t i = 0; i < count; i++)
		if (!texts[i])
			texts[i] = mt_symbols_offset(symbols, addresses[i]);
	free(read);
}
