/* ctl/process/process_cache.h -- what was lately found out about processes, so that who looks at
 * all of them every second does not read the maps and command lines of all of them every second. It
 * holds for 5 s, and only while the process runs the same program (same pid, start and place of the
 * stack); that a process does not answer holds for 60 s. A program that looks once has no use for
 * it, and no harm. One thread may call. */
#ifndef MT_CTL_PROCESS_PROCESS_CACHE_H
#define MT_CTL_PROCESS_PROCESS_CACHE_H

#include "ctl/process/process_probe.h"

/* mt_process_probe_all for those of whom not enough is known. By rising pid; what is known of
 * others is forgotten. */
void mt_process_cache_probe(struct mt_process_probe *probes, size_t count);

#endif
