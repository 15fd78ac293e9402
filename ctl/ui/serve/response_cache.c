/* ctl/ui/serve/response_cache.c -- see response_cache.h. */
#include "ctl/ui/serve/response_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ctl/output/error.h"
#include "ctl/metrics/openmetrics.h"
#include "ctl/ui/serve/jobs.h"
#include "ctl/process/watchdog.h"

#define SHARE       4u /* what took one to make is good for four at least */
#define PIECE_BYTES 65536u
#define DEADLINE_NS (30 * UINT64_C(1000000000))
#define TEXT_MOST   ((size_t)256 << 20)

static void drop(struct mt_answer *answer)
{
	if (answer->response)
		MHD_destroy_response(answer->response);
	*answer = (struct mt_answer){0};
}

/* ---- the reader ---- */

static bool start_reader(struct mt_figures *figures)
{
	int asks[2], answers[2];

	if (pipe2(asks, O_CLOEXEC) != 0)
		return false;
	if (pipe2(answers, O_CLOEXEC) != 0) {
		close(asks[0]);
		close(asks[1]);
		return false;
	}
	figures->reader = fork();
	if (figures->reader == 0) {
		close(asks[1]);
		close(answers[0]);
		mt_jobs_begin_child();
		mt_reader_run(asks[0], answers[1], figures->interval_ms);
	}
	close(asks[0]);
	close(answers[1]);
	figures->to = asks[1];
	figures->from = answers[0];
	(void)fcntl(figures->from, F_SETFL, O_NONBLOCK);
	if (figures->reader > 0)
		return true;
	figures->reader = 0;
	close(figures->to);
	close(figures->from);
	return false;
}

static void end_reader(struct mt_figures *figures)
{
	if (!figures->reader)
		return;
	(void)kill(figures->reader, SIGKILL);
	close(figures->to);
	close(figures->from);
	for (int tries = 0; tries < 100 && waitpid(figures->reader, NULL, WNOHANG) == 0; tries++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	figures->reader = 0;
}

/* ---- who waits ---- */

/* It is there, be it an error: all who wait for it may go on. */
static void give(struct mt_figures *figures, struct mt_figures_one *figure, struct mt_answer answer,
		 uint64_t cost_ns)
{
	uint64_t good_ns = figures->interval_ms * UINT64_C(1000000);

	drop(&figure->answer);
	figure->answer = answer;
	figure->answer.kept = true;
	figure->wanted = false;
	figure->until_ns =
		mt_watchdog_now_ns() + (cost_ns * SHARE > good_ns ? cost_ns * SHARE : good_ns);
	for (size_t i = 0; i < MT_CLIENTS_MOST; i++) {
		struct mt_figures_waiter *waiter = &figures->waiters[i];

		if (!waiter->connection || waiter->figure != figure || waiter->resumed)
			continue;
		waiter->resumed = true;
		MHD_resume_connection(waiter->connection);
	}
}

static void give_up(struct mt_figures *figures, struct mt_figures_one *figure)
{
	give(figures, figure,
	     mt_answer_error(MHD_HTTP_SERVICE_UNAVAILABLE, "the processes could not be read"), 0);
}

static void fail(struct mt_figures *figures)
{
	struct mt_figures_one *asked = figures->asked;

	end_reader(figures);
	figures->asked = NULL;
	figures->bytes = 0;
	if (asked)
		give_up(figures, asked);
}

static struct mt_answer make_answer(enum mt_reader_form form, const struct mt_reader_head *head,
				    const char *from)
{
	static const char *const types[] = {
		[MT_READER_OPENMETRICS] = MT_OPENMETRICS_TYPE,
		[MT_READER_PLAIN] = MT_OPENMETRICS_OLD_TYPE,
		[MT_READER_PROCESSES] = "application/json",
		[MT_READER_PROCESS] = "application/json",
	};
	char *text = mt_error_check_memory(malloc(head->bytes + 1));
	struct mt_answer answer;

	memcpy(text, from, head->bytes);
	text[head->bytes] = '\0';
	if (head->status == MHD_HTTP_OK)
		return mt_answer_bytes(types[form], text, head->bytes, MT_ANSWER_FREE);
	answer = mt_answer_error(head->status, text);
	free(text);
	return answer;
}

/* ---- the server ---- */

static struct mt_figures_one *find_place(struct mt_figures *figures, struct mt_reader_ask ask)
{
	struct mt_figures_one *oldest = NULL;

	if (ask.form != MT_READER_PROCESS)
		return &figures->list[ask.form];
	for (size_t i = MT_READER_PROCESS; i < MT_FIGURES_MOST; i++) {
		struct mt_figures_one *one = &figures->list[i];

		if (one->ask.pid == ask.pid)
			return one;
		if (!one->waiting && !one->wanted && one != figures->asked &&
		    (!oldest || one->until_ns < oldest->until_ns))
			oldest = one;
	}
	return oldest;
}

static struct mt_figures_waiter *find_waiter(struct mt_figures *figures)
{
	for (size_t i = 0; i < MT_CLIENTS_MOST; i++)
		if (!figures->waiters[i].connection)
			return &figures->waiters[i];
	return NULL;
}

struct mt_answer mt_figures_get(struct mt_figures *figures, struct mt_reader_ask ask,
				struct MHD_Connection *connection,
				struct mt_figures_waiter **out_waiter)
{
	struct mt_figures_one *figure = find_place(figures, ask);
	struct mt_figures_waiter *waiter = find_waiter(figures);

	if (!figure || !waiter || figures->stopped)
		return mt_answer_error(MHD_HTTP_SERVICE_UNAVAILABLE,
				       "too many requests are under way, or the server ends");
	if (figure->ask.pid != ask.pid)
		drop(&figure->answer);
	figure->ask = ask;
	if (figure->answer.response && mt_watchdog_now_ns() < figure->until_ns)
		return figure->answer;
	figure->wanted |= figure != figures->asked;
	figure->waiting++;
	*waiter = (struct mt_figures_waiter){connection, figure, false};
	*out_waiter = waiter;
	MHD_suspend_connection(connection);
	return (struct mt_answer){0};
}

void mt_figures_leave(struct mt_figures_waiter *waiter)
{
	waiter->figure->waiting--;
	*waiter = (struct mt_figures_waiter){0};
}

struct mt_answer mt_figures_take(struct mt_figures_waiter *waiter)
{
	struct mt_answer answer = waiter->figure->answer;

	mt_figures_leave(waiter);
	return answer;
}

size_t mt_figures_poll(const struct mt_figures *figures, struct pollfd *out)
{
	if (!figures->reader)
		return 0;
	*out = (struct pollfd){.fd = figures->from, .events = POLLIN};
	return 1;
}

/* false: the reader has ended, or says what cannot be. */
static bool read_more(struct mt_figures *figures)
{
	ssize_t got;

	do {
		if (figures->room - figures->bytes < PIECE_BYTES) {
			figures->room = figures->room * 2 + PIECE_BYTES;
			figures->text =
				mt_error_check_memory(realloc(figures->text, figures->room));
		}
		got = read(figures->from, figures->text + figures->bytes, PIECE_BYTES);
		figures->bytes += got > 0 ? (size_t)got : 0;
	} while (got > 0 && figures->bytes < TEXT_MOST);
	return got < 0 && (errno == EAGAIN || errno == EINTR);
}

static void take_text(struct mt_figures *figures)
{
	struct mt_figures_one *asked = figures->asked;
	struct mt_reader_head head;

	if (!asked || figures->bytes < sizeof(head))
		return;
	memcpy(&head, figures->text, sizeof(head));
	if (figures->bytes - sizeof(head) < head.bytes)
		return;
	figures->asked = NULL;
	give(figures, asked, make_answer(asked->ask.form, &head, figures->text + sizeof(head)),
	     head.cost_ns);
	free(figures->text);
	figures->text = NULL;
	figures->bytes = figures->room = 0;
}

static void ask_next(struct mt_figures *figures)
{
	for (size_t tried = 0; tried < MT_FIGURES_MOST && !figures->asked; tried++) {
		struct mt_figures_one *figure = &figures->list[figures->next++ % MT_FIGURES_MOST];

		if (!figure->wanted)
			continue;
		figure->wanted = false;
		if ((!figures->reader && !start_reader(figures)) ||
		    write(figures->to, &figure->ask, sizeof(figure->ask)) !=
			    (ssize_t)sizeof(figure->ask)) {
			end_reader(figures);
			give_up(figures, figure);
			continue;
		}
		figures->asked = figure;
		figures->deadline_ns = mt_watchdog_now_ns() + DEADLINE_NS;
	}
}

static void expire(struct mt_figures *figures)
{
	uint64_t now_ns = mt_watchdog_now_ns();

	for (size_t i = 0; i < MT_FIGURES_MOST; i++) {
		struct mt_figures_one *one = &figures->list[i];

		if (one->answer.response && !one->waiting && now_ns >= one->until_ns)
			drop(&one->answer);
	}
}

void mt_figures_run(struct mt_figures *figures)
{
	bool goes_on = !figures->reader || read_more(figures);

	take_text(figures);
	if (!goes_on)
		fail(figures);
	if (figures->asked && mt_watchdog_now_ns() >= figures->deadline_ns)
		fail(figures);
}

void mt_figures_ask(struct mt_figures *figures)
{
	ask_next(figures);
	expire(figures);
}

void mt_figures_stop(struct mt_figures *figures)
{
	figures->stopped = true;
	fail(figures);
	for (size_t i = 0; i < MT_FIGURES_MOST; i++)
		if (figures->list[i].wanted)
			give_up(figures, &figures->list[i]);
}

void mt_figures_free(struct mt_figures *figures)
{
	end_reader(figures);
	free(figures->text);
	for (size_t i = 0; i < MT_FIGURES_MOST; i++)
		drop(&figures->list[i].answer);
}
