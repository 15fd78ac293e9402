/* ctl/ui/serve/token.h -- the secret that requests to `mtctl serve` need. */
#ifndef MT_CTL_UI_SERVE_TOKEN_H
#define MT_CTL_UI_SERVE_TOKEN_H

#include <stdbool.h>

#include "ctl/output/error.h"

#define MT_TOKEN_MIN 16

struct mt_token {
	char text[129]; /* filled up with NULs */
};

/* Makes a token: 128 bits from the kernel, as 32 hexadecimal digits. */
enum mt_err mt_token_make(struct mt_token *out, struct mt_error_reason *why);

/* Reads a token from the first line of a file: 16 to 128 printable characters without blanks. A
 * missing file is created with mode 0600 and a new token. FOREIGN: of another user, no regular
 * file, accessible to others, or reached by another user's symbolic link, which could lead to a
 * file with a first line that can be guessed. */
enum mt_err mt_token_file(const char *path, struct mt_token *out, struct mt_error_reason *why);

/* Compares in constant time. An empty token matches nothing. */
bool mt_token_matches(const struct mt_token *token, const char *given);

#endif
