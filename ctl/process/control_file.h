/* ctl/process/control_file.h -- sends a request to a process through its control file and waits for
 * the reply.
 *
 * Only one request at a time can be in the file. So mtctl holds the lock of the file (flock) from
 * the write of a request until the reply. Another mtctl waits for the lock.
 *
 * FUTEX_WAKE_OP notifies the process: the kernel adds to the word of the file. mtctl never loads
 * from or stores to a mapping of the file, since a truncated file would raise SIGBUS. It never
 * sends a signal. One thread may call. */
#ifndef MT_CTL_PROCESS_CONTROL_FILE_H
#define MT_CTL_PROCESS_CONTROL_FILE_H

#include "ctl/process/target.h"

#define MT_CONTROL_FRESH_MS 1000u

struct mt_control_call {
	struct mt_process process;
	uint64_t seq;
	uint64_t deadline_ns;   /* CLOCK_MONOTONIC */
	unsigned invalid_count; /* reads in a row that found no valid file */
	/* the process has changed its user since it made its files, and cannot write them */
	bool changed_user;
	int fd; /* holds the lock; -1: no request is pending */
};

/* Takes the lock, writes the request and notifies the process. The sequence number of the request
 * is filled in here. Returns MT_ERR_NOT_AVAILABLE for a process that is asleep, and MT_ERR_TIMEOUT
 * where another mtctl holds the lock for timeout_ms (0: one try). For a process that has changed
 * its user the timeout is at most 1 s. After MT_ERR_OK the caller must call mt_control_file_wait,
 * mt_control_file_poll until it returns true, or mt_control_file_unlock. */
enum mt_err mt_control_file_send(const struct mt_process *process, struct mt_request request,
				 uint64_t timeout_ms, struct mt_control_call *out,
				 struct mt_error_reason *why);

/* mt_control_file_send in steps, for a caller with many requests. mt_control_file_begin fills in a
 * call with this timeout. mt_control_file_try_send tries once, without a pause. It returns false
 * where another try in some milliseconds may succeed: the lock is held, or a file is being written.
 * It returns true when *error is final. After *error MT_ERR_OK the call must be ended as above;
 * else it holds nothing. */
void mt_control_file_begin(const struct mt_process *process, uint64_t timeout_ms,
			   struct mt_control_call *out);
bool mt_control_file_try_send(struct mt_control_call *call, struct mt_request request,
			      enum mt_err *error, struct mt_error_reason *why);

/* Waits until the process has handled the request, and releases the lock. *out is the head that the
 * process has written after the request; head.snapshot.request_error is the result of the request.
 * Returns MT_ERR_TIMEOUT, or MT_ERR_UNKNOWN where the process has ended. */
enum mt_err mt_control_file_wait(struct mt_control_call *call, struct mt_stats_head *out,
				 struct mt_error_reason *why);

/* mt_control_file_wait for a caller that must not wait: reads the stats file once. Returns false
 * where there is no reply yet. */
bool mt_control_file_poll(struct mt_control_call *call, struct mt_stats_head *out,
			  enum mt_err *error, struct mt_error_reason *why);

/* Releases the lock without a reply, if the call holds it. The process may still handle the
 * request. */
void mt_control_file_unlock(struct mt_control_call *call);

/* Sends a request and waits for the reply. Returns MT_ERR_INVALID where the process has refused the
 * request; the number of the error is then in out->snapshot.request_error, which is 0 for every
 * other error. */
enum mt_err mt_control_file_exchange(const struct mt_process *process, struct mt_request request,
				     uint64_t timeout_ms, struct mt_stats_head *out,
				     struct mt_error_reason *why);

/* mt_control_file_exchange without the head. */
enum mt_err mt_control_file_request(const struct mt_process *process, struct mt_request request,
				    uint64_t timeout_ms, struct mt_error_reason *why);

/* Asks the process to publish its figures now, and waits up to MT_CONTROL_FRESH_MS. Returns whether
 * it has replied. */
bool mt_control_file_refresh(const struct mt_process *process);

#endif
