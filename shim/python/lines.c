#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "core/stats_layout.h"
#include "core/control_file.h"
#include "core/dump_layout.h"
#include "core/log.h"
#include "core/publish.h"
#include "python/python_internal.h"
#include "python/cpython.h"
#include "python/python.h"
#include "core/thread.h"
#include "sys/atomic.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "sys/saturating.h"

#define PATH_BYTES 512
/* as long as a collection that is requested by a signal waits */
#define START_TIMEOUT_NS (2 * MT_NS_PER_S)
#define END_TIMEOUT_NS   (10 * MT_NS_PER_S)
/* pauses between two readings of the main thread's state: at first, and later */
#define STEP_NS      (5 * MT_NS_PER_MS)
#define LATE_STEP_NS (50 * MT_NS_PER_MS)
/* A reading that took more CPU time is followed by no other but the last one. */
#define LONG_READING_NS (50 * MT_NS_PER_MS)
/* between two checks of what the look uses */
#define CHECK_NS (100 * MT_NS_PER_MS)

/* What a pending call does. */
enum step { STEP_START, STEP_CHECK, STEP_READ, STEP_END, STEP_STOP };

/* The pending call of this module; there is one at a time. */
enum call_state { CALL_NONE, CALL_QUEUED, CALL_RUNS, CALL_DONE };
static struct {
	_Atomic uint32_t state; /* enum call_state; release/acquire with the fields below */
	_Atomic uint32_t step;  /* enum step; may change until the call runs */
	/* entries in Python's queue: a call that was withdrawn leaves its entry, and the next one
	 * uses it */
	_Atomic uint32_t entries;
	uint64_t room_bytes; /* memory that a reading may take */
	uint32_t reading;    /* number of the next one */
	uint32_t depth;
	bool is_own;
	enum step did;
	enum mt_lines_outcome outcome;
	struct mt_tracing_size size;
	uint64_t blocks_count;
	uint64_t began_ns, ended_ns;
	uint64_t cpu_ns; /* that it took of the main thread */
} call;

/* Times are ns of CLOCK_MONOTONIC; 0: not yet. */
static struct {
	bool is_running;
	bool is_tracing;
	bool is_reported; /* the file is written, and only the end is waited for */
	bool is_costly;   /* a reading took long: only the last one follows */
	uint64_t request_seq;
	uint32_t depth;
	uint64_t span_ns;
	uint64_t queued_ns; /* when the pending call was queued */
	uint64_t began_ns;  /* tracing began */
	uint64_t ended_ns;  /* tracing ended */
	uint32_t readings_count;
	uint64_t readings_ns[MT_LINES_READINGS]; /* since began_ns */
	uint64_t next_check_ns;
	uint64_t stopped_ns, longest_stop_ns;
	struct mt_tracing_size size; /* the last one that is known */
	uint64_t blocks_count;
	enum mt_lines_cut cut;
} look;
static uint64_t placed_ns; /* 0: there is no file of ours */

/* ---- the pending call ---- */

static void carry_out(enum step step)
{
	mt_lock_check_foreign_call("Python");
	call.outcome = MT_LINES_DONE;
	if (step == STEP_START) {
		call.outcome = mt_tracing_start(&call.depth, &call.is_own);
		/* what the program's own tracing holds already */
		if (call.outcome == MT_LINES_DONE && call.is_own)
			call.outcome =
				mt_tracing_read(true, 0, call.room_bytes, &call.blocks_count);
	} else if (step != STEP_STOP) {
		mt_tracing_measure(&call.size);
	}
	if (step == STEP_READ || step == STEP_END)
		call.outcome = mt_tracing_read(call.is_own, call.reading, call.room_bytes,
					       &call.blocks_count);
	if ((step == STEP_END || step == STEP_STOP) && !call.is_own)
		mt_tracing_stop();
}

static int pending(void *unused)
{
	uint32_t queued = CALL_QUEUED, runs = CALL_RUNS;
	uint64_t cpu_ns;

	(void)unused;
	if (atomic_load(&call.entries))
		atomic_fetch_sub(&call.entries, 1);
	/* It was withdrawn; or this is a forked child, which inherits the queue. */
	if (!atomic_compare_exchange_strong(&call.state, &queued, CALL_RUNS))
		return 0;
	mt_python_breaker_call_done();
	if (!mt_tracing_is_here()) { /* the next turn queues it again */
		(void)atomic_compare_exchange_strong(&call.state, &runs, CALL_NONE);
		return 0;
	}
	call.did = (enum step)atomic_load(&call.step);
	call.began_ns = mt_os_now_ns();
	cpu_ns = mt_os_thread_cpu_ns();
	carry_out(call.did);
	call.cpu_ns = mt_os_thread_cpu_ns() - cpu_ns;
	call.ended_ns = mt_os_now_ns();
	/* A destructor that ran in the call may have forked: in the child the state is reset. */
	if (atomic_compare_exchange_strong(&call.state, &runs, CALL_DONE))
		mt_control_notify(MT_CONTROL_GC);
	return 0;
}

/* Returns the memory that is left until the nearest limit; UINT64_MAX: unknown. */
static uint64_t room_bytes(void)
{
	const struct mt_stats_snapshot *figures = mt_publish_lock();
	uint64_t room = figures->pressure_limit_bytes ? mt_sat_sub(figures->pressure_limit_bytes,
								   figures->pressure_used_bytes)
						      : UINT64_MAX;

	mt_publish_unlock();
	return room;
}

/* The state is set before the entries are read, and pending() counts its entry before it reads the
 * state: an entry that is not counted any more finds the call. */
static void queue(enum step step, uint64_t now_ns)
{
	mt_assert(atomic_load(&call.state) == CALL_NONE);
	atomic_store(&call.step, step);
	call.room_bytes = room_bytes();
	call.reading = look.readings_count;
	look.queued_ns = now_ns;
	atomic_store(&call.state, CALL_QUEUED);
	if (atomic_load(&call.entries))
		return;
	atomic_fetch_add(&call.entries, 1);
	if (mt_python_queue(pending, NULL))
		return;
	/* The queue is full. The next turn tries again. */
	atomic_store(&call.entries, 0);
	atomic_store(&call.state, CALL_NONE);
}

/* ---- the file ---- */

static void fill_head(struct mt_lines_head *head, enum mt_lines_outcome outcome)
{
	*head = (struct mt_lines_head){
		.magic = MT_LINES_MAGIC,
		.version = MT_LINES_VERSION,
		.head_bytes = sizeof(*head),
		.stack_bytes = sizeof(struct mt_lines_stack),
		.request_seq = look.request_seq,
		.outcome = outcome,
		.cut = look.cut,
		.is_own = call.is_own,
		.depth = look.depth,
		.look_ns = mt_sat_sub(look.ended_ns, look.began_ns),
		.readings_count = look.readings_count,
		.stopped_ns = look.stopped_ns,
		.longest_stop_ns = look.longest_stop_ns,
		.blocks_count = look.blocks_count,
		.tables_bytes = look.size.tables_bytes,
	};
	memcpy(head->readings_ns, look.readings_ns, sizeof(head->readings_ns));
	head->content_sum = MT_CHECKSUM_START;
	if (outcome != MT_LINES_BEGUN)
		mt_tracing_table_describe(head);
	head->checksum = mt_stats_checksum(MT_CHECKSUM_START, head,
					   offsetof(struct mt_lines_head, checksum));
}

static bool write_content(int fd, enum mt_lines_outcome outcome)
{
	struct mt_line_table_piece pieces[3] = {{NULL, 0}};
	struct mt_lines_head head;
	uint64_t offset = 0;

	if (outcome == MT_LINES_DONE)
		mt_tracing_table_pieces(pieces);
	else if (outcome != MT_LINES_BEGUN)
		mt_tracing_table_unmap();
	fill_head(&head, outcome);
	if (!mt_os_write_whole(fd, &head, sizeof(head), &offset))
		return false;
	for (int i = 0; i < 3; i++)
		if (!mt_os_write_whole(fd, pieces[i].from, pieces[i].bytes, &offset))
			return false;
	return true;
}

/* Of a look without a result only the head is written. */
static void place(enum mt_lines_outcome outcome, uint64_t now_ns)
{
	char path[PATH_BYTES];
	bool whole = false;
	int fd;

	if (mt_publish_begin_dump(path, sizeof(path)) != MT_ERR_OK)
		return;
	fd = mt_os_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0) {
		whole = write_content(fd, outcome);
		mt_os_close(fd);
	}
	if (mt_publish_end_dump(MT_DUMP_LINES, whole) == MT_ERR_OK)
		placed_ns = now_ns;
}

static void report(enum mt_lines_outcome outcome, uint64_t now_ns)
{
	place(outcome, now_ns);
	look.is_reported = true;
}

static void finish(enum mt_lines_outcome outcome, uint64_t now_ns)
{
	mt_assert(look.is_running);
	if (!look.is_reported)
		report(outcome, now_ns);
	mt_tracing_table_unmap();
	look.is_running = false;
	mt_log(MT_LOG_INFO, "the look at Python's lines has ended after %llu ms, outcome %d",
	       (unsigned long long)(mt_sat_sub(look.ended_ns, look.began_ns) / MT_NS_PER_MS),
	       (int)outcome);
}

/* ---- the course of a look ---- */

static void end_tracing(enum mt_lines_cut cut, uint64_t now_ns)
{
	if (look.ended_ns)
		return;
	if (!call.is_own)
		mt_tracing_bypass();
	look.cut = cut;
	look.ended_ns = now_ns;
	/* A check or a first reading that still waits becomes the last one. */
	atomic_store(&call.step, STEP_END);
}

static void note_reading(void)
{
	if (call.outcome != MT_LINES_DONE)
		return;
	mt_assert(look.readings_count < MT_LINES_READINGS);
	look.readings_ns[look.readings_count++] = mt_sat_sub(call.ended_ns, look.began_ns);
	look.is_costly = call.cpu_ns > LONG_READING_NS;
}

static void take_start(void)
{
	look.is_tracing = call.outcome == MT_LINES_DONE;
	look.began_ns = call.ended_ns;
	look.next_check_ns = look.began_ns + CHECK_NS;
	look.depth = call.depth;
	if (look.is_tracing && call.is_own)
		note_reading();
	if (look.is_tracing)
		place(MT_LINES_BEGUN, call.ended_ns);
	if (look.is_tracing)
		mt_log(MT_LOG_INFO, "a look at Python's lines has begun: %llu ms%s",
		       (unsigned long long)(look.span_ns / MT_NS_PER_MS),
		       call.is_own ? ", by the program's own tracemalloc" : "");
	else
		finish(call.outcome, call.ended_ns);
}

static void take_check(uint64_t now_ns)
{
	uint64_t need = call.size.blocks_count * MT_LINES_READ_BYTES;

	look.next_check_ns = now_ns + CHECK_NS;
	if (call.is_own)
		return;
	if (call.size.blocks_count > MT_LINES_BLOCKS_MAX)
		end_tracing(MT_LINES_CUT_BLOCKS, now_ns);
	else if (need > room_bytes() / 2)
		end_tracing(MT_LINES_CUT_LIMIT, now_ns);
}

/* Takes the result of a pending call that has run. */
static void take_result(uint64_t now_ns)
{
	uint64_t span_ns = mt_sat_sub(call.ended_ns, call.began_ns);

	mt_assert(atomic_load(&call.state) == CALL_DONE);
	look.stopped_ns += span_ns;
	look.longest_stop_ns = span_ns > look.longest_stop_ns ? span_ns : look.longest_stop_ns;
	look.size = call.size;
	look.blocks_count = call.blocks_count;
	atomic_store(&call.state, CALL_NONE);
	switch (call.did) {
	case STEP_START:
		take_start();
		break;
	case STEP_CHECK:
		take_check(now_ns);
		break;
	case STEP_READ:
		look.is_costly = call.outcome != MT_LINES_DONE;
		note_reading();
		break;
	case STEP_END:
		note_reading();
		finish(call.outcome, now_ns);
		break;
	case STEP_STOP:
		finish(call.outcome, now_ns);
		break;
	}
}

/* Withdraws the call unless it runs. */
static bool withdraw(void)
{
	uint32_t queued = CALL_QUEUED;

	return atomic_compare_exchange_strong(&call.state, &queued, CALL_NONE);
}

/* Makes sure that no call runs from now on. Returns false if one runs, or has run. */
static bool withdraw_or_idle(void)
{
	return withdraw() || atomic_load(&call.state) == CALL_NONE;
}

/* The call waits for the main thread. Returns when to look again. */
static uint64_t wait_for_call(uint64_t now_ns)
{
	bool waits = mt_python_breaker_set(&call.state, CALL_QUEUED) == MT_MAIN_WAITS;
	bool is_late = now_ns - look.queued_ns >= START_TIMEOUT_NS;

	if (!look.is_tracing && is_late) {
		if (withdraw())
			finish(waits ? MT_LINES_START_BLOCKED : MT_LINES_START_LATE, now_ns);
	} else if (look.ended_ns && !look.is_reported && now_ns - look.ended_ns >= END_TIMEOUT_NS &&
		   withdraw()) {
		report(waits ? MT_LINES_END_BLOCKED : MT_LINES_END_LATE, now_ns);
		queue(STEP_STOP, now_ns);
	}
	return now_ns + (is_late || (look.is_tracing && !look.ended_ns) ? LATE_STEP_NS : STEP_NS);
}

/* Returns when the next reading but the last is due; UINT64_MAX: none is left. The program's own
 * tracing was read at the beginning. */
static uint64_t next_reading_ns(void)
{
	uint32_t number = look.readings_count + !call.is_own;
	uint32_t of = MT_LINES_READINGS - call.is_own;

	if (look.is_costly || number >= of)
		return UINT64_MAX;
	return look.began_ns + look.span_ns / of * number;
}

/* Queues the call that is due, if one is. Returns when the next one is. */
static uint64_t queue_due(uint64_t now_ns)
{
	uint64_t reading_ns = next_reading_ns();

	if (!look.is_tracing)
		queue(STEP_START, now_ns);
	else if (look.ended_ns)
		queue(look.is_reported ? STEP_STOP : STEP_END, now_ns);
	else if (now_ns >= reading_ns)
		queue(STEP_READ, now_ns);
	else if (now_ns >= look.next_check_ns)
		queue(STEP_CHECK, now_ns);
	else
		return mt_min_u64(mt_min_u64(look.next_check_ns, reading_ns),
				  look.began_ns + look.span_ns);
	return now_ns + STEP_NS;
}

static void watch(uint64_t now_ns)
{
	if (!look.is_tracing && mt_tracing_has_subinterpreters() && withdraw_or_idle())
		finish(MT_LINES_SUBINTERPRETERS, now_ns);
	if (!look.is_tracing || look.ended_ns)
		return;
	if (!call.is_own && mt_tracing_has_subinterpreters())
		end_tracing(MT_LINES_CUT_SUBINTERPRETER, now_ns);
	else if (now_ns >= look.began_ns + look.span_ns)
		end_tracing(MT_LINES_CUT_NONE, now_ns);
}

static uint64_t run(uint64_t now_ns)
{
	uint32_t state = atomic_load(&call.state);

	if (state == CALL_RUNS)
		return now_ns + LATE_STEP_NS;
	if (!mt_python_is_running()) {
		(void)withdraw();
		atomic_store(&call.entries, 0);
		mt_tracing_bypass();
		look.ended_ns = look.ended_ns ? look.ended_ns : now_ns;
		finish(MT_LINES_ENDED, now_ns);
		return now_ns;
	}
	if (state == CALL_DONE)
		take_result(now_ns);
	if (!look.is_running)
		return now_ns;
	watch(now_ns);
	if (!look.is_running)
		return now_ns;
	return atomic_load(&call.state) == CALL_NONE ? queue_due(now_ns) : wait_for_call(now_ns);
}

uint64_t mt_lines_tick(uint64_t now_ns)
{
	mt_assert(mt_thread_is_ours());
	if (look.is_running)
		return run(now_ns);
	return mt_publish_expire_dump(MT_DUMP_LINES, &placed_ns, now_ns);
}

/* ---- requests ---- */

/* Returns why no look can begin, MT_LINES_DONE if one can. */
static enum mt_lines_outcome prepare(void)
{
	enum mt_lines_outcome outcome = MT_LINES_NO_PYTHON;

	if (mt_python_is_running())
		outcome = mt_tracing_find();
	if (outcome == MT_LINES_DONE && mt_tracing_has_subinterpreters())
		outcome = MT_LINES_SUBINTERPRETERS;
	if (outcome == MT_LINES_DONE && !mt_tracing_table_map())
		outcome = MT_LINES_NO_MEMORY;
	return outcome;
}

static void begin(uint64_t seq, uint64_t ms, uint64_t depth)
{
	uint64_t now_ns = mt_os_now_ns();
	enum mt_lines_outcome outcome;

	mt_publish_remove_dump(MT_DUMP_LINES);
	placed_ns = 0;
	memset(&look, 0, sizeof(look));
	look.is_running = true;
	look.request_seq = seq;
	look.span_ns = ms * MT_NS_PER_MS;
	look.depth = (uint32_t)depth;
	call.depth = (uint32_t)depth;
	call.is_own = false;
	memset(&call.size, 0, sizeof(call.size));
	call.blocks_count = 0;
	outcome = prepare();
	if (outcome != MT_LINES_DONE)
		finish(outcome, now_ns);
}

enum mt_err mt_lines_request(const struct mt_request *request)
{
	const char *space = strchr(request->value, ' ');
	uint64_t ms = mt_os_parse_number(request->value);
	uint64_t depth = space ? mt_os_parse_number(space) : 0;

	mt_assert(mt_thread_is_ours());
	if (!space)
		return MT_ERR_INVALID;
	if (!ms) {
		if (look.is_running && look.is_tracing)
			end_tracing(MT_LINES_CUT_REQUEST, mt_os_now_ns());
		return MT_ERR_OK;
	}
	if (look.is_running)
		return MT_ERR_NOT_AVAILABLE;
	if (ms > MT_LINES_MS_MAX || depth < 1 || depth > MT_LINES_DEPTH_MAX)
		return MT_ERR_RANGE;
	begin(request->seq, ms, depth);
	return MT_ERR_OK;
}

void mt_lines_fork_child(void)
{
	mt_tracing_fork_child();
	mt_tracing_table_fork_child();
	mt_store_relaxed(&call.state, CALL_NONE);
	mt_store_relaxed(&call.entries, 0);
	memset(&look, 0, sizeof(look));
	placed_ns = 0;
}
