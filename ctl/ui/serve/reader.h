/* ctl/ui/serve/reader.h -- a child process of the server that reads all processes and their files,
 * one answer after the other, while the server goes on. What keeps its looks short for who looks
 * again (ctl/process/process_cache.h, ctl/process/env_dir.h) stays in it. */
#ifndef MT_CTL_UI_SERVE_READER_H
#define MT_CTL_UI_SERVE_READER_H

#include <stdint.h>
#include <sys/types.h>

enum mt_reader_form {
	MT_READER_OPENMETRICS, /* application/openmetrics-text */
	/* text/plain; version=0.0.4, for scrapers that do not know the other one */
	MT_READER_PLAIN,
	MT_READER_PROCESSES, /* the object of `mtctl ps --json` */
	MT_READER_PROCESS,   /* of one: the object of `mtctl stat PID --json --cached` */
};

/* What it is asked, and what comes before the bytes of its answer. */
struct mt_reader_ask {
	enum mt_reader_form form;
	pid_t pid; /* PROCESS */
};

struct mt_reader_head {
	unsigned status;  /* of HTTP; but for 200, the text says why, and is no JSON yet */
	uint64_t cost_ns; /* what it took, by the clock */
	uint64_t bytes;
};

/* Answers what comes through `from` to `to`, until that ends. Figures of all processes are shared
 * by the forms for interval_ms. */
_Noreturn void mt_reader_run(int from, int to, uint64_t interval_ms);

#endif
