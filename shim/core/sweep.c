/* core/sweep.c -- the removal of files that ended processes have left. Contract: core/files.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file_owner.h"
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
	sweep->last_is_gone = mt_file_owner_is_missing(owner) ||
			      (is_selected(sweep, owner->pid) && mt_file_owner_has_ended(owner));
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
			!mt_file_owner_each(folder, NULL, sweep_file, &sweep);
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
