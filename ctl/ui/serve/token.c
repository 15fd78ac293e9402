#include "ctl/ui/serve/serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/output/outfile.h"

#define RANDOM_BYTES 16

enum mt_err mt_token_make(struct mt_token *out, struct mt_error_reason *why)
{
	struct mt_token token = {{0}};
	unsigned char bytes[RANDOM_BYTES];

	/* getrandom(2) never returns less for up to 256 bytes */
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return mt_error_because(why, MT_ERR_SYSTEM, "no random numbers from the kernel: %s",
					strerror(errno));
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(token.text + 2 * i, 3, "%02x", bytes[i]);
	*out = token;
	return MT_ERR_OK;
}

static enum mt_err check_file(const char *path, int fd, struct mt_error_reason *why)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return mt_error_because(why, MT_ERR_SYSTEM, "%.200s: %s", path, strerror(errno));
	if (!S_ISREG(status.st_mode))
		return mt_error_because(why, MT_ERR_FOREIGN, "%.200s: refused: not a regular file",
					path);
	if (status.st_uid != geteuid() && status.st_uid != 0)
		return mt_error_because(why, MT_ERR_FOREIGN,
					"%.200s: refused: it belongs to user %u", path,
					(unsigned)status.st_uid);
	/* The group may read: systemd hands out credentials that way (the bits of the group are the
	 * mask of an ACL). */
	if (status.st_mode & (S_IWGRP | S_IRWXO))
		return mt_error_because(why, MT_ERR_FOREIGN,
					"%.200s: refused: others may use it (mode %03o; chmod 600)",
					path, (unsigned)(status.st_mode & 0777));
	return MT_ERR_OK;
}

static enum mt_err read_line(const char *path, int fd, struct mt_token *out,
			     struct mt_error_reason *why)
{
	struct mt_token token = {{0}};
	char line[sizeof(token.text) + 1] = "";
	ssize_t got = read(fd, line, sizeof(line) - 1);
	size_t length;

	if (got < 0)
		return mt_error_because(why, MT_ERR_SYSTEM, "%.200s: %s", path, strerror(errno));
	line[got] = '\0';
	length = strcspn(line, "\n");
	if (length < MT_TOKEN_MIN || length >= sizeof(token.text))
		return mt_error_because(why, MT_ERR_INVALID,
					"%.200s: a token has %d to %zu characters", path,
					MT_TOKEN_MIN, sizeof(token.text) - 1);
	for (size_t i = 0; i < length; i++)
		if (line[i] <= ' ' || line[i] > '~')
			return mt_error_because(why, MT_ERR_INVALID,
						"%.200s: a token is printable ASCII without blanks",
						path);
	memcpy(token.text, line, length);
	*out = token;
	return MT_ERR_OK;
}

enum mt_err mt_token_file(const char *path, struct mt_token *out, struct mt_error_reason *why)
{
	struct mt_token made_token;
	char line[sizeof(made_token.text) + 1];
	bool made = false;
	int fd = -1;
	enum mt_err error = mt_token_make(&made_token, why);

	if (error)
		return error;
	snprintf(line, sizeof(line), "%s\n", made_token.text);
	error = mt_outfile_read_or_make(path, 0600, line, &made, &fd, why);
	if (error)
		return error;
	if (!made)
		error = check_file(path, fd, why);
	if (!made && !error)
		error = read_line(path, fd, out, why);
	if (made)
		*out = made_token;
	close(fd);
	return error;
}

bool mt_token_matches(const struct mt_token *token, const char *given)
{
	size_t length = strlen(given);
	unsigned difference = 0;

	for (size_t i = 0; i < sizeof(token->text); i++)
		difference |= (unsigned char)token->text[i] ^
			      (unsigned char)(i < length ? given[i] : '\0');
	return difference == 0 && length >= MT_TOKEN_MIN && length < sizeof(token->text);
}
