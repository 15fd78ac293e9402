#include "ctl/process/start_command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ctl/output/text.h"
#include "ctl/process/clock.h"

#define CUT " ..."

bool mt_start_command_quote(const char *words, size_t length, char *out, size_t out_bytes)
{
	*out = '\0';
	for (const char *word = words; word < words + length; word += strlen(word) + 1)
		if (!mt_shell_word_add(word, out, out_bytes))
			return false;
	return true;
}

bool mt_start_command_read(const struct mt_process *process, char *out, size_t out_bytes)
{
	size_t length = 0;
	char *words = mt_process_read_memory(process->pid, "cmdline", &length);
	bool is_whole = true;

	*out = '\0';
	/* what a program that has written its title over its arguments leaves of them */
	while (words && length > 1 && !words[length - 1] && !words[length - 2])
		length--;
	if (words)
		is_whole = mt_start_command_quote(words, length, out, out_bytes);
	free(words);
	return is_whole;
}

void mt_start_command_say(const struct mt_process *process, char *out, size_t out_bytes)
{
	bool is_whole = mt_start_command_read(process, out, out_bytes - strlen(CUT));

	if (!*out)
		(void)mt_shell_word_add(process->comm, out, out_bytes);
	if (!is_whole)
		strcat(out, CUT);
}

/* ---- shell word ---- */

/* of one byte: \xff */
#define LONGEST_ESCAPE 4

static bool is_bare(const char *word)
{
	return *word && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123"
					  "456789_./:=,@%+-")] == '\0';
}

static bool is_printable(const char *word)
{
	size_t bytes = strlen(word) + 1;
	char *clean = mt_error_check_memory(malloc(bytes));
	bool is_same;

	mt_text_clean_utf8(word, clean, bytes);
	is_same = strcmp(word, clean) == 0;
	free(clean);
	return is_same;
}

static char *put_quoted(const char *word, char *out)
{
	*out++ = '\'';
	for (; *word; word++)
		if (*word == '\'')
			out = stpcpy(out, "'\\''");
		else
			*out++ = *word;
	return stpcpy(out, "'");
}

static char *put_escaped(const char *word, char *out)
{
	out = stpcpy(out, "$'");
	for (; *word; word++)
		if (*word == '\n')
			out = stpcpy(out, "\\n");
		else if (*word == '\t')
			out = stpcpy(out, "\\t");
		else if (*word < ' ' || *word > '~')
			out += sprintf(out, "\\x%02x", (unsigned char)*word);
		else
			out += sprintf(out, *word == '\'' || *word == '\\' ? "\\%c" : "%c", *word);
	return stpcpy(out, "'");
}

bool mt_shell_word_add(const char *word, char *out, size_t out_bytes)
{
	size_t used = strlen(out), blank = used > 0, length;
	char *quoted = mt_error_check_memory(malloc(LONGEST_ESCAPE * strlen(word) + sizeof("$''")));
	bool fits;

	if (is_bare(word))
		strcpy(quoted, word);
	else if (is_printable(word))
		put_quoted(word, quoted);
	else
		put_escaped(word, quoted);
	length = strlen(quoted);
	fits = used + blank + length < out_bytes;
	if (fits)
		sprintf(out + used, "%s%s", blank ? " " : "", quoted);
	free(quoted);
	return fits;
}

/* ---- running it ---- */

/* All signals except those that cannot be caught, that a fault in mtctl raises, and that stop a
 * job. */
static void fill_forwarded(sigset_t *set)
{
	static const int kept[] = {SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD, SIGSEGV,
				   SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP, SIGSYS,  SIGABRT};

	sigfillset(set);
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		sigdelset(set, kept[i]);
}

/* The signal state of mtctl at its start, which the program gets. */
struct inherited {
	sigset_t mask;
	struct sigaction child_action;
};

/* A signal between fork(2) and exec(3) stays pending for the program, since it is blocked. */
static void exec_program(char **argv, const struct inherited *inherited, int tell)
{
	int failed;

	(void)sigaction(SIGCHLD, &inherited->child_action, NULL);
	sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
	execvp(argv[0], argv);
	failed = errno;
	(void)!write(tell, &failed, sizeof(failed));
	_exit(MT_EXIT_CANNOT_RUN);
}

/* Returns errno of the exec, 0 if the program runs: exec has closed the pipe. */
static int wait_for_exec(int from)
{
	int failed = 0;
	ssize_t got;

	do
		got = read(from, &failed, sizeof(failed));
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)sizeof(failed) ? failed : 0;
}

enum mt_exit mt_launch_start(char **argv, struct mt_launch *out)
{
	/* a process that ignores SIGCHLD gets no status of its children */
	const struct sigaction plain = {.sa_handler = SIG_DFL};
	struct inherited inherited;
	sigset_t blocked;
	int ends[2], failed;

	*out = (struct mt_launch){.pid = -1};
	fill_forwarded(&out->forwarded);
	blocked = out->forwarded;
	sigaddset(&blocked, SIGCHLD);
	if (pipe2(ends, O_CLOEXEC) != 0) {
		mt_error_say("pipe: %s", strerror(errno));
		return MT_EXIT_CANNOT_RUN;
	}
	sigprocmask(SIG_BLOCK, &blocked, &inherited.mask);
	(void)sigaction(SIGCHLD, &plain, &inherited.child_action);
	out->pid = fork();
	if (out->pid == 0)
		exec_program(argv, &inherited, ends[1]);
	failed = out->pid < 0 ? errno : 0;
	close(ends[1]);
	if (!failed)
		failed = wait_for_exec(ends[0]);
	close(ends[0]);
	if (!failed)
		return MT_EXIT_OK;
	if (out->pid > 0)
		(void)waitpid(out->pid, NULL, 0);
	sigprocmask(SIG_SETMASK, &inherited.mask, NULL);
	mt_error_say("%s: %s", argv[0], strerror(failed));
	return failed == ENOENT ? MT_EXIT_NOT_FOUND : MT_EXIT_CANNOT_RUN;
}

/* The terminal sends its signals to the program as well. SIGPIPE of a pipe of mtctl is not for the
 * program. */
static void forward(const struct mt_launch *launch, const siginfo_t *info)
{
	bool own = info->si_code == SI_USER && info->si_pid == getpid();

	if (info->si_code == SI_KERNEL || own)
		return;
	if (info->si_code == SI_QUEUE)
		(void)sigqueue(launch->pid, info->si_signo, info->si_value);
	else
		(void)kill(launch->pid, info->si_signo);
}

static void reap(struct mt_launch *launch)
{
	pid_t got;

	do
		got = wait4(launch->pid, &launch->status, WNOHANG, &launch->usage);
	while (got < 0 && errno == EINTR);
	launch->ended = got == launch->pid;
}

static bool wait_for_signal(const sigset_t *set, uint64_t until_ns, siginfo_t *info)
{
	uint64_t now = mt_clock_now_ns(), left = until_ns > now ? until_ns - now : 0;
	const struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000u),
					 .tv_nsec = (long)(left % 1000000000u)};

	return sigtimedwait(set, info, &timeout) > 0;
}

bool mt_launch_wait(struct mt_launch *launch, uint64_t until_ns)
{
	sigset_t awaited = launch->forwarded;
	siginfo_t info;

	if (launch->pid)
		sigaddset(&awaited, SIGCHLD);
	do {
		if (!wait_for_signal(&awaited, until_ns, &info))
			continue;
		if (!launch->pid)
			launch->ended = true;
		else if (info.si_signo != SIGCHLD)
			forward(launch, &info);
		else
			reap(launch);
	} while (!launch->ended && mt_clock_now_ns() < until_ns);
	return launch->ended;
}

int mt_launch_exit(const struct mt_launch *launch)
{
	const struct rlimit no_core = {0, 0};
	sigset_t one;
	int number;

	if (!launch->pid || !WIFSIGNALED(launch->status))
		return launch->pid ? WEXITSTATUS(launch->status) : MT_EXIT_OK;
	number = WTERMSIG(launch->status);
	/* the program has left a core file; one of mtctl would replace it */
	(void)setrlimit(RLIMIT_CORE, &no_core);
	(void)signal(number, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, number);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	return 128 + number;
}
