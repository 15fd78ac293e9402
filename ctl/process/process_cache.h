/* ctl/process/process_cache.h -- a cache of what process_probe.h has found, for commands that show
 * all processes every second. An entry is valid for 5 s, one of a process that did not respond for
 * 60 s, while the process runs the same program: same pid, start time and stack address. One thread
 * may call. */
#ifndef MT_CTL_PROCESS_PROCESS_CACHE_H
#define MT_CTL_PROCESS_PROCESS_CACHE_H

#include "ctl/process/process_probe.h"

/* mt_process_probe_all for those processes of which the cache does not know enough. `probes` is
 * sorted by pid. Drops the entries of all other processes. */
void mt_process_cache_probe(struct mt_process_probe *probes, size_t count);

#endif
