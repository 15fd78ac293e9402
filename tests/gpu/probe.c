/* probe.c -- runs the items of the probe one by one, each in a child of its own with a time limit.
 *   probe                  every item: one JSON document on stdout, a readable table on stderr
 *   probe NAME...          only items whose name begins with one of these
 *   probe --list           names of the items
 *   probe --item NAME      (by itself) one item, in this process
 * Exits 0 when every item has run to its end, 1 otherwise, 77 where all were skipped: no GPU. */
#include "probe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CAPTURES(mode)                                                                             \
	{"capture." mode ".other.plain", probe_capture, mode " other plain", 60},                  \
		{"capture." mode ".other.relaxed", probe_capture, mode " other relaxed", 60},      \
		{"capture." mode ".same.plain", probe_capture, mode " same plain", 60},            \
	{                                                                                          \
		"capture." mode ".same.relaxed", probe_capture, mode " same relaxed", 60           \
	}
#define ODD_FREE(kind)                                                                             \
	{                                                                                          \
		"odd_free." kind, probe_odd_free, kind, 30                                         \
	}
#define WAITS(kind)                                                                                \
	{                                                                                          \
		"free_waits." kind, probe_free_waits, kind, 30                                     \
	}
#define SEES(kind)                                                                                 \
	{                                                                                          \
		"record_sees." kind, probe_record_sees, kind, 30                                   \
	}

static const struct probe_item items[] = {
	{"machine", probe_machine, "", 60},
	{"cost.calls", probe_call_costs, "", 60},
	{"cost.events.1", probe_event_costs, "1", 60},
	{"cost.events.8", probe_event_costs, "8", 60},
	{"cost.events.32", probe_event_costs, "32", 60},
	{"cost.memory", probe_memory_costs, "", 120},
	WAITS("null"),
	WAITS("blocking"),
	WAITS("non_blocking"),
	WAITS("per_thread"),
	WAITS("other_context"),
	SEES("null"),
	SEES("blocking"),
	SEES("non_blocking"),
	SEES("per_thread"),
	SEES("graph"),
	SEES("green"),
	SEES("other_context"),
	SEES("peer_copy"),
	CAPTURES("global"),
	CAPTURES("thread"),
	CAPTURES("relaxed"),
	{"lookup", probe_lookup, "", 30},
	{"ranges", probe_ranges, "", 30},
	{"granularity", probe_granularity, "", 60},
	{"freed_in_stream", probe_freed_in_stream, "", 30},
	ODD_FREE("double"),
	ODD_FREE("interior"),
	ODD_FREE("null"),
	ODD_FREE("unknown"),
	ODD_FREE("other_context_current"),
	ODD_FREE("no_context_current"),
	ODD_FREE("after_context_destroy"),
	ODD_FREE("after_primary_reset"),
	ODD_FREE("async_of_sync"),
	ODD_FREE("sync_of_async"),
	ODD_FREE("sync_of_managed"),
	ODD_FREE("sync_of_pinned"),
	{"sticky", probe_sticky, "", 30},
	{"free_of_broken", probe_free_of_broken, "", 30},
	{"fork", probe_fork, "", 30},
	{"exit", probe_exit, "", 30},
};

/* ---- what an item says ---- */

static void say(const char *value, const char *key, va_list arguments)
{
	vprintf(key, arguments);
	printf("\t%s\n", value);
	fflush(stdout);
}

#define SAY(...)                                                                                   \
	do {                                                                                       \
		char text[512];                                                                    \
		va_list arguments;                                                                 \
		snprintf(text, sizeof text, __VA_ARGS__);                                          \
		va_start(arguments, key);                                                          \
		say(text, key, arguments);                                                         \
		va_end(arguments);                                                                 \
	} while (0)

void say_number(double value, const char *key, ...)
{
	SAY("%.15g", value);
}

void say_bool(bool value, const char *key, ...)
{
	SAY("%s", value ? "true" : "false");
}

void say_code(int value, const char *key, ...)
{
	SAY("%d", value);
}

void say_text(const char *value, const char *key, ...)
{
	char clean[256];
	size_t at = 0;

	for (; *value && at + 1 < sizeof clean; value++)
		clean[at++] = *value < ' ' || *value == '"' || *value == '\\' ? '\'' : *value;
	clean[at] = 0;
	SAY("\"%s\"", clean);
}

void say_samples(double *samples, size_t count, const char *key, ...)
{
	va_list arguments;
	char name[256];

	if (!count)
		return;
	va_start(arguments, key);
	vsnprintf(name, sizeof name, key, arguments);
	va_end(arguments);
	say_number(gpu_quantile(samples, count, 0.5), "%s_ns", name);
	say_number(gpu_quantile(samples, count, 0.95), "%s_p95_ns", name);
}

/* ---- the parent ---- */

struct answer {
	char *text;
	size_t length;
	int status; /* as of waitpid; -1: killed at its limit */
	double seconds;
};

static void read_all(int from, struct answer *answer, uint64_t until_ns)
{
	struct pollfd ready = {from, POLLIN, 0};

	for (;;) {
		uint64_t now = gpu_now_ns();
		ssize_t got;

		if (now >= until_ns || poll(&ready, 1, (int)((until_ns - now) / 1000000) + 1) == 0)
			return;
		answer->text = realloc(answer->text, answer->length + 4097);
		if (!answer->text)
			abort();
		got = read(from, answer->text + answer->length, 4096);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return;
		answer->length += (size_t)got;
		answer->text[answer->length] = 0;
	}
}

/* An item's own children keep the pipe open and its group alive: the whole group is killed. */
static struct answer run_child(const struct probe_item *item)
{
	struct answer answer = {.text = calloc(1, 1)};
	uint64_t begin = gpu_now_ns();
	uint64_t until = begin + (uint64_t)item->limit_s * 1000000000;
	int ends[2];
	pid_t child;
	pid_t ended;

	if (!answer.text || pipe(ends) != 0 || (child = fork()) < 0)
		abort();
	if (child == 0) {
		setpgid(0, 0);
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execl("/proc/self/exe", "probe", "--item", item->name, (char *)NULL);
		_exit(126);
	}
	setpgid(child, child);
	close(ends[1]);
	read_all(ends[0], &answer, until);
	while ((ended = waitpid(child, &answer.status, WNOHANG)) == 0 && gpu_now_ns() < until)
		gpu_sleep_ms(1);
	kill(-child, SIGKILL);
	if (ended == 0) {
		waitpid(child, NULL, 0);
		answer.status = -1;
	}
	close(ends[0]);
	answer.seconds = (double)(gpu_now_ns() - begin) / 1e9;
	return answer;
}

/* How it ended, in words; NULL for well. */
static const char *outcome(const struct answer *answer)
{
	static char text[128];

	if (answer->status == -1)
		return "killed at its time limit";
	if (WIFSIGNALED(answer->status)) {
		snprintf(text, sizeof text, "died of signal %d", WTERMSIG(answer->status));
		return text;
	}
	if (WEXITSTATUS(answer->status) == 0)
		return NULL;
	if (WEXITSTATUS(answer->status) == GPU_SKIPPED)
		return "skipped";
	snprintf(text, sizeof text, "exit status %d", WEXITSTATUS(answer->status));
	return text;
}

/* `key TAB value` lines become members; any other line is a remark (why it was skipped, or failed).
 */
static void print_members(char *text)
{
	char *state = NULL;

	for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
		char *tab = strchr(line, '\t');

		if (tab) {
			*tab = 0;
			printf(",\n   \"%s\": %s", line, tab + 1);
			fprintf(stderr, "    %-52s %s\n", line, tab + 1);
		} else {
			for (char *c = line; *c; c++)
				*c = *c == '"' || *c == '\\' || *c < ' ' ? '\'' : *c;
			printf(",\n   \"remark\": \"%s\"", line);
			fprintf(stderr, "    %s\n", line);
		}
	}
}

static bool wanted(const struct probe_item *item, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (strncmp(item->name, *names, strlen(*names)) == 0)
			return true;
	return false;
}

static int run_all(char **names)
{
	struct utsname machine;
	time_t now = time(NULL);
	char date[32];
	int failed = 0;
	int done = 0;

	uname(&machine);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	printf("{\n \"probe\": 1,\n \"date\": \"%s\",\n \"kernel\": \"%s %s\",\n \"items\": {",
	       date, machine.release, machine.machine);
	for (size_t i = 0, printed = 0; i < sizeof items / sizeof *items; i++) {
		struct answer answer;
		const char *end;

		if (!wanted(&items[i], names))
			continue;
		fflush(NULL);
		answer = run_child(&items[i]);
		end = outcome(&answer);
		fprintf(stderr, "%s: %s (%.1f s)\n", items[i].name, end ? end : "done",
			answer.seconds);
		printf("%s\n  \"%s\": {\n   \"outcome\": \"%s\"", printed++ ? "," : "",
		       items[i].name, end ? end : "done");
		print_members(answer.text);
		printf("\n  }");
		free(answer.text);
		failed += end && strcmp(end, "skipped") != 0;
		done += !end;
	}
	printf("\n }\n}\n");
	return failed ? 1 : done ? 0 : GPU_SKIPPED;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < sizeof items / sizeof *items; i++)
			puts(items[i].name);
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "--item") == 0) {
		for (size_t i = 0; i < sizeof items / sizeof *items; i++)
			if (strcmp(items[i].name, argv[2]) == 0) {
				items[i].run(items[i].argument);
				return 0;
			}
		return 2;
	}
	return run_all(argv + 1);
}
