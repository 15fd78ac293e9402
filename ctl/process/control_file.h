/* ctl/process/control_file.h -- asks a process for something: writes the request into its control
 * file, rings, waits for the answer. Requests of several mtctl stand in line: the file's lock is
 * held from the writing of a request until its answer, for a request that is overwritten before the
 * process has looked would be lost without a trace. The control file is rung by FUTEX_WAKE_OP: the
 * kernel adds to the word, and nothing here loads from or stores to a mapping (a file that was
 * truncated would be SIGBUS). No signal is ever sent. */
#ifndef MT_CTL_PROCESS_CONTROL_FILE_H
#define MT_CTL_PROCESS_CONTROL_FILE_H

#include "ctl/process/target.h"

struct mt_control_call {
	struct mt_process process;
	uint64_t seq;
	uint64_t deadline_ns;   /* CLOCK_MONOTONIC */
	unsigned invalid_count; /* tries in a row that found a file which is no valid one */
	/* the process runs as another user than its files belong to, and cannot write them */
	bool changed_user;
	int fd; /* holds the lock; -1 when nothing is under way */
};

/* Takes the lock, writes the request (its seq is filled in here) and rings. NOT_AVAILABLE: asleep.
 * TIMEOUT: another mtctl is waiting for this process (a timeout of 0 tries once). A process that
 * has changed its user is waited for no longer than 1 s. The call is ended by mt_control_file_wait,
 * by mt_control_file_poll once that has answered true, or by mt_control_file_unlock: one of them
 * must follow. */
enum mt_err mt_control_file_send(const struct mt_process *process, struct mt_request request,
				 uint64_t timeout_ms, struct mt_control_call *out,
				 struct mt_why *why);

/* mt_control_file_send in steps, for a caller with many calls: mt_control_file_begin sets up a call
 * of this timeout and does nothing else. mt_control_file_try_send then tries once, without a pause.
 * Returns false while it is worth another try in some milliseconds: the lock is taken, or a file is
 * being written. Returns true when it is decided; with *error OK the call must be ended as above,
 * else it holds nothing. */
void mt_control_file_begin(const struct mt_process *process, uint64_t timeout_ms,
			   struct mt_control_call *out);
bool mt_control_file_try_send(struct mt_control_call *call, struct mt_request request,
			      enum mt_err *error, struct mt_why *why);

/* Waits until the process has dealt with it, and gives up the lock. The head that says so comes
 * back; what became of the request is head.snapshot.request_error. TIMEOUT; UNKNOWN: the process
 * has ended. */
enum mt_err mt_control_file_wait(struct mt_control_call *call, struct mt_stats_head *out,
				 struct mt_why *why);

/* The same for whoever must not wait: looks once. false: no answer yet, look again in some
 * milliseconds. */
bool mt_control_file_poll(struct mt_control_call *call, struct mt_stats_head *out,
			  enum mt_err *error, struct mt_why *why);

/* Gives up the lock without an answer; nothing where none is held. The process may still do what it
 * was asked for. */
void mt_control_file_unlock(struct mt_control_call *call);

/* Sends and waits. A process that has refused the request is INVALID, with its request_error in the
 * head; for every other error that is 0. */
enum mt_err mt_control_file_exchange(const struct mt_process *process, struct mt_request request,
				     uint64_t timeout_ms, struct mt_stats_head *out,
				     struct mt_why *why);

/* Send and wait; a request_error other than OK comes back as the error. */
enum mt_err mt_control_file_request(const struct mt_process *process, struct mt_request request,
				    uint64_t timeout_ms, struct mt_why *why);

/* Asks for fresh figures and waits a second for them at most: those that are some seconds old are
 * better than a long wait. false: there was no answer. */
bool mt_control_file_refresh(const struct mt_process *process);

#endif
