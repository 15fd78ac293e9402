/* stopped_thread.h -- stops a thread inside a library, as it stands there, for a test that forks
 * meanwhile: a lock of the shim is held in few of a thread's instructions, but in many of those
 * that are the shim's own. A stopped thread goes on after 10 ms in any case, so that a fork handler
 * which waits for its lock is not held up for longer. */
#ifndef MT_TEST_STOPPED_THREAD_H
#define MT_TEST_STOPPED_THREAD_H

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#define STOP_SIGNAL SIGUSR2
#define STOP_TRIES  2000

enum { STOP_ASKED, STOP_INSIDE, STOP_OUTSIDE, STOP_OVER };
static atomic_int stop_state;
static uintptr_t stop_begin, stop_end; /* the library's code */
static bool stop_skips_calls;          /* not in its system calls, over which few locks are held */

static int stop_find_library(struct dl_phdr_info *info, size_t bytes, void *name)
{
	(void)bytes;
	if (!strstr(info->dlpi_name, name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X))
			continue;
		stop_begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		stop_end = stop_begin + info->dlpi_phdr[i].p_memsz;
	}
	return 1;
}

static bool stop_is_inside(const ucontext_t *context)
{
#ifdef __aarch64__
	const uint32_t *at = (const uint32_t *)(uintptr_t)context->uc_mcontext.pc;
	bool is_call;

	if ((uintptr_t)at < stop_begin || (uintptr_t)at >= stop_end)
		return false;
	is_call = at[-1] == 0xd4000001; /* svc */
#else
	const unsigned char *at =
		(const unsigned char *)(uintptr_t)context->uc_mcontext.gregs[REG_RIP];
	bool is_call;

	if ((uintptr_t)at < stop_begin || (uintptr_t)at >= stop_end)
		return false;
	is_call = at[-2] == 0x0f && at[-1] == 0x05; /* syscall */
#endif
	return !is_call || !stop_skips_calls;
}

static void stop_here(int sig, siginfo_t *info, void *context)
{
	const struct timespec step = {.tv_nsec = 100000};
	int kept = errno, asked = STOP_ASKED;

	(void)sig;
	(void)info;
	(void)atomic_compare_exchange_strong(&stop_state, &asked,
					     stop_is_inside(context) ? STOP_INSIDE : STOP_OUTSIDE);
	for (int i = 0; i < 100 && atomic_load(&stop_state) == STOP_INSIDE; i++)
		nanosleep(&step, NULL);
	errno = kept;
}

/* Once, before the others. library: a part of its path. Returns false if it is not loaded. */
static bool stop_prepare(const char *library)
{
	struct sigaction action = {.sa_sigaction = stop_here, .sa_flags = SA_SIGINFO | SA_RESTART};

	(void)dl_iterate_phdr(stop_find_library, (void *)(uintptr_t)library);
	return stop_end > stop_begin && sigaction(STOP_SIGNAL, &action, NULL) == 0;
}

/* Stops the thread; go_on must follow. Returns without having stopped it if it ends, or was outside
 * each time. */
static void stop_inside(pthread_t thread)
{
	const struct timespec step = {.tv_nsec = 1000};

	for (int i = 0; i < STOP_TRIES && atomic_load(&stop_state) != STOP_INSIDE; i++) {
		atomic_store(&stop_state, STOP_ASKED);
		if (pthread_kill(thread, STOP_SIGNAL) != 0)
			return;
		for (int j = 0; j < STOP_TRIES && atomic_load(&stop_state) == STOP_ASKED; j++)
			nanosleep(&step, NULL);
		if (atomic_load(&stop_state) == STOP_ASKED)
			return;
	}
}

static void go_on(void)
{
	atomic_store(&stop_state, STOP_OVER);
}

#endif
