/* test_env_dir.c -- the MT_DIR of a process is read once, also where it has none, and again after
 * an exec. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/process/process_probe.h"

static pid_t child;
static int gate;

/* A shell that runs `script` once a line has come. */
static void start(const char *script)
{
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		dup2(ends[0], STDIN_FILENO);
		close(ends[1]);
		execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(1);
	}
	close(ends[0]);
	gate = ends[1];
}

/* What it is by now, once it runs another program than `before`. */
static struct mt_process identity(uint64_t before)
{
	struct mt_process found = {0};
	struct mt_error_reason why;

	for (int i = 0; i < 1000 && (!found.stack_start || found.stack_start == before); i++) {
		usleep(10000);
		cr_assert_eq(mt_process_find(child, &found, &why), MT_ERR_OK, "%s", why.text);
	}
	usleep(50000); /* the place of the stack is there before the environment */
	return found;
}

static void end(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(gate);
}

static uint64_t own_stack(void)
{
	struct mt_process self = {0};
	struct mt_error_reason why;

	cr_assert_eq(mt_process_find(getpid(), &self, &why), MT_ERR_OK);
	return self.stack_start;
}

Test(env_dir, that_there_is_none_is_remembered_until_an_exec)
{
	struct mt_process before, after;
	char path[100] = "";

	unsetenv("MT_DIR");
	start("read x; MT_DIR=/two exec sleep 60");
	before = identity(own_stack());
	cr_expect_eq(mt_env_dir_find(&before, path, sizeof(path)), MT_ENV_DIR_NONE);
	cr_assert_eq(write(gate, "go\n", 3), 3);
	after = identity(before.stack_start);

	cr_expect_eq(mt_env_dir_find(&before, path, sizeof(path)), MT_ENV_DIR_NONE,
		     "the same program is not asked again");
	cr_expect_eq(mt_env_dir_find(&after, path, sizeof(path)), MT_ENV_DIR_NAMED);
	cr_expect_str_eq(path, "/two");
	end();
}

Test(env_dir, what_was_found_is_remembered)
{
	struct mt_process one, other;
	char path[100] = "", small[3];

	setenv("MT_DIR", "/one", 1);
	start("read x");
	one = other = identity(own_stack());
	cr_expect_eq(mt_env_dir_find(&one, path, sizeof(path)), MT_ENV_DIR_NAMED);
	end();
	other.start_ticks++;

	cr_expect_str_eq(path, "/one");
	cr_expect_eq(mt_env_dir_find(&one, path, sizeof(path)), MT_ENV_DIR_NAMED,
		     "it is gone, and cannot be asked");
	cr_expect_eq(mt_env_dir_find(&one, small, sizeof(small)), MT_ENV_DIR_NONE);
	cr_expect_eq(mt_env_dir_find(&other, path, sizeof(path)), MT_ENV_DIR_NONE,
		     "another process under its pid is not it");
}
