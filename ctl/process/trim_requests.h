/* ctl/process/trim_requests.h -- requests for a cleanup to many processes at the same time. One
 * deadline holds for all, so that many processes that do not reply cost no more time than one.
 *
 * Each request holds the lock of a control file, and so a descriptor. The soft RLIMIT_NOFILE is
 * raised to the hard one, and half of it may be in use. Beyond that, the oldest lock is released:
 * its request stays and its reply is still awaited, but another mtctl may overwrite the request
 * before the process has read it. One thread may call. */
#ifndef MT_CTL_PROCESS_TRIM_REQUESTS_H
#define MT_CTL_PROCESS_TRIM_REQUESTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/process/process.h"
#include "ctl/process/stats_file.h"

#define MT_TRIM_TIMEOUT_MS 30000u

struct mt_trim_requests; /* opaque: trim_requests.c only */

/* The result of one request. Where `error` is MT_ERR_OK and has_cleanup is false, the process has
 * replied, but no cleanup for the request appeared until 3.5 s after the reply or the deadline,
 * whichever came first. */
struct mt_trim_reply {
	/* NOT_AVAILABLE: asleep. TIMEOUT: no reply in time, or another mtctl holds the lock. */
	enum mt_err error;
	struct mt_error_reason why; /* for an error */
	/* the process has refused, with this number of error.def; 0: it has not */
	uint64_t request_error;
	bool has_cleanup;
	struct mt_stats_cleanup cleanup;
};

/* Prepares one request for each process; sends nothing yet. `list` must stay until
 * mt_trim_requests_free. level: enum mt_level. */
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

/* Returns MT_EXIT_OK where the process has made a cleanup or is asleep, MT_EXIT_NOTHING where it
 * has refused, else the exit code of the error. */
enum mt_exit mt_trim_reply_exit(const struct mt_trim_reply *reply);

/* Returns whether memory was freed. */
bool mt_trim_reply_freed(const struct mt_trim_reply *reply);

/* ---- as JSON ; the caller owns each object ---- */

/* Returns an object with an empty array "processes". */
json_t *mt_trim_json_new(void);

/* Returns one element of "processes": pid, comm, and "record" with the cleanup, "state" ("asleep"),
 * or "error". */
json_t *mt_trim_json_reply(const struct mt_process *process, const struct mt_trim_reply *reply);

/* Sends a request to one process, waits for the reply, and prints an error to stderr. level: enum
 * mt_level. Waits up to timeout_ms. *out_code: the exit code (mt_trim_reply_exit). */
json_t *mt_trim_json(const struct mt_process *process, uint32_t level, uint64_t timeout_ms,
		     int *out_code);

#endif
