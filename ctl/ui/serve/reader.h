/* ctl/ui/serve/reader.h -- a child process of the server that reads processes and their files, one
 * request after another, while the server continues. Caches of readings
 * (ctl/process/process_cache.h, ctl/process/env_dir.h) live in it. */
#ifndef MT_CTL_UI_SERVE_READER_H
#define MT_CTL_UI_SERVE_READER_H

#include <stdint.h>
#include <sys/types.h>

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

/* Reads requests from `from` and writes a head and a text for each to `to`, until `from` ends. The
 * list of processes is shared by the forms for interval_ms. */
_Noreturn void mt_reader_run(int from, int to, uint64_t interval_ms);

#endif
