/* ctl/process/trim_json.c -- requests for a cleanup as JSON: see trim_requests.h. */
#include "ctl/process/trim_requests.h"

#include "ctl/output/json.h"
#include "ctl/process/stats_json.h"

json_t *mt_trim_json_new(void)
{
	json_t *object = json_object();

	mt_json_set(object, "processes", json_array());
	return object;
}

json_t *mt_trim_json_reply(const struct mt_process *process, const struct mt_trim_reply *reply)
{
	const char *error_text = mt_trim_reply_error(reply);
	json_t *object = json_object();

	mt_json_set_u64(object, "pid", (uint64_t)process->pid);
	mt_json_set_text(object, "comm", process->comm);
	if (error_text)
		mt_json_set_text(object, "error", error_text);
	else if (reply->error)
		mt_json_set_text(object, "state", "asleep");
	else
		mt_json_set(object, "record", mt_stats_json_cleanup(&reply->cleanup));
	return object;
}

json_t *mt_trim_json(const struct mt_process *process, uint32_t level, uint64_t timeout_ms,
		     int *out_code)
{
	struct mt_trim_requests *requests = mt_trim_requests_new(process, 1, level, timeout_ms);
	const struct mt_trim_reply *reply = mt_trim_requests_wait(requests, 0);
	const char *error_text = mt_trim_reply_error(reply);
	json_t *object = mt_trim_json_new();

	mt_json_append(json_object_get(object, "processes"), mt_trim_json_reply(process, reply));
	if (error_text)
		mt_process_say(process, error_text);
	*out_code = mt_trim_reply_exit(reply);
	mt_trim_requests_free(requests);
	return object;
}
