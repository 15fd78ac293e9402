/* ctl/serve/figures.c -- see figures.h. */
#include "ctl/serve/figures.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ctl/bellfile.h"
#include "ctl/openmetrics.h"
#include "ctl/ps.h"
#include "ctl/stat.h"

#define SHARE 4u /* what took one to make is good for four at least */

static void drop(struct mt_answer *answer)
{
	if (answer->response)
		MHD_destroy_response(answer->response);
	*answer = (struct mt_answer){0};
}

/* CPU time, not the clock's: on a busy machine it is no reason for older figures that others have run meanwhile. */
static uint64_t spent_ns(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
	return (uint64_t)spent.tv_sec * 1000000000u + (uint64_t)spent.tv_nsec;
}

/* For what has been made since spent_ns was `from_ns`. */
static uint64_t good_until(const struct mt_figures *figures, uint64_t from_ns)
{
	uint64_t cost_ns = (spent_ns() - from_ns) * SHARE, good_ns = figures->interval_ms * 1000000u;

	return mt_bellfile_now_ns() + (cost_ns > good_ns ? cost_ns : good_ns);
}

static void drop_roster(struct mt_figures *figures)
{
	for (size_t i = 0; i < MT_FIGURES_FORMS_COUNT; i++)
		drop(&figures->forms[i]);
	mt_roster_free(&figures->roster);
	figures->until_ns = 0;
}

static struct mt_answer make_form(const struct mt_roster *roster, enum mt_figures_form form)
{
	bool old = form == MT_FIGURES_PLAIN;
	size_t length = 0;
	char *text;

	if (form == MT_FIGURES_PROCESSES)
		return mt_answer_json(MHD_HTTP_OK, mt_ps_json(roster));
	text = (old ? mt_openmetrics_render_old : mt_openmetrics_render)(roster, &length);
	return mt_answer_bytes(old ? MT_OPENMETRICS_OLD_TYPE : MT_OPENMETRICS_TYPE, text, length, MT_ANSWER_FREE);
}

struct mt_answer mt_figures_roster(struct mt_figures *figures, enum mt_figures_form form)
{
	uint64_t from_ns = spent_ns();

	if (mt_bellfile_now_ns() >= figures->until_ns) {
		drop_roster(figures);
		mt_roster_read(&figures->roster);
		figures->until_ns = good_until(figures, from_ns);
	}
	if (!figures->forms[form].response) {
		figures->forms[form] = make_form(&figures->roster, form);
		figures->forms[form].kept = true;
	}
	return figures->forms[form];
}

/* Whether a process of another user exists is not told either. */
bool mt_figures_find(pid_t pid, struct mt_process *out, struct mt_answer *out_refusal)
{
	struct mt_process process;
	struct mt_why why;

	if (mt_process_find_shimmed(pid, &process, &why) == MT_ERR_OK && (geteuid() == 0 || process.uid == geteuid())) {
		*out = process;
		return true;
	}
	*out_refusal = mt_answer_error(MHD_HTTP_NOT_FOUND, "no process of this id carries the shim here");
	return false;
}

static struct mt_answer make_process(pid_t pid)
{
	struct mt_target *target = mt_error_check_memory(malloc(sizeof(*target)));
	struct mt_answer answer;
	struct mt_why why;
	enum mt_err error;

	if (mt_figures_find(pid, &target->process, &answer)) {
		error = mt_target_read(&target->process, &target->file, &why);
		if (!error)
			answer = mt_answer_json(MHD_HTTP_OK, mt_stat_json(target));
		else if (error == MT_ERR_NOT_AVAILABLE)
			answer = mt_answer_error(MHD_HTTP_NOT_FOUND, why.text);
		else
			answer = mt_answer_error(MHD_HTTP_BAD_GATEWAY, why.text);
	}
	free(target);
	return answer;
}

/* The one of this process, else the place that is out of date first. */
static struct mt_figures_process *place_for(struct mt_figures *figures, pid_t pid)
{
	struct mt_figures_process *first = &figures->processes[0];

	for (size_t i = 0; i < MT_FIGURES_PROCESSES_MOST; i++) {
		struct mt_figures_process *one = &figures->processes[i];

		if (one->pid == pid)
			return one;
		if (one->until_ns < first->until_ns)
			first = one;
	}
	return first;
}

struct mt_answer mt_figures_process(struct mt_figures *figures, pid_t pid)
{
	uint64_t from_ns = spent_ns();
	struct mt_figures_process *place = place_for(figures, pid);

	if (place->pid == pid && mt_bellfile_now_ns() < place->until_ns)
		return place->answer;
	drop(&place->answer);
	place->pid = pid;
	place->answer = make_process(pid);
	place->answer.kept = true;
	place->until_ns = good_until(figures, from_ns);
	return place->answer;
}

void mt_figures_expire(struct mt_figures *figures)
{
	uint64_t now_ns = mt_bellfile_now_ns();

	if (now_ns >= figures->until_ns)
		drop_roster(figures);
	for (size_t i = 0; i < MT_FIGURES_PROCESSES_MOST; i++) {
		struct mt_figures_process *one = &figures->processes[i];

		if (one->pid && now_ns >= one->until_ns) {
			drop(&one->answer);
			*one = (struct mt_figures_process){0};
		}
	}
}

void mt_figures_free(struct mt_figures *figures)
{
	drop_roster(figures);
	for (size_t i = 0; i < MT_FIGURES_PROCESSES_MOST; i++)
		drop(&figures->processes[i].answer);
}
