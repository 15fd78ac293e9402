#include "ctl/process/trim_requests.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "ctl/output/json.h"
#include "ctl/process/clock.h"
#include "ctl/process/control_file.h"
#include "ctl/process/stats_json.h"

/* cleanups are 1 s apart, and a collection may take 2 s */
#define CLEANUP_MAX_NS 3500000000u
#define POLL_MAX_MS    20u

enum state { UNSENT, SENDING, SENT, REPLIED, DECIDED };

struct one {
	const struct mt_process *process;
	enum state state;
	struct mt_control_call call;
	uint64_t cleanup_deadline_ns;
	struct mt_trim_reply reply;
};

struct mt_trim_requests {
	struct mt_request request;
	uint64_t deadline_ns;
	size_t count, locks_count, locks_max;
	/* no request before this one holds a lock */
	size_t oldest;
	struct mt_stats_file *file; /* a buffer for the file of one process */
	struct one list[];
};

static size_t raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < 4)
		return 1;
	return (size_t)limit.rlim_cur / 2;
}

struct mt_trim_requests *mt_trim_requests_new(const struct mt_process *list, size_t count,
					      uint32_t level, uint64_t timeout_ms)
{
	struct mt_trim_requests *requests = mt_error_check_memory(
		calloc(1, sizeof(*requests) + count * sizeof(requests->list[0])));

	requests->request = (struct mt_request){.kind = MT_REQUEST_TRIM, .level = level};
	requests->deadline_ns = mt_clock_now_ns() + timeout_ms * 1000000u;
	requests->count = count;
	requests->locks_max = raise_descriptors();
	requests->file = mt_error_check_memory(malloc(sizeof(*requests->file)));
	for (size_t i = 0; i < count; i++) {
		requests->list[i].process = &list[i];
		requests->list[i].call.fd = -1;
	}
	return requests;
}

static bool holds_lock(const struct one *one)
{
	return one->call.fd >= 0;
}

static void release_oldest_lock(struct mt_trim_requests *requests)
{
	while (requests->oldest < requests->count && !holds_lock(&requests->list[requests->oldest]))
		requests->oldest++;
	if (requests->oldest == requests->count)
		return;
	mt_control_file_unlock(&requests->list[requests->oldest].call);
	requests->locks_count--;
}

static void send(struct mt_trim_requests *requests, struct one *one)
{
	struct mt_trim_reply *reply = &one->reply;

	if (one->state == UNSENT) {
		mt_control_file_begin(one->process, 0, &one->call);
		one->call.deadline_ns = requests->deadline_ns;
		one->state = SENDING;
	}
	if (requests->locks_count >= requests->locks_max)
		release_oldest_lock(requests);
	if (!mt_control_file_try_send(&one->call, requests->request, &reply->error, &reply->why))
		return;
	one->state = reply->error ? DECIDED : SENT;
	if (reply->error)
		return;
	requests->locks_count++;
	if ((size_t)(one - requests->list) < requests->oldest)
		requests->oldest = (size_t)(one - requests->list);
}

static void poll_reply(struct mt_trim_requests *requests, struct one *one)
{
	struct mt_trim_reply *reply = &one->reply;
	struct mt_stats_head head;
	bool held = holds_lock(one);

	if (!mt_control_file_poll(&one->call, &head, &reply->error, &reply->why))
		return;
	requests->locks_count -= held;
	reply->request_error = reply->error ? 0 : head.snapshot.request_error;
	one->cleanup_deadline_ns = mt_clock_now_ns() + CLEANUP_MAX_NS;
	if (one->cleanup_deadline_ns > requests->deadline_ns)
		one->cleanup_deadline_ns = requests->deadline_ns;
	one->state = reply->error || reply->request_error ? DECIDED : REPLIED;
}

/* The cleanup may be published after the reply: a request that joins a cleanup in progress gets its
 * reply at once. */
static void poll_cleanup(struct mt_trim_requests *requests, struct one *one)
{
	const struct mt_stats_cleanup *cleanup = NULL;
	struct mt_error_reason why;

	/* Tries the head first, since mt_target_read waits for a file that is not valid. */
	if (mt_target_try_head(one->process, &requests->file->head, &why) == MT_ERR_OK &&
	    mt_target_read(one->process, requests->file, &why) == MT_ERR_OK)
		cleanup = mt_stats_file_cleanup_of_request(requests->file, one->call.seq);
	if (cleanup) {
		one->reply.cleanup = *cleanup;
		one->reply.has_cleanup = true;
	}
	if (cleanup || mt_clock_now_ns() >= one->cleanup_deadline_ns ||
	    !mt_process_is_alive(one->process))
		one->state = DECIDED;
}

static void step(struct mt_trim_requests *requests, struct one *one)
{
	if (one->state == UNSENT || one->state == SENDING)
		send(requests, one);
	else if (one->state == SENT)
		poll_reply(requests, one);
	if (one->state == REPLIED)
		poll_cleanup(requests, one);
}

const struct mt_trim_reply *mt_trim_requests_wait(struct mt_trim_requests *requests, size_t place)
{
	const struct one *wanted = &requests->list[place];

	for (unsigned poll_ms = 1; wanted->state != DECIDED;
	     poll_ms = poll_ms * 2 < POLL_MAX_MS ? poll_ms * 2 : POLL_MAX_MS) {
		for (size_t i = 0; i < requests->count; i++)
			step(requests, &requests->list[i]);
		if (wanted->state != DECIDED)
			mt_clock_sleep_ms(poll_ms);
	}
	return &wanted->reply;
}

void mt_trim_requests_free(struct mt_trim_requests *requests)
{
	for (size_t i = 0; i < requests->count; i++)
		mt_control_file_unlock(&requests->list[i].call);
	free(requests->file);
	free(requests);
}

const char *mt_trim_reply_error(const struct mt_trim_reply *reply)
{
	if (reply->error)
		return reply->error == MT_ERR_NOT_AVAILABLE ? NULL : reply->why.text;
	if (reply->request_error)
		return mt_error_text(reply->request_error);
	return reply->has_cleanup ? NULL
				  : "it replied, but its history has no cleanup for the request";
}

enum mt_exit mt_trim_reply_exit(const struct mt_trim_reply *reply)
{
	if (reply->error == MT_ERR_NOT_AVAILABLE)
		return MT_EXIT_OK;
	if (reply->error)
		return mt_error_exit(reply->error);
	return reply->has_cleanup ? MT_EXIT_OK : MT_EXIT_NOTHING;
}

bool mt_trim_reply_freed(const struct mt_trim_reply *reply)
{
	return !reply->error && reply->has_cleanup && reply->cleanup.result == 1;
}

/* ---- trim json ---- */

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
