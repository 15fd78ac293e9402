/* test_jemalloc_message.c -- heap/jemalloc: of what jemalloc has to say, only that reaches a user
 * which he can do something about. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MT_NO_JEMALLOC

#include "heap/backend.h"
#include "heap/jemalloc_internal.h"
#include "sys/os.h"
#include "core/core_internal.h"

static char folder[64];

static void begin(void)
{
	static char log[96];
	const char *list[] = {log, NULL};

	strcpy(folder, "/tmp/mtshim-tell-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(log, sizeof(log), "MT_LOG=%s/log", folder);
	mt_config_read(list);
}

static void end(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(jemalloc_message, .init = begin, .fini = end);

static void ignore_thread(void *counters)
{
	(void)counters;
}

static const char *told(uint64_t arena_max, const char *line)
{
	static const struct mt_backend_hooks hooks = {.thread_born = ignore_thread};
	static struct mt_config config;
	static char conf[256];
	static char text[1024];
	char path[96];

	mt_config_defaults(&config);
	config.arena_max = arena_max;
	(void)mt_jemalloc_backend(&config, &hooks, conf, sizeof(conf));
	je_malloc_message(NULL, line);
	mt_jemalloc_message_begun();
	snprintf(path, sizeof(path), "%s/log", folder);
	(void)mt_os_read_file(path, text, sizeof(text));
	return text;
}

Test(jemalloc_message, nothing_of_its_own_choice_of_arenas_on_a_machine_with_very_many_processors)
{
	cr_expect_str_empty(told(0, "<jemalloc>: Reducing narenas to limit (4094)\n"));
}

Test(jemalloc_message, that_the_arenas_that_were_asked_for_cannot_be_had)
{
	cr_expect_not_null(strstr(told(5000, "<jemalloc>: Reducing narenas to limit (4094)\n"),
				  "Reducing narenas"));
}

Test(jemalloc_message, what_it_does_not_know)
{
	cr_expect_not_null(strstr(told(0, "<jemalloc>: Invalid conf pair: abort:maybe\n"),
				  "Invalid conf pair"));
}

/* fork waits for jemalloc's locks, and the log may be on a disk that has stopped. */
Test(jemalloc_message, nothing_into_the_log_while_it_may_hold_its_locks)
{
	static const struct mt_backend_hooks hooks = {.thread_born = ignore_thread};
	static struct mt_config config;
	static char conf[256];
	char path[96], text[1024];

	mt_config_defaults(&config);
	snprintf(path, sizeof(path), "%s/log", folder);
	(void)mt_jemalloc_backend(&config, &hooks, conf, sizeof(conf));
	je_malloc_message(NULL, "<jemalloc>: Invalid conf pair: one:1\n");
	je_malloc_message(NULL, "<jemalloc>: Invalid conf pair: two:2\n");
	je_malloc_message(NULL, "<jemalloc>: Invalid conf pair: one:1\n");
	cr_expect_lt(mt_os_read_file(path, text, sizeof(text)), 0);
	mt_jemalloc_message_begun();
	cr_expect_gt(mt_os_read_file(path, text, sizeof(text)), 0);
	cr_assert_not_null(strstr(text, "one:1\nmtshim["));
	cr_expect_not_null(strstr(text, "two:2\n"));
	cr_expect_null(strstr(strstr(text, "one:1") + 1, "one:1"));
	cr_assert_geq(dup2(open("/dev/null", O_WRONLY), 2), 0);
	je_malloc_message(NULL, "<jemalloc>: Error in munmap(): Cannot allocate memory\n");
	(void)mt_os_read_file(path, text, sizeof(text));
	cr_expect_null(strstr(text, "munmap"));
}

#endif
