/* ctl/ui/serve/job_handlers.c -- see job_handlers.h. */
#include "ctl/ui/serve/job_handlers.h"

#include <stdio.h>
#include <unistd.h>

#include "ctl/output/json.h"
#include "ctl/process/pool_snapshot.h"
#include "ctl/process/trim_requests.h"

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

enum mt_err mt_job_find(pid_t pid, struct mt_process *out, struct mt_why *why)
{
	struct mt_process process;
	enum mt_err error = mt_process_find_shimmed(pid, &process, why);

	if (error == MT_ERR_TIMEOUT)
		return error;
	if (error || (geteuid() != 0 && process.uid != geteuid()))
		return mt_error_because(why, MT_ERR_UNKNOWN,
					"no process of this id carries the shim here");
	*out = process;
	return MT_ERR_OK;
}

static unsigned refuse(enum mt_err error, const struct mt_why *why, char **out)
{
	json_t *refusal = json_object();

	mt_json_set_text(refusal, "error", why->text);
	*out = text_of(refusal);
	return error == MT_ERR_NOT_AVAILABLE ? MHD_HTTP_NOT_FOUND : status_of(mt_error_exit(error));
}

unsigned mt_job_trim(const struct mt_job_request *order, char **out)
{
	struct mt_process process;
	json_t *answer, *error;
	struct mt_why why;
	enum mt_err refused = mt_job_find(order->pid, &process, &why);
	int code;

	if (refused)
		return refuse(refused, &why, out);
	answer = mt_trim_json(&process, order->level, MT_TRIM_TIMEOUT_MS, &code);
	error = json_object_get(json_array_get(json_object_get(answer, "processes"), 0), "error");
	/* As in every other refusal. */
	if (status_of(code) != MHD_HTTP_OK && error)
		mt_json_set(answer, "error", json_incref(error));
	*out = text_of(answer);
	return status_of(code);
}

unsigned mt_job_snapshot(const struct mt_job_request *order, char **out)
{
	const struct mt_pool_snapshot_view view = {.device = MT_POOL_SNAPSHOT_ALL,
						   .top = BLOCKS_MOST};
	struct mt_pool_snapshot snapshot = {0};
	struct mt_process process;
	size_t length;
	FILE *file;
	struct mt_why why;
	enum mt_err error = mt_job_find(order->pid, &process, &why);

	if (!error)
		error = mt_pool_snapshot_take(&process, &snapshot, &why);
	if (error)
		return refuse(error, &why, out);
	file = mt_error_check_memory(open_memstream(out, &length));
	mt_pool_snapshot_write_json(&snapshot, &view, file);
	if (fclose(file) != 0)
		mt_error_check_memory(NULL);
	mt_pool_snapshot_free(&snapshot);
	return MHD_HTTP_OK;
}
