/* ctl/ui/serve/cache.h -- replies with figures, shared by all clients for a short while: a
 * thousand requests per second read /proc and the stats files as often as one does. No process is
 * woken. A child process reads, and only connections that need its result wait. If
 * reading takes long (thousands of processes) it is done less often: it takes a fifth of the time
 * at most. */
#ifndef MT_CTL_UI_SERVE_CACHE_H
#define MT_CTL_UI_SERVE_CACHE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/ui/serve/clients.h"
#include "ctl/ui/serve/response.h"

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

#endif
