/* ctl/process/remote_python.h -- has a process without the shim run a script of mtctl's:
 * sys.remote_exec() of CPython 3.14 (PEP 768). An interpreter of the same version calls it, as a
 * child of mtctl that runs remote_python.py. The kernel checks as for ptrace(2) whether it may.
 * The main thread of the process runs the script between two bytecodes; nothing is stopped by a
 * signal. One thread may call. */
#ifndef MT_CTL_PROCESS_REMOTE_PYTHON_H
#define MT_CTL_PROCESS_REMOTE_PYTHON_H

#include <limits.h>
#include <signal.h>

#include "ctl/output/error.h"
#include "ctl/process/process.h"

struct mt_remote_python {
	const struct mt_process *process;
	char interpreter[PATH_MAX]; /* that runs the script of mtctl */
};

/* Finds out whether it can be done, without touching the process. The interpreter is that of the
 * process if it runs as the caller, else python3.N in PATH. Returns MT_ERR_NOT_AVAILABLE with
 * the reason: no Python, older than 3.14, PYTHON_DISABLE_REMOTE_DEBUG, another file system
 * (container), no such interpreter. */
enum mt_err mt_remote_python_find(const struct mt_process *process, struct mt_remote_python *out,
				  struct mt_error_reason *why);

/* A full collection of Python's gc. */
struct mt_remote_collection {
	uint64_t objects_count, took_ns;
	uint64_t rss_before_bytes, rss_after_bytes;
};

/* Runs the collection, and waits for its end. Returns MT_ERR_TIMEOUT if the main thread does not
 * run Python, MT_ERR_FOREIGN if the kernel forbids it, MT_ERR_NOT_AVAILABLE if Python does,
 * MT_ERR_UNKNOWN if the process has ended. */
enum mt_err mt_remote_python_collect(const struct mt_remote_python *remote,
				     struct mt_remote_collection *out, struct mt_error_reason *why);

/* A look with tracemalloc (ctl/profile/lines.h). The process stops it by itself at its next
 * collection if the child is killed. */
struct mt_remote_lines {
	uint64_t for_ms;
	uint32_t depth;
	uint32_t blocks_max;
	const volatile sig_atomic_t *stop; /* not 0: end it now; NULL: never */
	void (*begun)(void *argument, bool is_own);
	void *argument;
};

/* Writes the file of lines to *out_fd, from its start; the caller closes it. Returns the errors of
 * mt_remote_python_collect. */
enum mt_err mt_remote_python_lines(const struct mt_remote_python *remote,
				   const struct mt_remote_lines *options, int *out_fd,
				   struct mt_error_reason *why);

#endif
