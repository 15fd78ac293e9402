/* checks.c -- the table of checks, and what they share.
 *   checks --list          name, what it needs (-, shim, pool), settings: one line each
 *   checks NAME            runs that one
 *   checks --role free     the device's free bytes, as another process sees them
 *   checks --role ptx      the kernels, for an assembler
 *   checks --role ipc      the second process of the check ipc */
#include "checks.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct check checks[] = {
	{"reuse_non_blocking", NEEDS_NOTHING, "", check_reuse_non_blocking},
	{"reuse_blocking", NEEDS_NOTHING, "", check_reuse_blocking},
	{"reuse_per_thread", NEEDS_NOTHING, "", check_reuse_per_thread},
	{"reuse_null", NEEDS_NOTHING, "", check_reuse_null},
	{"reuse_graph", NEEDS_NOTHING, "", check_reuse_graph},
	/* Where green contexts are nothing is pooled: the driver's own free must wait. */
	{"reuse_green", NEEDS_NOTHING, "FAKECUDA_FREE_WAITS=2", check_reuse_green},
	/* Above its limit the pool leaves a block to the driver's own free. */
	{"reuse_threads", NEEDS_NOTHING, "FAKECUDA_FREE_WAITS=2", check_reuse_threads},
	{"capture_storm", NEEDS_NOTHING, "", check_capture_storm},
	{"capture_signal", NEEDS_SHIM, "", check_capture_signal},
	{"capture_trim", NEEDS_SHIM, "", check_capture_trim},
	{"capture_alloc", NEEDS_NOTHING, "", check_capture_alloc},
	{"double_free", NEEDS_NOTHING, "", check_double_free},
	{"unknown_free", NEEDS_NOTHING, "", check_unknown_free},
	{"families", NEEDS_NOTHING, "", check_families},
	{"address_range", NEEDS_NOTHING, "", check_address_range},
	{"context_destroyed", NEEDS_NOTHING, "", check_context_destroyed},
	{"primary_reset", NEEDS_NOTHING, "", check_primary_reset},
	{"fork", NEEDS_NOTHING, "", check_fork},
	{"ipc", NEEDS_NOTHING, "", check_ipc},
	{"sticky", NEEDS_NOTHING, "", check_sticky},
	{"oom_vmm", NEEDS_NOTHING, "MT_CUDA_DECAY_MS=0 MT_CUDA_LOW_PCT=0", check_oom_vmm},
	{"oom_blocks", NEEDS_NOTHING, "MT_CUDA_DECAY_MS=0 MT_CUDA_LOW_PCT=0", check_oom_blocks},
	{"oom_error", NEEDS_NOTHING, "", check_oom_error},
	{"pool_hit", NEEDS_POOL, "MT_CUDA_DECAY_MS=0", check_pool_hit},
	{"info", NEEDS_NOTHING, "MT_CUDA_DECAY_MS=0", check_info},
	{"decay", NEEDS_POOL, "MT_CUDA_DECAY_MS=500", check_decay},
	{"signal", NEEDS_POOL, "MT_CUDA_DECAY_MS=0", check_signal},
	{"trim", NEEDS_POOL, "MT_CUDA_DECAY_MS=0", check_trim},
};

bool is_pooling(void)
{
	const char *mode = getenv("MT_CUDA");

	return gpu_has_shim() && mode && strcmp(mode, "pool") == 0;
}

void ask_mtctl(const char *word)
{
	extern char **environ;
	const char *program = getenv("MTCTL");
	char *environment[256];
	char pid[16];
	char text[16];
	char *arguments[] = {text, text, pid, NULL};
	char mtctl[] = "mtctl";
	size_t kept = 0;
	pid_t child;
	int status;

	for (char **one = environ; *one && kept < 255; one++)
		if (strncmp(*one, "LD_PRELOAD=", 11) != 0)
			environment[kept++] = *one;
	environment[kept] = NULL;
	snprintf(pid, sizeof pid, "%d", (int)getpid());
	snprintf(text, sizeof text, "%s", word);
	arguments[0] = mtctl;
	if (!program || posix_spawn(&child, program, NULL, NULL, arguments, environment) != 0)
		gpu_skip("mtctl does not start here");
	gpu_expect(waitpid(child, &status, 0) == child, "mtctl was lost");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		gpu_skip("mtctl does not start here (a library of its is missing)");
	/* 1: there was nothing to give back, as it must be while a capture is open. */
	gpu_expect(WIFEXITED(status) && WEXITSTATUS(status) <= 1, "mtctl %s: status %#x", word,
		   status);
}

static int list(void)
{
	static const char *const words[] = {"-", "shim", "pool"};

	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
		printf("%s %s %s\n", checks[i].name, words[checks[i].needs], checks[i].settings);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return list();
	if (argc == 3 && strcmp(argv[1], "--role") == 0 && strcmp(argv[2], "ipc") == 0) {
		role_ipc();
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "--role") == 0 && strcmp(argv[2], "ptx") == 0) {
		fputs(gpu_kernels_ptx(), stdout);
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "--role") == 0 && strcmp(argv[2], "free") == 0) {
		gpu_start();
		printf("%llu\n", (unsigned long long)gpu_free_bytes());
		return 0;
	}
	for (size_t i = 0; argc == 2 && i < sizeof checks / sizeof *checks; i++)
		if (strcmp(checks[i].name, argv[1]) == 0) {
			checks[i].run();
			return 0;
		}
	fprintf(stderr, "checks: --list, or one name of its list\n");
	return 2;
}
