/* ctl/serve/work.c -- see work.h. */
#include "ctl/serve/work.h"

#include <stdio.h>
#include <unistd.h>

#include "ctl/json.h"
#include "ctl/snapshot.h"
#include "ctl/trim.h"

/* 1.5 MB. All of a million would be 110 MB, of which the server holds a copy for each who asks. */
#define BLOCKS_MOST 10000u

static unsigned status_of(int code)
{
	if (code == MT_EXIT_NOT_SHIMMED)
		return MHD_HTTP_NOT_FOUND;
	if (code == MT_EXIT_NO_ANSWER)
		return MHD_HTTP_GATEWAY_TIMEOUT;
	return code == MT_EXIT_OK || code == MT_EXIT_NOTHING ? MHD_HTTP_OK : MHD_HTTP_BAD_GATEWAY;
}

static char *text_of(json_t *value)
{
	char *text = mt_error_check_memory(json_dumps(value, JSON_COMPACT));

	json_decref(value);
	return text;
}

bool mt_work_find(pid_t pid, struct mt_process *out)
{
	struct mt_process process;
	struct mt_why why;

	if (mt_process_find_shimmed(pid, &process, &why) != MT_ERR_OK || (geteuid() != 0 && process.uid != geteuid()))
		return false;
	*out = process;
	return true;
}

static unsigned refuse(unsigned status, const char *text, char **out)
{
	json_t *refusal = json_object();

	mt_json_set_text(refusal, "error", text);
	*out = text_of(refusal);
	return status;
}

unsigned mt_work_trim(const struct mt_job_order *order, char **out)
{
	struct mt_process process;
	json_t *answer, *error;
	int code;

	if (!mt_work_find(order->pid, &process))
		return refuse(MHD_HTTP_NOT_FOUND, MT_WORK_NOT_SHIMMED, out);
	answer = mt_trim_json(&process, order->level, MT_TRIM_TIMEOUT_MS, &code);
	error = json_object_get(json_array_get(json_object_get(answer, "processes"), 0), "error");
	/* As in every other refusal. */
	if (status_of(code) != MHD_HTTP_OK && error)
		mt_json_set(answer, "error", json_incref(error));
	*out = text_of(answer);
	return status_of(code);
}

unsigned mt_work_snapshot(const struct mt_job_order *order, char **out)
{
	const struct mt_snapshot_view view = {.device = MT_SNAPSHOT_ALL, .top = BLOCKS_MOST};
	struct mt_snapshot snapshot = {0};
	struct mt_process process;
	size_t length;
	FILE *file;
	struct mt_why why;
	enum mt_err error;

	if (!mt_work_find(order->pid, &process))
		return refuse(MHD_HTTP_NOT_FOUND, MT_WORK_NOT_SHIMMED, out);
	error = mt_snapshot_take(&process, &snapshot, &why);
	if (error)
		return refuse(error == MT_ERR_NOT_AVAILABLE ? MHD_HTTP_NOT_FOUND : status_of(mt_error_exit(error)), why.text, out);
	file = mt_error_check_memory(open_memstream(out, &length));
	mt_snapshot_write_json(&snapshot, &view, file);
	if (fclose(file) != 0)
		mt_error_check_memory(NULL);
	mt_snapshot_free(&snapshot);
	return MHD_HTTP_OK;
}
