#include "python/python.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "sys/lock_check.h"
#include "sys/os.h"
#include "sys/symbol.h"
#include "core/control_file.h"
#include "core/object_heap.h"
#include "sys/lazy_symbols.h"
#include "python/gpu_caches.h"
#include "python/eval_breaker.h"
#include "core/shared_pages.h"

#define PATIENCE_NS (2 * MT_NS_PER_S)
/* who naps for less comes by its bytecodes in that time */
#define BLOCKED_NS (200 * MT_NS_PER_MS)
/* how often the main thread is looked at */
#define STEP_NS (5 * MT_NS_PER_MS)

/* What we call of CPython's C API; all but the first three may be missing. */
struct python_api {
	int (*Py_IsInitialized)(void);
	int (*Py_AddPendingCall)(int (*)(void *), void *);
	intptr_t (*PyGC_Collect)(void);
	/* 3.10 and later; older ones look by themselves */
	int (*PyGC_IsEnabled)(void);
	void *(*PyGILState_GetThisThreadState)(void);
	int (*PyGILState_Ensure)(void);
	void (*PyGILState_Release)(int);
	int (*Py_IsFinalizing)(void); /* _Py_IsFinalizing before 3.13 */
	/* _Py_GetAllocatedBlocks, _Py_GetGlobalAllocatedBlocks since 3.12 */
	intptr_t (*Py_GetAllocatedBlocks)(void);
};
static struct python_api api;
static struct mt_lazy_symbols found_api = MT_LAZY_SYMBOLS(python); /* api */

/* What was known of shared pages when a collection was asked for. */
struct fork_view {
	bool few_shared;
	uint32_t forks;
};

/* The one pending call there may be. */
enum call_state { CALL_NONE, CALL_FILLING, CALL_QUEUED, CALL_DONE };
static struct {
	_Atomic uint32_t state; /* enum call_state; release/acquire with the fields below */
	_Atomic bool abandoned; /* nobody waits for it any more */
	struct mt_python_options options;
	struct fork_view view;
	struct mt_python_outcome outcome;
} call;
static _Atomic bool ended;
static _Atomic bool owes_caches; /* a hint that the control file follows, no ordering */

static void *either(const char *name, const char *other)
{
	void *found = mt_symbol(RTLD_DEFAULT, name);

	return found ? found : mt_symbol(RTLD_DEFAULT, other);
}

/* Looked for each time until found: a program may load Python late. Under no lock that fork takes.
 */
static bool look_for_api(struct python_api *out)
{
#define FIND(name) (*(void **)(void *)&out->name = mt_symbol(RTLD_DEFAULT, #name))
	if (!FIND(Py_IsInitialized))
		return false;
	FIND(Py_AddPendingCall);
	FIND(PyGC_Collect);
	FIND(PyGC_IsEnabled);
	FIND(PyGILState_GetThisThreadState);
	FIND(PyGILState_Ensure);
	FIND(PyGILState_Release);
#undef FIND
	*(void **)(void *)&out->Py_IsFinalizing = either("Py_IsFinalizing", "_Py_IsFinalizing");
	*(void **)(void *)&out->Py_GetAllocatedBlocks =
		either("_Py_GetAllocatedBlocks", "_Py_GetGlobalAllocatedBlocks");
	return out->Py_AddPendingCall && out->PyGC_Collect;
}

static bool find_api(void)
{
	struct python_api fresh = {.Py_IsInitialized = NULL};

	if (mt_lazy_symbols_are_ready(&found_api))
		return true;
	if (!look_for_api(&fresh))
		return false;
	mt_lazy_symbols_store(&found_api, &api, &fresh, sizeof(api));
	return true;
}

bool mt_python_is_running(void)
{
	return !atomic_load_explicit(&ended, memory_order_acquire) && find_api() &&
	       api.Py_IsInitialized() && !(api.Py_IsFinalizing && api.Py_IsFinalizing());
}

/* What only Python can tell of what is left: that arenas are mostly free, or a device cache, shows
 * nowhere else. */
static void count_left(struct mt_python_outcome *out)
{
	/* With the heap for objects, what pymalloc counts are the large blocks that pass it. */
	intptr_t blocks = api.Py_GetAllocatedBlocks && !mt_object_heap_is_there()
				  ? api.Py_GetAllocatedBlocks()
				  : 0;
	struct mt_python_gpu_figures figures;

	out->figures_known = true;
	out->blocks_count = blocks > 0 ? (uint64_t)blocks : 0;
	mt_python_gpu_read(&figures);
	for (int i = 0; i < figures.count; i++) {
		out->framework_reserved_bytes += figures.devices[i].reserved_bytes;
		out->framework_allocated_bytes += figures.devices[i].allocated_bytes;
	}
}

static struct fork_view view_forks(void)
{
	/* first: a fork after it makes the view out of date */
	uint32_t forks = mt_shared_pages_forks();

	return (struct fork_view){.few_shared = mt_shared_pages_are_few(), .forks = forks};
}

/* The program may have forked since it was asked for. */
static enum mt_gc_state judge(const struct fork_view *view)
{
	if (!view->few_shared || view->forks != mt_shared_pages_forks())
		return MT_GC_SHARED;
	if (api.PyGC_IsEnabled && !api.PyGC_IsEnabled())
		return MT_GC_DISABLED;
	return mt_python_gpu_is_gc_off() ? MT_GC_DISABLED : MT_GC_DONE;
}

/* On a thread that holds the GIL. */
static void collect_now(const struct mt_python_options *options, const struct fork_view *view,
			struct mt_python_outcome *out)
{
	uint64_t began = mt_os_now_ns();
	intptr_t collected = 0;

	mt_lock_check_foreign_call("Python");
	memset(out, 0, sizeof(*out));
	out->state = judge(view);
	if (out->state == MT_GC_DONE)
		collected = api.PyGC_Collect();
	out->collected_count = collected > 0 ? (uint64_t)collected : 0;
	out->gc_ns = mt_os_now_ns() - began;
	/* After the collection: what it has freed lies in their caches now. */
	out->asked_frameworks = options->empty_frameworks;
	if (options->empty_frameworks)
		out->frameworks = mt_python_gpu_empty(options->cuda_used, &out->frameworks_left);
	if (out->frameworks_left && !options->is_retry) {
		atomic_store_explicit(&owes_caches, true, memory_order_relaxed);
		mt_control_notify(MT_CONTROL_GC);
	}
	count_left(out);
	if (options->flush_thread)
		options->flush_thread();
}

static int pending(void *unused)
{
	uint32_t queued = CALL_QUEUED;

	(void)unused;
	/* A forked child has inherited the call, but not who waits for it. */
	if (atomic_load_explicit(&call.state, memory_order_acquire) != CALL_QUEUED)
		return 0;
	collect_now(&call.options, &call.view, &call.outcome);
	/* A finalizer may have forked, and this be the child, where nobody has asked. */
	if (!atomic_compare_exchange_strong_explicit(&call.state, &queued, CALL_DONE,
						     memory_order_release, memory_order_relaxed))
		return 0;
	mt_python_wake_end();
	mt_os_futex_wake(&call.state, 1, MT_FUTEX_PRIVATE);
	mt_control_notify(MT_CONTROL_GC);
	return 0;
}

/* True when the calling thread is known to Python, and so may take the GIL like any C code of the
 * program. */
static bool collect_here(const struct mt_python_options *options, const struct fork_view *view,
			 struct mt_python_outcome *out)
{
	int gil;

	if (!api.PyGILState_GetThisThreadState || !api.PyGILState_Ensure ||
	    !api.PyGILState_Release || !api.PyGILState_GetThisThreadState())
		return false;
	gil = api.PyGILState_Ensure();
	collect_now(options, view, out);
	api.PyGILState_Release(gil);
	return true;
}

/* Why a call that is queued is not carried out. */
static enum mt_gc_state delay(enum mt_main_state main_thread)
{
	return main_thread == MT_MAIN_WAITS ? MT_GC_BLOCKED : MT_GC_LATE;
}

/* MT_GC_DONE, or why the wait was without effect: found in a system call at every look for
 * BLOCKED_NS, or whatever it does for PATIENCE_NS. */
static enum mt_gc_state wait_done(bool patient)
{
	uint64_t began = mt_os_now_ns();
	uint64_t ran_ns = began;

	for (;;) {
		uint64_t now = mt_os_now_ns();
		enum mt_main_state main_thread;

		if (atomic_load_explicit(&call.state, memory_order_acquire) == CALL_DONE)
			return MT_GC_DONE;
		main_thread = mt_python_wake(&call.state, CALL_QUEUED);
		if (main_thread != MT_MAIN_WAITS)
			ran_ns = now;
		if ((now - ran_ns >= BLOCKED_NS && !patient) || now - began >= PATIENCE_NS)
			return delay(main_thread);
		(void)mt_os_futex_wait(&call.state, CALL_QUEUED, STEP_NS, MT_FUTEX_PRIVATE);
	}
}

/* Done, and whoever waited for it had given up: it is the caller's from now on. */
static bool take_abandoned(void)
{
	return atomic_load_explicit(&call.state, memory_order_acquire) == CALL_DONE &&
	       atomic_exchange_explicit(&call.abandoned, false, memory_order_acq_rel);
}

/* The one call there may be. One that is still under way has waited already. One that came
 * late is the worker's to take; where there is no worker nobody would. */
static bool take_call(void)
{
	uint32_t none = CALL_NONE;

	if (take_abandoned())
		atomic_store_explicit(&call.state, CALL_FILLING, memory_order_relaxed);
	else if (!atomic_compare_exchange_strong_explicit(&call.state, &none, CALL_FILLING,
							  memory_order_acq_rel,
							  memory_order_relaxed))
		return false;
	return true;
}

/* Of what a forked process inherits of CUDA nothing may be used: where it does not use its own
 * there are no caches to empty. */
static bool has_work(const struct mt_python_options *options, const struct fork_view *view)
{
	return view->few_shared || (options->empty_frameworks && options->cuda_used);
}

void mt_python_collect(const struct mt_python_options *options, struct mt_python_outcome *out)
{
	struct fork_view view;

	memset(out, 0, sizeof(*out));
	if (!mt_python_is_running())
		return;
	view = view_forks();
	out->state = MT_GC_SHARED;
	if (!has_work(options, &view))
		return;
	(void)mt_python_gpu_find();
	if (options->here && collect_here(options, &view, out))
		return;
	if (!take_call()) {
		out->state = delay(mt_python_wake(&call.state, CALL_QUEUED));
		return;
	}
	out->state = MT_GC_LATE;
	atomic_store_explicit(&call.abandoned, false, memory_order_relaxed);
	call.options = *options;
	call.view = view;
	atomic_store_explicit(&call.state, CALL_QUEUED, memory_order_release);
	if (api.Py_AddPendingCall(pending, NULL) != 0) {
		atomic_store_explicit(&call.state, CALL_NONE, memory_order_release);
		return;
	}
	out->state = wait_done(options->patient);
	if (out->state == MT_GC_DONE) {
		*out = call.outcome;
		atomic_store_explicit(&call.state, CALL_NONE, memory_order_release);
	} else {
		atomic_store_explicit(&call.abandoned, true, memory_order_release);
	}
}

bool mt_python_collect_soon(void (*flush_thread)(void))
{
	const struct fork_view view = {.forks = mt_shared_pages_forks(),
				       .few_shared = mt_shared_pages_are_known_few()};

	/* is_running finds nothing new here: its table is there. */
	if (!view.few_shared || !mt_lazy_symbols_are_ready(&found_api) || !mt_python_is_running() ||
	    !take_call())
		return false;
	call.options = (struct mt_python_options){.flush_thread = flush_thread};
	call.view = view;
	atomic_store_explicit(&call.abandoned, true, memory_order_relaxed);
	atomic_store_explicit(&call.state, CALL_QUEUED, memory_order_release);
	if (api.Py_AddPendingCall(pending, NULL) == 0)
		return true;
	atomic_store_explicit(&call.abandoned, false, memory_order_relaxed);
	atomic_store_explicit(&call.state, CALL_NONE, memory_order_release);
	return false;
}

void mt_python_hurry(void)
{
	if (atomic_load_explicit(&call.state, memory_order_acquire) == CALL_QUEUED &&
	    mt_python_is_running())
		(void)mt_python_wake(&call.state, CALL_QUEUED);
}

bool mt_python_queue(int (*function)(void *), void *argument)
{
	return mt_python_is_running() && mt_python_gpu_find() &&
	       api.Py_AddPendingCall(function, argument) == 0;
}

bool mt_python_came_late(struct mt_python_outcome *out)
{
	if (!take_abandoned())
		return false;
	*out = call.outcome;
	atomic_store_explicit(&call.state, CALL_NONE, memory_order_release);
	return true;
}

bool mt_python_owes_caches(void)
{
	return atomic_load_explicit(&owes_caches, memory_order_relaxed);
}

bool mt_python_take_owed(void)
{
	return atomic_exchange_explicit(&owes_caches, false, memory_order_relaxed);
}

void mt_python_end(void)
{
	atomic_store_explicit(&ended, true, memory_order_release);
}

/* CPython empties its pending calls in the child (PyOS_AfterFork_Child), but not every version
 * does. */
void mt_python_fork_child(void)
{
	mt_python_gpu_fork_child();
	mt_python_wake_fork_child();
	mt_lazy_symbols_fork_child(&found_api);
	atomic_store_explicit(&call.state, CALL_NONE, memory_order_relaxed);
	atomic_store_explicit(&call.abandoned, false, memory_order_relaxed);
	atomic_store_explicit(&owes_caches, false, memory_order_relaxed);
}
