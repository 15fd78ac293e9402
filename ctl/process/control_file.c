#include "ctl/process/control_file.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ctl/process/clock.h"
#include "ctl/process/stats_dir.h"

#define POLL_FIRST_MS 1u
#define POLL_MAX_MS   20u
/* within that time the process may be its former user again (seteuid(2)) */
#define CHANGED_USER_MAX_NS 1000000000u
/* reads, over 0.1 s and more, in which an invalid file may be a write in progress */
#define INVALID_MAX 10u

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

/* Writes the sequence number last: a process that reads in between sees no new request yet. */
static enum mt_err write_request(int fd, const struct mt_request *request,
				 struct mt_error_reason *why)
{
	const size_t base = offsetof(struct mt_control_file, request), rest = sizeof(request->seq);
	const size_t rest_bytes = sizeof(*request) - rest;

	_Static_assert(offsetof(struct mt_request, seq) == 0,
		       "the number comes first, and is written last");
	if (pwrite(fd, (const char *)request + rest, rest_bytes, (off_t)(base + rest)) !=
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

static enum mt_err try_request(struct mt_control_call *call, struct mt_request *request,
			       struct mt_error_reason *why)
{
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
	call->seq = ++request->seq;
	error = write_request(call->fd, request, why);
	return error ? error : notify(call->fd, why);
}

void mt_control_file_begin(const struct mt_process *process, uint64_t timeout_ms,
			   struct mt_control_call *out)
{
	*out = (struct mt_control_call){.process = *process, .fd = -1};
	out->deadline_ns = mt_clock_now_ns() + timeout_ms * 1000000u;
}

/* The shim creates a file before it writes the head, and rewrites the head of the stats file. So an
 * invalid file may become valid. */
static bool may_become_valid(struct mt_control_call *call, enum mt_err error)
{
	call->invalid_count = error == MT_ERR_INVALID ? call->invalid_count + 1 : 0;
	return error == MT_ERR_INVALID && call->invalid_count < INVALID_MAX;
}

static void check_owner(struct mt_control_call *call)
{
	uint64_t latest_ns = mt_clock_now_ns() + CHANGED_USER_MAX_NS;
	struct stat status;

	call->changed_user = fstat(call->fd, &status) == 0 && status.st_uid != call->process.uid;
	if (call->changed_user && call->deadline_ns > latest_ns)
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

bool mt_control_file_try_send(struct mt_control_call *call, struct mt_request request,
			      enum mt_err *error, struct mt_error_reason *why)
{
	*error = open_control(call, why);
	if (!*error)
		*error = try_request(call, &request, why);
	if (!*error) {
		check_owner(call);
		return true;
	}
	mt_control_file_unlock(call);
	if (*error == MT_ERR_TIMEOUT)
		return mt_clock_now_ns() >= call->deadline_ns;
	return !may_become_valid(call, *error);
}

enum mt_err mt_control_file_send(const struct mt_process *process, struct mt_request request,
				 uint64_t timeout_ms, struct mt_control_call *out,
				 struct mt_error_reason *why)
{
	unsigned poll_ms = POLL_FIRST_MS;
	enum mt_err error;

	mt_control_file_begin(process, timeout_ms, out);
	while (!mt_control_file_try_send(out, request, &error, why)) {
		mt_clock_sleep_ms(poll_ms);
		poll_ms = next_poll_ms(poll_ms);
	}
	return error;
}

/* Returns true with the reply, or with the reason why there will be none; false: neither yet. */
static bool poll(struct mt_control_call *call, struct mt_stats_head *head, enum mt_err *error,
		 struct mt_error_reason *why)
{
	*error = mt_target_try_head(&call->process, head, why);
	if (!*error && head->snapshot.request_seq >= call->seq)
		return true;
	if (!mt_process_is_alive(&call->process)) {
		*error = mt_error_because(why, MT_ERR_UNKNOWN, "the process has ended");
		return true;
	}
	if (may_become_valid(call, *error) || (!*error && mt_clock_now_ns() < call->deadline_ns))
		return false;
	if (!*error)
		*error = mt_error_because(why, MT_ERR_TIMEOUT, "no answer in time%s",
					  call->changed_user
						  ? ": it has changed its user, and cannot write "
						    "its files as who it is now"
					  : mt_stats_dir_in_chroot(&call->process)
						  ? ": it has called chroot since it woke up, and "
						    "cannot reach its files"
						  : "");
	return true;
}

bool mt_control_file_poll(struct mt_control_call *call, struct mt_stats_head *out,
			  enum mt_err *error, struct mt_error_reason *why)
{
	struct mt_stats_head head;

	if (!poll(call, &head, error, why))
		return false;
	mt_control_file_unlock(call);
	if (!*error)
		*out = head;
	return true;
}

void mt_control_file_unlock(struct mt_control_call *call)
{
	if (call->fd >= 0)
		close(call->fd);
	call->fd = -1;
}

enum mt_err mt_control_file_wait(struct mt_control_call *call, struct mt_stats_head *out,
				 struct mt_error_reason *why)
{
	unsigned poll_ms = POLL_FIRST_MS;
	enum mt_err error;

	while (!mt_control_file_poll(call, out, &error, why)) {
		mt_clock_sleep_ms(poll_ms);
		poll_ms = next_poll_ms(poll_ms);
	}
	return error;
}

enum mt_err mt_control_file_exchange(const struct mt_process *process, struct mt_request request,
				     uint64_t timeout_ms, struct mt_stats_head *out,
				     struct mt_error_reason *why)
{
	struct mt_control_call call;
	enum mt_err error = mt_control_file_send(process, request, timeout_ms, &call, why);

	out->snapshot.request_error = 0;
	if (!error)
		error = mt_control_file_wait(&call, out, why);
	if (!error && out->snapshot.request_error)
		error = mt_error_because(why, MT_ERR_INVALID, "%s",
					 mt_error_text(out->snapshot.request_error));
	return error;
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
