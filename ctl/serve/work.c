/* ctl/serve/work.c -- see work.h. */
#include "ctl/serve/work.h"

#include <stdio.h>

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

unsigned mt_work_trim(const struct mt_job_order *order, char **out)
{
	int code;
	json_t *answer = mt_trim_json(&order->process, order->level, MT_TRIM_TIMEOUT_MS, &code);
	json_t *error = json_object_get(json_array_get(json_object_get(answer, "processes"), 0), "error");

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
	json_t *refusal;
	size_t length;
	FILE *file;
	struct mt_why why;
	enum mt_err error = mt_snapshot_take(&order->process, &snapshot, &why);

	if (error) {
		refusal = json_object();
		mt_json_set_text(refusal, "error", why.text);
		*out = text_of(refusal);
		return error == MT_ERR_NOT_AVAILABLE ? MHD_HTTP_NOT_FOUND : status_of(mt_error_exit(error));
	}
	file = mt_error_check_memory(open_memstream(out, &length));
	mt_snapshot_write_json(&snapshot, &view, file);
	if (fclose(file) != 0)
		mt_error_check_memory(NULL);
	mt_snapshot_free(&snapshot);
	return MHD_HTTP_OK;
}
