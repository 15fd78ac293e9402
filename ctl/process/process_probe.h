/* ctl/process/process_probe.h -- what only the memory of a process tells: its mappings, its command
 * line, the MT_DIR of its environment. Many processes are looked at by one child process
 * (ctl/process/watchdog.h), so that none keeps mtctl waiting. */
#ifndef MT_CTL_PROCESS_PROCESS_PROBE_H
#define MT_CTL_PROCESS_PROCESS_PROBE_H

#include "ctl/process/process.h"

struct mt_process_probe {
	struct mt_process *process; /* of mt_process_scan; may be looked into */
	/* wanted: whether it is shimmed, and, if it is, its command line and MT_DIR (for
	 * ctl/process/env_dir.h) */
	bool maps;
	bool command;      /* wanted: its command line in any case */
	bool done;         /* known already: it is passed over */
	enum mt_err error; /* out. FOREIGN: its maps may not be read. TIMEOUT: see below */
	/* out. FOREIGN: errno. TIMEOUT: EAGAIN where others alone have spent the time */
	int errno_value;
	uint64_t asked_ns; /* for ctl/process/process_cache.h */
};

/* Fills *process of each. A process that keeps its reader waiting for 200 ms, or computing for 1 s,
 * is TIMEOUT; so is, without being asked, each of a user whose processes have cost more than 1 s in
 * this call (0.5 ms a process are free), and everybody once 5 s are spent on such waits. TIMEOUT
 * leaves *process as it is: comm is its command. */
void mt_process_probe_all(struct mt_process_probe *probes, size_t count);

/* The share of one user in a look, also spent by the readers of process.h. false: there is none
 * left. */
bool mt_process_budget_is_left(uid_t uid);
void mt_process_budget_spend(uid_t uid, uint64_t ns);

#endif
