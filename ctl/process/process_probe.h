/* ctl/process/process_probe.h -- reads what only the memory of a process shows: its mappings, its
 * command line, and the MT_DIR of its environment. A child process (ctl/process/watchdog.h) reads
 * many processes, so that none can delay mtctl. One thread may call. */
#ifndef MT_CTL_PROCESS_PROCESS_PROBE_H
#define MT_CTL_PROCESS_PROCESS_PROBE_H

#include "ctl/process/process.h"

struct mt_process_probe {
	struct mt_process *process; /* of mt_process_scan; may be looked into */
	/* wanted: whether it is shimmed, and, if it is, its command line and MT_DIR (for
	 * ctl/process/process_probe.h) */
	bool maps;
	bool command;      /* wanted: its command line in any case */
	bool done;         /* known already: it is passed over */
	bool is_named;     /* a user has named this one: it has more time if it is the only one */
	enum mt_err error; /* out. FOREIGN: its maps may not be read. TIMEOUT: see below */
	/* out. FOREIGN: errno. TIMEOUT: EAGAIN if others alone have spent the time */
	int errno_value;
	uint64_t read_ns; /* of the cache */
};

/* Fills in *process of each probe. A process whose read waits for 200 ms or takes 1 s of CPU time
 * is MT_ERR_TIMEOUT; one that a user has named, for 2 s or 4 s. The first 0.5 ms of each read are
 * free; once the processes of one user have used 1 s beyond that, the others of that user are
 * MT_ERR_TIMEOUT without a read, and after 5 s so is every process. MT_ERR_TIMEOUT leaves *process
 * unchanged. */
void mt_process_probe_all(struct mt_process_probe *probes, size_t count);

/* The time of one user in this call, from which the readers of process.h take as well. Returns
 * false if it is used up. */
bool mt_process_budget_is_left(uid_t uid);
void mt_process_budget_spend(uid_t uid, uint64_t ns);

/* ---- cache ---- */

/* A cache of what process_probe.h has found, for commands that show
 * all processes every second. An entry is valid for 5 s, one of a process that did not respond for
 * 60 s, while the process runs the same program: same pid, start time and stack address. One thread
 * may call. */

/* mt_process_probe_all for those processes of which the cache does not know enough. `probes` is
 * sorted by pid. Drops the entries of all other processes. */
void mt_process_cache_probe(struct mt_process_probe *probes, size_t count);

/* ---- the MT_DIR of processes ---- */

/* A cache: a command that shows all processes needs it every second, and the size of an environment
 * is up to the process. One thread may call. */

enum mt_env_dir_state {
	MT_ENV_DIR_NOT_READ,
	/* the environment has no byte, as in the middle of an exec: it is read again */
	MT_ENV_DIR_EMPTY,
	/* MT_DIR is not set or empty, or the environment cannot be read in time */
	MT_ENV_DIR_NONE,
	MT_ENV_DIR_NAMED,
	/* set to a path that takes the kernel long to follow, such as 40 links of 4 kB each */
	MT_ENV_DIR_COSTLY,
};

/* Returns MT_ENV_DIR_NAMED with the path in *out, MT_ENV_DIR_NONE or MT_ENV_DIR_COSTLY. Reads the
 * environment if no entry is cached. An entry is valid for 60 s while the process runs the same
 * program: same pid, start time and stack address. */
enum mt_env_dir_state mt_env_dir_find(const struct mt_process *process, char *out,
				      size_t out_bytes);

/* Stores an entry that the caller has read. `path` counts with MT_ENV_DIR_NAMED only; an empty path
 * is MT_ENV_DIR_NONE, as in the library. */
void mt_env_dir_remember(const struct mt_process *process, enum mt_env_dir_state answer,
			 const char *path);

#endif
