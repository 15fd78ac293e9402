/* ctl/ui/serve/jobs.h -- what takes long, cleanups above all, done by children: the server goes on
 * meanwhile, and mtctl's shared code, which is made for one thread, stays as it is. A child answers
 * an HTTP status and a JSON text through a pipe. */
#ifndef MT_CTL_UI_SERVE_JOBS_H
#define MT_CTL_UI_SERVE_JOBS_H

#include <microhttpd.h>
#include <poll.h>

#include "ctl/process/process.h"
#include "ctl/ui/serve/response.h"

#define MT_JOBS_MOST 16u

enum mt_job_kind {
	MT_JOB_TRIM,     /* `mtctl trim PID --json` */
	MT_JOB_SNAPSHOT, /* `mtctl snapshot PID --json --top=10000` */
};

struct mt_job_request {
	enum mt_job_kind kind;
	pid_t pid;
	uint32_t level; /* of TRIM: enum mt_level */
};
#define MT_JOB_TIMEOUT_MS 60000u /* then the child is killed */

struct mt_job {
	struct MHD_Connection *connection; /* NULL: this place is free */
	struct mt_job_request order;
	pid_t child;
	int fd;
	uint64_t deadline_ns;
	char *text;
	size_t bytes, room;
	bool ended;
};

struct mt_jobs {
	struct mt_job list[MT_JOBS_MOST];
	size_t count;
	/* there will be no more: libmicrohttpd aborts where it is to end with a suspended
	 * connection */
	bool stopped;
};

/* Finds a shimmed process that the server may send requests to. UNKNOWN: it is not shimmed, or is
 * another user's, whose existence is not revealed. TIMEOUT: as of mt_process_find. */
enum mt_err mt_job_find(pid_t pid, struct mt_process *out, struct mt_why *why);

/* First in a child of the server: it ends with the server, may be ended by signals, and holds no
 * connection open. */
void mt_jobs_begin_child(void);

/* Starts the child; the connection is suspended until it has ended. NULL with *out_refusal: there
 * is one for this process already (409), there are too many, or the server ends (503). */
struct mt_job *mt_jobs_start(struct mt_jobs *jobs, const struct mt_job_request *order,
			     struct MHD_Connection *connection, struct mt_response *out_refusal);

/* For poll: fills at most MT_JOBS_MOST places, answers how many. */
size_t mt_jobs_poll(const struct mt_jobs *jobs, struct pollfd *out);

/* Reads what has come, kills whose time is over, and resumes the connections of those that have
 * ended. */
void mt_jobs_run(struct mt_jobs *jobs);

/* What came of it, once its connection was resumed; the place is free again. */
struct mt_response mt_job_take(struct mt_jobs *jobs, struct mt_job *job);

/* The same where nobody wants to know. */
void mt_job_drop(struct mt_jobs *jobs, struct mt_job *job);

/* Ends all children, and starts none from now on; their connections are answered with 503. */
void mt_jobs_stop(struct mt_jobs *jobs);

#endif
