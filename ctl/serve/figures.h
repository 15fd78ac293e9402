/* ctl/serve/figures.h -- the answers that are figures, shared by all who ask within a short while: a thousand requests a
 * second read /proc and the stats files no more often than one does. Everything is as the processes last wrote it; none is woken.
 * Where reading takes long (thousands of processes) it is done more rarely: a fifth of the time at most goes there. */
#ifndef MT_CTL_SERVE_FIGURES_H
#define MT_CTL_SERVE_FIGURES_H

#include "ctl/roster.h"
#include "ctl/serve/answer.h"

#define MT_FIGURES_PROCESSES_MOST 16u

enum mt_figures_form {
	MT_FIGURES_OPENMETRICS, /* application/openmetrics-text */
	MT_FIGURES_PLAIN,       /* text/plain; version=0.0.4, for scrapers that do not know the other one */
	MT_FIGURES_PROCESSES,   /* the object of `mtctl ps --json` */
	MT_FIGURES_FORMS_COUNT,
};

struct mt_figures_process {
	pid_t pid;              /* 0: empty */
	uint64_t until_ns;
	struct mt_answer answer;
};

struct mt_figures {
	uint64_t interval_ms;   /* for how long an answer is shared */
	struct mt_roster roster;
	uint64_t until_ns;      /* CLOCK_MONOTONIC; 0: no roster */
	struct mt_answer forms[MT_FIGURES_FORMS_COUNT]; /* of the roster, as far as asked for */
	struct mt_figures_process processes[MT_FIGURES_PROCESSES_MOST];
};

struct mt_answer mt_figures_roster(struct mt_figures *figures, enum mt_figures_form form);

/* The object of `mtctl stat PID --json --cached`, or what is the matter: 404 for a process that is gone, asleep, not
 * shimmed or another user's; 502 where its file is not believed. */
struct mt_answer mt_figures_process(struct mt_figures *figures, pid_t pid);

/* Forgets what is out of date, to give its memory back; everything, to end. */
void mt_figures_expire(struct mt_figures *figures);
void mt_figures_free(struct mt_figures *figures);

/* A shimmed process that may be asked for here. false: *out_refusal says why not. */
bool mt_figures_find(pid_t pid, struct mt_process *out, struct mt_answer *out_refusal);

#endif
