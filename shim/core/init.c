/* core/init.c -- first call, constructor, fork and end of the shim in a process, and the table of
 * its components, in order. */
#include "core/init.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/components.h"
#include "core/config.h"
#include "core/control_file.h"
#include "core/files.h"
#include "core/last_file.h"
#include "core/log.h"
#include "core/publish.h"
#include "core/state.h"
#include "core/thread.h"
#include "core/worker.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/libc.h"
#include "sys/loader.h"
#include "sys/lock.h"
#include "sys/main_thread.h"
#include "sys/os.h"

/* a process that touches less memory does not start its worker */
#define WORKER_BYTES (4 * MT_MIB)

/* libc's lock of its list of streams: exported for ever, in no header. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));

/* The version of the file, for what(1) and mtctl, which do not run it. A note (elf(5)), since the
 * linker puts those at the start of the file: mtctl knows the library by it, whatever its name. */
static const struct {
	uint32_t name_bytes, text_bytes, type;
	char name[8], text[64];
} version_note __attribute__((used, section(".note.mtshim"), aligned(4))) = {
	sizeof("mtshim"), 64, 1, "mtshim", "@(#)libmtshim.so " MT_VERSION};

/* This process was forked and has not called exec since: no earlier program made files. */
static bool is_forked_child;
static _Atomic bool has_children; /* flag, no ordering */

/* ---- the first call ---- */

static const char *program_name(char *out, size_t out_bytes)
{
	if (program_invocation_short_name && program_invocation_short_name[0])
		return program_invocation_short_name;
	memset(out, 0, out_bytes);
	(void)prctl(PR_GET_NAME, out); /* libc has not set the name yet */
	return out;
}

/* The address of this library's exported function, even if another library interposes its name;
 * from purge/api.c. */
extern const char own_allocator_type[] __attribute__((visibility("hidden")));

/* Returns whether another copy of this library was loaded before. */
static bool is_second_copy(void)
{
	const void *first = mt_loader_symbol(RTLD_DEFAULT, "mt_allocator_type");

	return first && first != (const void *)own_allocator_type;
}

/* Returns whether the shim works in this process. Not in a setuid program, which loads it through
 * /etc/ld.so.preload: its user controls the environment, and settings name files to write. Not on
 * another libc than glibc. Of two copies of the library the first one works: both would serve one
 * signal and write the same files. */
static bool should_work(void)
{
	char comm[32];

	if (getauxval(AT_SECURE))
		return false;
	mt_log_init_stderr();
	mt_config_read((const char *const *)environ);
	if (!mt_config_admits(mt_config(), program_name(comm, sizeof(comm))))
		return false;
	if (!mt_libc_is_glibc()) {
		mt_log(MT_LOG_INFO,
		       "mtshim %s does nothing here: the libc of this program is not glibc",
		       MT_VERSION);
		return false;
	}
	return !is_second_copy();
}

/* The fork of this thread: whether the shim worked when it began, since the process may start
 * meanwhile; its signal mask before, and whether it holds libc's list of streams. */
static MT_TLS bool is_on_in_fork;
static MT_TLS uint64_t signals_before;
static MT_TLS bool holds_streams;

/* A handler that interrupts this part and forks would find locks that its own thread holds. libc
 * takes its list of streams before the locks of malloc, since a stream may allocate while the list
 * is locked: so do we. In a process of one thread libc leaves it out. */
static void prepare(void)
{
	is_on_in_fork = mt_state_is_on();
	if (!is_on_in_fork)
		return;
	signals_before = mt_os_block_signals();
	mt_assert(!holds_streams); /* no signal handler forks in between */
	mt_lock_check_enter(MT_RANK_fork);
	mt_libc_count_all_threads();
	holds_streams = &_IO_list_lock && !mt_libc_forks_alone();
	if (holds_streams)
		_IO_list_lock();
	mt_components_fork_prepare();
}

static void parent(void)
{
	mt_assert(mt_state_is_on() || !is_on_in_fork); /* on stays on */
	if (!is_on_in_fork)
		return;
	mt_components_fork_parent();
	if (holds_streams)
		_IO_list_unlock();
	holds_streams = false;
	mt_lock_check_leave(MT_RANK_fork);
	mt_os_restore_signals(signals_before);
}

static void child(void)
{
	mt_assert(mt_state_is_on() || !is_on_in_fork);
	if (!is_on_in_fork)
		return;
	mt_libc_fork_alone_child();
	mt_components_fork_child();
	if (holds_streams)
		_IO_list_resetlock();
	holds_streams = false;
	mt_lock_check_leave(MT_RANK_fork);
	mt_os_restore_signals(signals_before);
}

/* Returns whether the shim works in this process. */
static bool start_heap(void)
{
	/* Registered at the first allocation, before any other library: the prepare handler then
	 * runs last and the others first, so no handler finds the allocator locked. The constructor
	 * would be too late. Without the handlers a child would wait for locks that no thread
	 * holds. */
	if (!should_work() || pthread_atfork(prepare, parent, child) != 0) {
		mt_components_serve(false);
		return false;
	}
	mt_thread_init();
	mt_state_note_process();
	mt_components_serve(true);
	return true;
}

void mt_init_start_heap(void)
{
	int kept = errno;

	/* libc's malloc serves until the settings can be read: libc sets environ after the
	 * program's preinit_array. */
	if (mt_state_has_begun() || !environ || !mt_state_begin())
		return;
	mt_loader_bind_to_libc();
	mt_state_finish(start_heap());
	errno = kept;
}

bool mt_init_uses_jemalloc(void)
{
	mt_init_start_heap();
	return mt_state_is_jemalloc();
}

bool mt_init_start_worker(void)
{
	return mt_worker_is_main_watched() && mt_worker_start();
}

/* ---- exit without handlers ---- */

/* Wraps _exit, _Exit and quick_exit, which skip the destructor, to unlink the files first. Every
 * worker process of Python's multiprocessing ends so. A process that ends by a signal or a bare
 * system call leaves its files to a sweep (core/files.h). _exit is called in signal handlers and in
 * vfork children, which run on the parent's memory. So the wrappers are async-signal-safe, take no
 * lock, and do nothing in a process that did not make the files. */

#define EXITS(X) X(_exit) X(_Exit) X(quick_exit)

#define X(name) MT_EXPORT _Noreturn void name(int status);
EXITS(X)
#undef X

#define X(name) END_##name,
enum exit_function { EXITS(X) EXIT_COUNT };
#undef X

#define X(name) #name,
static const char *const names[EXIT_COUNT] = {EXITS(X)};
#undef X

typedef void (*exit_fn)(int status);

/* Looked up once: dlsym must not be called in a signal handler, nor in a child of a process with a
 * thread inside the loader. No ordering. */
static _Atomic(exit_fn) next_exits[EXIT_COUNT];

static void find_next_exits(void)
{
	for (int i = 0; i < EXIT_COUNT; i++)
		mt_store_relaxed(&next_exits[i],
				 (exit_fn)(uintptr_t)mt_loader_symbol(RTLD_NEXT, names[i]));
}

static bool has_files(void)
{
	return mt_files_exist() || mt_worker_is_running();
}

static _Noreturn void exit_by(enum exit_function exit_function, int status)
{
	exit_fn next = mt_load_relaxed(&next_exits[exit_function]);

	/* getpid last: a small process in a sandbox has no files, and may not call it */
	if (mt_state_is_on() && has_files() && mt_state_is_own_process()) {
		mt_files_unlink_at_exit();
		mt_last_file_remove();
	}
	if (!next)
		next = (exit_fn)(uintptr_t)mt_loader_libc_function(names[exit_function]);
	if (next) /* libc has all three */
		next(status);
	__builtin_trap();
}

#define X(name)                                                                                    \
	MT_EXPORT _Noreturn void name(int status)                                                  \
	{                                                                                          \
		exit_by(END_##name, status);                                                       \
	}
EXITS(X)
#undef X

/* ---- core's own fork handlers: the locks publish and loader ---- */

static void fork_prepare(void)
{
	mt_publish_fork_prepare();
	mt_loader_fork_prepare();
}

static void fork_parent(void)
{
	mt_loader_fork_parent();
	mt_publish_fork_parent();
	mt_store_relaxed(&has_children, true);
}

/* Resets all state about the parent's threads. The worker starts again when the child grows. */
static void fork_child(void)
{
	mt_loader_fork_child();
	mt_publish_fork_child();
	mt_raw_clone_fork_child();
	mt_control_fork_child();
	mt_cleanup_fork_child();
	mt_worker_fork_child();
	mt_state_note_process();
	mt_main_thread_fork_child(mt_os_getpid());
	is_forked_child = true;
	mt_store_relaxed(&has_children, false);
}

static void load(bool is_on)
{
	find_next_exits();
	if (is_on)
		mt_main_thread_init();
}

const struct mt_component mt_core_component = {
	.name = "core",
	.load = load,
	.fork_prepare = fork_prepare,
	.fork_parent = fork_parent,
	.fork_child = fork_child,
};

/* ---- the table of components ---- */

extern const struct mt_component mt_compat_component;
extern const struct mt_component mt_gpu_component;
extern const struct mt_component mt_heap_component;
extern const struct mt_component mt_pressure_component;
extern const struct mt_component mt_purge_component;
extern const struct mt_component mt_python_component;
extern const struct mt_component mt_signal_component;

/* Python first: its frameworks return device memory to the pool, and its collection frees heap
 * memory. Pressure before purge: near a limit it decides first. The heap last: it takes the
 * allocator's locks in fork, and purges what the others have freed. */
const struct mt_component *const mt_component_table[] = {
	&mt_python_component,
#ifndef MT_NO_CUDA
	&mt_gpu_component,
#endif
	&mt_signal_component,
	&mt_pressure_component,
	&mt_purge_component,
	&mt_compat_component,
	&mt_core_component,
	&mt_heap_component,
	NULL,
};

/* ---- constructor and end ---- */

/* Priority 101: before other constructors if the loader allows it. The heap may have started
 * long before. */
__attribute__((constructor(101))) static void begin(void)
{
	mt_loader_use_next_dlsym();
	mt_init_start_heap();
	mt_components_load(mt_state_is_on());
}

/* Returns whether this process, or the program before its exec, may own files. The kernel keeps
 * peak resident size and fault count over an exec, and reading them is cheap. A vfork child
 * inherits the peak but has few faults. A process that started its worker without either (untouched
 * memory, huge pages, CUDA) and then called exec leaves its files to a sweep. Source:
 * getrusage(2), exec_mmap of the kernel. */
static bool may_own_files(void)
{
	uint64_t least = mt_config()->min_mb;
	struct rusage usage;

	if (is_forked_child)
		return has_files();
	if (mt_worker_is_running() || !least)
		return true;
	return getrusage(RUSAGE_SELF, &usage) == 0 && (uint64_t)usage.ru_maxrss >= least * 1024 &&
	       (uint64_t)usage.ru_minflt >= WORKER_BYTES / (uint64_t)sysconf(_SC_PAGESIZE);
}

__attribute__((destructor)) static void end(void)
{
	/* A forked child without files makes no system call here: a sandbox may forbid it. */
	if (!mt_state_is_on() || ((has_files() || !is_forked_child) && !mt_state_is_own_process()))
		return;
	mt_components_stop();
	if (mt_worker_is_running())
		mt_files_sweep_at_end(mt_load_relaxed(&has_children));
	mt_last_file_remove();
	mt_publish_end(mt_config(), may_own_files());
}
