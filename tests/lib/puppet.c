/* puppet.c -- does what it is told on stdin, one command a line, one answer line each. It is the
 * program under test wherever a test wants to steer a heap from outside. Its own bookkeeping lives
 * in static memory and it reads and writes with plain system calls, so that every heap byte is one
 * that a command asked for. */
#include <dlfcn.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLOTS_COUNT (1u << 21)

static char *slots[SLOTS_COUNT];
static unsigned slots_used;
static unsigned long long random_state = 88172645463325252ull;

struct stats_start {
	uint64_t size_bytes;
	uint64_t live_bytes;
	uint64_t rest[62];
};

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
	char line[512];
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(line, sizeof(line) - 1, format, arguments);
	va_end(arguments);
	line[length] = '\n';
	if (write(1, line, (size_t)length + 1) < 0)
		_exit(3);
}

static unsigned next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)(random_state >> 16);
}

/* A line of /proc/self/status, in its own unit; -1 when it is not there. */
static long status_of(const char *name)
{
	static char text[8192];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (length <= 0)
		return -1;
	text[length] = 0;
	char *at = strstr(text, name);
	return at ? strtol(at + strlen(name) + 1, NULL, 10) : -1;
}

/* alloc COUNT SMALLEST LARGEST: touched blocks of random size. */
static void do_alloc(unsigned count, size_t smallest, size_t largest)
{
	unsigned made = 0;

	for (; made < count && slots_used < SLOTS_COUNT; made++) {
		size_t bytes = smallest + next_random() % (largest - smallest + 1);
		char *block = malloc(bytes);

		if (!block)
			break;
		memset(block, 1, bytes);
		slots[slots_used++] = block;
	}
	say("%u", made);
}

/* keep N: frees all but every N-th block; keep 0 frees all. */
static void do_keep(unsigned every)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < slots_used; i++) {
		if (every && i % every == 0)
			slots[kept++] = slots[i];
		else
			free(slots[i]);
	}
	slots_used = kept;
	say("%u", kept);
}

/* churn MS: blocks come and go, 64 at a time. */
static void do_churn(long ms)
{
	struct timespec start, now;
	void *blocks[64];
	unsigned long pairs = 0;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		for (unsigned i = 0; i < 64; i++)
			blocks[i] = malloc(16 + next_random() % 4096);
		for (unsigned i = 0; i < 64; i++)
			free(blocks[i]);
		pairs += 64;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
	say("%lu", pairs);
}

static void do_live(void)
{
	int (*get)(struct stats_start *) =
		(int (*)(struct stats_start *))(uintptr_t)dlsym(RTLD_DEFAULT, "mt_stats");
	static struct stats_start now;

	now.size_bytes = sizeof(now);
	if (!get)
		say("none");
	else if (get(&now) != 0)
		say("refused");
	else
		say("%llu", (unsigned long long)now.live_bytes);
}

/* call NAME [NUMBER]: a function of mtshim.h, found as a program without the header would find it.
 */
static void do_call(const char *name, const char *number)
{
	void *function = dlsym(RTLD_DEFAULT, name);

	if (!function)
		say("none");
	else if (*number)
		say("%d", ((int (*)(int))(uintptr_t)function)(atoi(number)));
	else
		say("%d", ((int (*)(void))(uintptr_t)function)());
}

static void do_mallctl(const char *name)
{
	int (*mallctl)(const char *, void *, size_t *, void *, size_t) =
		(int (*)(const char *, void *, size_t *, void *, size_t))(uintptr_t)dlsym(
			RTLD_DEFAULT, "mallctl");
	size_t value = 1;
	size_t bytes = sizeof(value);

	if (!mallctl)
		say("none");
	else if (strcmp(name, "epoch") == 0)
		say("%d", mallctl(name, &value, &bytes, &value, bytes));
	else {
		int code = mallctl(name, &value, &bytes, NULL, 0);
		say("%d %zu", code, value);
	}
}

/* fork COMMAND: the child carries it out, then ends; we answer with its status. */
static void obey(const char *line);

static void do_fork(const char *line)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		obey(line);
		_exit(0);
	}
	waitpid(child, &status, 0);
	say("%d", status);
}

static void obey(const char *line)
{
	char word[64] = "", argument[128] = "";
	unsigned long a = 0, b = 0, c = 0;

	sscanf(line, "%63s %127s", word, argument);
	sscanf(line, "%*s %lu %lu %lu", &a, &b, &c);
	if (strcmp(word, "hello") == 0)
		say("hello");
	else if (strcmp(word, "alloc") == 0)
		do_alloc((unsigned)a, b, c);
	else if (strcmp(word, "keep") == 0)
		do_keep((unsigned)a);
	else if (strcmp(word, "churn") == 0)
		do_churn((long)a);
	else if (strcmp(word, "status") == 0)
		say("%ld", status_of(argument));
	else if (strcmp(word, "live") == 0)
		do_live();
	else if (strcmp(word, "call") == 0)
		do_call(argument, strchr(line, ' ') && strchr(strchr(line, ' ') + 1, ' ')
					  ? strrchr(line, ' ') + 1
					  : "");
	else if (strcmp(word, "find") == 0)
		say("%s", dlsym(RTLD_DEFAULT, argument) ? "yes" : "none");
	else if (strcmp(word, "mallctl") == 0)
		do_mallctl(argument);
	else if (strcmp(word, "malloc_trim") == 0)
		say("%d", malloc_trim(0));
	else if (strcmp(word, "fork") == 0)
		do_fork(strchr(line, ' ') + 1);
	else if (strcmp(word, "sleep") == 0)
		say("%d", usleep((unsigned)a * 1000));
	else
		say("what is %s?", word);
}

int main(void)
{
	char line[256];
	size_t length = 0;

	for (;;) {
		ssize_t got = read(0, line + length, 1);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return 0;
		if (line[length] == '\n' || length == sizeof(line) - 2) {
			line[length] = 0;
			obey(line);
			length = 0;
		} else {
			length++;
		}
	}
}
