/* ctl/process/process.h -- processes, and which of them carry the shim. Everything comes from
 * /proc; nobody is ever signalled. A process is shimmed when its maps have an executable mapping of
 * libmtshim.so. What /proc says may be out of date by the time it is used: whoever waits for a
 * process asks mt_process_is_alive again. */
#ifndef MT_CTL_PROCESS_PROCESS_H
#define MT_CTL_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/output/error.h"

#define MT_SHIM_NAME "libmtshim.so"

struct mt_process {
	pid_t pid; /* as mtctl sees it */
	pid_t parent;
	pid_t own_pid;        /* as it sees itself in its own pid namespace */
	uid_t uid;            /* effective */
	uint64_t start_ticks; /* since boot: tells a reused pid from the first */
	uint64_t pidns;       /* inode of its pid namespace; 0: may not be asked */
	uint64_t rss_bytes;
	/* where the kernel put the stack at its last exec, a random place: with start_ticks it
	 * tells what it runs from what it ran before. 0: may not be known */
	uint64_t stack_start;
	bool is_kernel; /* a thread of the kernel's */
	bool shimmed;
	char comm[32];
	char command[160]; /* its command line, cut and cleaned; comm where it has none */
	/* the library that it runs is gone from its place: replaced by another one, or removed */
	bool library_deleted;
};

/* A pid from the command line. INVALID with a reason. */
enum mt_err mt_process_parse_pid(const char *text, pid_t *out);

/* One line on stderr, "mtctl: process 12 (comm): text". */
void mt_process_say(const struct mt_process *process, const char *text);

/* UNKNOWN: no such process. FOREIGN: its maps may not be read. TIMEOUT: it keeps their reader
 * waiting. A thread's id finds its process. */
enum mt_err mt_process_find(pid_t pid, struct mt_process *out, struct mt_why *why);

/* mt_process_find, and UNKNOWN as well where the process does not carry the shim. */
enum mt_err mt_process_find_shimmed(pid_t pid, struct mt_process *out, struct mt_why *why);

/* Every process. Sorted by pid; the caller frees. Only those of the asking user (root: of anybody)
 * can be `shimmed`; the others are there for their place in the tree. */
size_t mt_process_read_all(struct mt_process **out);

/* The same by /proc/PID/stat alone, which waits for nobody: a fifth of the work. `command` is comm,
 * nobody is `shimmed`, and own_pid and pidns are not known: that is told by
 * ctl/process/process_probe.h, for whom mt_process_may_probe. */
size_t mt_process_scan(struct mt_process **out);
bool mt_process_may_probe(const struct mt_process *process);

/* Whether the same process, not another one with its pid, still runs. A zombie does not. */
bool mt_process_is_alive(const struct mt_process *process);

/* Whether it now runs the program whose stack begins there, and no other one since an exec; also
 * where that cannot be told. */
bool mt_process_runs(pid_t pid, uint64_t stack_start);

/* Inode of mtctl's own pid namespace, 0 if /proc belongs to another one: then no pid may be judged
 * by it. */
uint64_t mt_process_own_pidns(void);

/* A variable of the environment that the process was started with. false: not set, or not to be
 * read. */
bool mt_process_environ(pid_t pid, const char *name, char *out, size_t out_bytes);

/* A file of /proc/PID that shows the process's own memory, and is as long as the process likes:
 * "environ", "cmdline". The first 8 MB, more than an exec takes (6 MB; execve(2)). NULL: not to be
 * read, with errno: ETIMEDOUT where the process keeps its reader waiting for 200 ms
 * (ctl/process/watchdog.h). The caller frees. */
#define MT_PROCESS_MEMORY_MAX ((size_t)8 << 20)
char *mt_process_read_memory(pid_t pid, const char *file, size_t *length);

/* A variable of such a list of entries, each ended by a NUL; the text ends with one. */
bool mt_process_find_variable(const char *list, size_t length, const char *name, char *out,
			      size_t out_bytes);

/* The maps of a process as text, 64 MB at most, NULL as above, EFBIG where they are longer. The
 * caller frees. */
char *mt_process_maps(pid_t pid);

/* The same for "smaps" and "smaps_rollup"; 1 GB at most. */
char *mt_process_smaps(pid_t pid, const char *file);

/* From then on (CLOCK_MONOTONIC, ns; UINT64_MAX for never) mt_process_smaps reads nothing: NULL
 * with ETIMEDOUT; one that reads then ends. */
void mt_process_smaps_until(uint64_t until_ns);

/* Any other file of /proc/PID as text, which the kernel writes without waiting for the process:
 * "status". The caller frees. */
char *mt_process_read(pid_t pid, const char *file, size_t *length);

/* For ctl/process/process_probe.c. Parts of a struct mt_process; false: it has ended, or is a
 * zombie. open and read_small wait as long as the process likes for cmdline and maps. */
bool mt_process_read_status(struct mt_process *process);
bool mt_process_read_stat(struct mt_process *process);
void mt_process_read_identity(struct mt_process *process);
bool mt_process_read_small(pid_t pid, const char *file, char *out, size_t out_bytes);
int mt_process_open(pid_t pid, const char *file);

#endif
