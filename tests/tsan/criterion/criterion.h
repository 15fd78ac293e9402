/* criterion/criterion.h -- stands in for Criterion under ThreadSanitizer alone: Criterion's workers
 * map memory at addresses that TSan keeps for itself, and die of it. The same words, as far as
 * the unit tests use them. Each test runs in a child of its own. The closing line is that of
 * Criterion, so that tests/run reads both. */
#ifndef MT_TSAN_CRITERION_H
#define MT_TSAN_CRITERION_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct tsan_options {
	void (*init)(void);
	void (*fini)(void);
	int signal;
	int exit_code;
	double timeout;
	bool disabled;
	const char *description;
};

struct tsan_test {
	const char *suite, *name;
	void (*body)(void);
	struct tsan_options options;
};

static struct tsan_test tsan_tests[512], tsan_suites[64];
static unsigned tsan_tests_count, tsan_suites_count;
static int tsan_failures;
static const int tsan_failed = 101, tsan_skipped = 102;

#define TSAN_ADD(list, suite_, name_, body_, ...)                                                  \
	__attribute__((constructor)) static void tsan_add_##suite_##_##name_(void)                 \
	{                                                                                          \
		struct tsan_test entry = {#suite_, #name_, body_, {__VA_ARGS__}};                  \
		tsan_##list[tsan_##list##_count++] = entry;                                        \
	}
#define Test(suite_, name_, ...)                                                                   \
	static void suite_##_##name_##_body(void);                                                 \
	TSAN_ADD(tests, suite_, name_, suite_##_##name_##_body, __VA_ARGS__)                       \
	static void suite_##_##name_##_body(void)
#define TestSuite(suite_, ...) TSAN_ADD(suites, suite_, itself, NULL, __VA_ARGS__)

__attribute__((format(printf, 1, 2))) static inline void tsan_say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

#define TSAN_CHECK(is_fatal, good, text, ...)                                                      \
	do {                                                                                       \
		if (!(good)) {                                                                     \
			fprintf(stderr, "%s:%d: %s ", __FILE__, __LINE__, text);                   \
			tsan_say("" __VA_ARGS__);                                                  \
			tsan_failures++;                                                           \
			if (is_fatal)                                                              \
				_exit(tsan_failed);                                                \
		}                                                                                  \
	} while (0)

#define cr_assert(x, ...)           TSAN_CHECK(1, (x), #x, __VA_ARGS__)
#define cr_assert_not(x, ...)       TSAN_CHECK(1, !(x), "not " #x, __VA_ARGS__)
#define cr_assert_eq(a, b, ...)     TSAN_CHECK(1, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...)    TSAN_CHECK(1, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...)     TSAN_CHECK(1, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...)    TSAN_CHECK(1, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...)     TSAN_CHECK(1, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...)    TSAN_CHECK(1, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_assert_null(x, ...)      TSAN_CHECK(1, !(x), #x " is NULL", __VA_ARGS__)
#define cr_assert_not_null(x, ...)  TSAN_CHECK(1, (x) != NULL, #x " is not NULL", __VA_ARGS__)
#define cr_assert_fail(...)         TSAN_CHECK(1, 0, "reached", __VA_ARGS__)
#define cr_skip_test(...)           (tsan_say("skipped: " __VA_ARGS__), _exit(tsan_skipped))
#define cr_assert_str_eq(a, b, ...) TSAN_CHECK(1, strcmp((a), (b)) == 0, #a " is " #b, __VA_ARGS__)
#define cr_expect(x, ...)           TSAN_CHECK(0, (x), #x, __VA_ARGS__)
#define cr_expect_not(x, ...)       TSAN_CHECK(0, !(x), "not " #x, __VA_ARGS__)
#define cr_expect_eq(a, b, ...)     TSAN_CHECK(0, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...)    TSAN_CHECK(0, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...)     TSAN_CHECK(0, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...)    TSAN_CHECK(0, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...)     TSAN_CHECK(0, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...)    TSAN_CHECK(0, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_expect_null(x, ...)      TSAN_CHECK(0, !(x), #x " is NULL", __VA_ARGS__)
#define cr_expect_not_null(x, ...)  TSAN_CHECK(0, (x) != NULL, #x " is not NULL", __VA_ARGS__)
#define cr_expect_float_eq(a, b, off, ...)                                                         \
	TSAN_CHECK(0, (a) - (b) <= (off) && (b) - (a) <= (off), #a " is about " #b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) TSAN_CHECK(0, strcmp((a), (b)) == 0, #a " is " #b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...)                                                               \
	TSAN_CHECK(0, strcmp((a), (b)) != 0, #a " is not " #b, __VA_ARGS__)
#define cr_expect_str_empty(a, ...) TSAN_CHECK(0, *(a) == '\0', #a " is empty", __VA_ARGS__)
#define cr_expect_arr_eq(a, b, bytes, ...)                                                         \
	TSAN_CHECK(0, memcmp((a), (b), (bytes)) == 0, #a " is " #b, __VA_ARGS__)

static void tsan_play(const struct tsan_test *test, struct tsan_options suite)
{
	void (*init)(void) = test->options.init ? test->options.init : suite.init;
	void (*fini)(void) = test->options.fini ? test->options.fini : suite.fini;

	/* A hang ends before the limit of tests/run; a busy machine gives a test little time. */
	alarm(test->options.timeout > 0 ? (unsigned)test->options.timeout : 200);
	if (init)
		init();
	test->body();
	if (fini)
		fini();
	fflush(NULL);
	/* exit, not _exit: TSan gives its own status for what it has found. */
	exit(tsan_failures ? tsan_failed : test->options.exit_code);
}

static bool tsan_is_as_wanted(const struct tsan_test *test, int status)
{
	if (test->options.signal)
		return WIFSIGNALED(status) && WTERMSIG(status) == test->options.signal;
	return WIFEXITED(status) && WEXITSTATUS(status) == test->options.exit_code;
}

int main(void)
{
	unsigned passing = 0, failing = 0;

	for (unsigned i = 0; i < tsan_tests_count; i++) {
		const struct tsan_test *test = &tsan_tests[i];
		struct tsan_options suite = {0};
		int status = -1;

		for (unsigned j = 0; j < tsan_suites_count; j++)
			if (strcmp(tsan_suites[j].suite, test->suite) == 0)
				suite = tsan_suites[j].options;
		pid_t child = fork();
		if (child == 0)
			tsan_play(test, suite);
		waitpid(child, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == tsan_skipped) {
			fprintf(stderr, "%s::%s skipped\n", test->suite, test->name);
		} else if (tsan_is_as_wanted(test, status)) {
			passing++;
		} else {
			failing++;
			fprintf(stderr, "%s::%s failed, status %x\n", test->suite, test->name,
				(unsigned)status);
		}
	}
	fprintf(stderr, "Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: 0\n",
		passing + failing, passing, failing);
	return failing != 0;
}

#endif
