/* ctl/ui/serve/response_cache.h -- the answers that are figures, shared by all who ask within a
 * short while: a thousand requests a second read /proc and the stats files no more often than one
 * does. Everything is as the processes last wrote it; none is woken. A child process reads
 * (ctl/ui/serve/reader.h), the connections of who asks wait for it, and nobody else does. Where
 * reading takes long (thousands of processes) it is done more rarely: a fifth of the time at most
 * goes there. */
#ifndef MT_CTL_SERVE_FIGURES_H
#define MT_CTL_SERVE_FIGURES_H

#include <poll.h>
#include <stdbool.h>

#include "ctl/ui/serve/response.h"
#include "ctl/ui/serve/clients.h"
#include "ctl/ui/serve/reader.h"

#define MT_FIGURES_PROCESSES_MOST 16u
#define MT_FIGURES_MOST           (MT_READER_PROCESS + MT_FIGURES_PROCESSES_MOST)

/* The first are of all processes, by their form; each other is of one. */
struct mt_figures_one {
	struct mt_reader_ask ask;
	bool wanted;       /* and not asked for yet */
	uint64_t until_ns; /* CLOCK_MONOTONIC: for how long its answer is good */
	struct mt_answer answer;
	size_t waiting; /* connections that have not taken it yet */
};

/* Of a connection that waits, from mt_figures_get to mt_figures_take or mt_figures_leave. */
struct mt_figures_waiter {
	struct MHD_Connection *connection; /* NULL: free */
	struct mt_figures_one *figure;
	bool resumed;
};

struct mt_figures {
	uint64_t interval_ms; /* for how long an answer is shared */
	struct mt_figures_one list[MT_FIGURES_MOST];
	struct mt_figures_waiter waiters[MT_CLIENTS_MOST];
	struct mt_figures_one *asked; /* what the reader is at; NULL: it waits */
	uint64_t deadline_ns;         /* of that */
	size_t next;                  /* in `list`: everybody has a turn */
	pid_t reader;                 /* 0: none */
	int to, from;
	char *text; /* what has come of its answer */
	size_t bytes, room;
	bool stopped;
};

/* The answer, or no response: the connection is suspended then, and *out_waiter is its place in the
 * line. Once it is resumed, take answers. */
struct mt_answer mt_figures_get(struct mt_figures *figures, struct mt_reader_ask ask,
				struct MHD_Connection *connection,
				struct mt_figures_waiter **out_waiter);
struct mt_answer mt_figures_take(struct mt_figures_waiter *waiter);

/* The same where nobody wants to know any more. */
void mt_figures_leave(struct mt_figures_waiter *waiter);

/* For poll: fills one place at most, returns how many. */
size_t mt_figures_poll(const struct mt_figures *figures, struct pollfd *out);

/* Reads what has come, ends a reader that has taken 30 s, and resumes who waits for what is there.
 */
void mt_figures_run(struct mt_figures *figures);

/* Asks for what is wanted next; forgets what is out of date, to give its memory back. */
void mt_figures_ask(struct mt_figures *figures);

/* Ends the reader at once. Who waits is answered with 503. */
void mt_figures_stop(struct mt_figures *figures);
void mt_figures_free(struct mt_figures *figures);

#endif
