/* sys/cgroup_text.h -- parses the text in which the kernel names cgroups: /proc/PID/cgroup and
 * mountinfo. core/cgroup_path.c in the shim and ctl/limit.c in mtctl use these inline functions,
 * since the two share no objects. Any thread may call. Takes no lock, keeps no state, never
 * allocates. */
#ifndef MT_SYS_CGROUP_TEXT_H
#define MT_SYS_CGROUP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Returns whether word is one whole element of a list that commas separate: "memory" is in
 * "cpu,memory". */
static inline bool mt_cgroup_has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	while (list) {
		if (strncmp(list, word, length) == 0 && (list[length] == ',' || !list[length]))
			return true;
		list = strchr(list, ',');
		if (list)
			list++;
	}
	return false;
}

/* Returns whether the three characters at digits are an octal number below 256. */
static inline bool mt_cgroup_is_octal(const char *digits)
{
	return digits[0] >= '0' && digits[0] <= '3' && digits[1] >= '0' && digits[1] <= '7' &&
	       digits[2] >= '0' && digits[2] <= '7';
}

/* Replaces the escapes of a mountinfo path (\040 is a space) in place. Source: proc(5). */
static inline void mt_cgroup_unescape(char *text)
{
	char *to = text;

	for (const char *at = text; *at; at++) {
		if (at[0] == '\\' && mt_cgroup_is_octal(at + 1)) {
			*to++ = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
			at += 3;
		} else {
			*to++ = *at;
		}
	}
	*to = '\0';
}

/* Returns the part of a cgroup's path that lies below mount_root, the root of a mount. Returns NULL
 * where the mount does not show the cgroup. Inside a cgroup namespace, a path outside the namespace
 * begins with "/..". */
static inline const char *mt_cgroup_path_below(const char *path, const char *mount_root)
{
	size_t length = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);

	if (strncmp(path, mount_root, length) != 0 || (path[length] && path[length] != '/'))
		return NULL;
	path += length;
	if (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || !path[3]))
		return NULL;
	return strcmp(path, "/") == 0 ? "" : path;
}

#endif
