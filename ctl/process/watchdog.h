/* ctl/process/watchdog.h -- runs a read that another process can delay. The kernel reads cmdline,
 * environ, maps and smaps of a process under its mmap_lock, which the process can hold for minutes.
 * So a child process reads them and writes the bytes into a pipe. If no byte arrives in time,
 * SIGKILL ends the child; the kernel allows that in these waits. */
#ifndef MT_CTL_PROCESS_WATCHDOG_H
#define MT_CTL_PROCESS_WATCHDOG_H

#include <stdbool.h>
#include <stddef.h>

#define MT_WATCHDOG_WAIT_MS 200u

struct mt_watchdog {
	/* runs in the child; may allocate; writes to `to` with mt_watchdog_write */
	void (*work)(const void *argument, int to);
	const void *argument;
	size_t max_bytes; /* of the output; bytes beyond are not read */
	/* how long it may run without output */
	unsigned max_ms;
	/* how long of that it may sleep; 0: MT_WATCHDOG_WAIT_MS */
	unsigned wait_ms;
};

/* How a run has ended. */
struct mt_watchdog_end {
	/* the child was killed because it wrote nothing in time, or could not be started */
	bool is_stuck;
	unsigned waited_ms; /* the time that the child slept, sampled every 10 ms */
};

/* Runs the work and returns its output, ended by a NUL that *length does not count. The caller
 * frees. Each byte of output restarts the time limits, so work that reads from one process writes
 * at its end. Time in which the child waits for a CPU does not count as sleep. One thread may call;
 * not from the work. */
char *mt_watchdog_run(const struct mt_watchdog *watchdog, size_t *length,
		      struct mt_watchdog_end *out_end);

/* The same for work that writes a value of `bytes` bytes. Returns false, with *out unchanged, if
 * it has not written it within max_ms. */
bool mt_watchdog_value(void (*work)(const void *argument, int to), const void *argument,
		       unsigned max_ms, void *out, size_t bytes);

/* Writes all bytes, in the child; ends the child if that fails. */
void mt_watchdog_write(int to, const void *bytes, size_t count);

#endif
