/* ctl/ui/serve/jobs.h -- long work, such as cleanups, in child processes: the server continues, and
 * mtctl's shared code, which is for one thread, is not called by two. A child writes an HTTP status
 * and a JSON text into a pipe. */
#ifndef MT_CTL_UI_SERVE_JOBS_H
#define MT_CTL_UI_SERVE_JOBS_H

#include <microhttpd.h>
#include <poll.h>

#include "ctl/process/process.h"
#include "ctl/ui/serve/response.h"

#define MT_JOBS_MAX 16u

enum mt_job_kind {
	MT_JOB_TRIM,     /* `mtctl trim PID --json` */
	MT_JOB_SNAPSHOT, /* `mtctl snapshot PID --json --top=10000` */
	MT_JOB_SITES,    /* `mtctl sites PID --json --top=300` */
	MT_JOB_LINES,    /* `mtctl sites PID --python --json --for=10s --top=50` */
	MT_JOB_COUNT
};

struct mt_job_request {
	enum mt_job_kind kind;
	pid_t pid;
	uint32_t level; /* of TRIM: enum mt_level */
};
#define MT_JOB_TIMEOUT_MS 60000u /* then the child is killed */

struct mt_job {
	struct MHD_Connection *connection; /* NULL: unused */
	struct mt_job_request request;
	pid_t child;
	int fd;
	uint64_t deadline_ns;
	char *text;
	size_t bytes, room;
	bool ended;
};

struct mt_jobs {
	struct mt_job list[MT_JOBS_MAX];
	size_t count;
	/* no job starts any more: libmicrohttpd aborts if it stops with a suspended connection
	 */
	bool stopped;
};

/* Finds a shimmed process that the server may send requests to. UNKNOWN: it is not shimmed, or is
 * another user's, whose existence is not revealed. TIMEOUT: as of mt_process_find. */
enum mt_err mt_job_find(pid_t pid, struct mt_process *out, struct mt_error_reason *why);

/* Prepares a child of the server: it ends with the server, has no blocked signals, and keeps no
 * connection open. */
void mt_jobs_begin_child(void);

/* Starts the child. The connection is suspended until it has ended. Returns NULL with *out_refusal:
 * the process has a job already (409); too many jobs, or the server ends (503). */
struct mt_job *mt_jobs_start(struct mt_jobs *jobs, const struct mt_job_request *request,
			     struct MHD_Connection *connection, struct mt_response *out_refusal);

/* Fills up to MT_JOBS_MAX entries for poll, and returns how many. */
size_t mt_jobs_poll(const struct mt_jobs *jobs, struct pollfd *out);

/* Reads what children have written, kills those whose time is over, and resumes the connections of
 * those that have ended. */
void mt_jobs_run(struct mt_jobs *jobs);

/* Returns the reply of a job whose connection was resumed, and frees the job. */
struct mt_response mt_job_result(struct mt_jobs *jobs, struct mt_job *job);

/* Ends a job whose client has gone, and frees it. */
void mt_job_cancel(struct mt_jobs *jobs, struct mt_job *job);

/* Ends all children, and starts none any more. Their connections get 503. */
void mt_jobs_stop(struct mt_jobs *jobs);

#endif
