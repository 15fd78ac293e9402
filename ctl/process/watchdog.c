#include "ctl/process/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ctl/process/clock.h"
#include "ctl/output/error.h"

#define TICK_MS     10
#define PIECE_BYTES 65536u

struct reader {
	pid_t child;
	int from;
	char *text;
	size_t used, room;
	unsigned waited_ms; /* sleep of the child since its last byte */
	unsigned slept_ms;  /* sleep before its last byte */
	uint64_t last_ns;   /* time of its last byte */
};

/* ---- the child ---- */

void mt_watchdog_write(int to, const void *bytes, size_t count)
{
	const char *at = bytes;

	while (count) {
		ssize_t done = write(to, at, count);

		if (done <= 0)
			_exit(1);
		at += done;
		count -= (size_t)done;
	}
}

/* Closes standard output: a child that cannot be killed, in a fault on a file system that hangs,
 * would keep the readers of the output of mtctl waiting. */
static _Noreturn void child(const struct mt_watchdog *watchdog, int to, pid_t parent)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fd != to)
			close(fd);
	watchdog->work(watchdog->argument, to);
	_exit(0);
}

/* ---- the parent ---- */

static bool start(struct reader *reader, const struct mt_watchdog *watchdog)
{
	pid_t own = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	reader->child = fork();
	if (reader->child == 0) {
		close(ends[0]);
		child(watchdog, ends[1], own);
	}
	close(ends[1]);
	reader->from = ends[0];
	if (reader->child < 0)
		close(ends[0]);
	return reader->child > 0;
}

/* Returns whether the child sleeps. A child that waits for a CPU is R: "1234 (mtctl) R 1...". The
 * name of mtctl has no parenthesis. */
static bool sleeps(pid_t pid)
{
	char path[32], text[128] = "";
	const char *state;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	state = got > 0 ? strrchr(text, ')') : NULL;
	return !state || state[1] != ' ' || state[2] != 'R';
}

/* Returns false at the end of the output, or of max_bytes. */
static bool read_more(struct reader *reader, size_t max_bytes)
{
	size_t left = max_bytes - reader->used;
	ssize_t got;

	if (reader->room - reader->used < PIECE_BYTES + 1) {
		reader->room = reader->room * 2 + PIECE_BYTES + 1;
		reader->text = mt_error_check_memory(realloc(reader->text, reader->room));
	}
	got = read(reader->from, reader->text + reader->used,
		   left < PIECE_BYTES ? left : PIECE_BYTES);
	if (got < 0)
		return errno == EINTR;
	reader->used += (size_t)got;
	reader->slept_ms += reader->waited_ms;
	reader->waited_ms = 0;
	reader->last_ns = mt_clock_now_ns();
	return got > 0 && reader->used < max_bytes;
}

/* Returns false if no byte has come in time. Counts ticks instead of time: if mtctl gets no
 * CPU, its child gets none either. */
static bool has_time(struct reader *reader, const struct mt_watchdog *watchdog)
{
	unsigned wait_ms = watchdog->wait_ms ? watchdog->wait_ms : MT_WATCHDOG_WAIT_MS;

	if (sleeps(reader->child))
		reader->waited_ms += TICK_MS;
	return reader->waited_ms < wait_ms &&
	       mt_clock_now_ns() - reader->last_ns < watchdog->max_ms * UINT64_C(1000000);
}

/* A child that cannot be killed yet ends later, and is not waited for. */
static void reap(const struct reader *reader)
{
	struct pollfd end = {.fd = reader->from};

	(void)kill(reader->child, SIGKILL);
	(void)poll(&end, 1, 100);
	close(reader->from);
	for (int tries = 0; tries < 100 && waitpid(reader->child, NULL, WNOHANG) == 0; tries++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

char *mt_watchdog_run(const struct mt_watchdog *watchdog, size_t *length,
		      struct mt_watchdog_end *out_end)
{
	struct reader reader = {.last_ns = mt_clock_now_ns()};
	struct pollfd wait = {.events = POLLIN};
	bool goes_on = start(&reader, watchdog);

	out_end->is_stuck = !goes_on;
	wait.fd = reader.from;
	while (goes_on) {
		if (poll(&wait, 1, TICK_MS) > 0) {
			goes_on = read_more(&reader, watchdog->max_bytes);
		} else if (!has_time(&reader, watchdog)) {
			out_end->is_stuck = true;
			break;
		}
	}
	if (reader.child > 0)
		reap(&reader);
	reader.text = mt_error_check_memory(realloc(reader.text, reader.used + 1));
	reader.text[reader.used] = '\0';
	out_end->waited_ms = reader.slept_ms + reader.waited_ms;
	*length = reader.used;
	return reader.text;
}

bool mt_watchdog_value(void (*work)(const void *argument, int to), const void *argument,
		       unsigned max_ms, void *out, size_t bytes)
{
	const struct mt_watchdog watchdog = {work, argument, bytes, max_ms, 0};
	struct mt_watchdog_end end;
	size_t length = 0;
	char *text = mt_watchdog_run(&watchdog, &length, &end);
	bool is_whole = text && !end.is_stuck && length == bytes;

	if (is_whole)
		memcpy(out, text, bytes);
	free(text);
	return is_whole;
}
