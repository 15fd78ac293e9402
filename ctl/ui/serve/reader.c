/* ctl/ui/serve/reader.c -- see reader.h. */
#include "ctl/ui/serve/reader.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/process/clock.h"
#include "ctl/metrics/openmetrics.h"
#include "ctl/process/process_list.h"
#include "ctl/ui/serve/jobs.h"
#include "ctl/process/stats_json.h"
#include "ctl/process/watchdog.h"

#define KEPT_MS 1000 /* an unused process list is freed after this time */

static struct {
	struct mt_process_list processes;
	uint64_t until_ns; /* 0: none */
} last;

static void drop_process_list(void)
{
	mt_process_list_free(&last.processes);
	last.until_ns = 0;
}

static const struct mt_process_list *processes(uint64_t interval_ms)
{
	uint64_t from_ns = mt_clock_now_ns();

	if (from_ns < last.until_ns)
		return &last.processes;
	drop_process_list();
	mt_process_list_read(MT_PROCESS_LIST_SHOWN, &last.processes);
	last.until_ns = from_ns + interval_ms * UINT64_C(1000000) + 1;
	return &last.processes;
}

static char *text_of(json_t *value, size_t *length)
{
	char *text = mt_error_check_memory(json_dumps(value, JSON_COMPACT));

	json_decref(value);
	*length = strlen(text);
	return text;
}

static char *make_process(pid_t pid, unsigned *out_status, size_t *length)
{
	struct mt_target *target = mt_error_check_memory(malloc(sizeof(*target)));
	struct mt_error_reason why;
	char *text = NULL;
	enum mt_err error = mt_job_find(pid, &target->process, &why);

	*out_status = error == MT_ERR_TIMEOUT ? 504 : error ? 404 : 200;
	if (!error) {
		error = mt_target_read(&target->process, &target->file, &why);
		*out_status = !error ? 200 : error == MT_ERR_NOT_AVAILABLE ? 404 : 502;
	}
	if (!error)
		text = text_of(mt_stats_json(target), length);
	free(target);
	if (text)
		return text;
	*length = strlen(why.text);
	return mt_error_check_memory(strdup(why.text));
}

static char *make(const struct mt_reader_request *request, uint64_t interval_ms,
		  unsigned *out_status, size_t *length)
{
	*out_status = 200;
	switch (request->form) {
	case MT_READER_OPENMETRICS:
		return mt_openmetrics_render(processes(interval_ms), length);
	case MT_READER_PLAIN:
		return mt_openmetrics_render_old(processes(interval_ms), length);
	case MT_READER_PROCESSES:
		return text_of(mt_process_list_json(processes(interval_ms)), length);
	case MT_READER_PROCESS:
		return make_process(request->pid, out_status, length);
	}
	_exit(1);
}

static void reply(const struct mt_reader_request *request, int to, uint64_t interval_ms)
{
	struct mt_reader_head head = {0};
	uint64_t from_ns = mt_clock_now_ns();
	size_t length = 0;
	char *text = make(request, interval_ms, &head.status, &length);

	head.bytes = length;
	head.cost_ns = mt_clock_now_ns() - from_ns;
	mt_watchdog_write(to, &head, sizeof(head));
	mt_watchdog_write(to, text, length);
	free(text);
}

void mt_reader_run(int from, int to, uint64_t interval_ms)
{
	struct pollfd wait = {.fd = from, .events = POLLIN};
	struct mt_reader_request request;

	for (;;) {
		int ready = poll(&wait, 1, last.until_ns ? KEPT_MS : -1);

		if (ready == 0)
			drop_process_list();
		else if (ready > 0 &&
			 read(from, &request, sizeof(request)) == (ssize_t)sizeof(request))
			reply(&request, to, interval_ms);
		else if (ready > 0 || errno != EINTR)
			_exit(0);
	}
}
