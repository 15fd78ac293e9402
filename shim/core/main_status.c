#include "core/main_status.h"

#include <pthread.h>
#include <signal.h>

#include "core/devices.h"
#include "sys/main_thread.h"
#include "sys/os.h"
#include "sys/raw_syscall.h"

/* Source: proc(5). */
#define STATE_FIELD   3
#define THREADS_FIELD 20
#define EXIT_FIELD    52 /* in the format of wait(2) */

/* sleeps of 1 ms until the kernel marks the main thread as a zombie */
#define ZOMBIE_TRIES 1000

static bool is_zombie(const char *stat)
{
	const char *state = mt_os_procstat_at(stat, STATE_FIELD);

	return state && (*state == 'Z' || *state == 'X');
}

/* The ended main thread counts until the process is gone. Before it is a zombie its other key
 * destructors run. */
bool mt_main_status_is_last(const char *stat, uint64_t own_threads)
{
	const char *threads = mt_os_procstat_at(stat, THREADS_FIELD);
	uint64_t count = threads ? mt_os_parse_number(threads) : 0;

	return is_zombie(stat) && count > 0 && count <= 2 + own_threads;
}

/* Ends the process by a signal: a seccomp filter that kills the only thread of a process does
 * so. */
static void raise_default(int sig)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL};
	sigset_t only;

	sigemptyset(&only);
	sigaddset(&only, sig);
	(void)sigaction(sig, &plain, NULL);
	pthread_sigmask(SIG_UNBLOCK, &only, NULL);
	(void)mt_raw_syscall(SYS_tgkill, mt_os_getpid(), mt_os_gettid(), sig);
}

void mt_main_status_exit_with(void)
{
	char text[1024] = "";
	uint64_t status;

	for (int tries = 0; tries < ZOMBIE_TRIES && !is_zombie(text); tries++) {
		if (mt_os_read_file("/proc/self/stat", text, sizeof(text)) <= 0)
			return;
		mt_os_sleep_ns(MT_NS_PER_MS);
	}
	if (!mt_main_status_is_last(text, mt_devices_thread_runs()))
		return;
	status = mt_os_procstat_number(text, EXIT_FIELD);
	if (status & 0x7f)
		raise_default((int)(status & 0x7f));
	/* Newer kernels use the last thread's exit status for the process, older ones the main
	 * thread's. */
	mt_raw_syscall(SYS_exit, status >> 8 & 0xff);
}
