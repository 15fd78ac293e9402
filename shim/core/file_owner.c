#include "core/file_owner.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "sys/format.h"
#include "sys/os.h"
#include "sys/raw_syscall.h"

/* Source: proc(5). */
#define STATE_FIELD   3
#define THREADS_FIELD 20
#define START_FIELD   22

/* The format of getdents64(2). */
struct entry {
	uint64_t inode;
	int64_t offset;
	uint16_t bytes;
	uint8_t kind;
	char name[];
};

static bool parse_number(const char **text, uint64_t *out, char after)
{
	const char *at = *text;
	uint64_t value = 0;

	if (*at < '0' || *at > '9' || (at[0] == '0' && at[1] != after))
		return false;
	for (; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
			return false;
	if (*at != after)
		return false;
	*text = at + 1;
	*out = value;
	return true;
}

static bool parse_name(const char *name, struct mt_file_owner *out)
{
	static const char *const kinds[] = {"stats", "control", "heap", "blocks", "lines", "fresh"};

	if (!parse_number(&name, &out->pid, '-') || !parse_number(&name, &out->start_ticks, '-') ||
	    !parse_number(&name, &out->pidns, '.') || out->pid < 1 || out->pid > INT_MAX)
		return false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(name, kinds[i]) == 0)
			return true;
	return false;
}

bool mt_file_owner_each(int folder,
			bool (*each)(const char *name, const struct mt_file_owner *owner,
				     void *data),
			void *data)
{
	_Alignas(struct entry) char entries[4096];
	struct mt_file_owner owner;
	int kept = errno;
	bool goes_on = true;
	long bytes;

	while (goes_on &&
	       (bytes = mt_raw_syscall(SYS_getdents64, folder, entries, sizeof(entries))) > 0) {
		const struct entry *entry;

		for (long at = 0; goes_on && at < bytes; at += entry->bytes) {
			entry = (const void *)(entries + at);
			mt_assert(entry->bytes > 0); /* else the loop has no end */
			if (parse_name(entry->name, &owner))
				goes_on = each(entry->name, &owner, data);
		}
	}
	errno = kept;
	return goes_on;
}

/* Returns whether start times of that process can be compared: they count from the boot time of the
 * reader's time namespace (time_namespaces(7)). */
static bool has_same_boot_time(uint64_t pid)
{
	struct stat ours, theirs;
	char path[64];

	mt_format(path, sizeof(path), "/proc/%llu/ns/time", (unsigned long long)pid);
	return mt_os_stat("/proc/self/ns/time", &ours) != 0 || mt_os_stat(path, &theirs) != 0 ||
	       ours.st_ino == theirs.st_ino;
}

bool mt_file_owner_has_ended(const struct mt_file_owner *owner)
{
	char path[64], text[1024];
	const char *state;

	mt_format(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)owner->pid);
	if (mt_os_read_file(path, text, sizeof(text)) <= 0 ||
	    !(state = mt_os_procstat_at(text, STATE_FIELD)))
		return false;
	if (mt_os_procstat_number(text, START_FIELD) != owner->start_ticks)
		return has_same_boot_time(owner->pid);
	return (*state == 'Z' || *state == 'X') && mt_os_procstat_number(text, THREADS_FIELD) <= 1;
}
