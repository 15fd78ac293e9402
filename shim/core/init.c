/* core/init.c -- the one file that knows everybody's order: first call, constructor, growth, fork,
 * end. */
#include "core/init.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include "heap/account.h"
#include "heap/backend.h"
#ifndef MT_NO_JEMALLOC
#include "heap/jemalloc.h"
#endif
#include "heap/purge_lock.h"
#include "sys/attr.h"
#include "core/config.h"
#include "sys/libc.h"
#include "sys/loader.h"
#include "sys/lock_check.h"
#include "core/log.h"
#include "sys/main_thread.h"
#include "sys/saturating.h"
#include "sys/os.h"
#include "sys/raw_clone.h"
#include "sys/symbol.h"
#include "compat/single_thread.h"
#include "core/api.h"
#include "compat/raw_fork.h"
#include "heap/allocation_event.h"
#include "heap/entries.h"
#include "core/exit_hooks.h"
#include "signal/signal.h"
#include "compat/thread_count.h"
#include "core/cleanup.h"
#include "core/control_file.h"
#include "python/framework.h"
#include "gpu/gpu.h"
#ifndef MT_NO_CUDA
#include "gpu/thread.h"
#endif
#include "core/main_exit.h"
#include "pressure/pressure.h"
#include "python/python.h"
#include "core/worker.h"
#include "purge/rounds.h"
#include "heap/shared_pages.h"
#include "core/thread.h"
#include "purge/tick.h"
#include "sys/rss.h"
#include "core/publish.h"

/* Which version the file is, for who does not run it: what(1), `mtctl doctor`. */
static const char what[] __attribute__((used)) = "@(#)libmtshim.so " MT_VERSION;

enum birth { BIRTH_NONE, BIRTH_STARTING, BIRTH_DONE };
static _Atomic int birth;
static bool on;
/* a vforked or bare-cloned child runs our code on the parent's memory: known by its pid */
static pid_t own_pid;
/* and has not called exec since: there is no program that this process was before */
static bool forked;

/* Address space the embedded jemalloc has mapped, and at how much of it to look at the process
 * again. Mapped bytes mislead (8 MB at birth, more per arena), so they only say when to ask the
 * kernel. Counters, no ordering. */
#define LOOK_STEP_BYTES (4 * MT_MIB)
static _Atomic uint64_t mapped_bytes;
static _Atomic uint64_t look_at_bytes;

/* ---- hooks that the backend calls from inside the allocator: only counters and flags ---- */

static void thread_born(void *counters)
{
	mt_account_thread_born(counters);
}

static void grew(size_t bytes)
{
	uint64_t mapped =
		atomic_fetch_add_explicit(&mapped_bytes, bytes, memory_order_relaxed) + bytes;

	if (mapped < atomic_load_explicit(&look_at_bytes, memory_order_relaxed))
		return;
	atomic_store_explicit(&look_at_bytes,
			      mapped +
				      (mapped / 8 > LOOK_STEP_BYTES ? mapped / 8 : LOOK_STEP_BYTES),
			      memory_order_relaxed);
#ifndef MT_NO_JEMALLOC
	mt_heap_note_growth();
#endif
}

/* A vforked child runs our code on its parent's memory, a bare clone on a copy of it: known by the
 * pid, but for one that is the first process of its namespace as its parent is of its own. */
bool mt_init_is_own_process(void)
{
	return mt_os_getpid() == own_pid && !mt_raw_clone_is_child();
}

/* ---- birth ---- */

/* the loader's; where the kernel had put argc */
extern void *__libc_stack_end __attribute__((weak));
extern __typeof__(__libc_single_threaded) __libc_single_threaded __attribute__((weak));

/* libc sets environ after a program's preinit_array, which may ask for any amount of memory: until
 * then it is where the kernel has put it, behind argc, the arguments and a NULL. NULL while the
 * bootstrap arena will do (a sanitizer's runtime may be in its own beginnings), and while the
 * loader still relocates: libc begins after that, and so can we. Source: System V ABI, initial
 * process stack; __libc_early_init of glibc 2.34. */
static char **find_environment(void)
{
	bool is_early = !environ && mt_bootstrap_is_scarce() && &__libc_single_threaded &&
			__libc_single_threaded;
	char **words;

	if (!is_early || !&__libc_stack_end || !__libc_stack_end)
		return environ;
	words = __libc_stack_end;
	return words + 1 + (uintptr_t)words[0] + 1;
}

static const char *program_name(char *out, size_t out_bytes)
{
	if (program_invocation_short_name && program_invocation_short_name[0])
		return program_invocation_short_name;
	memset(out, 0, out_bytes);
	(void)prctl(PR_GET_NAME, out); /* libc has not set the names yet */
	return out;
}

static void start_account(const struct mt_backend *backend)
{
#ifndef MT_NO_JEMALLOC
	if (backend->counting == MT_COUNTING_OWN) {
		mt_account_start(mt_jemalloc_counters, mt_main_exit_begin);
		if (mt_jemalloc_begins()) {
			mt_heap_serve_jemalloc();
			return;
		}
		backend = mt_backend_fall_back(mt_config());
	}
#endif
	if (backend->counting == MT_COUNTING_CHUNKS) {
		mt_account_start(NULL, mt_main_exit_begin);
		mt_heap_serve(mt_counted_ops());
		return;
	}
	mt_account_watch_main(mt_main_exit_begin);
	mt_heap_serve(mt_backend_is_shadowed() ? mt_heap_shadowed_ops() : mt_uncounted_ops());
}

static void fork_prepare(void);
static void fork_parent(void);
static void fork_child(void);

/* A program that a file gives privileges is entered by way of /etc/ld.so.preload alone, and whoever
 * starts it chooses its environment: our settings name files to be written. With another libc
 * nothing of ours has been tried. Of two copies of us the first serves: both would answer the same
 * signal, and write the same files. */
static bool may_serve(char **environment)
{
	char comm[32];

	if (getauxval(AT_SECURE) || !mt_libc_is_glibc())
		return false;
	mt_log_learn_stderr();
	mt_config_read((const char *const *)environment);
	return mt_program_filter_admits(mt_config(), program_name(comm, sizeof(comm))) &&
	       !mt_api_is_second();
}

static void heap_start(char **environment)
{
	static struct mt_backend_hooks hooks = {.thread_born = thread_born, .grew = grew};

	/* At the first allocation, before anybody else registers: our prepare handler then runs
	 * last, and our others first, so that nobody's handler finds the allocator locked. A
	 * constructor would be too late for that. Without them a child would wait for locks that
	 * nobody holds. */
	if (!may_serve(environment) || pthread_atfork(fork_prepare, fork_parent, fork_child) != 0) {
		mt_heap_serve(mt_system_plain_ops());
		return;
	}
	mt_thread_learn();
	hooks.shadowed = mt_heap_is_shadowed();
#ifndef MT_NO_JEMALLOC
	hooks.took = mt_allocation_event_took;
	hooks.freed_large = mt_allocation_event_freed_large;
#endif
	start_account(mt_backend_choose(mt_config(), &hooks));
	own_pid = mt_os_getpid();
	on = true;
	/* Something to look at from the first byte on. */
	if (mt_config()->min_mb == 0)
		grew(LOOK_STEP_BYTES);
}

void mt_init_start_heap(void)
{
	int expected = BIRTH_NONE;
	int kept = errno;
	char **environment;

	/* Before the settings can be read the bootstrap arena serves. */
	if (atomic_load_explicit(&birth, memory_order_acquire) != BIRTH_NONE ||
	    !(environment = find_environment()))
		return;
	if (!atomic_compare_exchange_strong_explicit(&birth, &expected, BIRTH_STARTING,
						     memory_order_acq_rel, memory_order_acquire))
		return;
	heap_start(environment);
	atomic_store_explicit(&birth, BIRTH_DONE, memory_order_release);
	errno = kept;
}

bool mt_init_has_started(void)
{
	return atomic_load_explicit(&birth, memory_order_acquire) == BIRTH_DONE;
}

bool mt_init_is_on(void)
{
	return mt_init_has_started() && on;
}

bool mt_init_uses_jemalloc(void)
{
	mt_init_start_heap();
	return mt_init_is_on() && mt_backend()->counting == MT_COUNTING_OWN;
}

/* ---- growth ---- */

static bool is_large(void)
{
	uint64_t least = mt_config()->min_mb * MT_MIB;
	struct mt_account_totals totals;
	struct mt_rss_quick rss;

	/* Live bytes too: they may not have been touched yet, and nothing may be mapped again when
	 * they are. */
	return least == 0 || (mt_rss_read_quick(&rss) && rss.anon_bytes >= least) ||
	       (mt_account_read(&totals) && totals.live_bytes >= least);
}

/* A thread of ours that does not hear of the main thread's end would keep the process alive after
 * it. */
static bool start_worker(void)
{
	return mt_account_sees_main_end() && mt_worker_start();
}

MT_COLD void mt_init_note_growth(void)
{
	if (!mt_init_is_on() || !mt_init_is_own_process())
		return;
	if (mt_worker_is_running())
		mt_worker_note_growth();
	else if (is_large())
		(void)start_worker();
}

/* ---- CUDA ---- */

#ifndef MT_NO_CUDA
static _Atomic bool cuda_runs;      /* and all its threads: nothing is left to be started */
static _Atomic bool cuda_will_stop; /* registered; a forked child inherits that too */

static void cuda_stop(void)
{
	if (mt_init_is_own_process())
		mt_gpu_stop();
}

/* Exit handlers run last in, first out: ours, of the first allocation, before those of the driver's
 * initialisation. */
static void stop_cuda_at_exit(void)
{
	if (!atomic_exchange_explicit(&cuda_will_stop, true, memory_order_relaxed))
		(void)atexit(cuda_stop);
}

/* A process that touches CUDA gets its worker however small it is. */
MT_COLD static bool cuda_start(void)
{
	int kept = errno;
	bool threads;

	mt_init_start_heap();
	if (!mt_init_is_on() || !mt_init_is_own_process() || !mt_gpu_start()) {
		errno = kept;
		return false;
	}
	/* The driver's own calls go through this thread's descriptors: it must be the program's
	 * that starts it. */
	stop_cuda_at_exit();
	threads = mt_account_sees_main_end() && mt_gpu_thread_start();
	threads = start_worker() && threads;
	atomic_store_explicit(&cuda_runs, threads, memory_order_release);
	errno = kept;
	return true;
}

bool mt_init_start_cuda(void)
{
	mt_lock_check_outside("the end of the entry before");
	return atomic_load_explicit(&cuda_runs, memory_order_acquire) || cuda_start();
}
#endif

/* ---- fork: in prepare the locks in the order of sys/lock_ranks.def, the allocator's own last ----
 */

static void fork_prepare(void)
{
	if (!mt_init_is_on())
		return;
	mt_shared_pages_note_fork();
#ifndef MT_NO_JEMALLOC
	if (mt_backend()->counting == MT_COUNTING_OWN)
		mt_jemalloc_know_thread();
#endif
	mt_publish_fork_prepare();
	mt_loader_fork_prepare();
	mt_account_fork_prepare();
#ifndef MT_NO_JEMALLOC
	mt_jemalloc_fork_prepare();
#endif
}

static void fork_parent(void)
{
	if (!mt_init_is_on())
		return;
#ifndef MT_NO_JEMALLOC
	mt_jemalloc_fork_parent();
#endif
	mt_account_fork_parent();
	mt_loader_fork_parent();
	mt_publish_fork_parent();
	mt_thread_count_forked();
	mt_shared_pages_note_fork();
	mt_lock_check_outside("the end of fork");
}

/* Everything that needed the parent's threads is forgotten; the worker starts again when the child
 * grows. */
static void fork_child(void)
{
	if (!mt_init_is_on())
		return;
#ifndef MT_NO_JEMALLOC
	mt_jemalloc_fork_child();
#endif
	mt_purge_forget();
	mt_shared_pages_note_fork();
	mt_account_fork_child();
	mt_loader_fork_child();
	mt_publish_fork_child();
	mt_raw_clone_fork_child();
	mt_control_fork_child();
	mt_cleanup_fork_child();
	mt_python_fork_child();
	mt_rounds_fork_child();
	mt_framework_fork_child();
	mt_gpu_fork_child();
	mt_pressure_fork_child();
	mt_worker_fork_child();
	mt_main_exit_fork_child();
	mt_signal_fork_child();
	mt_thread_count_forked();
	mt_lock_check_outside("the end of fork");
#ifndef MT_NO_CUDA
	atomic_store_explicit(&cuda_runs, false, memory_order_relaxed);
#endif
	own_pid = mt_os_getpid();
	mt_main_thread_fork_child(own_pid);
	forked = true;
	/* It inherits the parent's address space, but is looked at from its own first growth on. */
	mt_thread_counters.look_bytes =
		mt_config()->min_mb ? mt_thread_counters.allocated_bytes + MT_GROWTH_STEP_BYTES : 0;
	atomic_store_explicit(&look_at_bytes,
			      atomic_load_explicit(&mapped_bytes, memory_order_relaxed) +
				      LOOK_STEP_BYTES,
			      memory_order_relaxed);
	if (mt_config()->min_mb == 0)
		grew(LOOK_STEP_BYTES);
#ifndef MT_NO_JEMALLOC
	else
		mt_allocation_event_watch_child();
#endif
}

/* ---- constructor and end ---- */

static uint64_t door(void)
{
	return (uint64_t)mt_signal_door();
}

/* No allocation passes through us where malloc is somebody else's, so growth would never be seen:
 * it is now or never. A thread that could do nothing is not started: the program may be a browser,
 * whose malloc is its own and whose sandboxes refuse a process of two threads. */
static bool shadowed_has_work(void)
{
	const struct mt_config *cfg = mt_config();

	if (!mt_backend_is_shadowed())
		return false;
	return !mt_backend()->purge_impossible || cfg->min_mb == 0 || cfg->rss_limit_mb != 0 ||
	       mt_symbol(RTLD_DEFAULT, "Py_IsInitialized") != NULL;
}

/* Before other constructors where the loader lets us; the heap may have started long before. */
__attribute__((constructor(101))) static void begin(void)
{
	mt_symbol_follow();
	mt_raw_fork_start();
	mt_thread_count_start();
	mt_exit_hooks_start();
	mt_init_start_heap();
	if (!mt_init_is_on()) {
		mt_single_thread_find();
		return;
	}
	mt_account_know_main();
	mt_main_thread_know();
	mt_signal_start();
	mt_tick_use_door(door);
#ifndef MT_NO_JEMALLOC
	mt_jemalloc_prof_begin(mt_backend_identity()->conf);
#endif
	mt_log(MT_LOG_INFO, "mtshim %s: %s (%s)", MT_VERSION, mt_backend_identity()->allocator,
	       mt_backend_identity()->evidence);
	if (shadowed_has_work())
		(void)start_worker();
}

/* Whether this process, or the program that it was before its exec, may have had files. The kernel
 * keeps the highest resident size and the count of faults over an exec, and one look at both is 0.4
 * us. A child of vfork inherits its parent's size, but has not touched what it takes to be looked
 * at. Who woke without either (memory that was never touched, huge pages, CUDA) and is another
 * program now leaves its files to a sweep. A forked child has been nobody before, and asks nothing:
 * what it may ask can be little by now (a seccomp filter). Source: getrusage(2), exec_mmap in the
 * kernel. */
static bool may_have_been_awake(void)
{
	uint64_t least = mt_config()->min_mb;
	struct rusage usage;

	if (forked)
		return mt_worker_is_running();
	if (mt_worker_is_running() || !least)
		return true;
	return getrusage(RUSAGE_SELF, &usage) == 0 && (uint64_t)usage.ru_maxrss >= least * 1024 &&
	       (uint64_t)usage.ru_minflt >= LOOK_STEP_BYTES / (uint64_t)sysconf(_SC_PAGESIZE);
}

__attribute__((destructor)) static void end(void)
{
	if (!mt_init_is_on() || !mt_init_is_own_process())
		return;
	mt_python_end();
	if (mt_config()->exit_cleanup) {
		const struct mt_trim_request order = {
			.reason = MT_REASON_EXIT, .level = MT_LEVEL_LIGHT, .here = true};
		struct mt_stats_record record;

		mt_cleanup_run(&order, &record);
	}
	mt_gpu_finish_oom(true);
	mt_publish_end(mt_config(), may_have_been_awake());
}
