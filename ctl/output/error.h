/* ctl/output/error.h -- how errors are reported. Errors of mtctl itself go to
 * stderr as "mtctl: text". A function that can fail for many reasons fills in a struct
 * mt_error_reason, which the caller prints or drops. Not thread-safe: mtctl has one thread. */
#ifndef MT_CTL_OUTPUT_ERROR_H
#define MT_CTL_OUTPUT_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/attr.h"

/* Exit codes of every command: name, code, meaning. docs/mtctl.md has the details. */
#define MT_EXITS(X)                                                                                \
	X(OK, 0, "done")                                                                           \
	X(NOTHING, 1, "the process is asleep, or what was asked for is not there")                 \
	X(USAGE, 2, "a wrong use, or a file or value that is not valid or is refused")             \
	X(NO_PROCESS, 3, "no such process")                                                        \
	X(NO_ANSWER, 4, "no answer in time")                                                       \
	X(NOT_SHIMMED, 5, "the process does not carry the shim")                                   \
	X(NOT_PERMITTED, 6, "not permitted: the process belongs to another user")                  \
	X(CANNOT_RUN, 126, "the program cannot be run")                                            \
	X(NOT_FOUND, 127, "the program is not there")

enum mt_exit {
#define X(name, code, meaning) MT_EXIT_##name = code,
	MT_EXITS(X)
#undef X
};

struct mt_error_reason {
	char text[320];
	bool lacks_files; /* of a process: it is asleep, and has none or none yet */
};

/* Returns the sentence of sys/attr.h for an error number, which may come from a file. */
const char *mt_error_text(uint64_t error);

/* Writes the reason to *why, cut to fit and cleaned (mt_text_clean), and returns `error`, for
 * `return mt_error_because(...)`. */
enum mt_err mt_error_because(struct mt_error_reason *why, enum mt_err error, const char *format,
			     ...) __attribute__((format(printf, 3, 4)));

/* The same with MT_ERR_INVALID for a file that another version of the shim wrote. `file` is the
 * kind of file: "stats file". */
enum mt_err mt_error_because_version(struct mt_error_reason *why, const char *file,
				     uint32_t version);

/* Prints one line on stderr, with "mtctl: " before it. */
void mt_error_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints the reason on stderr, and returns `code`: the last statement of a command that fails. */
enum mt_exit mt_error_fail(enum mt_exit code, const struct mt_error_reason *why);

/* Returns the exit code for an error: asleep 1, the process has ended 3, no reply 4, others 2. */
enum mt_exit mt_error_exit(enum mt_err error);

/* Returns `memory`, the result of malloc(3) and the like. Ends mtctl with a message if it is
 * NULL. */
void *mt_error_check_memory(void *memory);

/* Returns the list with room for one more item of `bytes`; NULL is an empty list. Every addition to
 * the list must come through here: its room follows from `count`, and is 16 or a power of two. */
void *mt_error_make_room(void *list, size_t count, size_t bytes);

#endif
