#include "ctl/process/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ctl/output/text.h"
#include "ctl/process/clock.h"
#include "ctl/process/read_file.h"

#define STATUS_MAX  ((size_t)1 << 20)
#define STAT_FIELDS 29 /* up to startstack */

char *mt_process_read(pid_t pid, const char *file, size_t *length)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return mt_read_file_max(path, STATUS_MAX, length);
}

enum mt_err mt_process_parse_pid(const char *text, pid_t *out)
{
	uint64_t number;

	if (!mt_text_parse_u64(text, &number) || number < 1 || number > INT_MAX)
		return MT_ERR_INVALID;
	*out = (pid_t)number;
	return MT_ERR_OK;
}

void mt_process_say(const struct mt_process *process, const char *text)
{
	mt_error_say("process %d (%s): %s", (int)process->pid, process->comm, text);
}

/* Kept open, so that /proc is not looked up again for each of thousands of files. */
static int proc_directory(void)
{
	static int proc = -1;

	if (proc < 0)
		proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return proc;
}

int mt_process_open(pid_t pid, const char *file)
{
	char path[64];

	snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
	return openat(proc_directory(), path, O_RDONLY | O_CLOEXEC);
}

/* For a file that the kernel writes in one piece: one read(2) gets all of it, or as much as fits.
 */
bool mt_process_read_small(pid_t pid, const char *file, char *out, size_t out_bytes)
{
	ssize_t got;
	int fd = mt_process_open(pid, file);

	if (fd < 0)
		return false;
	got = read(fd, out, out_bytes - 1);
	close(fd);
	memset(out + (got > 0 ? got : 0), 0, out_bytes - (size_t)(got > 0 ? got : 0));
	return got > 0;
}

/* The name is in parentheses and may contain any byte, parentheses as well. Field numbers are those
 * of proc(5). */
static bool parse_stat(char *text, struct mt_process *process)
{
	char *name = strchr(text, '('), *at = strrchr(text, ')'), state;
	uint64_t fields[STAT_FIELDS] = {0};

	if (!name || !at || name > at || at[1] != ' ')
		return false;
	*at = '\0';
	snprintf(process->comm, sizeof(process->comm), "%s", name + 1);
	mt_text_clean(process->comm, sizeof(process->comm));
	at += 2;
	state = *at;
	for (size_t number = 4; number < STAT_FIELDS; number++) {
		at = strchr(at, ' ');
		if (!at)
			return false;
		fields[number] = strtoull(++at, NULL, 10);
	}
	process->parent = (pid_t)fields[4];
	process->is_stopped = state == 'T' || state == 't';
	process->is_kernel = fields[9] & 0x00200000; /* PF_KTHREAD */
	process->is_fork = fields[9] & 0x00000040;   /* PF_FORKNOEXEC */
	process->start_ticks = fields[22];
	process->rss_bytes =
		fields[24] > INT64_MAX ? 0 : fields[24] * (uint64_t)sysconf(_SC_PAGESIZE);
	process->stack_start = fields[28];
	return state != 'Z' && state != 'X';
}

bool mt_process_read_stat(struct mt_process *process)
{
	char text[1024];

	return mt_process_read_small(process->pid, "stat", text, sizeof(text)) &&
	       parse_stat(text, process);
}

/* The last pid of "NSpid:\t12\t1" is the pid in the namespace of the process. Kernels without the
 * line have one namespace. */
static pid_t last_pid(const char *status, pid_t pid)
{
	const char *line = strstr(status, "\nNSpid:");
	char *next;
	long own = pid;

	if (!line)
		return pid;
	line += strlen("\nNSpid:");
	for (long value = strtol(line, &next, 10); next != line && *line != '\n';
	     value = strtol(line, &next, 10)) {
		own = value;
		line = next;
	}
	return (pid_t)own;
}

bool mt_process_read_status(struct mt_process *process)
{
	char *status = mt_process_read(process->pid, "status", NULL);
	const char *uids = status ? strstr(status, "\nUid:") : NULL;
	unsigned real, effective;
	uint64_t group;

	if (!uids || sscanf(uids, "\nUid: %u %u", &real, &effective) != 2) {
		free(status);
		return false;
	}
	process->uid = effective;
	if (mt_read_file_number(status, "Tgid", &group) && group && group <= INT_MAX)
		process->pid = (pid_t)group;
	free(status);
	return true;
}

static uint64_t pidns_of(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

uint64_t mt_process_own_pidns(void)
{
	static bool is_read;
	static uint64_t pidns;
	char link[32] = "";

	if (!is_read && readlink("/proc/self", link, sizeof(link) - 1) > 0 &&
	    strtol(link, NULL, 10) == (long)getpid())
		pidns = pidns_of("/proc/self/ns/pid");
	is_read = true;
	return pidns;
}

/* Reads the long status file only if the pid namespace differs from that of mtctl. */
void mt_process_read_identity(struct mt_process *process)
{
	char path[64], *status = NULL;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)process->pid);
	process->pidns = pidns_of(path);
	if (!process->pidns || process->pidns != mt_process_own_pidns())
		status = mt_process_read(process->pid, "status", NULL);
	process->own_pid = status ? last_pid(status, process->pid) : process->pid;
	free(status);
}

bool mt_process_may_probe(const struct mt_process *process)
{
	/* read once: one system call for each process would cost too much */
	static uid_t caller = (uid_t)-1;

	if (caller == (uid_t)-1)
		caller = geteuid();
	return !process->is_kernel && (caller == 0 || caller == process->uid);
}

/* The owner of the directory is the effective user, also for a process whose files belong to root
 * since it may not be traced. This is much cheaper than the status file. */
static bool scan(pid_t pid, struct mt_process *out)
{
	struct mt_process process = {.pid = pid, .own_pid = pid};
	struct stat status;
	char path[32];

	snprintf(path, sizeof(path), "%d", (int)pid);
	if (fstatat(proc_directory(), path, &status, 0) != 0 || !mt_process_read_stat(&process))
		return false;
	process.uid = status.st_uid;
	snprintf(process.command, sizeof(process.command), "%s", process.comm);
	*out = process;
	return true;
}

int mt_process_compare_pids(const void *a, const void *b)
{
	pid_t left = *(const pid_t *)a, right = *(const pid_t *)b;

	return (left > right) - (left < right);
}

size_t mt_process_scan(struct mt_process **out)
{
	struct mt_process *list = NULL;
	size_t count = 0;
	DIR *directory = opendir("/proc");
	const struct dirent *entry;
	pid_t pid;

	while (directory && (entry = readdir(directory))) {
		if (mt_process_parse_pid(entry->d_name, &pid) != MT_ERR_OK)
			continue;
		list = mt_error_make_room(list, count, sizeof(*list));
		count += scan(pid, &list[count]);
	}
	if (directory)
		closedir(directory);
	if (count)
		qsort(list, count, sizeof(*list), mt_process_compare_pids);
	*out = list;
	return count;
}

bool mt_process_is_alive(const struct mt_process *process)
{
	struct mt_process now = {.pid = process->pid};

	return mt_process_read_stat(&now) && now.start_ticks == process->start_ticks;
}

double mt_process_age_s(const struct mt_process *process)
{
	double start_s = (double)process->start_ticks / (double)sysconf(_SC_CLK_TCK);

	return fmax((double)mt_clock_read_ns(CLOCK_BOOTTIME) / 1e9 - start_s, 0);
}

bool mt_process_runs(pid_t pid, uint64_t stack_start)
{
	struct mt_process now = {.pid = pid};

	return !stack_start || !mt_process_read_stat(&now) || !now.stack_start ||
	       now.stack_start == stack_start;
}

/* ---- ancestry ---- */

size_t mt_ancestry_find(const struct mt_process *list, size_t count, pid_t pid)
{
	const struct mt_process *found =
		count ? bsearch(&pid, list, count, sizeof(*list), mt_process_compare_pids) : NULL;

	return found ? (size_t)(found - list) : MT_ANCESTRY_NONE;
}

/* The list is not atomic: pids that were reused while it was read could form a cycle. So the number
 * of steps is limited. */
bool mt_ancestry_descends(const struct mt_process *list, size_t count, pid_t pid, pid_t root)
{
	for (size_t step = 0; step <= count; step++) {
		size_t place = mt_ancestry_find(list, count, pid);

		if (pid == root)
			return true;
		if (place == MT_ANCESTRY_NONE)
			return false;
		pid = list[place].parent;
	}
	return false;
}

size_t mt_ancestry_shimmed_parent(const struct mt_process *list, size_t count, size_t place)
{
	for (size_t step = 0; step <= count; step++) {
		place = mt_ancestry_find(list, count, list[place].parent);
		if (place == MT_ANCESTRY_NONE || list[place].shimmed)
			return place;
	}
	return MT_ANCESTRY_NONE;
}
