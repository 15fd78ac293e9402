#include "ctl/ui/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/channel/control_file.h"
#include "ctl/channel/pool_snapshot.h"
#include "ctl/output/json.h"
#include "ctl/process/clock.h"
#include "ctl/process/watchdog.h"
#include "ctl/profile/lines.h"

#define PIECE_BYTES 65536u
/* clients, children and a few more: see MT_CLIENTS_MAX */
#define DESCRIPTORS_MAX 1024
/* of a reply: five times the longest */
#define TEXT_MAX ((size_t)8 << 20)

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

enum mt_err mt_job_find(pid_t pid, struct mt_process *out, struct mt_error_reason *why)
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
	*out = mt_json_take_text(refusal);
	return error == MT_ERR_NOT_AVAILABLE ? MHD_HTTP_NOT_FOUND : status_of(mt_error_exit(error));
}

static unsigned trim(const struct mt_process *process, uint32_t level, char **out)
{
	int code;
	json_t *reply = mt_trim_json(process, level, MT_TRIM_TIMEOUT_MS, &code);
	json_t *error =
		json_object_get(json_array_get(json_object_get(reply, "processes"), 0), "error");

	/* as in every other refusal */
	if (status_of(code) != MHD_HTTP_OK && error)
		mt_json_set(reply, "error", json_incref(error));
	*out = mt_json_take_text(reply);
	return status_of(code);
}

static enum mt_err snapshot(const struct mt_process *process, char **out,
			    struct mt_error_reason *why)
{
	const struct mt_pool_snapshot_view view = {.device = MT_POOL_SNAPSHOT_ALL,
						   .top = BLOCKS_MAX};
	struct mt_pool_snapshot pool = {0};
	enum mt_err error = mt_pool_snapshot_take(process, &pool, why);
	size_t length;
	FILE *file;

	if (error)
		return error;
	file = mt_error_check_memory(open_memstream(out, &length));
	mt_pool_snapshot_write_json(&pool, &view, file);
	if (fclose(file) != 0)
		mt_error_check_memory(NULL);
	mt_pool_snapshot_free(&pool);
	return MT_ERR_OK;
}

static enum mt_err sites(const struct mt_process *process, char **out, struct mt_error_reason *why)
{
	const struct mt_sites_view view = {.process = process, .top = SITES_MAX};
	struct mt_sites found;
	enum mt_err error = mt_sites_collect(process, &found, why);

	if (error)
		return error;
	*out = mt_json_take_text(mt_sites_json(&found, &view));
	mt_sites_free(&found);
	return MT_ERR_OK;
}

static enum mt_err lines(const struct mt_process *process, char **out, struct mt_error_reason *why)
{
	const struct mt_lines_options options = {.for_ms = LOOK_MS, .depth = LOOK_FRAMES};
	const struct mt_sites_view view = {.process = process, .top = LINES_MAX};
	struct mt_lines found;
	enum mt_err error = mt_lines_collect(process, &options, &found, why);

	if (error)
		return error;
	*out = mt_json_take_text(mt_lines_json(&found, &view));
	mt_lines_free(&found);
	return MT_ERR_OK;
}

static unsigned work(const struct mt_job_request *request, char **out)
{
	struct mt_process process;
	struct mt_error_reason why;
	enum mt_err error = mt_job_find(request->pid, &process, &why);

	if (!error && request->kind == MT_JOB_TRIM)
		return trim(&process, request->level, out);
	if (!error)
		error = (request->kind == MT_JOB_SNAPSHOT ? snapshot
			 : request->kind == MT_JOB_SITES  ? sites
							  : lines)(&process, out, &why);
	return error ? refuse(error, &why, out) : MHD_HTTP_OK;
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

void mt_jobs_begin_child(void)
{
	sigset_t none;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	close_sockets();
}

static _Noreturn void child(const struct mt_job_request *request, int to)
{
	unsigned status;
	char *text = NULL;

	mt_jobs_begin_child();
	status = work(request, &text);
	mt_watchdog_write(to, &status, sizeof(status));
	mt_watchdog_write(to, text, strlen(text));
	_exit(0);
}

/* ---- the server ---- */

static struct mt_job *find_entry(struct mt_jobs *jobs, const struct mt_job_request *request,
				 struct mt_response *out_refusal)
{
	struct mt_job *place = NULL;

	if (jobs->stopped) {
		*out_refusal = mt_response_error(MHD_HTTP_SERVICE_UNAVAILABLE, "the server ends");
		return NULL;
	}
	for (size_t i = 0; i < MT_JOBS_MAX; i++) {
		if (!jobs->list[i].connection)
			place = &jobs->list[i];
		else if (jobs->list[i].request.pid == request->pid) {
			*out_refusal = mt_response_error(
				MHD_HTTP_CONFLICT, "another request of this process is under way");
			return NULL;
		}
	}
	if (!place)
		*out_refusal = mt_response_error(MHD_HTTP_SERVICE_UNAVAILABLE,
						 "too many requests are under way");
	return place;
}

static bool start_child(struct mt_job *job)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	job->child = fork();
	if (job->child == 0)
		child(&job->request, ends[1]);
	close(ends[1]);
	job->fd = ends[0];
	if (job->child < 0)
		close(ends[0]);
	return job->child > 0;
}

struct mt_job *mt_jobs_start(struct mt_jobs *jobs, const struct mt_job_request *request,
			     struct MHD_Connection *connection, struct mt_response *out_refusal)
{
	struct mt_job *job = find_entry(jobs, request, out_refusal);

	if (!job)
		return NULL;
	*job = (struct mt_job){.request = *request};
	job->deadline_ns = mt_clock_now_ns() + MT_JOB_TIMEOUT_MS * UINT64_C(1000000);
	if (!start_child(job)) {
		*out_refusal = mt_response_error(MHD_HTTP_SERVICE_UNAVAILABLE,
						 "cannot start a child for it");
		return NULL;
	}
	job->connection = connection;
	jobs->count++;
	MHD_suspend_connection(connection);
	return job;
}

size_t mt_jobs_poll(const struct mt_jobs *jobs, struct pollfd *out)
{
	size_t count = 0;

	for (size_t i = 0; i < MT_JOBS_MAX; i++)
		if (jobs->list[i].connection && !jobs->list[i].ended)
			out[count++] = (struct pollfd){.fd = jobs->list[i].fd, .events = POLLIN};
	return count;
}

/* Ends the child. The text of a child that failed or was killed is dropped. */
static void collect(struct mt_job *job, bool killed)
{
	int status = -1;

	close(job->fd);
	if (killed)
		(void)kill(job->child, SIGKILL);
	while (waitpid(job->child, &status, 0) < 0 && errno == EINTR)
		continue;
	if (status != 0)
		job->bytes = 0;
	job->ended = true;
}

static void end(struct mt_job *job, bool killed)
{
	collect(job, killed);
	MHD_resume_connection(job->connection);
}

/* Returns false at the end. */
static bool read_more(struct mt_job *job)
{
	ssize_t got;

	if (job->room - job->bytes < PIECE_BYTES) {
		job->room = job->room * 2 + PIECE_BYTES + 1;
		job->text = mt_error_check_memory(realloc(job->text, job->room));
	}
	got = read(job->fd, job->text + job->bytes, PIECE_BYTES);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	job->bytes += (size_t)got;
	return got > 0;
}

void mt_jobs_run(struct mt_jobs *jobs)
{
	for (size_t i = 0; i < MT_JOBS_MAX && jobs->count; i++) {
		struct mt_job *job = &jobs->list[i];

		if (!job->connection || job->ended)
			continue;
		if (!read_more(job))
			end(job, false);
		else if (job->bytes > TEXT_MAX || mt_clock_now_ns() >= job->deadline_ns)
			end(job, true);
	}
}

struct mt_response mt_job_result(struct mt_jobs *jobs, struct mt_job *job)
{
	unsigned status;
	size_t length = job->bytes - sizeof(status);
	struct mt_response reply;

	if (job->bytes <= sizeof(status)) {
		free(job->text);
		reply = mt_response_error(MHD_HTTP_SERVICE_UNAVAILABLE,
					  "it was given up before there was an answer");
	} else {
		memcpy(&status, job->text, sizeof(status));
		memmove(job->text, job->text + sizeof(status), length);
		reply = mt_response_bytes("application/json", job->text, length, MT_RESPONSE_FREE);
		reply.status = status;
	}
	*job = (struct mt_job){0};
	jobs->count--;
	return reply;
}

void mt_job_cancel(struct mt_jobs *jobs, struct mt_job *job)
{
	if (!job->ended)
		collect(job, true);
	free(job->text);
	*job = (struct mt_job){0};
	jobs->count--;
}

void mt_jobs_stop(struct mt_jobs *jobs)
{
	jobs->stopped = true;
	for (size_t i = 0; i < MT_JOBS_MAX; i++)
		if (jobs->list[i].connection && !jobs->list[i].ended)
			end(&jobs->list[i], true);
}
