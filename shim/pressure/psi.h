/* pressure/psi.h -- reads pressure stall information: how long tasks of the cgroup, or else of the
 * machine, waited for memory. Also implements systemd's protocol by which a service manager passes
 * a program a file, FIFO or socket to watch. Owns the descriptor of that file, in the worker's own
 * descriptor table. Only the worker thread may call. Takes no lock, never blocks, never allocates.
 * Writes only the bytes that the protocol requires. Source: https://systemd.io/MEMORY_PRESSURE. */
#ifndef MT_PRESSURE_PSI_H
#define MT_PRESSURE_PSI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config.h"

struct mt_psi_sample {
	/* some_us and full_us are valid; false for one sample after the file changed */
	bool known;
	uint64_t some_us; /* "some total=": at least one task waited, in total */
	uint64_t full_us; /* "full total=": all tasks waited */
	/* the watched file signaled pressure since the last sample. An unprivileged PSI trigger
	 * fires once without cause: the policy counts an event of a PSI file only where some_us has
	 * risen */
	bool event;
	/* the watched file is a PSI file, and the totals above are its own */
	bool event_is_psi;
};

/* Fills *out. root: a prefix of every path, "" except in tests. group: the cgroup's directory from
 * mt_cgroup_directory; "", or a group without a PSI file, means /proc/pressure/memory. env:
 * MEMORY_PRESSURE_WATCH and _WRITE. The first call opens the watched file, later ones poll it. A
 * watch that fails ends without a message. */
void mt_psi_read(const char *root, const char *group, const struct mt_launch_env *env,
		 struct mt_psi_sample *out);

/* Parses the total of the line that begins with `line`, in us, from text such as "some avg10=0.00
 * avg60=0.00 avg300=0.00 total=123". Returns false where there is none. Pure. */
bool mt_psi_parse(const char *text, const char *line, uint64_t *out_us);

/* Decodes strict base64 (RFC 4648, padded, no other characters). Returns the length, or -1 for
 * other text or where it exceeds out_bytes; *out is then undefined. Pure. */
int mt_psi_base64(const char *text, unsigned char *out, size_t out_bytes);

/* Forgets the watched file in a forked child: the descriptor was the parent's worker's. */
void mt_psi_fork_child(void);

#endif
