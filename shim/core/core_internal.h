/* core/core_internal.h -- what files of core/ share with each other and with its tests, and with no
 * other component. As core/cgroup.h, core/config.h and core/thread.h unless a comment says
 * otherwise. */
#ifndef MT_CORE_CORE_INTERNAL_H
#define MT_CORE_CORE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/cgroup.h"
#include "core/config.h"

/* ---- cgroups ---- */

#define MT_CGROUP_PATH_BYTES 4096

struct mt_cgroup_path {
	/* of the cgroup; it may be removed, or hidden from a container whose ancestors are not */
	char directory[MT_CGROUP_PATH_BYTES];
	size_t length;
	/* length of the mount point, the highest directory that can be read */
	size_t mount_length;
};

/* Finds the cgroup by /proc/PID/cgroup and /proc/self/mountinfo. root: a prefix of every path, ""
 * except in tests. pid: 0 is the caller's own process. controller: of cgroup version 1; NULL for
 * version 2. If no mount shows the cgroup, a mount of the hierarchy stands for it, as in a
 * container. Returns false if the process is in no such hierarchy; *out is then undefined. */
bool mt_cgroup_path_find(const char *root, pid_t pid, const char *controller,
			 struct mt_cgroup_path *out);

/* Returns the length of the parent's path, for a cgroup whose path has this length; 0 at the mount
 * point. Pure. */
size_t mt_cgroup_path_parent(const struct mt_cgroup_path *position, size_t length);

/* Reads a file of the cgroup whose path has this length: up to out_bytes - 1 bytes and a NUL.
 * Returns false if nothing is read. */
bool mt_cgroup_path_read(const struct mt_cgroup_path *position, size_t length, const char *file,
			 char *out, size_t out_bytes);

/* Parses the total of the line that begins with `line`, in us, from text such as "some avg10=0.00
 * avg60=0.00 avg300=0.00 total=123". Returns false if there is none. Pure. */
bool mt_cgroup_psi_parse(const char *text, const char *line, uint64_t *out_us);

/* Parses the first number of /proc/loadavg ("0.48 0.37 0.80 1/93 6653") into thousandths. Returns
 * false for other text. Pure. */
bool mt_cgroup_load_parse(const char *text, uint64_t *out_thousandths);

/* ---- settings ---- */

/* Receives each warning of the parser: one line without a newline, for instance
 * "MT_GC_ROUNDS=-3: not a whole number from 0 to 1000000; 0 is taken". */
typedef void (*mt_config_report)(const char *line);

/* Fills *out with the defaults. */
void mt_config_defaults(struct mt_config *out);

/* Parses an environment into *out: defaults, then the preset, then aliases, then MT_*. Reports each
 * invalid value, which leaves the earlier one in place, and each unknown MT_ name. A report is one
 * line of printable ASCII, up to MT_CONFIG_ERROR_MAX bytes with its NUL. environ_list: ended by
 * NULL. Pure except for the reports. */
#define MT_CONFIG_ERROR_MAX 384
void mt_config_parse(const char *const *environ_list, struct mt_config *out,
		     mt_config_report report);

/* Reads the variables of other programs from an environment. Pure. */
void mt_config_parse_launch_env(const char *const *environ_list, struct mt_launch_env *out);

/* ---- rights of threads ---- */

/* mt_thread_rights_are_equal for two texts of /proc/PID/task/TID/status. Pure. */
bool mt_thread_rights_compare(const char *status, const char *other);

#endif
