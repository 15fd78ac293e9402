/* pressure/psi.h -- reads pressure stall information: how long tasks of the cgroup, or else of the
 * machine, waited for memory. A PSI file that MEMORY_PRESSURE_WATCH names is read first: systemd
 * names the file of the service's cgroup (https://systemd.io/MEMORY_PRESSURE). Its triggers, FIFOs
 * and sockets are not used: systemd's own trigger is 10 % of two seconds, which is the threshold of
 * warn here. Owns the name of the last file. Only the worker thread may call. Takes no lock, never
 * blocks, never allocates, never writes a file, keeps no descriptor. */
#ifndef MT_PRESSURE_PSI_H
#define MT_PRESSURE_PSI_H

#include <stdbool.h>
#include <stdint.h>

struct mt_psi_sample {
	/* some_us is valid; false for one sample after the file changed */
	bool known;
	bool is_own; /* of this process's cgroup, or the file that is named; false: the machine's */
	uint64_t some_us; /* "some total=": at least one task waited, in total */
};

/* Fills *out. root: a prefix of every path, "" except in tests. group: the cgroup's directory from
 * mt_cgroup_directory; "", or a group without a PSI file, means /proc/pressure/memory. watched:
 * MEMORY_PRESSURE_WATCH; ignored if it is no full path of a regular file with PSI. */
void mt_psi_read(const char *root, const char *group, const char *watched,
		 struct mt_psi_sample *out);

/* Parses the total of the line that begins with `line`, in us, from text such as "some avg10=0.00
 * avg60=0.00 avg300=0.00 total=123". Returns false if there is none. Pure. */
bool mt_psi_parse(const char *text, const char *line, uint64_t *out_us);

/* Forgets the last file in a forked child. */
void mt_psi_fork_child(void);

#endif
