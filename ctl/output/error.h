/* ctl/output/error.h -- the error enum and the two ways of telling a person about one. Errors of
 * the program go to stderr as "mtctl: text"; functions that can fail for many reasons fill a struct
 * mt_why for their caller to print or to drop. Not thread-safe, mtctl has one thread. */
#ifndef MT_CTL_OUTPUT_ERROR_H
#define MT_CTL_OUTPUT_ERROR_H

#include <stdint.h>

#include "sys/error.def"

enum mt_err {
#define X(name, text) MT_ERR_##name,
	MT_ERRORS(X) MT_ERR_COUNT
#undef X
};

/* Exit codes of every command; docs/mtctl.md says what each means where. */
enum mt_exit {
	MT_EXIT_OK = 0,
	MT_EXIT_NOTHING = 1,
	MT_EXIT_USAGE = 2,
	MT_EXIT_NOT_SHIMMED = 3,
	MT_EXIT_NO_ANSWER = 4,
	MT_EXIT_CANNOT_RUN = 126,
	MT_EXIT_NOT_FOUND = 127,
};

struct mt_why {
	char text[320];
};

/* The sentence of error.def for a number that may come from elsewhere. */
const char *mt_error_text(uint64_t error);

/* Fills *why, cut to fit and cleaned (names and paths of processes may be in it), and answers
 * `error`, so that `return mt_error_because(...)` reads as one thing. */
enum mt_err mt_error_because(struct mt_why *why, enum mt_err error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* INVALID: a file of the shim that another version wrote, with that version. `file` is the kind of
 * file: "stats file". */
enum mt_err mt_error_because_version(struct mt_why *why, const char *file, uint32_t version);

/* One line on stderr, "mtctl: " before it. */
void mt_error_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints the reason on stderr, and returns `code`: the way out of a command. */
enum mt_exit mt_error_fail(enum mt_exit code, const struct mt_why *why);

/* The exit code that stands for an error: asleep 1, no such process 3, no answer 4, refused and all
 * else 2. */
enum mt_exit mt_error_exit(enum mt_err error);

/* For calloc and friends: a control tool without memory can only say so. Never returns NULL. */
void *mt_error_check_memory(void *memory);

#endif
