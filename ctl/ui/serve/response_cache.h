/* ctl/ui/serve/response_cache.h -- the answers that are figures, shared by all who ask within a
 * short while: a thousand requests a second read /proc and the stats files no more often than one
 * does. Everything is as the processes last wrote it; none is woken. A child process reads
 * (ctl/ui/serve/reader.h), the connections of who asks wait for it, and nobody else does. Where
 * reading takes long (thousands of processes) it is done more rarely: a fifth of the time at most
 * goes there. */
#ifndef MT_CTL_UI_SERVE_RESPONSE_CACHE_H
#define MT_CTL_UI_SERVE_RESPONSE_CACHE_H

#include <poll.h>
#include <stdbool.h>

#include "ctl/ui/serve/response.h"
#include "ctl/ui/serve/clients.h"
#include "ctl/ui/serve/reader.h"

#define MT_RESPONSE_CACHE_PROCESSES_MAX 16u
#define MT_RESPONSE_CACHE_MAX           (MT_READER_PROCESS + MT_RESPONSE_CACHE_PROCESSES_MAX)

/* The first are of all processes, by their form; each other is of one. */
struct mt_response_cache_entry {
	struct mt_reader_ask ask;
	bool wanted;       /* and not asked for yet */
	uint64_t until_ns; /* CLOCK_MONOTONIC: for how long its answer is good */
	struct mt_response answer;
	size_t waiting; /* connections that have not taken it yet */
};

/* Of a connection that waits, from mt_response_cache_get to mt_response_cache_take or
 * mt_response_cache_leave. */
struct mt_response_cache_waiter {
	struct MHD_Connection *connection; /* NULL: free */
	struct mt_response_cache_entry *figure;
	bool resumed;
};

struct mt_response_cache {
	uint64_t interval_ms; /* for how long an answer is shared */
	struct mt_response_cache_entry list[MT_RESPONSE_CACHE_MAX];
	struct mt_response_cache_waiter waiters[MT_CLIENTS_MAX];
	struct mt_response_cache_entry *asked; /* what the reader is at; NULL: it waits */
	uint64_t deadline_ns;                  /* of that */
	size_t next;                           /* in `list`: everybody has a turn */
	pid_t reader;                          /* 0: none */
	int to, from;
	char *text; /* what has come of its answer */
	size_t bytes, room;
	bool stopped;
};

/* The answer, or no response: the connection is suspended then, and *out_waiter is its place in the
 * line. Once it is resumed, take answers. */
struct mt_response mt_response_cache_get(struct mt_response_cache *cache, struct mt_reader_ask ask,
					 struct MHD_Connection *connection,
					 struct mt_response_cache_waiter **out_waiter);
struct mt_response mt_response_cache_take(struct mt_response_cache_waiter *waiter);

/* The same where nobody wants to know any more. */
void mt_response_cache_leave(struct mt_response_cache_waiter *waiter);

/* For poll: fills one place at most, returns how many. */
size_t mt_response_cache_poll(const struct mt_response_cache *cache, struct pollfd *out);

/* Reads what has come, ends a reader that has taken 30 s, and resumes who waits for what is there.
 */
void mt_response_cache_run(struct mt_response_cache *cache);

/* Asks for what is wanted next; forgets what is out of date, to give its memory back. */
void mt_response_cache_ask(struct mt_response_cache *cache);

/* Ends the reader at once. Who waits is answered with 503. */
void mt_response_cache_stop(struct mt_response_cache *cache);
void mt_response_cache_free(struct mt_response_cache *cache);

#endif
