#include "ctl/process/remote_python.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/dump_layout.h"
#include "ctl/output/text.h"
#include "ctl/process/clock.h"
#include "ctl/process/read_file.h"
#include "ctl/process/look.h"

#define OLDEST_MINOR 14
/* beyond the time of the look: for a main thread that is late, and a collection that takes long */
#define MORE_TIME_MS  150000u
#define POLL_MS       50
#define LINE_BYTES    512u
#define ARGUMENTS_MAX 9
#define FILE_FD       3 /* of the child: where the file of lines goes */

/* The path is relative to the root of the sources, where make runs. */
__asm__(".pushsection .rodata\n"
	"remote_python_text:\n\t.incbin \"ctl/process/remote_python.py\"\n\t.byte 0\n"
	".popsection\n");
extern const char remote_python_text[] __attribute__((visibility("hidden")));

/* ---- whether it can be done ---- */

/* A path of the process means the same file here. */
static bool shares_files(pid_t pid)
{
	static const char *const names[] = {"ns/mnt", "root"};
	char path[64], its[PATH_MAX], ours[PATH_MAX];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ssize_t its_length, our_length;

		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, names[i]);
		its_length = readlink(path, its, sizeof(its));
		snprintf(path, sizeof(path), "/proc/self/%s", names[i]);
		our_length = readlink(path, ours, sizeof(ours));
		if (its_length < 0 || its_length != our_length ||
		    memcmp(its, ours, (size_t)its_length) != 0)
			return false;
	}
	return true;
}

/* A file that the process runs is executed only if it runs as the caller, who could have done
 * the same. */
static bool own_interpreter(const struct mt_process *process, struct mt_remote_python *out)
{
	char path[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)process->pid);
	length = readlink(path, out->interpreter, sizeof(out->interpreter) - 1);
	if (process->uid != geteuid() || length <= 0)
		return false;
	out->interpreter[length] = '\0';
	return strncmp(mt_text_basename(out->interpreter), "python", 6) == 0 &&
	       access(out->interpreter, X_OK) == 0;
}

static bool interpreter_in_path(const char *version, struct mt_remote_python *out)
{
	const char *path = getenv("PATH"), *end;

	for (; path; path = end ? end + 1 : NULL) {
		end = strchr(path, ':');
		if (*path == '/' &&
		    snprintf(out->interpreter, sizeof(out->interpreter), "%.*s/python%s",
			     end ? (int)(end - path) : (int)strlen(path), path,
			     version) < (int)sizeof(out->interpreter) &&
		    access(out->interpreter, X_OK) == 0)
			return true;
	}
	return false;
}

enum mt_err mt_remote_python_find(const struct mt_process *process, struct mt_remote_python *out,
				  struct mt_error_reason *why)
{
	struct mt_runtime runtime;
	char disabled[8];
	unsigned minor;

	*out = (struct mt_remote_python){.process = process};
	mt_runtime_read(process->pid, &runtime);
	if (sscanf(runtime.python, "3.%u", &minor) != 1)
		return mt_error_because(why, MT_ERR_NOT_AVAILABLE,
					"it runs no CPython whose version can be told");
	if (minor < OLDEST_MINOR)
		return mt_error_because(why, MT_ERR_NOT_AVAILABLE,
					"its Python %s is older than 3.%d, the first that runs a "
					"script from outside",
					runtime.python, OLDEST_MINOR);
	if (mt_process_environ(process->pid, "PYTHON_DISABLE_REMOTE_DEBUG", disabled,
			       sizeof(disabled)) &&
	    disabled[0])
		return mt_error_because(why, MT_ERR_NOT_AVAILABLE,
					"its environment forbids it: PYTHON_DISABLE_REMOTE_DEBUG");
	if (!shares_files(process->pid))
		return mt_error_because(why, MT_ERR_NOT_AVAILABLE,
					"it sees other files than mtctl (a container, a chroot, "
					"PrivateTmp): run mtctl there");
	if (own_interpreter(process, out) || interpreter_in_path(runtime.python, out))
		return MT_ERR_OK;
	return mt_error_because(why, MT_ERR_NOT_AVAILABLE,
				"python%s is not in PATH: an interpreter of the same version has "
				"to reach it",
				runtime.python);
}

/* ---- the child ---- */

struct child {
	pid_t pid;
	int to, from; /* its standard input and output */
	char line[LINE_BYTES];
	size_t used;
};

static void exec_child(char **arguments, const int ends[4], int file)
{
	int null = open("/dev/null", O_WRONLY);

	/* Ctrl-C ends the look, and not the child that has to stop tracemalloc */
	(void)setpgid(0, 0);
	if (dup2(ends[0], STDIN_FILENO) < 0 || dup2(ends[3], STDOUT_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0 ||
	    (file >= 0 && file != FILE_FD && dup2(file, FILE_FD) < 0))
		_exit(MT_EXIT_CANNOT_RUN);
	if (file == FILE_FD)
		(void)fcntl(file, F_SETFD, 0);
	execv(arguments[0], arguments);
	_exit(MT_EXIT_CANNOT_RUN);
}

/* words: what follows the text, its pid and its uid. file: -1 for none. */
static bool start(const struct mt_remote_python *remote, const char *const *words, int file,
		  struct child *out)
{
	char pid[16], uid[16];
	const char *arguments[ARGUMENTS_MAX + 7] = {remote->interpreter, "-I", "-S", "-c",
						    remote_python_text,  pid,  uid};
	int ends[4];

	snprintf(pid, sizeof(pid), "%d", (int)remote->process->pid);
	snprintf(uid, sizeof(uid), "%u", (unsigned)remote->process->uid);
	for (size_t i = 0; words[i] && i < ARGUMENTS_MAX - 1; i++)
		arguments[7 + i] = words[i];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	if (pipe2(ends + 2, O_CLOEXEC) != 0) {
		close(ends[0]);
		close(ends[1]);
		return false;
	}
	*out = (struct child){.pid = fork(), .to = ends[1], .from = ends[2]};
	if (out->pid == 0)
		exec_child((char **)(uintptr_t)arguments, ends, file);
	close(ends[0]);
	close(ends[3]);
	return out->pid > 0;
}

/* Reads a line into child->line. Returns false at its end, and at end_ns. */
static bool read_line(struct child *child, const volatile sig_atomic_t *stop, uint64_t end_ns)
{
	struct pollfd wait = {.fd = child->from, .events = POLLIN};
	ssize_t got = 1;

	child->used = 0;
	while (mt_clock_now_ns() < end_ns) {
		if (stop && *stop && child->to >= 0) {
			close(child->to);
			child->to = -1;
		}
		if (poll(&wait, 1, POLL_MS) <= 0)
			continue;
		got = read(child->from, child->line + child->used, 1);
		if (got != 1)
			return false;
		if (child->line[child->used] == '\n' || child->used == LINE_BYTES - 1) {
			child->line[child->used] = '\0';
			mt_text_clean(child->line, LINE_BYTES);
			return true;
		}
		child->used++;
	}
	return false;
}

/* The child ends by itself: it may have to stop tracemalloc, and nobody waits for that. */
static void leave(struct child *child)
{
	if (child->to >= 0)
		close(child->to);
	close(child->from);
	(void)waitpid(child->pid, NULL, WNOHANG);
}

static enum mt_err failure(const struct child *child, bool has_line, struct mt_error_reason *why)
{
	static const struct {
		const char *kind;
		enum mt_err error;
	} kinds[] = {{"late ", MT_ERR_TIMEOUT},
		     {"foreign ", MT_ERR_FOREIGN},
		     {"ended ", MT_ERR_UNKNOWN},
		     {"busy ", MT_ERR_NOT_AVAILABLE},
		     {"refused ", MT_ERR_NOT_AVAILABLE}};
	const char *text = child->line + strlen("failed ");

	if (has_line && strncmp(child->line, "failed ", strlen("failed ")) == 0)
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (strncmp(text, kinds[i].kind, strlen(kinds[i].kind)) == 0)
				return mt_error_because(why, kinds[i].error, "%s",
							text + strlen(kinds[i].kind));
	return mt_error_because(why, MT_ERR_NOT_AVAILABLE,
				"the interpreter that was to reach it has failed");
}

/* ---- what is run ---- */

static uint64_t rss_bytes(pid_t pid)
{
	char *status = mt_process_read(pid, "status", NULL);
	uint64_t value = 0;

	if (status)
		(void)mt_read_file_number(status, "VmRSS", &value);
	free(status);
	return value * 1024;
}

enum mt_err mt_remote_python_collect(const struct mt_remote_python *remote,
				     struct mt_remote_collection *out, struct mt_error_reason *why)
{
	static const char *const words[] = {"gc", NULL};
	const uint64_t end_ns = mt_clock_now_ns() + MORE_TIME_MS * UINT64_C(1000000);
	struct child child;
	bool has_line;
	enum mt_err error = MT_ERR_OK;

	*out = (struct mt_remote_collection){.rss_before_bytes = rss_bytes(remote->process->pid)};
	if (!start(remote, words, -1, &child))
		return mt_error_because(why, MT_ERR_SYSTEM, "%s", strerror(errno));
	has_line = read_line(&child, NULL, end_ns);
	if (!has_line || sscanf(child.line, "collected %" SCNu64 " %" SCNu64, &out->objects_count,
				&out->took_ns) != 2)
		error = failure(&child, has_line, why);
	leave(&child);
	out->rss_after_bytes = rss_bytes(remote->process->pid);
	return error;
}

enum mt_err mt_remote_python_lines(const struct mt_remote_python *remote,
				   const struct mt_remote_lines *options, int *out_fd,
				   struct mt_error_reason *why)
{
	static const char outcomes[] =
#define X(name, text) #name " "
		MT_LINES_OUTCOMES(X)
#undef X
		;
	static const char cuts[] =
#define X(name, text) #name " "
		MT_LINES_CUTS(X)
#undef X
		;
	const uint64_t end_ns =
		mt_clock_now_ns() + (options->for_ms + MORE_TIME_MS) * UINT64_C(1000000);
	char ms[24], depth[16], blocks[16], layout[96];
	const char *const words[] = {"lines", ms, depth, blocks, layout, outcomes, cuts, NULL};
	int file = (int)syscall(SYS_memfd_create, "lines", MFD_CLOEXEC); /* glibc 2.26 */
	struct child child;
	bool has_line;

	snprintf(ms, sizeof(ms), "%" PRIu64, options->for_ms);
	snprintf(depth, sizeof(depth), "%u", options->depth);
	snprintf(blocks, sizeof(blocks), "%u", options->blocks_max);
	snprintf(layout, sizeof(layout), "%llu %u %u %u %u", (unsigned long long)MT_LINES_MAGIC,
		 MT_LINES_VERSION, MT_LINES_STACKS_MAX, MT_LINES_FRAMES_MAX, MT_LINES_NAMES_MAX);
	if (file < 0 || !start(remote, words, file, &child)) {
		if (file >= 0)
			close(file);
		return mt_error_because(why, MT_ERR_SYSTEM, "%s", strerror(errno));
	}
	while ((has_line = read_line(&child, options->stop, end_ns)) &&
	       strncmp(child.line, "begun ", strlen("begun ")) == 0)
		options->begun(options->argument, child.line[strlen("begun ")] == '1');
	leave(&child);
	*out_fd = file;
	if (has_line && strcmp(child.line, "done") == 0)
		return MT_ERR_OK;
	close(file);
	return failure(&child, has_line, why);
}
