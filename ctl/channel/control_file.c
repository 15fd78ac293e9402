#include "ctl/channel/control_file.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ctl/channel/stats_dir.h"
#include "ctl/figures/setting.h"
#include "ctl/output/json.h"
#include "ctl/process/clock.h"

#define POLL_FIRST_MS 1u
#define POLL_MAX_MS   20u
/* within that time the process may be its former user again (seteuid(2)), or run again */
#define UNABLE_MAX_NS 1000000000u
/* reads, over 0.1 s and more, in which an invalid file may be a write in progress */
#define INVALID_MAX 10u
/* cleanups are 1 s apart, and a collection may take 2 s */
#define CLEANUP_MAX_NS 3500000000u

static unsigned next_poll_ms(unsigned poll_ms)
{
	return poll_ms * 2 < POLL_MAX_MS ? poll_ms * 2 : POLL_MAX_MS;
}

static enum mt_err lock(const struct mt_control_call *call, struct mt_error_reason *why)
{
	if (flock(call->fd, LOCK_EX | LOCK_NB) == 0)
		return MT_ERR_OK;
	if (errno == EWOULDBLOCK || errno == EINTR)
		return mt_error_because(why, MT_ERR_TIMEOUT,
					"another mtctl is still waiting for this process");
	return mt_error_because(why, MT_ERR_SYSTEM, "flock: %s", strerror(errno));
}

static enum mt_err read_control(int fd, struct mt_control_file *out, struct mt_error_reason *why)
{
	if (pread(fd, out, sizeof(*out), 0) != (ssize_t)sizeof(*out) ||
	    out->magic != MT_CONTROL_MAGIC)
		return mt_error_because(why, MT_ERR_INVALID, "refused: not a control file");
	if (out->version != MT_STATS_VERSION)
		return mt_error_because_version(why, "control file", out->version);
	return MT_ERR_OK;
}

/* Writes the sequence number 0 first, and the new one last: a process that reads in between sees no
 * request, also where an mtctl that timed out has left one that is not read yet. */
static enum mt_err write_request(int fd, const struct mt_request *request,
				 struct mt_error_reason *why)
{
	const size_t base = offsetof(struct mt_control_file, request), rest = sizeof(request->seq);
	const size_t rest_bytes = sizeof(*request) - rest;
	const uint64_t none = 0;

	_Static_assert(offsetof(struct mt_request, seq) == 0,
		       "the number comes first, and is written last");
	if (pwrite(fd, &none, sizeof(none), (off_t)base) != (ssize_t)sizeof(none) ||
	    pwrite(fd, (const char *)request + rest, rest_bytes, (off_t)(base + rest)) !=
		    (ssize_t)rest_bytes ||
	    pwrite(fd, &request->seq, sizeof(request->seq), (off_t)base) !=
		    (ssize_t)sizeof(request->seq))
		return mt_error_because(why, MT_ERR_SYSTEM, "cannot write the control file: %s",
					strerror(errno));
	return MT_ERR_OK;
}

static enum mt_err notify(int fd, struct mt_error_reason *why)
{
	const unsigned add_one = FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_LT, 0);
	char *map = mmap(NULL, sizeof(struct mt_control_file), PROT_READ | PROT_WRITE, MAP_SHARED,
			 fd, 0);
	char *word;
	long answer;
	int saved;

	if (map == MAP_FAILED)
		return mt_error_because(why, MT_ERR_SYSTEM, "cannot map the control file: %s",
					strerror(errno));
	word = map + offsetof(struct mt_control_file, word);
	/* The kernel changes the word first, then wakes the waiters on it. The comparison (word <
	 * 0) wakes nobody else. */
	answer = syscall(SYS_futex, word, FUTEX_WAKE_OP, INT_MAX, 0L, word, add_one);
	saved = errno;
	munmap(map, sizeof(struct mt_control_file));
	if (answer < 0)
		return mt_error_because(why, MT_ERR_SYSTEM, "cannot wake the process: %s",
					strerror(saved));
	return MT_ERR_OK;
}

static enum mt_err try_request(struct mt_control_call *call, struct mt_error_reason *why)
{
	struct mt_request *request = &call->request;
	struct mt_stats_head head;
	struct mt_control_file control;
	enum mt_err error = lock(call, why);

	if (!error)
		error = read_control(call->fd, &control, why);
	if (!error)
		error = mt_target_try_head(&call->process, &head, why);
	if (error)
		return error;
	/* Larger than both: either file may be a leftover of an earlier program. */
	request->seq = control.request.seq > head.snapshot.request_seq ? control.request.seq
								       : head.snapshot.request_seq;
	if (request->seq == UINT64_MAX)
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: request numbers are used up");
	request->seq++;
	error = write_request(call->fd, request, why);
	return error ? error : notify(call->fd, why);
}

/* The shim creates a file before it writes the head, and rewrites the head of the stats file. So an
 * invalid file may become valid. */
static bool may_become_valid(struct mt_control_call *call, enum mt_err error)
{
	call->invalid_count = error == MT_ERR_INVALID ? call->invalid_count + 1 : 0;
	return error == MT_ERR_INVALID && call->invalid_count < INVALID_MAX;
}

/* Shortens the wait for a process that cannot reply as it is: a stopped one, or one of another
 * user. The request stays in the file, and a stopped process carries it out when it runs again. */
static void check_ability(struct mt_control_call *call)
{
	uint64_t latest_ns = mt_clock_now_ns() + UNABLE_MAX_NS;
	struct mt_process now = {.pid = call->process.pid};
	struct stat status;

	call->changed_user = fstat(call->fd, &status) == 0 && status.st_uid != call->process.uid;
	if (call->deadline_ns > latest_ns &&
	    (call->changed_user || (mt_process_read_stat(&now) && now.is_stopped)))
		call->deadline_ns = latest_ns;
}

/* A process without a control file is asleep, unless its stats file is of another version, which
 * may name the control file differently. */
static enum mt_err open_control(struct mt_control_call *call, struct mt_error_reason *why)
{
	struct mt_stats_head head;
	struct mt_error_reason why_head;
	enum mt_err error = mt_stats_dir_open(&call->process, MT_STATS_DIR_CONTROL, &call->fd, why);

	if (error != MT_ERR_NOT_AVAILABLE ||
	    mt_target_try_head(&call->process, &head, &why_head) != MT_ERR_INVALID)
		return error;
	*why = why_head;
	return MT_ERR_INVALID;
}

/* Returns false if another try in some milliseconds may succeed: the lock is held, or a file is
 * being written. Returns true when *error is final. After an error it holds nothing. */
static bool send(struct mt_control_call *call, enum mt_err *error, struct mt_error_reason *why)
{
	*error = open_control(call, why);
	if (!*error)
		*error = try_request(call, why);
	if (!*error) {
		check_ability(call);
		return true;
	}
	mt_control_call_end(call);
	if (*error == MT_ERR_TIMEOUT)
		return mt_clock_now_ns() >= call->deadline_ns;
	return !may_become_valid(call, *error);
}

/* Returns true with the reply, or with the reason why there will be none; false: neither yet. */
static bool poll(struct mt_control_call *call, struct mt_stats_head *head, enum mt_err *error,
		 struct mt_error_reason *why)
{
	struct mt_process now = {.pid = call->process.pid};

	*error = mt_target_try_head(&call->process, head, why);
	if (!*error && head->snapshot.request_seq >= call->request.seq)
		return true;
	if (!mt_process_is_alive(&call->process)) {
		*error = mt_error_because(why, MT_ERR_UNKNOWN, "the process has ended");
		return true;
	}
	if (may_become_valid(call, *error) || (!*error && mt_clock_now_ns() < call->deadline_ns))
		return false;
	if (!*error)
		*error = mt_error_because(
			why, MT_ERR_TIMEOUT, "no answer in time%s",
			call->changed_user ? ": it has changed its user, and cannot write "
					     "its files as who it is now"
			: mt_stats_dir_in_chroot(&call->process)
				? ": it has called chroot since it woke up, and "
				  "cannot reach its files"
			: mt_process_read_stat(&now) && now.is_stopped ? ": it is " MT_STOPPED
								       : "");
	return true;
}

static bool is_prof(const struct mt_request *request)
{
	return strcmp(request->name, "prof") == 0;
}

/* Returns why the process has refused the request. */
static const char *refusal_text(const struct mt_request *request, uint64_t error)
{
	if (request->kind == MT_REQUEST_SET && error == MT_ERR_UNKNOWN)
		return "its shim is of another version than this mtctl, and has no such setting";
	if (request->kind == MT_REQUEST_SET && is_prof(request) && error == MT_ERR_SYSTEM)
		return "it cannot walk stacks: that takes libgcc_s.so.1, glibc 2.35 and "
		       "process_vm_readv";
	return mt_error_text(error);
}

/* Sends the request, or looks for its reply; *head is the last head that was read. */
static void step_reply(struct mt_control_call *call, struct mt_stats_head *head)
{
	struct mt_trim_reply *reply = &call->reply;
	uint64_t latest_ns = mt_clock_now_ns() + CLEANUP_MAX_NS;

	if (call->state == MT_CONTROL_SENDING && send(call, &reply->error, &reply->why))
		call->state = reply->error ? MT_CONTROL_DECIDED : MT_CONTROL_SENT;
	if (call->state != MT_CONTROL_SENT || !poll(call, head, &reply->error, &reply->why))
		return;
	mt_control_call_end(call);
	if (!reply->error && head->snapshot.request_error) {
		reply->request_error = head->snapshot.request_error;
		mt_error_because(&reply->why, MT_ERR_INVALID, "%s",
				 refusal_text(&call->request, reply->request_error));
	}
	if (call->changed_user || call->deadline_ns > latest_ns)
		call->deadline_ns = latest_ns;
	call->state = reply->error || reply->request_error || call->request.kind != MT_REQUEST_TRIM
			      ? MT_CONTROL_DECIDED
			      : MT_CONTROL_REPLIED;
}

/* The cleanup may be published after the reply: a request that joins a cleanup in progress gets its
 * reply at once. */
static void step_cleanup(struct mt_control_call *call, struct mt_stats_file *file)
{
	const struct mt_stats_cleanup *cleanup = NULL;
	struct mt_error_reason why;

	/* Tries the head first, since mt_target_read waits for a file that is not valid. */
	if (mt_target_try_head(&call->process, &file->head, &why) == MT_ERR_OK &&
	    mt_target_read(&call->process, file, &why) == MT_ERR_OK)
		cleanup = mt_stats_file_cleanup_of_request(file, call->request.seq);
	if (cleanup) {
		call->reply.cleanup = *cleanup;
		call->reply.has_cleanup = true;
	}
	if (cleanup || mt_clock_now_ns() >= call->deadline_ns ||
	    !mt_process_is_alive(&call->process))
		call->state = MT_CONTROL_DECIDED;
}

void mt_control_call_begin(const struct mt_process *process, const struct mt_request *request,
			   uint64_t timeout_ms, struct mt_control_call *out)
{
	*out = (struct mt_control_call){.process = *process, .request = *request, .fd = -1};
	out->deadline_ns = mt_clock_now_ns() + timeout_ms * 1000000u;
}

bool mt_control_call_step(struct mt_control_call *call, struct mt_stats_file *file)
{
	step_reply(call, &file->head);
	if (call->state == MT_CONTROL_REPLIED)
		step_cleanup(call, file);
	return call->state == MT_CONTROL_DECIDED;
}

void mt_control_call_end(struct mt_control_call *call)
{
	if (call->fd >= 0)
		close(call->fd);
	call->fd = -1;
}

enum mt_err mt_control_file_exchange(const struct mt_process *process, struct mt_request request,
				     uint64_t timeout_ms, struct mt_stats_head *out,
				     struct mt_error_reason *why)
{
	unsigned poll_ms = POLL_FIRST_MS;
	struct mt_control_call call;

	mt_control_call_begin(process, &request, timeout_ms, &call);
	for (step_reply(&call, out); call.state < MT_CONTROL_REPLIED; step_reply(&call, out)) {
		mt_clock_sleep_ms(poll_ms);
		poll_ms = next_poll_ms(poll_ms);
	}
	*why = call.reply.why;
	out->snapshot.request_error = call.reply.request_error;
	return call.reply.request_error ? MT_ERR_INVALID : call.reply.error;
}

enum mt_err mt_control_file_request(const struct mt_process *process, struct mt_request request,
				    uint64_t timeout_ms, struct mt_error_reason *why)
{
	struct mt_stats_head head;

	return mt_control_file_exchange(process, request, timeout_ms, &head, why);
}

bool mt_control_file_refresh(const struct mt_process *process)
{
	const struct mt_request request = {.kind = MT_REQUEST_PUBLISH};
	struct mt_error_reason why;

	return mt_control_file_request(process, request, MT_CONTROL_FRESH_MS, &why) == MT_ERR_OK;
}

/* ---- a request to change a setting ---- */

static enum mt_err refuse_name(const char *name, struct mt_error_reason *why)
{
	const char *nearest = mt_setting_nearest(name);

	if (nearest)
		return mt_error_because(why, MT_ERR_INVALID,
					"no setting '%.40s'; did you mean '%s'?", name, nearest);
	return mt_error_because(why, MT_ERR_INVALID,
				"no setting '%.40s'; `mtctl options` lists them", name);
}

enum mt_err mt_set_request_parse(const char *text, struct mt_request *out,
				 struct mt_error_reason *why)
{
	const char *value = strchr(text, '=');
	const struct mt_setting *setting;
	char name[64];
	enum mt_err error;

	if (!value)
		return mt_error_because(why, MT_ERR_INVALID, "'%.60s': NAME=VALUE is wanted", text);
	snprintf(name, sizeof(name), "%.*s", value - text < 63 ? (int)(value - text) : 63, text);
	value++;
	setting = mt_setting_find(name);
	if (!setting)
		return refuse_name(name, why);
	if (!setting->live)
		return mt_error_because(why, MT_ERR_START_ONLY, "%s %s", setting->name,
					mt_error_text(MT_ERR_START_ONLY));
	error = mt_setting_check(setting, value, why);
	if (error)
		return error;
	/* A number with many zeros before it would be another number when it is cut. */
	if (strlen(value) >= sizeof(out->value))
		return mt_error_because(why, MT_ERR_INVALID, "%s=%.40s...: longer than %zu bytes",
					setting->name, value, sizeof(out->value) - 1);
	*out = (struct mt_request){.kind = MT_REQUEST_SET};
	snprintf(out->name, sizeof(out->name), "%s", setting->name);
	snprintf(out->value, sizeof(out->value), "%s", value);
	return MT_ERR_OK;
}

const char *mt_set_request_unavailable(const struct mt_request *request,
				       const struct mt_stats_head *head)
{
	return is_prof(request) ? mt_stats_why_no_profile(head) : NULL;
}

const char *mt_set_request_value(const struct mt_request *request, const struct mt_stats_file *file)
{
	const char *value = mt_stats_file_setting(file, request->name);

	/* 0 and 1 say whether it was made ready at the start, and sample nothing */
	if (value && is_prof(request) && (strcmp(value, "0") == 0 || strcmp(value, "1") == 0))
		return "off";
	return value ? value : "?";
}

/* ---- requests for cleanups ---- */

struct mt_trim_requests {
	size_t count, locks_count, locks_max;
	/* no request before this one holds a lock */
	size_t oldest;
	struct mt_stats_file *file; /* a buffer for the file of one process */
	struct mt_control_call list[];
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
	const struct mt_request request = {.kind = MT_REQUEST_TRIM, .level = level};
	struct mt_trim_requests *requests = mt_error_check_memory(
		calloc(1, sizeof(*requests) + count * sizeof(requests->list[0])));

	requests->count = count;
	requests->locks_max = raise_descriptors();
	requests->file = mt_error_check_memory(malloc(sizeof(*requests->file)));
	for (size_t i = 0; i < count; i++)
		mt_control_call_begin(&list[i], &request, timeout_ms, &requests->list[i]);
	return requests;
}

static bool holds_lock(const struct mt_control_call *call)
{
	return call->fd >= 0;
}

static void release_oldest_lock(struct mt_trim_requests *requests)
{
	while (requests->oldest < requests->count && !holds_lock(&requests->list[requests->oldest]))
		requests->oldest++;
	if (requests->oldest == requests->count)
		return;
	mt_control_call_end(&requests->list[requests->oldest]);
	requests->locks_count--;
}

static void step(struct mt_trim_requests *requests, size_t place)
{
	struct mt_control_call *call = &requests->list[place];
	bool held = holds_lock(call);

	if (call->state == MT_CONTROL_SENDING && requests->locks_count >= requests->locks_max)
		release_oldest_lock(requests);
	(void)mt_control_call_step(call, requests->file);
	requests->locks_count -= held && !holds_lock(call);
	if (held || !holds_lock(call))
		return;
	requests->locks_count++;
	if (place < requests->oldest)
		requests->oldest = place;
}

const struct mt_trim_reply *mt_trim_requests_wait(struct mt_trim_requests *requests, size_t place)
{
	const struct mt_control_call *wanted = &requests->list[place];

	for (unsigned poll_ms = POLL_FIRST_MS; wanted->state != MT_CONTROL_DECIDED;
	     poll_ms = next_poll_ms(poll_ms)) {
		for (size_t i = 0; i < requests->count; i++)
			step(requests, i);
		if (wanted->state != MT_CONTROL_DECIDED)
			mt_clock_sleep_ms(poll_ms);
	}
	return &wanted->reply;
}

void mt_trim_requests_free(struct mt_trim_requests *requests)
{
	for (size_t i = 0; i < requests->count; i++)
		mt_control_call_end(&requests->list[i]);
	free(requests->file);
	free(requests);
}

const char *mt_trim_reply_error(const struct mt_trim_reply *reply)
{
	if (reply->error || reply->request_error)
		return reply->error == MT_ERR_NOT_AVAILABLE ? NULL : reply->why.text;
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

/* ---- trim json ---- */

json_t *mt_trim_json_reply(const struct mt_process *process, const struct mt_trim_reply *reply)
{
	const char *error_text = mt_trim_reply_error(reply);
	json_t *object = mt_process_json(process);

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
	json_t *object = json_object(), *list = json_array();

	mt_json_append(list, mt_trim_json_reply(process, reply));
	mt_json_set(object, "processes", list);
	if (error_text)
		mt_process_say(process, error_text);
	*out_code = mt_trim_reply_exit(reply);
	mt_trim_requests_free(requests);
	return object;
}
