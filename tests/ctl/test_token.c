/* test_token.c -- ctl/ui/serve/token: what is the token and what is not. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ctl/ui/serve/serve.h"

static struct mt_token token_of(const char *text)
{
	struct mt_token token = {{0}};

	memcpy(token.text, text, strlen(text));
	return token;
}

Test(token, is_matched_only_by_itself)
{
	const struct mt_token token = token_of("0123456789abcdef0123456789abcdef");
	char longer[256];

	cr_expect(mt_token_matches(&token, "0123456789abcdef0123456789abcdef"));
	cr_expect_not(mt_token_matches(&token, "0123456789abcdef0123456789abcdeF"));
	cr_expect_not(mt_token_matches(&token, "0123456789abcdef0123456789abcde"));
	cr_expect_not(mt_token_matches(&token, "0123456789abcdef0123456789abcdef0"));
	cr_expect_not(mt_token_matches(&token, " 0123456789abcdef0123456789abcdef"));
	cr_expect_not(mt_token_matches(&token, ""));
	memset(longer, 0, sizeof(longer));
	memset(longer, 'x', 200);
	memcpy(longer, token.text, 32);
	cr_expect_not(mt_token_matches(&token, longer));
}

Test(token, of_the_greatest_length_is_compared_to_its_end)
{
	char text[MT_TOKEN_MIN * 16] = "";
	struct mt_token token = {{0}};

	memset(token.text, 'a', sizeof(token.text) - 1);
	memset(text, 'a', sizeof(token.text) - 1);
	cr_expect(mt_token_matches(&token, text));
	text[sizeof(token.text) - 1] = 'a';
	cr_expect_not(mt_token_matches(&token, text));
	text[sizeof(token.text) - 1] = 0;
	text[sizeof(token.text) - 2] = 'b';
	cr_expect_not(mt_token_matches(&token, text));
}

Test(token, that_is_none_is_matched_by_nothing)
{
	const struct mt_token none = {{0}};

	cr_expect_not(mt_token_matches(&none, ""));
	cr_expect_not(mt_token_matches(&none, "a"));
}

/* The disk is full, and at that moment the folder's link is led to another folder. */
static const char *moving_link, *moved_to;

ssize_t write(int fd, const void *bytes, size_t length)
{
	if (!moving_link)
		return syscall(SYS_write, fd, bytes, length);
	cr_assert_eq(unlink(moving_link) | symlink(moved_to, moving_link), 0);
	moving_link = NULL;
	errno = ENOSPC;
	return -1;
}

Test(token, that_cannot_be_written_is_removed_where_it_was_made)
{
	char folder[] = "/tmp/mtshim-token-XXXXXX";
	struct mt_token token;
	struct mt_error_reason why;

	cr_assert_not_null(mkdtemp(folder));
	cr_assert_eq(chdir(folder), 0);
	cr_assert_eq(mkdir("here", 0700) | mkdir("there", 0700) | symlink("here", "way"), 0);
	cr_assert_geq(creat("there/token", 0600), 0);
	moving_link = "way";
	moved_to = "there";

	cr_expect_eq(mt_token_file("way/token", &token, &why), MT_ERR_SYSTEM);

	cr_expect_eq(access("here/token", F_OK), -1);
	cr_expect_eq(access("there/token", F_OK), 0);
	cr_assert_eq(system("rm -r here there way"), 0);
	cr_assert_eq(rmdir(folder), 0);
}
