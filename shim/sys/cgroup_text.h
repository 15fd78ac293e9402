/* sys/cgroup_text.h -- how the kernel writes down where a cgroup is (/proc/PID/cgroup, mountinfo):
 * the parts that both its readers need, core/cgroup_path.c in the shim and ctl/process/limit.c in
 * mtctl, which share no objects. Pure; nothing is allocated. */
#ifndef MT_SYS_CGROUP_TEXT_H
#define MT_SYS_CGROUP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* "memory" as a whole word of "cpu,memory". */
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

static inline bool mt_cgroup_is_octal(const char *digits)
{
	return digits[0] >= '0' && digits[0] <= '3' && digits[1] >= '0' && digits[1] <= '7' &&
	       digits[2] >= '0' && digits[2] <= '7';
}

/* Blanks in a path are written as \040 and the like. Source: proc(5), mountinfo. */
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

/* What is left of a path below a mount that begins at mount_root; NULL: it does not show it. Seen
 * from within a cgroup namespace, what lies outside of it begins with "/..". */
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
