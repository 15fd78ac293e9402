/* ctl/ui/serve/tasks.h -- replies about processes. A child process makes each one, so the server
 * continues, and mtctl's shared code, which is for one thread, is not called by two. The child
 * writes an HTTP status and a text into a pipe.
 *
 * Replies with figures wake no process and are shared by all clients for a short while: a thousand
 * requests per second read /proc and the stats files as often as one does. One child at a time
 * reads figures. If reading takes long (thousands of processes) it is done less often: it takes a
 * fifth of the time at most. Other tasks ask the process, one task for each process. For one
 * thread. */
#ifndef MT_CTL_UI_SERVE_TASKS_H
#define MT_CTL_UI_SERVE_TASKS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/ui/serve/clients.h"
#include "ctl/ui/serve/response.h"

enum mt_task_kind {
	MT_TASK_OPENMETRICS, /* application/openmetrics-text */
	/* text/plain; version=0.0.4, for scrapers without OpenMetrics */
	MT_TASK_PLAIN,
	MT_TASK_PROCESSES, /* the object of `mtctl ps --json` */
	MT_TASK_PROCESS,   /* the object of `mtctl stat PID --json --cached` */
	/* from here on a process is asked */
	MT_TASK_TRIM,     /* `mtctl trim PID --json` */
	MT_TASK_SNAPSHOT, /* `mtctl snapshot PID --json --top=10000` */
	MT_TASK_SITES,    /* `mtctl sites PID --json --top=300` */
	MT_TASK_LINES,    /* `mtctl sites PID --python --json --for=10s --top=50` */
	MT_TASK_KINDS
};

struct mt_task_request {
	enum mt_task_kind kind;
	pid_t pid;      /* 0: all processes */
	uint32_t level; /* of TRIM: enum mt_level */
};

#define MT_TASKS_FIGURES_MAX 19u /* the three of all processes, and 16 processes */
#define MT_TASKS_ASKING_MAX  16u
#define MT_TASKS_MAX         (MT_TASKS_FIGURES_MAX + MT_TASKS_ASKING_MAX)

struct mt_task {
	struct mt_task_request request;
	bool wanted; /* figures: its child is to be started */
	pid_t child; /* 0: none */
	int fd;
	uint64_t began_ns; /* of the child; CLOCK_MONOTONIC, as until_ns */
	char *text;        /* what the child has written so far */
	size_t bytes, room;
	struct mt_response reply;
	uint64_t until_ns; /* the reply is valid until then */
	size_t waiting;    /* connections that wait for it */
};

/* A waiting connection, from mt_tasks_get to mt_task_take or mt_task_leave. */
struct mt_task_waiter {
	struct MHD_Connection *connection; /* NULL: unused */
	struct mt_task *task;
	bool resumed;
};

struct mt_tasks {
	uint64_t interval_ms; /* how long a reply with figures is shared */
	struct mt_task list[MT_TASKS_MAX];
	struct mt_task_waiter waiters[MT_CLIENTS_MAX];
	size_t next; /* in `list`: figures take turns */
	/* no task starts any more: libmicrohttpd aborts if it stops with a suspended connection */
	bool stopped;
};

/* Returns a reply: figures that are still valid, or a refusal (409: the process is asked already;
 * 503: too many tasks, or the server ends). Otherwise suspends the connection with its entry in
 * *out_waiter, and returns no response. Once it is resumed, mt_task_take returns the reply. */
struct mt_response mt_tasks_get(struct mt_tasks *tasks, struct mt_task_request request,
				struct MHD_Connection *connection,
				struct mt_task_waiter **out_waiter);
struct mt_response mt_task_take(struct mt_task_waiter *waiter);

/* Gives up waiting, if the client has gone. Ends a task that asks a process. */
void mt_task_leave(struct mt_task_waiter *waiter);

/* Fills up to MT_TASKS_MAX entries for poll, and returns how many. */
size_t mt_tasks_poll(const struct mt_tasks *tasks, struct pollfd *out);

/* Reads what children have written, kills those whose time is over, and resumes the connections
 * whose reply is there. */
void mt_tasks_run(struct mt_tasks *tasks);

/* Starts the next child that reads figures, and frees replies that are out of date. */
void mt_tasks_start_next(struct mt_tasks *tasks);

/* Ends all children, and starts none any more. Waiting connections get 503. */
void mt_tasks_stop(struct mt_tasks *tasks);
void mt_tasks_free(struct mt_tasks *tasks);

#endif
