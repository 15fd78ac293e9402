/* ctl/process/trim_requests.h -- asks many processes for a cleanup at the same time, and waits for
 * all of them together: one deadline holds for all, so that processes that do not reply cost no
 * more time than one. Each request holds its process's lock, and so a descriptor. Where there are
 * more processes than that allows (half of RLIMIT_NOFILE, whose soft limit is raised to the hard
 * one), the oldest lock is given up for the next: the request stays, and its reply is still waited
 * for, but another mtctl may overwrite it before the process has read it. */
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

/* What came of one request. With `error` OK and no cleanup the process has replied without leaving
 * one, until 3.5 s after the reply or the deadline, whichever is first. */
struct mt_trim_reply {
	/* NOT_AVAILABLE: asleep. TIMEOUT: no reply in time, or another mtctl holds the lock. */
	enum mt_err error;
	struct mt_why why; /* for an error */
	/* the process has refused, with this number of error.def; 0: it has not */
	uint64_t request_error;
	bool has_cleanup;
	struct mt_stats_cleanup cleanup;
};

/* `list` must stay until mt_trim_requests_free. Sends nothing yet. */
struct mt_trim_requests *mt_trim_requests_new(const struct mt_process *list, size_t count,
					      uint32_t level, uint64_t timeout_ms);

/* Sends what is not sent, and waits until the answer to request `place` is decided, while the
 * others go on. The reply lives as long as the requests. */
const struct mt_trim_reply *mt_trim_requests_wait(struct mt_trim_requests *requests, size_t place);

/* Gives up all locks. */
void mt_trim_requests_free(struct mt_trim_requests *requests);

/* Why the process made no cleanup, as a sentence; NULL where it made one, and where it is asleep
 * (NOT_AVAILABLE). The text lives as long as the reply. */
const char *mt_trim_reply_error(const struct mt_trim_reply *reply);

/* The exit code for an reply: OK where memory was freed, NOTHING where none was or the process is
 * asleep, else that of the error. */
enum mt_exit mt_trim_reply_exit(const struct mt_trim_reply *reply);

/* ---- as JSON (trim_json.c); the caller owns each object ---- */

/* An object with an empty array "processes". */
json_t *mt_trim_json_new(void);

/* One element of "processes": pid, comm, and the cleanup of the cleanup, or "state": "asleep", or
 * "error" with the error_text. */
json_t *mt_trim_json_reply(const struct mt_process *process, const struct mt_trim_reply *reply);

/* Asks one process for a cleanup, waits for the reply, and prints a error_text to stderr. level:
 * enum mt_level. Waits for up to `timeout_ms` for the reply, and some seconds more for the cleanup.
 * *out_code: the exit code (mt_trim_reply_exit). */
json_t *mt_trim_json(const struct mt_process *process, uint32_t level, uint64_t timeout_ms,
		     int *out_code);

#endif
