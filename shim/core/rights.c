#include "core/rights.h"

#include <string.h>

#include "core/log.h"
#include "sys/os.h"
#include "sys/format.h"

#define STATUS_BYTES 4096

/* Returns the text after a key, up to the end of its line; NULL if the line is missing or
 * truncated. */
static const char *find_line(const char *status, const char *key, size_t *out_length)
{
	const char *at = strstr(status, key);
	const char *end = at ? strchr(at + 1, '\n') : NULL;

	if (!end)
		return NULL;
	at += strlen(key);
	*out_length = (size_t)(end - at);
	return at;
}

/* Source: proc(5). setuid(2) and similar calls depend on ids and effective capabilities, which come
 * from the permitted ones. Two seccomp filters may differ although their modes are equal. */
bool mt_rights_compare(const char *status, const char *other)
{
	static const char *const keys[] = {
		"\nUid:", "\nGid:", "\nCapPrm:", "\nCapEff:", "\nSeccomp:\t0"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		size_t length = 0, other_length = 0;
		const char *line = find_line(status, keys[i], &length);
		const char *other_line = find_line(other, keys[i], &other_length);

		if (!line || !other_line || length != other_length ||
		    memcmp(line, other_line, length) != 0)
			return false;
	}
	return true;
}

bool mt_rights_are_equal(pid_t thread)
{
	char own[STATUS_BYTES], other[STATUS_BYTES], path[64];

	(void)mt_format(path, sizeof(path), "/proc/self/task/%d/status", (int)thread);
	return mt_os_read_file("/proc/thread-self/status", own, sizeof(own)) > 0 &&
	       mt_os_read_file(path, other, sizeof(other)) > 0 && mt_rights_compare(own, other);
}
