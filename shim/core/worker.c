#include "core/worker.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/cleanup.h"
#include "core/components.h"
#include "core/config.h"
#include "core/control_file.h"
#include "core/files.h"
#include "core/log.h"
#include "core/publish.h"
#include "core/services.h"
#include "core/thread.h"
#include "sys/atomic.h"
#include "sys/format.h"
#include "sys/main_thread.h"
#include "sys/os.h"
#include "sys/rss.h"
#include "sys/saturating.h"

#define STACK_BYTES   (256 * 1024)
#define PAUSE_NS      (2 * MT_NS_PER_S) /* a purge of many GB may take that long */
#define PAUSE_STEP_NS 20000 /* of the first look for its end; an idle worker needs about 100 us */
/* time for a thread to start on a busy machine */
#define START_NS (100 * MT_NS_PER_MS)
#define STEP_NS  (20 * MT_NS_PER_MS)
/* failed counts in a row before it gives up: one second */
#define FAILURES_MAX     50
#define EXIT_STACK_BYTES (8 * MT_MIB) /* exit handlers run on it */
/* CLOSE_RANGE_UNSHARE copies the first word of the table, then closes it */
#define COPIED_FDS 64
/* cleared when their cleanup runs */
#define DEFERRED_BITS (MT_CONTROL_SIGNAL | MT_CONTROL_API)

static struct mt_thread thread;
static _Atomic pid_t thread_id; /* 0 before it runs; no ordering */
/* Threads that have paused the worker, and 1 more once it has ended for good: it runs while this is
 * 0. Release/acquire: the worker is notified after it rises. */
static _Atomic unsigned int stops_count;

bool mt_worker_is_running(void)
{
	return mt_thread_is_running(&thread);
}

bool mt_worker_is_paused(void)
{
	return mt_load_acquire(&stops_count) > 0;
}

/* ---- requests of mtctl ---- */

static void trim(const struct mt_request *request)
{
	const struct mt_trim_request wanted = {
		.reason = MT_REASON_REQUEST,
		.level = (enum mt_level)request->level,
		.request_seq = request->seq,
	};

	mt_cleanup_run_requested(&wanted);
}

/* A component may reject a setting, which is then not stored. */
static enum mt_err set(const struct mt_request *request)
{
	struct mt_config wanted = *mt_config();
	enum mt_err answer = mt_config_set(&wanted, request->name, request->value);

	if (answer == MT_ERR_OK)
		answer = mt_components_check_setting(&wanted, request->name);
	if (answer == MT_ERR_OK)
		answer = mt_config_set_live(request->name, request->value);
	if (answer != MT_ERR_OK)
		return answer;
	mt_publish_set_settings(mt_config());
	mt_components_configure();
	return MT_ERR_OK;
}

static enum mt_err carry_out(const struct mt_request *request)
{
	mt_assert(mt_thread_is_ours());
	switch ((enum mt_request_kind)request->kind) {
	case MT_REQUEST_TRIM:
		trim(request);
		return MT_ERR_OK;
	case MT_REQUEST_SET:
		return set(request);
	case MT_REQUEST_RESET_PEAK:
		mt_components_reset_peak();
		return MT_ERR_OK;
	case MT_REQUEST_PUBLISH:
		return MT_ERR_OK;
	default:
		/* MT_ERR_OLDER if no component knows it, so that mtctl does not wait for a
		 * result */
		return mt_components_request(request);
	}
}

/* Carries out the request in the control file, if there is one, and publishes its result. */
static void answer_request(void)
{
	struct mt_stats_snapshot *figures;
	struct mt_request request;
	enum mt_err answer;

	mt_assert(mt_thread_is_ours());
	if (!mt_control_read_request(&request))
		return;
	answer = carry_out(&request);
	mt_components_refresh();
	figures = mt_publish_lock();
	figures->requests_count++;
	figures->request_error = answer;
	figures->request_seq = request.seq;
	mt_publish_unlock();
	mt_publish_write();
}

/* ---- the thread ---- */

/* Handles the exit system call of the main thread, which runs no handler. The kernel ends the
 * process with its last thread, which must not be the worker. Other threads of the program may go
 * on, without cleanups. */
static bool main_thread_has_exited(void)
{
	if (!mt_main_thread_has_ended())
		return false;
	atomic_fetch_add(&stops_count, 1);
	mt_log(MT_LOG_INFO,
	       "the main thread has ended by the exit system call: no cleanups from now on");
	mt_publish_end(mt_config(), false);
	return true;
}

/* The bit goes first: a request to stop that comes after this finds it clear, and so wakes the
 * worker. */
static bool must_stop(void)
{
	mt_control_clear_bits(MT_CONTROL_EXIT);
	return mt_worker_is_paused() || main_thread_has_exited();
}

static void loop(void)
{
	for (;;) {
		uint32_t word = mt_control_read_word();
		/* read once: a later bit stays for the next turn */
		uint32_t bits = mt_control_pending_bits();
		uint64_t next_ns;
		uint64_t now_ns;

		if (must_stop())
			return;
		mt_control_clear_bits(bits & ~(uint32_t)DEFERRED_BITS);
		answer_request();
		next_ns = mt_components_tick(bits);
		now_ns = mt_os_now_ns();
		mt_control_wait(word, next_ns > now_ns ? next_ns - now_ns : 0);
	}
}

/* Waits for address space, which may be missing since the start. Returns false if the worker
 * must stop. */
static bool wait_for_address_space(void)
{
	for (;;) {
		uint32_t word = mt_control_read_word();

		if (must_stop())
			return false;
		if (mt_thread_has_address_space())
			return true;
		mt_control_wait(word, MT_NS_PER_S);
	}
}

/* Whether the program may have a POSIX message queue among the descriptors that CLOSE_RANGE_UNSHARE
 * copies and closes: a close by any thread ends the process's mq_notify(3). /proc shows a queue as
 * "/name", and no call here waits for a file system. */
static bool may_have_message_queue(void)
{
	char path[sizeof("/proc/self/fd/") + 3 * sizeof(int)];
	char target[NAME_MAX];

	for (int fd = 0; fd < COPIED_FDS; fd++) {
		long length;

		mt_format(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = mt_raw_syscall(__NR_readlinkat, AT_FDCWD, path, target, sizeof(target));
		if (length > 1 && target[0] == '/' &&
		    memchr(target + 1, '/', (size_t)length - 1) == NULL)
			return true;
	}
	return false;
}

static void *thread_main(void *unused)
{
	bool has_private_fds;

	(void)unused;
	mt_raw_clone_mark();
	mt_thread_mark_ours();
	(void)prctl(PR_SET_NAME, "mtshim");
	/* An own, empty descriptor table: a number that the worker uses for a moment is never one
	 * that the program gets or closes. Older kernels refuse: the worker then shares the
	 * table, and it shares one with a message queue. */
	has_private_fds = !may_have_message_queue() &&
			  mt_raw_syscall(__NR_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE) == 0;
	if (has_private_fds) {
		mt_log_use_private_fds();
		mt_rss_keep_statm_open();
	}
	mt_store_relaxed(&thread_id, mt_os_gettid());
	if (wait_for_address_space()) {
		mt_components_start();
		mt_control_use_file(has_private_fds);
		loop();
	}
	mt_components_finish();
	mt_assert(mt_thread_is_ours());
	if (mt_main_thread_has_ended())
		mt_main_thread_end_process(mt_devices_thread_runs());
	mt_thread_reset(&thread);
	return NULL;
}

bool mt_worker_start(void)
{
	if (mt_worker_is_paused())
		return false;
	if (!mt_worker_is_running()) {
		mt_components_before_start();
		mt_files_set_folder(mt_config());
	}
	return mt_thread_start(&thread, thread_main, STACK_BYTES);
}

/* Tells the thread to end, and lets no other one start until mt_worker_resume. Not on the worker
 * thread. */
static void ask_to_stop(void)
{
	mt_assert(!mt_thread_is_ours());
	atomic_fetch_add(&stops_count, 1);
	mt_control_notify(MT_CONTROL_EXIT);
}

/* Returns whether the kernel still lists the thread. */
static bool is_alive(void)
{
	pid_t id = mt_load_relaxed(&thread_id);

	/* Between its start and its first statements it has no id yet. */
	return mt_worker_is_running() ||
	       (id && mt_raw_syscall(SYS_tgkill, mt_os_getpid(), id, 0) == 0);
}

bool mt_worker_is_asleep(void)
{
	char path[48], stat[256];
	const char *state;

	mt_format(path, sizeof(path), "/proc/self/task/%d/stat", (int)mt_load_relaxed(&thread_id));
	if (mt_os_read_file(path, stat, sizeof(stat)) <= 0)
		return false;
	state = mt_os_procstat_at(stat, 3);
	return state && *state == 'S';
}

bool mt_worker_has_same_credentials(void)
{
	uint64_t until = mt_os_now_ns() + START_NS;
	pid_t id;

	while (!(id = mt_load_relaxed(&thread_id)) && mt_os_now_ns() < until)
		mt_os_sleep_ns(MT_NS_PER_MS);
	return id && mt_thread_rights_are_equal(id);
}

bool mt_worker_pause(void)
{
	uint64_t until = mt_os_now_ns() + PAUSE_NS;
	uint64_t step_ns = PAUSE_STEP_NS;

	mt_assert(!mt_thread_is_ours()); /* it would wait for itself */
	ask_to_stop();
	while (is_alive() && mt_os_now_ns() < until) {
		mt_os_sleep_ns(step_ns);
		step_ns = mt_min_u64(2 * step_ns, MT_NS_PER_MS);
	}
	if (!is_alive())
		return true;
	mt_worker_resume();
	return false;
}

/* A worker that is still ending is not replaced until the process grows. */
void mt_worker_resume(void)
{
	unsigned int stops;

	mt_assert(!mt_thread_is_ours());
	if (!is_alive()) /* the next worker sets its own id */
		mt_store_relaxed(&thread_id, 0);
	stops = atomic_fetch_sub(&stops_count, 1);
	mt_assert(stops > 0);
	if (stops == 1)
		(void)mt_worker_start();
}

/* Ends the worker for good: libc has its last thread call exit, which flushes stdout. The worker
 * has no descriptors. The last sleep is for sandboxes in which its end cannot be seen. */
static void end_worker(void)
{
	ask_to_stop();
	while (is_alive())
		mt_os_sleep_ns(STEP_NS);
	mt_os_sleep_ns(STEP_NS);
}

/* ---- a main thread that ends by pthread_exit ---- */

static struct mt_thread end_thread; /* waits until only threads of the shim are left */
static sigset_t main_mask;          /* of the main thread */

/* All but the one that waits for the end. */
static uint64_t count_other_threads(void)
{
	return (uint64_t)mt_worker_is_running() + mt_devices_thread_runs() +
	       mt_interpreter_thread_runs();
}

/* Waits until only threads of the shim are left. Returns false if they could not be counted for
 * a second. */
static bool wait_until_last(void)
{
	unsigned int failures = 0;

	while (failures < FAILURES_MAX || mt_devices_thread_runs()) {
		/* The shim's threads first: one that starts in between then counts as a thread to
		 * wait for. */
		uint64_t own = count_other_threads();
		char text[1024];
		bool known = mt_os_read_file("/proc/self/stat", text, sizeof(text)) > 0;

		if (known && mt_main_thread_is_last(text, own))
			return true;
		failures = known ? 0 : failures + 1;
		mt_os_sleep_ns(STEP_NS);
	}
	return false;
}

static void *wait_for_end(void *unused)
{
	if (wait_until_last()) {
		/* The shim's threads block all signals; the program's exit handlers run with its
		 * own mask. */
		pthread_sigmask(SIG_SETMASK, &main_mask, NULL);
		exit(0);
	}
	mt_log(MT_LOG_INFO, "the main thread has ended and the threads cannot be counted: no "
			    "cleanups from now on");
	end_worker();
	return unused;
}

void mt_worker_handle_main_exit(void)
{
	mt_main_thread_forget();
	if (mt_os_own_procstat_number(MT_PROCSTAT_THREADS) == 1u + mt_worker_is_running() &&
	    mt_worker_pause())
		return;
	pthread_sigmask(SIG_SETMASK, NULL, &main_mask);
	if (!mt_thread_start(&end_thread, wait_for_end, EXIT_STACK_BYTES))
		end_worker();
}

/* flag, no ordering: only the main thread and threads that it started read it */
static _Atomic bool is_watched;

void mt_worker_note_main_watched(bool watched)
{
	mt_store_relaxed(&is_watched, watched);
}

bool mt_worker_is_main_watched(void)
{
	return mt_load_relaxed(&is_watched);
}

uint64_t mt_worker_own_threads(void)
{
	return count_other_threads() + mt_thread_is_running(&end_thread);
}

void mt_worker_fork_child(void)
{
	mt_thread_reset(&thread);
	mt_thread_reset(&end_thread);
	mt_store_relaxed(&thread_id, 0);
	mt_store_relaxed(&stops_count, 0);
}
