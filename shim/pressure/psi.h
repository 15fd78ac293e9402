/* pressure/psi.h -- how long tasks have waited for memory: pressure stall information of the
 * cgroup, else of the machine; and systemd's protocol, by which a service manager hands a program a
 * file, pipe or socket to watch. Read-only but for what the protocol asks to be written. For the
 * worker alone, whose table of descriptors is its own: the one that is kept for the watch lies
 * there. Never waits, allocates nothing. */
#ifndef MT_PRESSURE_PSI_H
#define MT_PRESSURE_PSI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config.h"

struct mt_psi_sample {
	/* false also for one look when the figures come from another file than those before */
	bool known;
	uint64_t some_us; /* "some total=": at least one task waited; ever */
	uint64_t full_us; /* "full total=": all did */
	/* the watched file has told of pressure since the last look. An unprivileged trigger tells
	 * so once falsely: a PSI file's event counts only where some_us has risen, which the policy
	 * checks */
	bool event;
	/* the watched file is a PSI file, so that the totals above can verify it: they are then its
	 * own */
	bool event_is_psi;
};

/* group: directory of the cgroup as mt_cgroup_directory gives it, "" for the machine's
 * /proc/pressure/memory, which is taken too where the group tells nothing. facts:
 * MEMORY_PRESSURE_WATCH (root stands before it, too) and _WRITE; opened at the first look, asked
 * from the second on. A watch that breaks is over, without a word. Protocol:
 * https://systemd.io/MEMORY_PRESSURE. */
void mt_psi_read(const char *root, const char *group, const struct mt_launch_env *env,
		 struct mt_psi_sample *out);

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123": the total of the line that begins with
 * `line`. Pure. */
bool mt_psi_parse(const char *text, const char *line, uint64_t *out_us);

/* Decodes what is strictly base64 (RFC 4648, padded, nothing else in it) and fits. The length, or
 * -1: *out undefined. Pure. */
int mt_psi_base64(const char *text, unsigned char *out, size_t out_bytes);

/* The descriptor was the parent's worker's. */
void mt_psi_fork_child(void);

#endif
