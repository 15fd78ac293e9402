/* test_config_live.c -- core/config: the live copy, and the log lines of its errors. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/config.h"
#include "core/log.h"
#include "core/core_internal.h"

/* Reads a live environment of 40 unknown names and the entries given; answers what went to the log
 * file. */
static size_t read_live(const char *level, char *out, size_t out_bytes)
{
	static char names[40][24];
	const char *list[43] = {NULL};
	char path[] = "/tmp/mtshim-config-XXXXXX";
	char entry[64];
	int fd = mkstemp(path);
	ssize_t got;

	cr_assert_geq(fd, 0);
	snprintf(entry, sizeof(entry), "MT_LOG=%s", path);
	for (int i = 0; i < 40; i++) {
		snprintf(names[i], sizeof(names[i]), "MT_ZZZZ%d=1", i);
		list[i] = names[i];
	}
	list[40] = level;
	list[41] = entry;
	mt_config_read(list);
	got = read(fd, out, out_bytes - 1);
	out[got < 0 ? 0 : got] = '\0';
	close(fd);
	unlink(path);
	return got < 0 ? 0 : (size_t)got;
}

Test(config_live, logs_complaints_where_the_same_environment_says)
{
	static char log[16384];
	unsigned lines = 0;

	cr_assert_gt(read_live("MT_LOG_LEVEL=warn", log, sizeof(log)), 0);
	for (const char *c = log; *c != '\0'; c++)
		lines += *c == '\n';
	cr_expect_eq(lines, 40);
	cr_expect_not_null(strstr(log, "warn: MT_ZZZZ39: no such setting (mtctl options)\n"));
	cr_expect_eq(read_live("MT_LOG_LEVEL=error", log, sizeof(log)), 0,
		     "warnings are below that level");
	cr_expect_eq(mt_config()->log_level, MT_LOG_ERROR);
}

Test(config_live, is_read_again_with_nothing_left_of_before)
{
	const char *const first[] = {"MT_ONLY=python*", "MT_GC_ROUNDS=5", NULL};
	const char *const none[] = {NULL};
	struct mt_config defaults;

	mt_config_defaults(&defaults);
	mt_config_read(first);
	cr_expect_eq(mt_config()->gc_rounds, 5);
	cr_expect_str_eq(mt_config()->only, "python*");
	mt_config_read(none);
	cr_expect(memcmp(mt_config(), &defaults, sizeof(defaults)) == 0);
	mt_config_read(NULL);
	cr_expect(memcmp(mt_config(), &defaults, sizeof(defaults)) == 0);
}
