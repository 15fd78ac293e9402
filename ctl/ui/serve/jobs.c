/* ctl/ui/serve/jobs.c -- see jobs.h. */
#include "ctl/ui/serve/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/process/clock.h"
#include "ctl/process/control_file.h"

#define PIECE_BYTES 65536u
/* clients, children and a few more: see MT_CLIENTS_MOST */
#define DESCRIPTORS_MOST 1024
/* of an answer: five times the longest */
#define TEXT_MOST ((size_t)8 << 20)

/* ---- the child ---- */

static void write_all(const char *from, size_t bytes)
{
	while (bytes) {
		ssize_t done = write(STDOUT_FILENO, from, bytes);

		if (done < 0 && errno != EINTR)
			_exit(1);
		from += done > 0 ? done : 0;
		bytes -= done > 0 ? (size_t)done : 0;
	}
}

/* Else connections that the server closes would stay open. Other descriptors are of shared code,
 * which may want them. */
static void close_sockets(void)
{
	struct stat status;

	for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS_MOST; fd++)
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

static _Noreturn void child(const struct mt_job_request *order, int to)
{
	unsigned status;
	char *text = NULL;

	mt_jobs_begin_child();
	if (dup2(to, STDOUT_FILENO) < 0)
		_exit(1);
	status = order->work(order, &text);
	write_all((const char *)&status, sizeof(status));
	write_all(text, strlen(text));
	_exit(0);
}

/* ---- the server ---- */

static struct mt_job *find_place(struct mt_jobs *jobs, const struct mt_job_request *order,
				 struct mt_response *out_refusal)
{
	struct mt_job *place = NULL;

	if (jobs->stopped) {
		*out_refusal = mt_response_error(MHD_HTTP_SERVICE_UNAVAILABLE, "the server ends");
		return NULL;
	}
	for (size_t i = 0; i < MT_JOBS_MOST; i++) {
		if (!jobs->list[i].connection)
			place = &jobs->list[i];
		else if (jobs->list[i].order.pid == order->pid) {
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
		child(&job->order, ends[1]);
	close(ends[1]);
	job->fd = ends[0];
	if (job->child < 0)
		close(ends[0]);
	return job->child > 0;
}

struct mt_job *mt_jobs_start(struct mt_jobs *jobs, const struct mt_job_request *order,
			     struct MHD_Connection *connection, struct mt_response *out_refusal)
{
	struct mt_job *job = find_place(jobs, order, out_refusal);

	if (!job)
		return NULL;
	*job = (struct mt_job){.order = *order};
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

	for (size_t i = 0; i < MT_JOBS_MOST; i++)
		if (jobs->list[i].connection && !jobs->list[i].ended)
			out[count++] = (struct pollfd){.fd = jobs->list[i].fd, .events = POLLIN};
	return count;
}

/* Half an answer is none: of who was killed, or died, nothing is kept. */
static void reap(struct mt_job *job, bool killed)
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
	reap(job, killed);
	MHD_resume_connection(job->connection);
}

/* false: there will not be more. */
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
	for (size_t i = 0; i < MT_JOBS_MOST && jobs->count; i++) {
		struct mt_job *job = &jobs->list[i];

		if (!job->connection || job->ended)
			continue;
		if (!read_more(job))
			end(job, false);
		else if (job->bytes > TEXT_MOST || mt_clock_now_ns() >= job->deadline_ns)
			end(job, true);
	}
}

struct mt_response mt_job_take(struct mt_jobs *jobs, struct mt_job *job)
{
	unsigned status;
	size_t length = job->bytes - sizeof(status);
	struct mt_response answer;

	if (job->bytes <= sizeof(status)) {
		free(job->text);
		answer = mt_response_error(MHD_HTTP_SERVICE_UNAVAILABLE,
					   "it was given up before there was an answer");
	} else {
		memcpy(&status, job->text, sizeof(status));
		memmove(job->text, job->text + sizeof(status), length);
		answer = mt_response_bytes("application/json", job->text, length, MT_RESPONSE_FREE);
		answer.status = status;
	}
	*job = (struct mt_job){0};
	jobs->count--;
	return answer;
}

void mt_job_drop(struct mt_jobs *jobs, struct mt_job *job)
{
	if (!job->ended)
		reap(job, true);
	free(job->text);
	*job = (struct mt_job){0};
	jobs->count--;
}

void mt_jobs_stop(struct mt_jobs *jobs)
{
	jobs->stopped = true;
	for (size_t i = 0; i < MT_JOBS_MOST; i++)
		if (jobs->list[i].connection && !jobs->list[i].ended)
			end(&jobs->list[i], true);
}
