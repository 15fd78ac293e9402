/* ctl/ui/serve/token.h -- the secret without which `mtctl serve` tells and changes nothing. */
#ifndef MT_CTL_UI_SERVE_TOKEN_H
#define MT_CTL_UI_SERVE_TOKEN_H

#include <stdbool.h>

#include "ctl/output/error.h"

#define MT_TOKEN_MIN 16

struct mt_token {
	char text[129]; /* ended by NULs up to its end */
};

/* 128 bits from the kernel, as 32 hexadecimal digits. */
enum mt_err mt_token_make(struct mt_token *out, struct mt_why *why);

/* The first line of the file: 16 to 128 printable characters without blanks. A file that is not
 * there is made, mode 0600, with a new token. FOREIGN: of another user, no regular file, others may
 * read it, or a symbolic link of another user's leads to it: that user could choose a file whose
 * first line can be guessed. */
enum mt_err mt_token_file(const char *path, struct mt_token *out, struct mt_why *why);

/* In a time that does not tell how much of it is right. An empty token, which is none, is matched
 * by nothing. */
bool mt_token_matches(const struct mt_token *token, const char *given);

#endif
