#include "core/file_owner.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/stats_layout.h"
#include "sys/format.h"
#include "sys/os.h"

/* Source: proc(5). */
#define STATE_FIELD 3
#define START_FIELD 22

/* The format of getdents64(2). */
struct entry {
	uint64_t inode;
	int64_t offset;
	uint16_t bytes;
	uint8_t kind;
	char name[];
};

/* As mt_format writes a number: no other name is a file of ours. */
static bool parse_number(const char **text, uint64_t *out, char after)
{
	const char *at = *text;

	*out = mt_os_parse_digits(&at);
	if (at == *text || *at != after || (**text == '0' && at > *text + 1) || *out == UINT64_MAX)
		return false;
	*text = at + 1;
	return true;
}

static bool parse_name(const char *name, const char *const *kinds, struct mt_file_owner *out)
{
	if (!parse_number(&name, &out->pid, '-') || !parse_number(&name, &out->start_ticks, '-') ||
	    !parse_number(&name, &out->pidns, '.') || out->pid < 1 || out->pid > INT_MAX)
		return false;
	while (*kinds && strcmp(name, *kinds) != 0)
		kinds++;
	return *kinds != NULL;
}

bool mt_file_owner_each(int folder, const char *const *kinds,
			bool (*each)(const char *name, const struct mt_file_owner *owner,
				     void *data),
			void *data)
{
#define X(kind, suffix) suffix,
	static const char *const own_kinds[] = {MT_FILE_KINDS(X) NULL};
#undef X
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
			if (parse_name(entry->name, kinds ? kinds : own_kinds, &owner))
				goes_on = each(entry->name, &owner, data);
		}
	}
	errno = kept;
	return goes_on;
}

/* Also asks kill(2): /proc may hide processes of other users (hidepid), and this one may have
 * changed its user. */
bool mt_file_owner_is_missing(const struct mt_file_owner *owner)
{
	struct stat seen;
	char path[32];

	mt_format(path, sizeof(path), "/proc/%llu", (unsigned long long)owner->pid);
	return mt_os_stat(path, &seen) == -ENOENT && mt_raw_syscall(SYS_kill, owner->pid, 0) != 0 &&
	       errno == ESRCH;
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
	return (*state == 'Z' || *state == 'X') &&
	       mt_os_procstat_number(text, MT_PROCSTAT_THREADS) <= 1;
}
