/* core/sweep.c -- the owners of the files in a folder, and the removal of what ended ones have
 * left. Contract: core/files.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/files.h"
#include "core/stats_layout.h"
#include "core/thread.h"
#include "sys/format.h"
#include "sys/os.h"

#define STEP_S 2 /* between two sweeps of a folder */
/* longest time of one sweep; the next tick continues */
#define SWEEP_MAX_NS (20 * MT_NS_PER_MS)
/* up to this number of live owners are all checked each time */
#define CHECK_ALL_COUNT 64

struct sweep {
	int folder;
	uint64_t pidns;
	uint64_t began_ns, now_s;
	uint32_t live_count;
	struct mt_file_owner last; /* the files of one owner mostly follow one another */
	bool last_is_gone;
};

static uint64_t next_ns;
static bool is_unfinished;

/* ---- live owners ---- */

/* Also asks kill(2): /proc may hide processes of other users (hidepid), and this one may have
 * changed its user. */
bool mt_files_owner_is_missing(const struct mt_file_owner *owner)
{
	struct stat seen;
	char path[32];

	mt_format(path, sizeof(path), "/proc/%llu", (unsigned long long)owner->pid);
	return mt_os_stat(path, &seen) == -ENOENT && mt_raw_syscall(SYS_kill, owner->pid, 0) != 0 &&
	       errno == ESRCH;
}

/* Selects the owners to check, since a check reads a file of /proc. All of the first
 * CHECK_ALL_COUNT, every second of the next ones, every third after them. Selects others each time,
 * so that each has its turn. */
static bool is_selected(struct sweep *sweep, uint64_t pid)
{
	uint32_t among = 1 + sweep->live_count++ / CHECK_ALL_COUNT;
	uint64_t mixed = (pid + sweep->now_s * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;

	return (mixed >> 32) % among == 0;
}

static bool owner_is_gone(struct sweep *sweep, const struct mt_file_owner *owner)
{
	if (owner->pid == sweep->last.pid && owner->start_ticks == sweep->last.start_ticks)
		return sweep->last_is_gone;
	sweep->last = *owner;
	sweep->last_is_gone = mt_files_owner_is_missing(owner) ||
			      (is_selected(sweep, owner->pid) && mt_files_owner_has_ended(owner));
	return sweep->last_is_gone;
}

/* Returns false if /proc is missing or shows another pid namespace: all owners would seem ended. */
static bool proc_is_usable(uint64_t *out_pidns)
{
	struct stat space;
	char text[1024];

	if (mt_os_read_file("/proc/self/stat", text, sizeof(text)) <= 0 ||
	    mt_os_parse_number(text) != (uint64_t)mt_os_getpid() ||
	    mt_os_stat("/proc/self/ns/pid", &space) != 0)
		return false;
	*out_pidns = space.st_ino;
	return true;
}

/* ---- the folder ---- */

/* Returns whether this process sweeps now: of all processes that share the folder one does every
 * STEP_S. The folder's access time is the time of the last sweep, in whole seconds. A fraction
 * means that the kernel set it when a process listed the folder. */
static bool claim_turn(struct sweep *sweep)
{
	struct timespec times[2] = {{.tv_sec = (time_t)sweep->now_s}, {.tv_nsec = UTIME_OMIT}};
	struct stat seen;
	uint64_t since;

	if (mt_os_fstat(sweep->folder, &seen) != 0)
		return false;
	/* huge if the clock was set back */
	since = sweep->now_s - (uint64_t)seen.st_atim.tv_sec;
	if (seen.st_atim.tv_nsec == 0 && since < STEP_S)
		return false;
	return mt_raw_syscall(SYS_utimensat, sweep->folder, NULL, times, 0) == 0;
}

/* Returns false if the time is over. */
static bool sweep_file(const char *name, const struct mt_file_owner *owner, void *data)
{
	struct sweep *sweep = data;

	if (owner->pidns == sweep->pidns && owner_is_gone(sweep, owner))
		(void)unlinkat(sweep->folder, name, 0);
	return mt_os_now_ns() - sweep->began_ns < SWEEP_MAX_NS;
}

static void run(int folder, bool at_once)
{
	struct sweep sweep = {.folder = folder,
			      .began_ns = mt_os_now_ns(),
			      .now_s = mt_os_realtime_ns() / MT_NS_PER_S};
	bool goes_on = is_unfinished || at_once;
	int kept = errno;

	is_unfinished = (goes_on || claim_turn(&sweep)) && proc_is_usable(&sweep.pidns) &&
			!mt_files_owner_each(folder, NULL, sweep_file, &sweep);
	errno = kept;
}

void mt_files_sweep_at_start(int folder)
{
	run(folder, false);
}

static void run_in_own_folder(bool at_once)
{
	int folder = -1;

	if (mt_files_reopen_folder(&folder) == MT_ERR_OK) {
		run(folder, at_once);
		mt_os_close(folder);
	}
}

void mt_files_sweep_at_tick(uint64_t now_ns)
{
	mt_assert(mt_thread_is_ours());
	if (now_ns < next_ns && !is_unfinished)
		return;
	next_ns = now_ns + STEP_S * MT_NS_PER_S;
	run_in_own_folder(false);
}

void mt_files_sweep_at_end(bool has_children)
{
	run_in_own_folder(has_children);
}

/* ---- file owner ---- */

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

bool mt_files_owner_each(int folder, const char *const *kinds,
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

bool mt_files_owner_has_ended(const struct mt_file_owner *owner)
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
