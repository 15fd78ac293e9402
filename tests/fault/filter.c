/* filter.c -- see filter.h. With -DPROGRAM, a program: filter SPEC COMMAND... runs a command under
 * such a filter. */
#include "filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STEPS_MAX 200
/* its low half, on little-endian machines */
#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + 8 * (i))

static const struct {
	char name[24];
	int number;
} calls[] = {
#define X(name) {#name, SYS_##name},
	X(clock_gettime) X(clock_nanosleep) X(clone3) X(close_range) X(connect) X(futex)
		X(getrusage) X(madvise) X(mkdirat) X(mprotect) X(munmap) X(nanosleep) X(openat)
			X(ppoll) X(prctl) X(pread64) X(process_vm_readv) X(pwrite64) X(renameat)
				X(rt_sigprocmask) X(rt_sigtimedwait) X(sched_getaffinity)
					X(sched_setaffinity) X(sched_yield) X(setrlimit) X(gettid)
						X(socket) X(statfs) X(fstatfs) X(sysinfo) X(tgkill)
							X(unlinkat) X(ftruncate) X(clone)
								X(perf_event_open) X(membarrier)
#ifdef SYS_mkdir
									X(mkdir) X(unlink) X(rename)
										X(poll)
#endif
#undef X
};

static const struct {
	char name[8];
	unsigned int code;
} codes[] = {{"EPERM", EPERM},   {"ENOSYS", ENOSYS}, {"EINVAL", EINVAL},
	     {"ENOMEM", ENOMEM}, {"EAGAIN", EAGAIN}, {"EACCES", EACCES}};

struct program {
	struct sock_filter steps[STEPS_MAX];
	unsigned short count;
};

static void add(struct program *to, struct sock_filter step)
{
	if (to->count < STEPS_MAX)
		to->steps[to->count++] = step;
}

/* The call by its number, and if wanted by its command word. */
static void add_call(struct program *to, int number, long command, unsigned int code)
{
	const unsigned int place = number == SYS_futex ? ARGUMENT(1) : ARGUMENT(0);

	add(to, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     offsetof(struct seccomp_data, nr)));
	if (command < 0) {
		add(to, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
						     (unsigned int)number, 0, 1));
	} else {
		add(to, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
						     (unsigned int)number, 0, 3));
		add(to, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, place));
		add(to, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
						     (unsigned int)command, 0, 1));
	}
	add(to, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code));
}

/* "futex/5" */
static bool parse_call(struct program *to, char *word, unsigned int code)
{
	char *stroke = strchr(word, '/');
	long command = stroke ? strtol(stroke + 1, NULL, 10) : -1;

	if (stroke)
		*stroke = 0;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].name, word) == 0) {
			add_call(to, calls[i].number, command, code);
			return true;
		}
	return false;
}

/* "EPERM:madvise,futex/5" */
static bool parse_group(struct program *to, char *group)
{
	char *colon = strchr(group, ':'), *rest;
	unsigned int code = 0;
	bool good = colon != NULL;

	if (!good)
		return false;
	*colon = 0;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (strcmp(codes[i].name, group) == 0)
			code = codes[i].code;
	for (char *word = strtok_r(colon + 1, ",", &rest); word && good;
	     word = strtok_r(NULL, ",", &rest))
		good = parse_call(to, word, code);
	return good && code;
}

bool refuse(const char *spec, bool everywhere)
{
	static struct program program;
	char text[512], *rest;
	struct sock_fprog given = {.filter = program.steps};

	if (!spec || strlen(spec) >= sizeof(text))
		return false;
	strcpy(text, spec);
	for (char *group = strtok_r(text, ";", &rest); group; group = strtok_r(NULL, ";", &rest))
		if (!parse_group(&program, group))
			return false;
	add(&program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	given.len = program.count;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		       everywhere ? SECCOMP_FILTER_FLAG_TSYNC : 0, &given) == 0;
}

#ifdef PROGRAM
int main(int argc, char **argv)
{
	if (argc < 3 || !refuse(argv[1], false)) {
		fprintf(stderr, "filter: cannot refuse %s\n", argc < 2 ? "nothing" : argv[1]);
		return 126;
	}
	execv(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
#endif
