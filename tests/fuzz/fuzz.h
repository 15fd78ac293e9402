/* fuzz.h -- what the targets share. libFuzzer calls LLVMFuzzerTestOneInput with one input after the
 * other, in one process; a crash, a finding of a sanitizer, an exit, a hang, or a promise that does
 * not hold (fuzz_expect) is a fault.
 *
 * Where formats are text, so is an input, and its corpus can be read: a line "%%NAME" begins a part
 * that goes up to the next such line. Each part lies in memory of its own, ended by a NUL: who
 * reads on behind it is seen. */
#ifndef MT_FUZZ_H
#define MT_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUZZ_PARTS_MOST 24

struct fuzz_part {
	char name[128]; /* cut */
	char *text;
	size_t bytes; /* without the NUL; there may be others in it */
};

struct fuzz_parts {
	struct fuzz_part list[FUZZ_PARTS_MOST];
	size_t count;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* What stands before the first "%%" belongs to nobody. Dropped by fuzz_drop. */
void fuzz_cut(const uint8_t *data, size_t bytes, struct fuzz_parts *out);
void fuzz_drop(struct fuzz_parts *parts);

/* Whether the part is called so; *rest, where it is wanted, is what follows a blank behind the
 * name. */
bool fuzz_is(const struct fuzz_part *part, const char *name, const char **rest);

/* The next line of a text, without its newline and ended by a NUL; NULL: there is none. */
char *fuzz_line(char **rest);

/* "name value": the number, decimal or 0x; "max" is UINT64_MAX. 0 where there is none. */
uint64_t fuzz_number(const char *text);

/* Ends the process, as a crash, where a promise is broken. */
#define fuzz_expect(holds, ...)                                                                    \
	do {                                                                                       \
		if (!(holds))                                                                      \
			fuzz_broken(__FILE__, __LINE__, #holds, __VA_ARGS__);                      \
	} while (0)
_Noreturn void fuzz_broken(const char *file, int line, const char *promise, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- what is printed ---- */

/* From begin to end what goes to stdout is kept in memory, until the next begin. */
void fuzz_output_begin(void);
const char *fuzz_output_end(size_t *out_bytes);

/* Nothing in it steers a terminal: printable ASCII, newlines and tabs. */
void fuzz_expect_clean(const char *what, const char *text, size_t bytes);

/* The same of one line of text in a buffer, which it ends within. */
void fuzz_expect_text(const char *what, const char *text, size_t room);

/* It is JSON, and as clean. */
void fuzz_expect_json(const char *what, const char *text, size_t bytes);

/* ---- files ---- */

/* A directory of our own, in memory and closed to others; what the target wrote last goes with
 * fuzz_root_clear. */
const char *fuzz_root(void);

/* Writes a file below it, with the directories above; false: it is no plain path, or there are too
 * many already. */
bool fuzz_root_put(const char *path, const void *bytes, size_t count);
void fuzz_root_clear(void);

/* A directory below it that stays, for who keeps it open. */
void fuzz_root_keep(const char *path);

/* A descriptor whose content is this. */
int fuzz_file(const void *bytes, size_t count);

#endif
