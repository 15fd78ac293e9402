/* ctl/process/watchdog.h -- reads what may keep a reader waiting for as long as somebody likes. The
 * kernel reads cmdline, environ, maps and smaps of a process under its mmap_lock, which the process
 * can hold for minutes. So a child process of ours reads them, and writes what it has read into a
 * pipe; where nothing comes, SIGKILL ends the child: the kernel lets a reader be killed in these
 * waits. */
#ifndef MT_CTL_PROCESS_WATCHDOG_H
#define MT_CTL_PROCESS_WATCHDOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_WATCHDOG_WAIT_MS 200u

struct mt_watchdog {
	void (*work)(const void *argument,
		     /* in the child; may allocate; writes to `to` with mt_watchdog_write */
		     int to);
	const void *argument;
	size_t max_bytes; /* of what it writes; what follows is not read */
	/* for how long it may compute without writing; it may wait for MT_WATCHDOG_WAIT_MS */
	unsigned max_ms;
};

/* What a run has told. */
struct mt_watchdog_end {
	/* the child was ended because it wrote nothing for too long, or there could be no child */
	bool is_stuck;
	unsigned
		/* for how long the child slept, all waits together; sampled every 10 ms */
		waited_ms;
};

/* Runs the work, and returns what it has written, ended by a NUL that *length does not count; the
 * caller frees. Each byte that comes gives the child its time again: work that reads from one
 * process writes at its end. Time that the child waits for a CPU does not count as waiting. One
 * thread may call; not from the work. */
char *mt_watchdog_run(const struct mt_watchdog *watchdog, size_t *length,
		      struct mt_watchdog_end *out_end);

/* In the child: all of it, or the child ends. */
void mt_watchdog_write(int to, const void *bytes, size_t count);

#endif
