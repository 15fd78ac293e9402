/* ctl/process/process.h -- processes, from /proc, and which of them carry the shim: those with an
 * executable mapping of the library (mt_library_is_at). Never sends a signal. What /proc says may
 * be out of date when it is used: a caller that waits for a process calls mt_process_is_alive
 * again. One thread may call. */
#ifndef MT_CTL_PROCESS_PROCESS_H
#define MT_CTL_PROCESS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "ctl/output/error.h"

#define MT_SHIM_NAME "libmtshim.so"

#define MT_STOPPED "stopped (by a signal or a debugger)"

struct mt_process {
	pid_t pid; /* as mtctl sees it; first, for mt_process_compare_pids */
	pid_t parent;
	pid_t own_pid;        /* as it sees itself in its own pid namespace */
	uid_t uid;            /* effective */
	uint64_t start_ticks; /* since boot: tells a reused pid from the first */
	uint64_t pidns;       /* inode of its pid namespace; 0: not readable */
	uint64_t rss_bytes;
	/* address of the stack, which the kernel chooses at random in each exec. With start_ticks
	 * it tells the program from one that the process ran before. 0: not readable */
	uint64_t stack_start;
	bool is_kernel;  /* a kernel thread */
	bool is_fork;    /* forked, and runs its parent's program */
	bool is_stopped; /* as MT_STOPPED says */
	bool shimmed;    /* false for a program of musl, if the library does nothing */
	char comm[32];
	char command[160]; /* its command line, cut and cleaned; comm if it has none */
	/* the file of the library that it runs was replaced or removed */
	bool library_deleted;
	uint64_t library_start; /* of its mapping; 0: its maps were not read */
};

/* Compares what begins with a pid (pids, processes, entries of lists), for qsort(3), bsearch(3). */
int mt_process_compare_pids(const void *a, const void *b);

/* Reads a pid from the command line. Returns MT_ERR_INVALID for a text that is none. */
enum mt_err mt_process_parse_pid(const char *text, pid_t *out);

/* Prints "mtctl: process 12 (comm): text" on stderr. */
void mt_process_say(const struct mt_process *process, const char *text);

/* Finds a process by its pid, or by the id of one of its threads. Returns MT_ERR_UNKNOWN if
 * there is no such process, MT_ERR_FOREIGN if its maps may not be read, and MT_ERR_TIMEOUT if
 * a read of its maps does not return in time. */
enum mt_err mt_process_find(pid_t pid, struct mt_process *out, struct mt_error_reason *why);

/* The same, which waits no longer for its maps than a list does: for one of many that are watched.
 */
enum mt_err mt_process_find_soon(pid_t pid, struct mt_process *out, struct mt_error_reason *why);

/* Prints why a process without the shim is none for a command: what stands in the way of the shim,
 * else how to start the program under it. Returns MT_EXIT_NOT_SHIMMED. */
enum mt_exit mt_process_refuse_bare(const struct mt_process *process);

/* Lists every process, sorted by pid. Returns how many; the caller frees *out. Only processes of
 * the calling user (root: of every user) can be `shimmed`. */
size_t mt_process_read_all(struct mt_process **out);

/* mt_process_read_all from /proc/PID/stat alone, a read that no process can delay: a fifth of the
 * work. `command` is comm, no process is `shimmed`, own_pid and pidns are not known.
 * ctl/process/process_probe.h reads these, of processes for which mt_process_may_probe is true. */
size_t mt_process_scan(struct mt_process **out);
bool mt_process_may_probe(const struct mt_process *process);

/* Returns whether this very process still runs: false for a zombie, and for another process with
 * its pid. */
bool mt_process_is_alive(const struct mt_process *process);

/* Returns the seconds since the start of the process. */
double mt_process_age_s(const struct mt_process *process);

/* Returns whether the process still runs the program with this stack address, without an exec
 * since. Also true if that cannot be told. */
bool mt_process_runs(pid_t pid, uint64_t stack_start);

/* Returns the inode of the pid namespace of mtctl, 0 if /proc belongs to another one: then no
 * pid in a file name can be compared. */
uint64_t mt_process_own_pidns(void);

/* Writes a variable of the initial environment of the process to *out. Returns false if it is
 * not set or not readable. */
bool mt_process_environ(pid_t pid, const char *name, char *out, size_t out_bytes);

#define MT_PROCESS_MEMORY_MAX ((size_t)8 << 20)
/* Reads a file of /proc/PID that shows the memory of the process, and whose length is up to the
 * process: "environ", "cmdline". Reads the first MT_PROCESS_MEMORY_MAX bytes, more than an exec
 * accepts (6 MB; execve(2)). Returns NULL with errno; ETIMEDOUT if the read does not return
 * within 200 ms (ctl/process/watchdog.h). The caller frees. */
char *mt_process_read_memory(pid_t pid, const char *file, size_t *length);

/* Finds a variable in a list of entries that each end with a NUL. */
bool mt_process_find_variable(const char *list, size_t length, const char *name, char *out,
			      size_t out_bytes);

/* Reads /proc/PID/maps, up to 64 MB. Returns NULL as above, with EFBIG if it is longer. The
 * caller frees. */
char *mt_process_maps(pid_t pid);

/* The same for "smaps" and "smaps_rollup", up to 1 GB. */
char *mt_process_smaps(pid_t pid, const char *file);

/* Sets a deadline (CLOCK_MONOTONIC, ns; UINT64_MAX: none) for mt_process_smaps: at that time a read
 * ends, and later ones return NULL with ETIMEDOUT. */
void mt_process_smaps_until(uint64_t until_ns);

/* Reads a file of /proc/PID that the kernel writes without waiting for the process ("status"), as
 * text. The caller frees. */
char *mt_process_read(pid_t pid, const char *file, size_t *length);

/* For ctl/process/process_probe.c: fill in parts of a struct mt_process. Return false if the
 * process has ended or is a zombie. mt_process_open and mt_process_read_small of cmdline and maps
 * wait as long as the process holds its mmap_lock. */
bool mt_process_read_status(struct mt_process *process);
bool mt_process_read_stat(struct mt_process *process);
void mt_process_read_identity(struct mt_process *process);
bool mt_process_read_small(pid_t pid, const char *file, char *out, size_t out_bytes);
int mt_process_open(pid_t pid, const char *file);

/* ---- ancestry ---- */

/* Ancestors and descendants in a list of processes sorted by pid, as
 * mt_process_read_all returns one. Pure: any thread may call. */

#define MT_ANCESTRY_NONE ((size_t)-1)

/* Returns the index of the process with this pid, or MT_ANCESTRY_NONE. */
size_t mt_ancestry_find(const struct mt_process *list, size_t count, pid_t pid);

/* Returns whether `pid` is `root` or a descendant of it. Processes between the two need not carry
 * the shim. */
bool mt_ancestry_descends(const struct mt_process *list, size_t count, pid_t pid, pid_t root);

/* Returns the index of the nearest ancestor that carries the shim, or MT_ANCESTRY_NONE. */
size_t mt_ancestry_shimmed_parent(const struct mt_process *list, size_t count, size_t place);

#endif
