/* ctl/ui/serve/serve.h -- the parts of `mtctl serve`: replies, tokens, connections, figures, work,
 * and the paths that lead to them. */
#ifndef MT_CTL_UI_SERVE_SERVE_H
#define MT_CTL_UI_SERVE_SERVE_H

#include <microhttpd.h>
#include <poll.h>
#include <sys/types.h>

#include "ctl/output/error.h"
#include "ctl/process/process.h"

/* The response is destroyed when it is queued, unless `kept`: then its owner destroys it. */
struct mt_response {
	unsigned status;
	struct MHD_Response *response; /* NULL: none yet, the connection waits */
	bool kept;
};

/* FREE: libmicrohttpd frees the body */
enum mt_response_body { MT_RESPONSE_STATIC, MT_RESPONSE_FREE };

struct mt_response mt_response_bytes(const char *type, const void *bytes, size_t length,
				     enum mt_response_body body);

/* {"error": "..."} */
struct mt_response mt_response_error(unsigned status, const char *text);

/* The same, and closes the connection: later bytes may belong to the refused request. */
struct mt_response mt_response_closing(unsigned status, const char *text);

/* 401 or 403 for a missing token; 401 names the kind of authentication. */
struct mt_response mt_response_unauthorized(unsigned status, const char *text);

/* 405, with the allowed methods. */
struct mt_response mt_response_method(const char *allowed);

/* The secret that requests to `mtctl serve` need. */

#define MT_TOKEN_MIN 16

struct mt_token {
	char text[129]; /* filled up with NULs */
};

/* Makes a token: 128 bits from the kernel, as 32 hexadecimal digits. */
enum mt_err mt_token_make(struct mt_token *out, struct mt_error_reason *why);

/* Reads a token from the first line of a file: 16 to 128 printable characters without blanks. A
 * missing file is created with mode 0600 and a new token. FOREIGN: of another user, no regular
 * file, accessible to others, or reached by another user's symbolic link, which could lead to a
 * file with a first line that can be guessed. */
enum mt_err mt_token_file(const char *path, struct mt_token *out, struct mt_error_reason *why);

/* Compares in constant time. An empty token matches nothing. */
bool mt_token_matches(const struct mt_token *token, const char *given);

/* The connections, and limits on slow ones. The timeout of libmicrohttpd
 * restarts with every byte. Here a request must be complete, and its reply sent, within 30 s of the
 * end of the one before. If connections run out, the one that has finished nothing for longest
 * is closed. For one thread. */

#define MT_CLIENTS_MAX 256u

struct mt_client {
	int fd;
	bool used;
	bool waits; /* for the server: no limit then */
	bool ended; /* shut down, and not closed yet */
	/* CLOCK_MONOTONIC: of the connection, or of the end of its last request */
	uint64_t since_ns;
};

struct mt_clients {
	struct mt_client list[MT_CLIENTS_MAX];
	size_t count;
};

/* For MHD_OPTION_NOTIFY_CONNECTION; cls is the struct mt_clients. */
void mt_clients_notify(void *cls, struct MHD_Connection *connection, void **place,
		       enum MHD_ConnectionNotificationCode code);

/* Returns the client of a connection; NULL: mt_clients_notify was not called for it. */
struct mt_client *mt_clients_of(struct MHD_Connection *connection);

/* Notes that the reply was sent. */
void mt_clients_done(struct mt_client *client);

/* Shuts down connections whose time is over, and the oldest ones if fewer than 16 are free.
 * libmicrohttpd closes them in its next run. */
void mt_clients_expire(struct mt_clients *clients);

/* Replies with figures, shared by all clients for a short while: a
 * thousand requests per second read /proc and the stats files as often as one does. No process is
 * woken. A child process reads, and only connections that need its result wait. If
 * reading takes long (thousands of processes) it is done less often: it takes a fifth of the time
 * at most. */

/* A child process of the server that reads processes and their files, one request after another,
 * while the server continues. Caches of readings (ctl/process/process_probe.h,
 * ctl/process/process_probe.h) live in it. */

enum mt_reader_form {
	MT_READER_OPENMETRICS, /* application/openmetrics-text */
	/* text/plain; version=0.0.4, for scrapers without OpenMetrics */
	MT_READER_PLAIN,
	MT_READER_PROCESSES, /* the object of `mtctl ps --json` */
	MT_READER_PROCESS,   /* of one process: the object of `mtctl stat PID --json --cached` */
};

/* A request to the reader. */
struct mt_reader_request {
	enum mt_reader_form form;
	pid_t pid; /* PROCESS */
};

struct mt_reader_head {
	unsigned status;  /* of HTTP; but for 200 the text is the reason, not JSON */
	uint64_t cost_ns; /* wall time of the reading */
	uint64_t bytes;
};

#define MT_CACHE_PROCESSES_MAX 16u
#define MT_CACHE_MAX           (MT_READER_PROCESS + MT_CACHE_PROCESSES_MAX)

/* The first entries are of all processes, by form; each other one is of one process. */
struct mt_cache_entry {
	struct mt_reader_request request;
	bool wanted;       /* and not sent to the reader yet */
	uint64_t until_ns; /* CLOCK_MONOTONIC: the reply is valid until then */
	struct mt_response reply;
	size_t waiting; /* connections that wait for it */
};

/* A waiting connection, from mt_cache_get to _take or _leave. */
struct mt_cache_waiter {
	struct MHD_Connection *connection; /* NULL: unused */
	struct mt_cache_entry *entry;
	bool resumed;
};

struct mt_cache {
	uint64_t interval_ms; /* how long a reply is shared */
	struct mt_cache_entry list[MT_CACHE_MAX];
	struct mt_cache_waiter waiters[MT_CLIENTS_MAX];
	struct mt_cache_entry *current; /* that the reader works on; NULL: none */
	uint64_t deadline_ns;           /* of that request */
	size_t next;                    /* in `list`: entries take turns */
	pid_t reader;                   /* 0: none */
	int to, from;
	char *text; /* what the reader has written so far */
	size_t bytes, room;
	bool stopped;
};

/* Returns the reply; or no response, if the connection is suspended with its entry in
 * *out_waiter. Once it is resumed, mt_cache_take returns the reply. */
struct mt_response mt_cache_get(struct mt_cache *cache, struct mt_reader_request request,
				struct MHD_Connection *connection,
				struct mt_cache_waiter **out_waiter);
struct mt_response mt_cache_take(struct mt_cache_waiter *waiter);

/* Gives up waiting, if the client has gone. */
void mt_cache_leave(struct mt_cache_waiter *waiter);

/* Fills up to one entry for poll, and returns how many. */
size_t mt_cache_poll(const struct mt_cache *cache, struct pollfd *out);

/* Reads what the reader has written, ends a reader that has taken 30 s, and resumes connections
 * whose reply is there. */
void mt_cache_run(struct mt_cache *cache);

/* Sends the next request to the reader, and frees replies that are out of date. */
void mt_cache_send_next(struct mt_cache *cache);

/* Ends the reader. Waiting connections get 503. */
void mt_cache_stop(struct mt_cache *cache);
void mt_cache_free(struct mt_cache *cache);

/* Long work, such as cleanups, in child processes: the server continues, and
 * mtctl's shared code, which is for one thread, is not called by two. A child writes an HTTP status
 * and a JSON text into a pipe. */

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

/* From a request to its reply. The paths are a fixed table: none is ever
 * the name of a file. For one thread. */

/* Which requests are allowed. Protects against pages of other sites in the same browser (DNS
 * rebinding, forged posts), and by a token against other users, who can connect to loopback, too.
 * Each function returns NULL if the request may go on, else the reason. For one thread. */

#define MT_ACCESS_NAMES_MAX 16

/* The right that a request needs. */
enum mt_access_right {
	MT_ACCESS_NOTHING, /* it reveals nothing: the files of the page, /healthz */
	MT_ACCESS_READ,    /* figures of processes */
	MT_ACCESS_CHANGE,  /* a process gets a request, and works or changes */
};

struct mt_access {
	const char *names[MT_ACCESS_NAMES_MAX]; /* the listen address, and those of --allow-host */
	size_t names_count;
	struct mt_token token;  /* for everything */
	struct mt_token reader; /* for figures alone; empty: none */
	bool open;              /* figures need no token */
};

/* Limits of a request: a longer path or body is refused. The buffer of a connection holds its whole
 * head. */
#define MT_SERVER_URL_MAX      1024u
#define MT_SERVER_BODY_MAX     4096u
#define MT_SERVER_BUFFER_BYTES ((size_t)16 << 10)

struct mt_server {
	struct mt_access access_rules;
	struct mt_cache cache;
	struct mt_clients clients;
	struct mt_jobs jobs;
	size_t requests_count; /* in progress */
};

/* Starts libmicrohttpd with these routes. It takes connections from `listener`, which must not
 * block, whenever MHD_run is called. NULL: errno says why. */
struct MHD_Daemon *mt_server_start(struct mt_server *server, int listener);

#endif
