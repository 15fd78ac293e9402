#include "python/python.h"

#include <limits.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/cleanup.h"
#include "core/components.h"
#include "core/control_file.h"
#include "core/publish.h"
#include "core/services.h"
#include "core/thread.h"
#include "python/cpython.h"
#include "python/objects.h"
#include "python/python_internal.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/lock.h"
#include "sys/main_thread.h"
#include "sys/os.h"
#include "sys/rss.h"
#include "sys/saturating.h"

#define TIMEOUT_NS (2 * MT_NS_PER_S)
/* a thread that sleeps for less than this runs bytecode within it */
#define BLOCKED_TIMEOUT_NS (200 * MT_NS_PER_MS)
/* steps of growth by one thread beside the main one, from which on there is a thread to collect */
#define ALONE_STEPS 16
/* pause between two readings of the main thread's state */
#define STEP_NS (5 * MT_NS_PER_MS)

/* ---- the pending call ---- */

struct outcome {
	enum mt_gc_state state;
	uint64_t collected_count;
	uint64_t gc_ns;
	uint64_t wait_ns;    /* for the main thread, without gc_ns */
	uint32_t frameworks; /* whose device caches were emptied, bits of enum mt_framework_bit */
	uint32_t frameworks_skipped; /* whose caches a stream capture kept from being emptied */
	bool requested_frameworks;   /* they were to be emptied */
	bool figures_known;          /* the three fields below were read */
	/* objects in Python's own arenas; 0: unknown, or it uses malloc */
	uint64_t blocks_count;
	/* held by PyTorch's device cache, and the part in use; 0: unknown */
	uint64_t framework_reserved_bytes;
	uint64_t framework_allocated_bytes;
};

struct options {
	void (*flush_thread)(void); /* runs after the collection on the same thread; may be NULL */
	/* wait 2 s also for a main thread in a system call, as for a request without a caller */
	bool long_wait;
	/* the calling thread is one of the program: collect in it if Python knows it */
	bool here;
	/* empty the frameworks' device caches after the collection */
	bool empty_frameworks;
	bool cuda_used; /* mt_python_gpu_empty */
	/* a retry for caches that a capture kept from being emptied: no further retry follows */
	bool is_retry;
};

/* What was known of shared pages when a collection was requested. */
struct fork_state {
	bool few_shared;
	uint32_t forks;
};

/* The pending call of this module; there is one at a time. */
enum call_state { CALL_NONE, CALL_FILLING, CALL_QUEUED, CALL_RUNS, CALL_DONE };
static struct {
	_Atomic uint32_t state;     /* enum call_state; release/acquire with the fields below */
	_Atomic bool is_detached;   /* no thread waits for it */
	_Atomic bool is_in_queue;   /* of Python, which has few entries; ordered with state */
	_Atomic uint64_t queued_ns; /* CLOCK_MONOTONIC; no ordering */
	struct options options;
	struct fork_state view;
	struct outcome outcome;
} call;
static _Atomic bool ended;
static _Atomic bool needs_retry; /* a hint; a notification follows, no ordering */

bool mt_python_is_running(void)
{
	return !mt_load_acquire(&ended) && mt_cpython_find() && mt_cpython.Py_IsInitialized() &&
	       !(mt_cpython.Py_IsFinalizing && mt_cpython.Py_IsFinalizing());
}

/* Since 3.13 a pending call is for the thread that has started Python. In a child that another
 * thread has forked, Py_AddPendingCall writes to the freed state of that thread. */
static bool add_call(int (*function)(void *), void *argument)
{
	mt_assert(mt_cpython_is_found());
	if (mt_cpython.Py_Version && *mt_cpython.Py_Version >= 0x030d0000 &&
	    !mt_main_thread_is_first())
		return false;
	return mt_cpython.Py_AddPendingCall(function, argument) == 0;
}

/* Reads the figures that only Python has: objects in its own arenas, and PyTorch's device cache. */
static void read_figures(struct outcome *out)
{
	/* With the heap for objects, what pymalloc counts are the large blocks that pass it. */
	intptr_t blocks = mt_cpython.Py_GetAllocatedBlocks && !mt_object_heap_is_there()
				  ? mt_cpython.Py_GetAllocatedBlocks()
				  : 0;
	struct mt_python_gpu_figures figures;

	out->figures_known = true;
	out->blocks_count = blocks > 0 ? (uint64_t)blocks : 0;
	mt_python_gpu_read(&figures);
	mt_assert(figures.count <= MT_PYTHON_GPU_DEVICES);
	for (int i = 0; i < figures.count; i++) {
		out->framework_reserved_bytes += figures.devices[i].reserved_bytes;
		out->framework_allocated_bytes += figures.devices[i].allocated_bytes;
	}
}

static struct fork_state read_fork_state(void)
{
	/* read first: a fork after it makes the state out of date */
	uint32_t forks = mt_rss_shared_forks();

	return (struct fork_state){.few_shared = mt_rss_shared_are_few(), .forks = forks};
}

/* Returns MT_GC_DONE if a collection may run now. The program may have forked since the request. */
static enum mt_gc_state gc_state_now(const struct fork_state *view)
{
	if (!view->few_shared || view->forks != mt_rss_shared_forks())
		return MT_GC_SHARED;
	if (mt_cpython.PyGC_IsEnabled && !mt_cpython.PyGC_IsEnabled())
		return MT_GC_DISABLED;
	return mt_python_gpu_is_gc_off() ? MT_GC_DISABLED : MT_GC_DONE;
}

/* ---- the thread that collects ---- */

/* Runs the queued collection on a thread of the shim, if Python's main thread does not come to run
 * it. Owns two threads. One sleeps until it is asked: a thread of the program starts it, so it has
 * the program's descriptor table, which finalizers need. It starts the other for one collection.
 * That one takes the GIL as any C thread may, in the main interpreter. Python may end or hang it at
 * the interpreter's end, so it holds nothing else, and no thread waits for it without a limit. The
 * program's code runs on it: it counts as a thread of the program. Signals are blocked in both.
 * Takes no lock, except `python` while it looks for functions. */

#define SLEEPER_STACK_BYTES (64 * 1024)
/* finalizers run on it: as much as a thread of the program has by default */
#define STACK_BYTES (8 * MT_MIB)
#define WAIT_NS     MT_NS_PER_S

static struct mt_thread sleeper;
static struct mt_thread collector;
static _Atomic int sleeper_id; /* 0 before it runs; no ordering */

/* What the sleeper shall do; no ordering. */
enum { NOTHING, ASKED, LEAVE };
static _Atomic uint32_t asked_for;

static bool may_enter(void);
static void run_call(void);

/* 1: a collector is between may_enter and its thread state. Sequentially consistent, against the
 * state that may_enter reads. */
static _Atomic uint32_t is_entering;

/* PyGILState_Ensure would do the same, but hides the moment at which the thread state is there.
 * From then on Python knows the thread, and deals with it at its end. */
static void *enter(void)
{
	void *state = NULL;

	atomic_store(&is_entering, 1);
	if (may_enter())
		state = mt_cpython.PyThreadState_New(mt_cpython.PyInterpreterState_Main());
	atomic_store(&is_entering, 0);
	mt_os_futex_wake(&is_entering, INT_MAX, MT_FUTEX_PRIVATE);
	return state;
}

/* If the interpreter ends, PyEval_RestoreThread or the collection may end the thread or never
 * return. The thread then still counts as running: no other one follows. */
static void *collect_main(void *unused)
{
	void *state = enter();

	(void)unused;
	if (state) {
		mt_cpython.PyEval_RestoreThread(state);
		run_call();
		mt_cpython.PyThreadState_Clear(state);
		mt_cpython.PyThreadState_DeleteCurrent();
	}
	mt_thread_reset(&collector);
	return NULL;
}

static void *sleep_main(void *unused)
{
	uint32_t seen;

	(void)unused;
	mt_thread_mark_ours();
	(void)prctl(PR_SET_NAME, "mtshim-gc");
	mt_store_relaxed(&sleeper_id, mt_os_gettid());
	while ((seen = atomic_load(&asked_for)) != LEAVE) {
		mt_lock_check_wait("a request");
		if (seen == NOTHING)
			(void)mt_os_futex_wait(&asked_for, NOTHING, UINT64_MAX, MT_FUTEX_PRIVATE);
		else if (atomic_compare_exchange_strong(&asked_for, &seen, NOTHING))
			(void)mt_thread_start(&collector, collect_main, STACK_BYTES);
	}
	mt_thread_reset(&sleeper);
	return NULL;
}

/* Returns whether that thread runs. */
static bool gc_thread_runs(void)
{
	return mt_thread_is_running(&sleeper);
}

/* Starts the thread that sleeps, unless it runs. On a thread of the program, not inside the
 * allocator. */
static void gc_thread_start(void)
{
	if (gc_thread_runs() || !mt_cpython_find() || !mt_cpython.is_whole)
		return;
	atomic_store(&asked_for, NOTHING);
	(void)mt_thread_start(&sleeper, sleep_main, SLEEPER_STACK_BYTES);
}

/* Ends it, and waits up to 1 s for its end. Worker thread. */
static void gc_thread_stop(void)
{
	uint64_t until = mt_os_now_ns() + WAIT_NS;
	int id;

	if (!gc_thread_runs())
		return;
	atomic_store(&asked_for, LEAVE);
	mt_os_futex_wake(&asked_for, INT_MAX, MT_FUTEX_PRIVATE);
	/* Until the kernel lists it no more: the caller may make room for a call that needs a
	 * process of one thread. */
	while (mt_os_now_ns() < until &&
	       (gc_thread_runs() || ((id = mt_load_relaxed(&sleeper_id)) &&
				     mt_raw_syscall(SYS_tgkill, mt_os_getpid(), id, 0) == 0)))
		mt_os_sleep_ns(MT_NS_PER_MS);
}

/* Has a new thread collect once, unless one still waits for the GIL or collects. Returns false
 * if nobody can start one. Does not wait. Any thread. */
static bool gc_thread_ask(void)
{
	uint32_t nothing = NOTHING;

	if (!gc_thread_runs())
		return false;
	if (!mt_thread_is_running(&collector) &&
	    atomic_compare_exchange_strong(&asked_for, &nothing, ASKED))
		mt_os_futex_wake(&asked_for, 1, MT_FUTEX_PRIVATE);
	return true;
}

/* Waits up to 1 s while such a thread is between may_enter and its thread state. The pending call
 * of Python calls it, so that the interpreter cannot end in between: Python runs its pending calls
 * before it ends. */
static void gc_thread_let_enter(void)
{
	uint64_t until = mt_os_now_ns() + WAIT_NS;

	while (atomic_load(&is_entering) && mt_os_now_ns() < until)
		(void)mt_os_futex_wait(&is_entering, 1, MT_NS_PER_MS, MT_FUTEX_PRIVATE);
}

/* Forgets both threads in a forked child. */
static void gc_thread_fork_child(void)
{
	mt_thread_reset(&sleeper);
	mt_thread_reset(&collector);
	mt_store_relaxed(&sleeper_id, 0);
	mt_store_relaxed(&is_entering, 0);
}

/* ---- the collection ---- */

/* Runs the collection. The calling thread holds the GIL. */
static void collect_now(const struct options *options, const struct fork_state *view,
			struct outcome *out)
{
	uint64_t began = mt_os_now_ns();
	intptr_t collected = 0;

	mt_lock_check_foreign_call("Python");
	memset(out, 0, sizeof(*out));
	out->state = gc_state_now(view);
	if (out->state == MT_GC_DONE)
		collected = mt_cpython.PyGC_Collect();
	out->collected_count = collected > 0 ? (uint64_t)collected : 0;
	out->gc_ns = mt_os_now_ns() - began;
	/* After the collection: the memory that it freed is in these caches now. */
	out->requested_frameworks = options->empty_frameworks;
	if (options->empty_frameworks)
		out->frameworks =
			mt_python_gpu_empty(options->cuda_used, true, &out->frameworks_skipped);
	if (out->frameworks_skipped && !options->is_retry) {
		mt_store_relaxed(&needs_retry, true);
		mt_control_notify(MT_CONTROL_GC);
	}
	read_figures(out);
	if (options->flush_thread)
		options->flush_thread();
}

/* Runs the queued call, if there is one: on the main thread, or on a thread of the shim that waited
 * for the GIL. */
static void run_call(void)
{
	uint32_t queued = CALL_QUEUED, runs = CALL_RUNS;

	if (!atomic_compare_exchange_strong(&call.state, &queued, CALL_RUNS))
		return;
	collect_now(&call.options, &call.view, &call.outcome);
	/* A finalizer may have forked: in the child the state is reset. */
	if (!atomic_compare_exchange_strong_explicit(&call.state, &runs, CALL_DONE,
						     memory_order_release, memory_order_relaxed))
		return;
	mt_os_futex_wake(&call.state, 1, MT_FUTEX_PRIVATE);
	mt_control_notify(MT_CONTROL_GC);
}

/* The interpreter does not end before this call has returned: no other thread may then be about to
 * use it for this call. A forked child inherits the queued call; call_fork_child has reset its
 * state. */
static int pending(void *unused)
{
	(void)unused;
	atomic_store(&call.is_in_queue, false);
	run_call();
	mt_python_breaker_call_done();
	gc_thread_let_enter();
	return 0;
}

/* Asked by a thread of the shim before it uses Python: while the call is queued, pending() has not
 * run. */
static bool may_enter(void)
{
	return atomic_load(&call.state) == CALL_QUEUED && mt_python_is_running();
}

/* Collects in the calling thread. Returns false if Python does not know the thread; one that it
 * knows may take the GIL, as any C code of the program may. */
static bool collect_here(const struct options *options, const struct fork_state *view,
			 struct outcome *out)
{
	int gil;

	if (!mt_cpython.PyGILState_GetThisThreadState || !mt_cpython.PyGILState_Ensure ||
	    !mt_cpython.PyGILState_Release || !mt_cpython.PyGILState_GetThisThreadState())
		return false;
	gil = mt_cpython.PyGILState_Ensure();
	collect_now(options, view, out);
	mt_cpython.PyGILState_Release(gil);
	return true;
}

/* Returns why a queued call is not done. */
static enum mt_gc_state delay(enum mt_main_state main_thread)
{
	return main_thread == MT_MAIN_WAITS && atomic_load(&call.state) != CALL_RUNS ? MT_GC_BLOCKED
										     : MT_GC_LATE;
}

/* ---- a main thread that does not come ---- */

/* The CPU time of the main thread at the last reading, and the time since which it is the same.
 * Release/acquire. */
static _Atomic uint64_t main_cpu_ns;
static _Atomic uint64_t main_since_ns;

/* Returns for how long the main thread is known not to have run. The process's file has the figures
 * of its first thread (proc_pid_schedstat() of Linux); some kernels have no such file. */
static uint64_t main_idle_ns(uint64_t now_ns)
{
	char text[80];
	uint64_t cpu_ns = 0;

	if (mt_os_read_file("/proc/self/schedstat", text, sizeof(text)) > 0)
		cpu_ns = mt_os_parse_number(text);
	if (cpu_ns && cpu_ns == mt_load_acquire(&main_cpu_ns))
		return mt_sat_sub(now_ns, mt_load_relaxed(&main_since_ns));
	mt_store_relaxed(&main_since_ns, now_ns);
	mt_store_release(&main_cpu_ns, cpu_ns);
	return 0;
}

static bool is_overdue(uint64_t now_ns)
{
	return mt_sat_sub(now_ns, mt_load_relaxed(&call.queued_ns)) >= TIMEOUT_NS;
}

/* Has a thread of the shim run the queued call. Not if CUDA is used: each thread has a device of
 * its own, and the frameworks' calls would begin with the first one. */
static bool take_over(void)
{
	return atomic_load(&call.state) == CALL_QUEUED && !mt_devices_are_used() && gc_thread_ask();
}

/* Lets a thread of the shim run a call that has been queued for 2 s. Returns when to call again, in
 * ns of CLOCK_MONOTONIC; UINT64_MAX: at any turn. Worker thread. */
static uint64_t tick_call(uint64_t now_ns)
{
	static uint64_t read_ns;
	uint64_t due_ns = mt_load_relaxed(&call.queued_ns) + TIMEOUT_NS;

	mt_assert(mt_thread_is_ours());
	if (!gc_thread_runs())
		return UINT64_MAX;
	if (now_ns - read_ns >= MT_NS_PER_S) {
		read_ns = now_ns;
		(void)main_idle_ns(now_ns);
	}
	if (atomic_load(&call.state) != CALL_QUEUED)
		return UINT64_MAX;
	if (now_ns < due_ns)
		return due_ns;
	(void)take_over();
	return UINT64_MAX;
}

/* Waits for the call. Returns MT_GC_DONE, or why it is not done: the main thread was in a system
 * call at every reading for BLOCKED_TIMEOUT_NS, or TIMEOUT_NS have passed. */
static enum mt_gc_state wait_done(bool long_wait)
{
	uint64_t began = mt_os_now_ns();
	uint64_t ran_ns = began;
	bool is_idle = main_idle_ns(began) >= TIMEOUT_NS;
	bool is_taken = false;

	for (;;) {
		uint64_t now = mt_os_now_ns();
		uint32_t seen = mt_load_acquire(&call.state);
		enum mt_main_state main_thread;

		if (seen == CALL_DONE)
			return MT_GC_DONE;
		main_thread = mt_python_breaker_set(&call.state, CALL_QUEUED);
		if (main_thread != MT_MAIN_WAITS)
			ran_ns = now;
		is_taken = is_taken ||
			   ((is_overdue(now) || (is_idle && ran_ns == began)) && take_over());
		if ((now - ran_ns >= BLOCKED_TIMEOUT_NS && !long_wait && !is_taken &&
		     seen == CALL_QUEUED) ||
		    now - began >= TIMEOUT_NS)
			return delay(main_thread);
		(void)mt_os_futex_wait(&call.state, seen, STEP_NS, MT_FUTEX_PRIVATE);
	}
}

/* Returns whether a call is done for which no thread waits: the caller owns it from now on. */
static bool take_detached(void)
{
	return mt_load_acquire(&call.state) == CALL_DONE &&
	       atomic_exchange_explicit(&call.is_detached, false, memory_order_acq_rel);
}

/* Reserves the call. Returns false if one is under way. Also takes a late call, which stays for
 * ever in a process without a worker. */
static bool take_call(void)
{
	uint32_t none = CALL_NONE;

	if (take_detached())
		mt_store_relaxed(&call.state, CALL_FILLING);
	else if (!atomic_compare_exchange_strong_explicit(&call.state, &none, CALL_FILLING,
							  memory_order_acq_rel,
							  memory_order_relaxed))
		return false;
	mt_store_relaxed(&call.queued_ns, mt_os_now_ns());
	return true;
}

/* Reserves a call that is queued and for which no thread waits. It stays as old as it is. */
static bool retake_call(void)
{
	uint32_t queued = CALL_QUEUED;

	return mt_load_acquire(&call.is_detached) &&
	       atomic_compare_exchange_strong_explicit(&call.state, &queued, CALL_FILLING,
						       memory_order_acq_rel, memory_order_relaxed);
}

/* Queues the reserved call. Python's queue has a place for it at once, or still: the main thread
 * may not have come since the last one. Returns false if it has none. */
static bool queue_call(void)
{
	uint32_t queued = CALL_QUEUED;

	mt_assert(atomic_load(&call.state) == CALL_FILLING);
	atomic_store(&call.state, CALL_QUEUED);
	if (atomic_exchange(&call.is_in_queue, true) || add_call(pending, NULL))
		return true;
	atomic_store(&call.is_in_queue, false);
	return !atomic_compare_exchange_strong(&call.state, &queued, CALL_NONE);
}

/* Returns whether the request can have an effect. A forked child cannot use the CUDA state that it
 * inherits, so without CUDA of its own it has no caches to empty. */
static bool has_work(const struct options *options, const struct fork_state *view)
{
	return view->few_shared || (options->empty_frameworks && options->cuda_used);
}

/* Waits for the call that this thread has queued. */
static void wait_for_call(const struct options *options, struct outcome *out)
{
	uint64_t began = mt_os_now_ns();
	uint64_t waited;

	mt_lock_check_wait("a collection");
	out->state = wait_done(options->long_wait);
	waited = mt_os_now_ns() - began;
	if (out->state == MT_GC_DONE) {
		*out = call.outcome;
		out->wait_ns = mt_sat_sub(waited, out->gc_ns);
		mt_store_release(&call.state, CALL_NONE);
	} else {
		out->wait_ns = waited;
		mt_store_release(&call.is_detached, true);
	}
}

/* Queues a collection and waits until it has run, up to 2 s. Without long_wait it waits up to 0.2 s
 * while the main thread is in a system call and has run within the last 2 s. If pages are shared
 * with forked processes it only empties the frameworks' caches, if CUDA is used. Fills *out. Not
 * inside the allocator. */
static void collect(const struct options *options, struct outcome *out)
{
	struct fork_state view;
	bool empties_too = false;

	memset(out, 0, sizeof(*out));
	if (!mt_python_is_running())
		return;
	view = read_fork_state();
	out->state = MT_GC_SHARED;
	if (!has_work(options, &view))
		return;
	(void)mt_python_gpu_find();
	if (options->here && collect_here(options, &view, out))
		return;
	if (retake_call()) {
		empties_too = call.options.empty_frameworks;
	} else if (!take_call()) {
		out->state = delay(mt_python_breaker_set(&call.state, CALL_QUEUED));
		return;
	}
	out->state = MT_GC_LATE;
	mt_store_relaxed(&call.is_detached, false);
	mt_assert(mt_load_relaxed(&call.state) == CALL_FILLING);
	call.options = *options;
	call.options.empty_frameworks |= empties_too;
	call.view = view;
	if (queue_call())
		wait_for_call(options, out);
}

/* Queues a collection without waiting; mt_python_take_late returns its outcome. Near a limit malloc
 * calls it at its end. Opens no file and calls no loader. Returns false if none is queued: one
 * is under way, Python is not found yet, or pages may be shared with forked processes. */
static bool collect_soon(void (*flush_thread)(void))
{
	const struct fork_state view = {.forks = mt_rss_shared_forks(),
					.few_shared = mt_rss_shared_are_known_few()};

	/* mt_python_is_running calls no loader here, since its table is filled. */
	if (!view.few_shared || !mt_cpython_is_found() || !mt_python_is_running() || !take_call())
		return false;
	call.options = (struct options){.flush_thread = flush_thread};
	call.view = view;
	mt_store_relaxed(&call.is_detached, true);
	return queue_call();
}

/* Makes Python's main thread notice a queued collection sooner. Worker thread. */
static void expedite(void)
{
	if (mt_load_acquire(&call.state) == CALL_QUEUED && mt_python_is_running())
		(void)mt_python_breaker_set(&call.state, CALL_QUEUED);
}

bool mt_python_queue(int (*function)(void *), void *argument)
{
	return mt_python_is_running() && mt_python_gpu_find() && add_call(function, argument);
}

/* Fills *out with the outcome of a collection that ran after its cleanup had stopped waiting.
 * Returns true once for each. */
static bool take_late(struct outcome *out)
{
	if (!take_detached())
		return false;
	*out = call.outcome;
	mt_store_release(&call.state, CALL_NONE);
	return true;
}

/* The first thread that grew the heap, and by how many steps. No ordering. */
static _Atomic int first_thread_id;
static _Atomic uint32_t steps_count;

/* Each step of growth asks whether a thread for mt_python_tick shall start. Returns true if none
 * runs, and threads of Python's beside the main one have grown the heap: two of them, or one by 64
 * MB. Only in such programs collections run on any thread anyway. Calls no loader: works inside
 * malloc. */
static bool wants_thread(void)
{
	int id, none = 0;

	if (gc_thread_runs() || !mt_cpython_is_found() ||
	    !mt_cpython.PyGILState_GetThisThreadState ||
	    !mt_cpython.PyGILState_GetThisThreadState())
		return false;
	id = mt_os_gettid(); /* system calls: only in a thread of Python's */
	if (id == mt_os_getpid())
		return false;
	if (atomic_compare_exchange_strong(&first_thread_id, &none, id))
		return false;
	return none != id || atomic_fetch_add(&steps_count, 1) >= ALONE_STEPS;
}

static void prepare(void)
{
	(void)mt_cpython_find();
}

static void stop(void)
{
	mt_store_release(&ended, true);
}

/* Not every version of CPython empties its pending calls in the child (PyOS_AfterFork_Child). */
static void call_fork_child(void)
{
	gc_thread_fork_child();
	mt_cpython_fork_child();
	mt_store_relaxed(&call.state, CALL_NONE);
	mt_store_relaxed(&call.is_detached, false);
	mt_store_relaxed(&call.is_in_queue, false);
	mt_store_relaxed(&first_thread_id, 0);
	mt_store_relaxed(&steps_count, 0);
	mt_store_relaxed(&needs_retry, false);
}

/* ---- the component ---- */

/* Collections in cleanups, collections that run after their cleanup, the caches of GPU frameworks,
 * and looks at allocating lines. */

/* pause between two checks for the end of a stream capture */
#define RETRY_STEP_NS (250 * MT_NS_PER_MS)

/* the outcome of a collection whose own cleanup runs now; worker thread */
static struct outcome late;

static void publish_figures(const struct outcome *outcome)
{
	struct mt_stats_snapshot *figures = mt_publish_lock();

	figures->python_blocks_count = outcome->blocks_count;
	figures->framework_reserved_bytes = outcome->framework_reserved_bytes;
	figures->framework_allocated_bytes = outcome->framework_allocated_bytes;
	mt_publish_unlock();
}

static void fill_stats(const struct outcome *outcome, struct mt_stats_cleanup *stats)
{
	if (outcome->figures_known)
		publish_figures(outcome);
	stats->frameworks = outcome->frameworks;
	stats->gc_state = outcome->state;
	stats->gc_ns = outcome->gc_ns;
	stats->gc_wait_ns = outcome->wait_ns;
	stats->gc_collected_count = outcome->collected_count;
}

/* Holds no lock: a finalizer may call mt_trim. */
static void trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup)
{
	const struct options options = {
		.flush_thread = cleanup->flush_thread,
		.long_wait =
			request->reason == MT_REASON_ROUND || request->reason == MT_REASON_SIGNAL,
		.here = request->here,
		.empty_frameworks = request->level == MT_LEVEL_HEAVY,
		.cuda_used = mt_devices_are_used(),
		.is_retry = request->is_retry,
	};
	struct mt_stats_cleanup *stats = &cleanup->stats;
	struct outcome outcome;

	if (request->reason == MT_REASON_LATE_GC)
		fill_stats(&late, stats);
	if (cleanup->skips_for_ranks || request->level < MT_LEVEL_LIGHT)
		return;
	collect(&options, &outcome);
	fill_stats(&outcome, stats);
	cleanup->caches_skipped = outcome.frameworks_skipped != 0;
}

/* Runs a cleanup after a late collection. The device memory that the collection freed is in caches,
 * which were empty when the first cleanup flushed them. */
static void clean_after_late_call(void)
{
	struct mt_trim_request request = {.reason = MT_REASON_LATE_GC, .level = MT_LEVEL_PURGE};

	if (!take_late(&late))
		return;
	request.flush_gpu = late.requested_frameworks;
	mt_cleanup_run_requested(&request);
}

/* Empties the caches that a capture kept from being emptied. Tries once: if captures follow one
 * another, every try may meet one. */
static void retry_caches(void)
{
	const struct mt_trim_request request = {
		.reason = MT_REASON_CAPTURE, .level = MT_LEVEL_HEAVY, .is_retry = true};

	if (!mt_devices_are_capturing() && mt_exchange_relaxed(&needs_retry, false))
		mt_cleanup_run_requested(&request);
}

static uint64_t tick(uint64_t now_ns, uint32_t bits)
{
	uint64_t next_ns;

	(void)bits;
	clean_after_late_call();
	retry_caches();
	next_ns = mt_min_u64(mt_framework_tick(now_ns), mt_lines_tick(now_ns));
	next_ns = mt_min_u64(next_ns, tick_call(now_ns));
	if (mt_load_relaxed(&needs_retry) && now_ns + RETRY_STEP_NS < next_ns)
		next_ns = now_ns + RETRY_STEP_NS;
	return next_ns;
}

/* If there is no such heap, both are 0. */
static void publish(bool all)
{
	struct mt_object_heap_figures objects;
	struct mt_stats_snapshot *to;

	if (!all)
		return;
	mt_object_heap_read(&objects, true);
	to = mt_publish_lock();
	to->python_live_bytes = objects.live_bytes;
	to->python_free_bytes = objects.dirty_bytes;
	mt_publish_unlock();
}

static bool request(const struct mt_request *wanted, enum mt_err *out)
{
	if (wanted->kind != MT_REQUEST_LINES)
		return false;
	*out = mt_lines_request(wanted);
	return true;
}

static void load(bool on)
{
	static const struct mt_interpreter_ops ops = {
		.is_running = mt_python_is_running,
		.thread_runs = gc_thread_runs,
		.wants_thread = wants_thread,
		.start_thread = gc_thread_start,
		.collect_soon = collect_soon,
		.expedite = expedite,
		.framework_idle_bytes = mt_framework_idle_bytes,
		.empty_caches = mt_framework_empty,
		.emptied = mt_framework_emptied,
		.prepare_lines = mt_frames_prepare,
		.lines = mt_frames_lines,
		.write_lines = mt_frames_write,
		.line_text = mt_frames_line_text,
	};

	if (on)
		mt_services_set_interpreter(&ops);
}

static void fork_child(void)
{
	call_fork_child();
	mt_framework_fork_child();
	mt_lines_fork_child();
	mt_frames_fork_child();
	mt_objects_fork_child();
}

const struct mt_component mt_python_component = {
	.name = "python",
	.serve = load,
	.load = mt_python_find_getenv,
	.before_start = prepare,
	.finish = gc_thread_stop,
	.fork_child = fork_child,
	.tick = tick,
	.request = request,
	.trim = trim,
	.publish = publish,
	.stop = stop,
};
