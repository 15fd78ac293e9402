/* ctl/channel/control_file.h -- sends a request to a process through its control file and waits for
 * the reply.
 *
 * Only one request at a time can be in the file. So mtctl holds the lock of the file (flock) from
 * the write of a request until the reply. Another mtctl waits for the lock.
 *
 * FUTEX_WAKE_OP notifies the process: the kernel adds to the word of the file. mtctl never loads
 * from or stores to a mapping of the file, since a truncated file would raise SIGBUS. It never
 * sends a signal. One thread may call. */
#ifndef MT_CTL_CHANNEL_CONTROL_FILE_H
#define MT_CTL_CHANNEL_CONTROL_FILE_H

#include <jansson.h>

#include "ctl/channel/target.h"
#include "ctl/figures/stats_file.h"
#include "ctl/process/process.h"

#define MT_CONTROL_FRESH_MS 1000u

/* The result of one request. If `error` is MT_ERR_OK and has_cleanup is false after a request for a
 * cleanup, the process has replied, but no cleanup for the request appeared until 3.5 s after the
 * reply or the deadline, whichever came first. */
struct mt_trim_reply {
	/* NOT_AVAILABLE: asleep. TIMEOUT: no reply in time, or another mtctl holds the lock. */
	enum mt_err error;
	struct mt_error_reason why; /* for an error, and for a request_error */
	/* the process has refused, with this number of sys/attr.h; 0: it has not */
	uint64_t request_error;
	bool has_cleanup;
	struct mt_stats_cleanup cleanup; /* zeroed if there is none */
};

enum mt_control_state {
	MT_CONTROL_SENDING,
	MT_CONTROL_SENT,
	MT_CONTROL_REPLIED, /* its cleanup is awaited */
	MT_CONTROL_DECIDED, /* the reply is final */
};

/* A request on its way, for a caller that must not wait. */
struct mt_control_call {
	struct mt_process process;
	struct mt_request request; /* seq is filled in when it is sent */
	enum mt_control_state state;
	uint64_t deadline_ns;   /* CLOCK_MONOTONIC: of the reply, then of the cleanup */
	unsigned invalid_count; /* reads in a row that found no valid file */
	/* the process has changed its user since it made its files, and cannot write them */
	bool changed_user;
	int fd; /* holds the lock; -1: it is not held */
	struct mt_trim_reply reply;
};

/* Prepares a request, and sends nothing yet. For a process that has changed its user the timeout is
 * up to 1 s from the time when it is sent. The caller must call mt_control_call_end. */
void mt_control_call_begin(const struct mt_process *process, const struct mt_request *request,
			   uint64_t timeout_ms, struct mt_control_call *out);

/* Takes the lock, writes the request and notifies the process, or looks for its reply and for the
 * cleanup, once each and without a pause. *file is a buffer. Returns true when call->reply
 * is final. */
bool mt_control_call_step(struct mt_control_call *call, struct mt_stats_file *file);

/* Releases the lock, if the call holds it. A process may still handle a request that was sent. */
void mt_control_call_end(struct mt_control_call *call);

/* Sends a request and waits for the reply; *out is the head that the process has written after the
 * request. Returns MT_ERR_NOT_AVAILABLE for a process that is asleep, MT_ERR_TIMEOUT if it has not
 * replied or another mtctl holds the lock, MT_ERR_UNKNOWN if it has ended, and MT_ERR_INVALID if it
 * has refused the request; the number of the error is then in out->snapshot.request_error, which
 * is 0 for every other error. */
enum mt_err mt_control_file_exchange(const struct mt_process *process, struct mt_request request,
				     uint64_t timeout_ms, struct mt_stats_head *out,
				     struct mt_error_reason *why);

/* mt_control_file_exchange without the head. */
enum mt_err mt_control_file_request(const struct mt_process *process, struct mt_request request,
				    uint64_t timeout_ms, struct mt_error_reason *why);

/* Asks the process to publish its figures now, and waits up to MT_CONTROL_FRESH_MS. Returns whether
 * it has replied. */
bool mt_control_file_refresh(const struct mt_process *process);

/* ---- a request to change a setting ---- */

/* A request to change a setting of a running process: what `mtctl set`
 * and `mtctl top` check before they send it, and the messages for its errors. One thread may call.
 */

/* Fills in a MT_REQUEST_SET from NAME=VALUE. Returns MT_ERR_INVALID for another form, a name that
 * is no setting (with the nearest name), or a value that is not valid. Returns MT_ERR_START_ONLY
 * for a setting that cannot change in a running process. */
enum mt_err mt_set_request_parse(const char *text, struct mt_request *out,
				 struct mt_error_reason *why);

/* Returns why this process cannot apply the request, as a sentence; NULL if it can. */
const char *mt_set_request_unavailable(const struct mt_request *request,
				       const struct mt_stats_head *head);

/* Returns the present value of the setting in the process as it is set, "?" if it is not in the
 * file. prof is "on" or "off". */
const char *mt_set_request_value(const struct mt_request *request,
				 const struct mt_stats_file *file);

/* ---- requests for cleanups ---- */

/* Requests for a cleanup to many processes at the same time. One
 * deadline holds for all, so that many processes that do not reply cost no more time than one.
 *
 * Each request holds the lock of a control file, and so a descriptor. The soft RLIMIT_NOFILE is
 * raised to the hard one, and half of it may be in use. Beyond that, the oldest lock is released:
 * its request stays and its reply is still awaited, but another mtctl may overwrite the request
 * before the process has read it. One thread may call. */

#define MT_TRIM_TIMEOUT_MS 30000u

struct mt_trim_requests; /* opaque */

/* Prepares one request for each process; sends nothing yet. level: enum mt_level. */
struct mt_trim_requests *mt_trim_requests_new(const struct mt_process *list, size_t count,
					      uint32_t level, uint64_t timeout_ms);

/* Sends the requests that are not sent yet, and waits until the result of request number `place` is
 * final, while the others go on. The reply is valid until mt_trim_requests_free. */
const struct mt_trim_reply *mt_trim_requests_wait(struct mt_trim_requests *requests, size_t place);

/* Releases all locks. */
void mt_trim_requests_free(struct mt_trim_requests *requests);

/* Returns why the process made no cleanup, as a sentence; NULL where it made one, and where it is
 * asleep. The text is valid as long as the reply. */
const char *mt_trim_reply_error(const struct mt_trim_reply *reply);

/* Returns MT_EXIT_OK if the process has made a cleanup or is asleep, MT_EXIT_NOTHING if it
 * has refused, else the exit code of the error. */
enum mt_exit mt_trim_reply_exit(const struct mt_trim_reply *reply);

/* ---- as JSON ; the caller owns each object ---- */

/* Returns one element of "processes": pid, comm, and "record" with the cleanup, "state" ("asleep"),
 * or "error". */
json_t *mt_trim_json_reply(const struct mt_process *process, const struct mt_trim_reply *reply);

/* Sends a request to one process, waits for the reply, and prints an error to stderr. Returns an
 * object with "processes". level: enum mt_level. Waits up to timeout_ms. *out_code: the exit code
 * (mt_trim_reply_exit). */
json_t *mt_trim_json(const struct mt_process *process, uint32_t level, uint64_t timeout_ms,
		     int *out_code);

#endif
