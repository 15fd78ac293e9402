#include "ctl/ui/serve/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ctl/channel/control_file.h"
#include "ctl/channel/pool_snapshot.h"
#include "ctl/channel/process_list.h"
#include "ctl/channel/stats_json.h"
#include "ctl/channel/target.h"
#include "ctl/metrics/openmetrics.h"
#include "ctl/output/json.h"
#include "ctl/process/clock.h"
#include "ctl/process/watchdog.h"
#include "ctl/profile/lines.h"
#include "ctl/profile/sites.h"

#define PIECE_BYTES 65536u
/* clients, children and a few more: see MT_CLIENTS_MAX */
#define DESCRIPTORS_MAX 1024
/* figures of thousands of processes; for other replies five times the longest */
#define FIGURES_TEXT_MAX ((size_t)256 << 20)
#define TEXT_MAX         ((size_t)8 << 20)
#define FIGURES_NS       (30 * UINT64_C(1000000000)) /* then the child is killed */
#define ASKING_NS        (60 * UINT64_C(1000000000))
/* a reply is valid for at least this many times its cost */
#define VALID_FACTOR 4u

/* 1.5 MB. A million blocks would be 110 MB, with a copy for each client. */
#define BLOCKS_MAX 10000u
/* with 64 frames of 400 bytes each they fit into TEXT_MAX */
#define SITES_MAX 300u
/* Python lines: the look, the frames of a stack, as of `mtctl sites`, and the lines of the reply */
#define LOOK_MS     10000u
#define LOOK_FRAMES 10u
#define LINES_MAX   50u

/* ---- what the children do ---- */

static unsigned status_of(int code)
{
	if (code == MT_EXIT_NO_PROCESS)
		return MHD_HTTP_NOT_FOUND;
	if (code == MT_EXIT_NO_ANSWER)
		return MHD_HTTP_GATEWAY_TIMEOUT;
	return code == MT_EXIT_OK || code == MT_EXIT_NOTHING ? MHD_HTTP_OK : MHD_HTTP_BAD_GATEWAY;
}

static char *text_of(json_t *value)
{
	char *text = mt_error_check_memory(json_dumps(value, JSON_COMPACT));

	json_decref(value);
	return text;
}

/* Finds a shimmed process that the server may read and ask. UNKNOWN: it is not shimmed, or is
 * another user's, whose existence is not revealed. TIMEOUT: as of mt_process_find. */
static enum mt_err find_process(pid_t pid, struct mt_process *out, struct mt_error_reason *why)
{
	struct mt_process process;
	enum mt_err error = mt_process_find(pid, &process, why);

	if (error == MT_ERR_TIMEOUT)
		return error;
	if (error || !process.shimmed || (geteuid() != 0 && process.uid != geteuid()))
		return mt_error_because(why, MT_ERR_UNKNOWN,
					"no process of this id carries the shim here");
	*out = process;
	return MT_ERR_OK;
}

static unsigned refuse(enum mt_err error, const struct mt_error_reason *why, char **out)
{
	json_t *refusal = json_object();

	mt_json_set_text(refusal, "error", why->text);
	*out = text_of(refusal);
	return error == MT_ERR_NOT_AVAILABLE ? MHD_HTTP_NOT_FOUND : status_of(mt_error_exit(error));
}

static unsigned figures(const struct mt_task_request *request, char **out)
{
	struct mt_process_list processes;
	size_t length;

	mt_process_list_read(MT_PROCESS_LIST_SHOWN, &processes);
	if (request->kind == MT_TASK_PROCESSES)
		*out = text_of(mt_process_list_json(&processes));
	else if (request->kind == MT_TASK_PLAIN)
		*out = mt_openmetrics_render_old(&processes, &length);
	else
		*out = mt_openmetrics_render(&processes, &length);
	return MHD_HTTP_OK;
}

static unsigned figures_of_one(const struct mt_task_request *request, char **out)
{
	struct mt_target *target = mt_error_check_memory(malloc(sizeof(*target)));
	struct mt_error_reason why;
	enum mt_err error = find_process(request->pid, &target->process, &why);

	if (!error)
		error = mt_target_read(&target->process, &target->file, &why);
	if (error)
		return refuse(error, &why, out);
	*out = text_of(mt_stats_json(target));
	return MHD_HTTP_OK;
}

static unsigned trim(const struct mt_task_request *request, char **out)
{
	struct mt_process process;
	json_t *reply, *error;
	struct mt_error_reason why;
	enum mt_err refused = find_process(request->pid, &process, &why);
	int code;

	if (refused)
		return refuse(refused, &why, out);
	reply = mt_trim_json(&process, request->level, MT_TRIM_TIMEOUT_MS, &code);
	error = json_object_get(json_array_get(json_object_get(reply, "processes"), 0), "error");
	/* as in every other refusal */
	if (status_of(code) != MHD_HTTP_OK && error)
		mt_json_set(reply, "error", json_incref(error));
	*out = text_of(reply);
	return status_of(code);
}

static unsigned snapshot(const struct mt_task_request *request, char **out)
{
	const struct mt_pool_snapshot_view view = {.device = MT_POOL_SNAPSHOT_ALL,
						   .top = BLOCKS_MAX};
	struct mt_pool_snapshot pool = {0};
	struct mt_process process;
	size_t length;
	FILE *file;
	struct mt_error_reason why;
	enum mt_err error = find_process(request->pid, &process, &why);

	if (!error)
		error = mt_pool_snapshot_take(&process, &pool, &why);
	if (error)
		return refuse(error, &why, out);
	file = mt_error_check_memory(open_memstream(out, &length));
	mt_pool_snapshot_write_json(&pool, &view, file);
	if (fclose(file) != 0)
		mt_error_check_memory(NULL);
	mt_pool_snapshot_free(&pool);
	return MHD_HTTP_OK;
}

static unsigned sites(const struct mt_task_request *request, char **out)
{
	struct mt_process process;
	const struct mt_sites_view view = {.process = &process, .top = SITES_MAX};
	struct mt_sites found;
	struct mt_error_reason why;
	enum mt_err error = find_process(request->pid, &process, &why);

	if (!error)
		error = mt_sites_collect(&process, &found, &why);
	if (error)
		return refuse(error, &why, out);
	*out = text_of(mt_sites_json(&found, &view));
	mt_sites_free(&found);
	return MHD_HTTP_OK;
}

static unsigned lines(const struct mt_task_request *request, char **out)
{
	const struct mt_lines_options options = {.for_ms = LOOK_MS, .depth = LOOK_FRAMES};
	struct mt_process process;
	const struct mt_lines_view view = {.process = &process, .top = LINES_MAX};
	struct mt_lines found;
	struct mt_error_reason why;
	enum mt_err error = find_process(request->pid, &process, &why);

	if (!error)
		error = mt_lines_collect(&process, &options, &found, &why);
	if (error)
		return refuse(error, &why, out);
	*out = text_of(mt_lines_json(&found, &view));
	mt_lines_free(&found);
	return MHD_HTTP_OK;
}

/* ---- the child ---- */

/* Otherwise connections that the server closes would stay open. Other descriptors belong to shared
 * code, which may need them. */
static void close_sockets(void)
{
	struct stat status;

	for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS_MAX; fd++)
		if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode))
			close(fd);
}

/* Ends with the server, has no blocked signals, and keeps no connection open. */
static _Noreturn void child(const struct mt_task_request *request, int to)
{
	static unsigned (*const work[MT_TASK_KINDS])(const struct mt_task_request *, char **) = {
		[MT_TASK_OPENMETRICS] = figures, [MT_TASK_PLAIN] = figures,
		[MT_TASK_PROCESSES] = figures,   [MT_TASK_PROCESS] = figures_of_one,
		[MT_TASK_TRIM] = trim,           [MT_TASK_SNAPSHOT] = snapshot,
		[MT_TASK_SITES] = sites,         [MT_TASK_LINES] = lines,
	};
	sigset_t none;
	unsigned status;
	char *text = NULL;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	close_sockets();
	status = work[request->kind](request, &text);
	mt_watchdog_write(to, &status, sizeof(status));
	mt_watchdog_write(to, text, strlen(text));
	_exit(0);
}

/* ---- the server ---- */

static bool is_figures(const struct mt_task *task)
{
	return task->request.kind < MT_TASK_TRIM;
}

static bool start_child(struct mt_task *task)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	task->began_ns = mt_clock_now_ns();
	task->child = fork();
	if (task->child == 0)
		child(&task->request, ends[1]);
	close(ends[1]);
	task->fd = ends[0];
	if (task->child > 0)
		return true;
	close(ends[0]);
	task->child = 0;
	return false;
}

/* Returns whether the child has written all that it had to. A child that cannot be killed yet, in a
 * fault on a file system that hangs, ends later, and is not waited for. */
static bool end_child(struct mt_task *task, bool killed)
{
	int status = -1;

	close(task->fd);
	if (killed)
		(void)kill(task->child, SIGKILL);
	for (int tries = 0; tries < 100 && waitpid(task->child, &status, WNOHANG) == 0; tries++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	task->child = 0;
	return !killed && status == 0 && task->bytes > sizeof(unsigned);
}

static void release(struct mt_task *task)
{
	if (task->reply.response)
		MHD_destroy_response(task->reply.response);
	task->reply = (struct mt_response){0};
}

static struct mt_response make_reply(struct mt_task *task)
{
	static const char *const types[MT_TASK_KINDS] = {
		[MT_TASK_OPENMETRICS] = MT_OPENMETRICS_TYPE,
		[MT_TASK_PLAIN] = MT_OPENMETRICS_OLD_TYPE,
	};
	const char *type = types[task->request.kind];
	unsigned status;
	size_t length = task->bytes - sizeof(status);
	struct mt_response reply;

	memcpy(&status, task->text, sizeof(status));
	memmove(task->text, task->text + sizeof(status), length);
	reply = mt_response_bytes(type ? type : "application/json", task->text, length,
				  MT_RESPONSE_FREE);
	reply.status = status;
	task->text = NULL;
	return reply;
}

/* Stores the reply of a task whose child has ended, or never began, and resumes all connections
 * that wait for it. */
static void finish(struct mt_tasks *tasks, struct mt_task *task, bool is_whole)
{
	uint64_t now_ns = mt_clock_now_ns(), valid_ns = tasks->interval_ms * UINT64_C(1000000);
	uint64_t cost_ns = is_whole ? now_ns - task->began_ns : 0;

	release(task);
	task->reply = is_whole ? make_reply(task)
			       : mt_response_error(MHD_HTTP_SERVICE_UNAVAILABLE,
						   is_figures(task)
							   ? "the processes could not be read"
							   : "it was given up before there was an "
							     "answer");
	task->reply.kept = true;
	task->wanted = false;
	task->until_ns =
		now_ns + (cost_ns * VALID_FACTOR > valid_ns ? cost_ns * VALID_FACTOR : valid_ns);
	free(task->text);
	task->text = NULL;
	task->bytes = task->room = 0;
	for (size_t i = 0; i < MT_CLIENTS_MAX; i++) {
		struct mt_task_waiter *waiter = &tasks->waiters[i];

		if (!waiter->connection || waiter->task != task || waiter->resumed)
			continue;
		waiter->resumed = true;
		MHD_resume_connection(waiter->connection);
	}
}

static bool is_free(const struct mt_task *task)
{
	return !task->waiting && !task->wanted && !task->child;
}

/* Returns the task with these figures, or the place of the oldest figures that nobody waits for. */
static struct mt_task *find_figures(struct mt_tasks *tasks, const struct mt_task_request *request)
{
	struct mt_task *oldest = NULL;

	for (size_t i = 0; i < MT_TASKS_FIGURES_MAX; i++) {
		struct mt_task *task = &tasks->list[i];

		if (task->request.kind == request->kind && task->request.pid == request->pid)
			return task;
		if (is_free(task) && (!oldest || task->until_ns < oldest->until_ns))
			oldest = task;
	}
	return oldest;
}

/* Returns an unused place. NULL: there is none, or *out_is_asked: the process is asked already. */
static struct mt_task *find_unused(struct mt_tasks *tasks, pid_t pid, bool *out_is_asked)
{
	struct mt_task *unused = NULL;

	for (size_t i = MT_TASKS_FIGURES_MAX; i < MT_TASKS_MAX; i++) {
		struct mt_task *task = &tasks->list[i];

		if (is_free(task))
			unused = task;
		else if (task->request.pid == pid)
			*out_is_asked = true;
	}
	return *out_is_asked ? NULL : unused;
}

static struct mt_task_waiter *find_waiter(struct mt_tasks *tasks)
{
	for (size_t i = 0; i < MT_CLIENTS_MAX; i++)
		if (!tasks->waiters[i].connection)
			return &tasks->waiters[i];
	return NULL;
}

struct mt_response mt_tasks_get(struct mt_tasks *tasks, struct mt_task_request request,
				struct MHD_Connection *connection,
				struct mt_task_waiter **out_waiter)
{
	bool figures_wanted = request.kind < MT_TASK_TRIM, is_asked = false;
	struct mt_task *task = figures_wanted ? find_figures(tasks, &request)
					      : find_unused(tasks, request.pid, &is_asked);
	struct mt_task_waiter *waiter = find_waiter(tasks);

	if (is_asked && !tasks->stopped)
		return mt_response_error(MHD_HTTP_CONFLICT,
					 "another request of this process is under way");
	if (!task || !waiter || tasks->stopped)
		return mt_response_error(MHD_HTTP_SERVICE_UNAVAILABLE,
					 "too many requests are under way, or the server ends");
	if (task->request.kind != request.kind || task->request.pid != request.pid)
		release(task);
	task->request = request;
	if (figures_wanted && task->reply.response && mt_clock_now_ns() < task->until_ns)
		return task->reply;
	if (!figures_wanted && !start_child(task))
		return mt_response_error(MHD_HTTP_SERVICE_UNAVAILABLE,
					 "cannot start a child for it");
	task->wanted = !task->child;
	task->waiting++;
	*waiter = (struct mt_task_waiter){connection, task, false};
	*out_waiter = waiter;
	MHD_suspend_connection(connection);
	return (struct mt_response){0};
}

void mt_task_leave(struct mt_task_waiter *waiter)
{
	struct mt_task *task = waiter->task;

	*waiter = (struct mt_task_waiter){0};
	task->waiting--;
	if (is_figures(task))
		return;
	if (task->child)
		(void)end_child(task, true);
	free(task->text);
	release(task);
	*task = (struct mt_task){0};
}

struct mt_response mt_task_take(struct mt_task_waiter *waiter)
{
	struct mt_task *task = waiter->task;
	struct mt_response reply = task->reply;

	if (!is_figures(task)) {
		reply.kept = false;
		task->reply = (struct mt_response){0};
	}
	mt_task_leave(waiter);
	return reply;
}

size_t mt_tasks_poll(const struct mt_tasks *tasks, struct pollfd *out)
{
	size_t count = 0;

	for (size_t i = 0; i < MT_TASKS_MAX; i++)
		if (tasks->list[i].child)
			out[count++] = (struct pollfd){.fd = tasks->list[i].fd, .events = POLLIN};
	return count;
}

/* Returns false at the end. */
static bool read_more(struct mt_task *task)
{
	ssize_t got;

	if (task->room - task->bytes < PIECE_BYTES) {
		task->room = task->room * 2 + PIECE_BYTES;
		task->text = mt_error_check_memory(realloc(task->text, task->room));
	}
	got = read(task->fd, task->text + task->bytes, PIECE_BYTES);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	task->bytes += (size_t)got;
	return got > 0;
}

static bool is_too_much(const struct mt_task *task)
{
	bool figures_wanted = is_figures(task);

	return task->bytes > (figures_wanted ? FIGURES_TEXT_MAX : TEXT_MAX) ||
	       mt_clock_now_ns() - task->began_ns >= (figures_wanted ? FIGURES_NS : ASKING_NS);
}

void mt_tasks_run(struct mt_tasks *tasks)
{
	for (size_t i = 0; i < MT_TASKS_MAX; i++) {
		struct mt_task *task = &tasks->list[i];

		if (!task->child)
			continue;
		if (!read_more(task))
			finish(tasks, task, end_child(task, false));
		else if (is_too_much(task))
			finish(tasks, task, end_child(task, true));
	}
}

void mt_tasks_start_next(struct mt_tasks *tasks)
{
	uint64_t now_ns = mt_clock_now_ns();
	bool reads = false;

	for (size_t i = 0; i < MT_TASKS_FIGURES_MAX; i++) {
		struct mt_task *task = &tasks->list[i];

		reads |= task->child != 0;
		if (is_free(task) && now_ns >= task->until_ns)
			release(task);
	}
	for (size_t tried = 0; tried < MT_TASKS_FIGURES_MAX && !reads; tried++) {
		struct mt_task *task = &tasks->list[tasks->next++ % MT_TASKS_FIGURES_MAX];

		if (!task->wanted)
			continue;
		task->wanted = false;
		reads = start_child(task);
		if (!reads)
			finish(tasks, task, false);
	}
}

void mt_tasks_stop(struct mt_tasks *tasks)
{
	tasks->stopped = true;
	for (size_t i = 0; i < MT_TASKS_MAX; i++) {
		struct mt_task *task = &tasks->list[i];

		if (task->child)
			finish(tasks, task, end_child(task, true));
		else if (task->wanted)
			finish(tasks, task, false);
	}
}

void mt_tasks_free(struct mt_tasks *tasks)
{
	for (size_t i = 0; i < MT_TASKS_MAX; i++)
		release(&tasks->list[i]);
}
