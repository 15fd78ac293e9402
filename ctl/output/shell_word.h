/* ctl/output/shell_word.h -- words of a command line as a shell reads them. Pure. */
#ifndef MT_CTL_OUTPUT_SHELL_WORD_H
#define MT_CTL_OUTPUT_SHELL_WORD_H

#include <stdbool.h>
#include <stddef.h>

/* Appends a word to the line in `out`, after a blank where the line is not empty. A word with
 * control characters, or that is not valid UTF-8, becomes $'...' with escapes, which bash, zsh, ksh
 * and busybox read: the line stays one line, and safe for a terminal. Returns false, and changes
 * nothing, where it does not fit. */
bool mt_shell_word_add(const char *word, char *out, size_t out_bytes);

#endif
