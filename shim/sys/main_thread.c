#include "sys/main_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "sys/atomic.h"
#include "sys/os.h"

/* Source: proc(5). */
#define STATE_FIELD 3
#define EXIT_FIELD  52 /* in the format of wait(2) */

/* sleeps of 1 ms until the kernel marks the main thread as a zombie */
#define ZOMBIE_TRIES 1000

/* The kernel writes 0. No ordering: a reader only inspects the process afterwards. NULL:
 * unknown. */
static const _Atomic uint32_t *_Atomic word;

/* Of the thread's id from libc's thread descriptor; 0: unknown. libc registers the id for the child
 * of a fork, and until glibc 2.42 for every thread. From 2.43 on it registers the state of a join
 * for all other threads, which lies behind the id. */
static ptrdiff_t id_offset;

/* The main thread of the process that has loaded the library; 0: unknown. A child of its fork has
 * it under the same name. */
static pthread_t first;
static bool is_first = true; /* this process's main thread is that one */

static const _Atomic uint32_t *own_word(ptrdiff_t offset)
{
	return (const _Atomic uint32_t *)(const void *)((const char *)pthread_self() + offset);
}

static ptrdiff_t find_id(ptrdiff_t last_offset, uint32_t id)
{
	for (ptrdiff_t at = 0; at <= last_offset; at += (ptrdiff_t)sizeof(id))
		if (mt_load_relaxed(own_word(at)) == id)
			return at;
	return 0;
}

void mt_main_thread_init(void)
{
	int kept = errno;
	const _Atomic uint32_t *at = NULL;

	if (mt_os_gettid() == mt_os_getpid())
		first = pthread_self();
	if (first && mt_raw_syscall(SYS_prctl, PR_GET_TID_ADDRESS, &at) == 0 && at) {
		id_offset = find_id((ptrdiff_t)((uintptr_t)at - (uintptr_t)pthread_self()),
				    (uint32_t)mt_os_getpid());
		mt_store_relaxed(&word, mt_load_relaxed(at) ? at : NULL);
	}
	errno = kept;
}

void mt_main_thread_fork_child(pid_t own_pid)
{
	const _Atomic uint32_t *at = own_word(id_offset);

	is_first = is_first && (!first || pthread_equal(first, pthread_self()));
	mt_assert(own_pid == mt_os_getpid());
	/* A word that does not hold the thread's id is another one. */
	if (id_offset)
		mt_store_relaxed(&word, mt_load_relaxed(at) == (uint32_t)own_pid ? at : NULL);
}

bool mt_main_thread_is_first(void)
{
	return is_first;
}

void mt_main_thread_forget(void)
{
	mt_store_relaxed(&word, NULL);
}

bool mt_main_thread_has_ended(void)
{
	const _Atomic uint32_t *at = mt_load_relaxed(&word);

	return at && mt_load_relaxed(at) == 0;
}

/* ---- the end of the process ---- */

static bool is_zombie(const char *stat)
{
	const char *state = mt_os_procstat_at(stat, STATE_FIELD);

	return state && (*state == 'Z' || *state == 'X');
}

/* The ended main thread counts until the process is gone. Before it is a zombie its other key
 * destructors run. */
bool mt_main_thread_is_last(const char *stat, uint64_t own_threads)
{
	const char *threads = mt_os_procstat_at(stat, MT_PROCSTAT_THREADS);
	uint64_t count = threads ? mt_os_parse_number(threads) : 0;

	return is_zombie(stat) && count > 0 && count <= 2 + own_threads;
}

/* Ends the process by a signal: a seccomp filter that kills the only thread of a process does
 * so. */
static void raise_default(int sig)
{
	static const uint64_t plain[4]; /* the kernel's struct sigaction: SIG_DFL */
	sigset_t only;

	sigemptyset(&only);
	sigaddset(&only, sig);
	(void)mt_raw_syscall(SYS_rt_sigaction, sig, plain, NULL, sizeof(uint64_t));
	pthread_sigmask(SIG_UNBLOCK, &only, NULL);
	(void)mt_raw_syscall(SYS_tgkill, mt_os_getpid(), mt_os_gettid(), sig);
}

void mt_main_thread_end_process(uint64_t own_threads)
{
	char text[1024] = "";
	uint64_t status;

	for (int tries = 0; tries < ZOMBIE_TRIES && !is_zombie(text); tries++) {
		if (mt_os_read_file("/proc/self/stat", text, sizeof(text)) <= 0)
			return;
		mt_os_sleep_ns(MT_NS_PER_MS);
	}
	if (!mt_main_thread_is_last(text, own_threads))
		return;
	status = mt_os_procstat_number(text, EXIT_FIELD);
	if (status & 0x7f)
		raise_default((int)(status & 0x7f));
	/* Newer kernels use the last thread's exit status for the process, older ones the main
	 * thread's. */
	mt_raw_syscall(SYS_exit, status >> 8 & 0xff);
}

/* ---- raw clone ---- */

/* The first word of the page: not 0 in the process that marked it. release/acquire with the content
 * of the page. */
static _Atomic(_Atomic uint32_t *) mark;
/* 0: not marked; release, pairs with the readers' acquire */
static _Atomic pid_t worker;

static _Atomic uint32_t *map_mark(void)
{
	uint64_t bytes = mt_os_page_bytes();
	void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	if (mt_raw_syscall(SYS_madvise, page, bytes, MADV_WIPEONFORK) == 0)
		return page;
	(void)munmap(page, bytes);
	return NULL;
}

void mt_raw_clone_mark(void)
{
	_Atomic uint32_t *marked = mt_load_acquire(&mark);

	if (!marked)
		marked = map_mark();
	if (!marked)
		return;
	mt_store_relaxed(marked, 1);
	mt_store_release(&mark, marked);
	mt_store_release(&worker, mt_os_gettid());
}

void mt_raw_clone_fork_child(void)
{
	mt_store_relaxed(&worker, 0);
}

bool mt_raw_clone_is_child(void)
{
	const _Atomic uint32_t *marked;

	if (!mt_load_acquire(&worker))
		return false;
	marked = mt_load_acquire(&mark);
	return marked && mt_load_relaxed(marked) == 0;
}

bool mt_raw_clone_was_worker(pid_t thread)
{
	return mt_raw_clone_is_child() && thread == mt_load_relaxed(&worker);
}
