/* ctl/process.c -- see process.h. */
#include "ctl/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/text.h"

#define MAPS_BYTES  32768
#define FILE_MOST   ((size_t)1 << 30) /* a million mappings, which a process may have, are 750 MB of smaps */
#define MEMORY_MOST ((size_t)8 << 20)
#define STAT_FIELDS 29 /* up to startstack */

char *mt_process_read(pid_t pid, const char *file, size_t *length)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return mt_text_read_most(path, FILE_MOST, length);
}

char *mt_process_read_memory(pid_t pid, const char *file, size_t *length)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return mt_text_read_first(path, MEMORY_MOST, length);
}

char *mt_process_maps(pid_t pid)
{
	return mt_process_read(pid, "maps", NULL);
}

enum mt_err mt_process_parse_pid(const char *text, pid_t *out)
{
	uint64_t number;

	if (!mt_text_parse_u64(text, &number) || number < 1 || number > INT_MAX)
		return MT_ERR_INVALID;
	*out = (pid_t)number;
	return MT_ERR_OK;
}

/* A file called libmtshim.so, also once it was replaced ("(deleted)"). */
static bool name_is_shim(const char *name, size_t length, bool *out_deleted)
{
	const char deleted[] = " (deleted)";
	size_t deleted_length = strlen(deleted), shim_length = strlen("/" MT_SHIM_NAME);

	*out_deleted = length > deleted_length && strncmp(name + length - deleted_length, deleted, deleted_length) == 0;
	if (*out_deleted)
		length -= deleted_length;
	return length >= shim_length && strncmp(name + length - shim_length, "/" MT_SHIM_NAME, shim_length) == 0;
}

/* One line of maps: an executable mapping of it. */
static bool line_is_shim(const char *line, size_t length, bool *out_deleted)
{
	const char *blank = memchr(line, ' ', length);

	return name_is_shim(line, length, out_deleted) && blank && blank + 3 < line + length && blank[3] == 'x';
}

/* Stops at the first: the maps of a large program are long, and every line of them costs the kernel a path. */
static bool maps_have_shim(int fd, bool *out_deleted)
{
	static char text[MAPS_BYTES]; /* of more than the longest line: a path of 4096 bytes, each of them written as \012 */
	size_t used = 0;
	ssize_t got;

	while ((got = read(fd, text + used, sizeof(text) - used)) > 0) {
		char *line = text, *end;

		used += (size_t)got;
		for (; (end = memchr(line, '\n', used - (size_t)(line - text))); line = end + 1)
			if (line_is_shim(line, (size_t)(end - line), out_deleted))
				return true;
		used -= (size_t)(line - text);
		memmove(text, line, used);
	}
	return false;
}

/* The same from Linux 6.11 on, a third of the work, since only executable mappings of files are looked at. The
 * declarations are those of linux/fs.h, which may be older than the kernel. false: the kernel has no such request. */
static bool query_has_shim(int fd, bool *out, bool *out_deleted)
{
	struct {
		uint64_t size, flags, address, start, end, vma_flags, page_size, offset, inode;
		uint32_t major, minor, name_bytes, id_bytes;
		uint64_t name, id;
	} query;
	char name[4096];
	uint64_t address = 0;
	int failed;

	do {
		memset(&query, 0, sizeof(query));
		query.size = sizeof(query);
		query.flags = 0x04 | 0x10 | 0x20; /* executable, at the address or the next one, of a file */
		query.address = address;
		query.name = (uint64_t)(uintptr_t)name;
		query.name_bytes = sizeof(name);
		failed = ioctl(fd, _IOWR('f', 17, query), &query) == 0 ? 0 : errno;
		address = query.end;
	} while (!failed && !(*out = name_is_shim(name, strnlen(name, sizeof(name)), out_deleted)));
	if (failed == ENOENT)
		*out = false;
	return !failed || failed == ENOENT;
}

/* Kept open: the way to /proc need not be gone again for every file of thousands. */
static int proc_directory(void)
{
	static int proc = -1;

	if (proc < 0)
		proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return proc;
}

static int open_proc(pid_t pid, const char *file)
{
	char path[64];

	snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
	return openat(proc_directory(), path, O_RDONLY | O_CLOEXEC);
}

/* A file that the kernel makes in one piece: one read is all of it, or as much as there is room for. */
static bool read_small(pid_t pid, const char *file, char *out, size_t out_bytes)
{
	ssize_t got;
	int fd = open_proc(pid, file);

	if (fd < 0)
		return false;
	got = read(fd, out, out_bytes - 1);
	close(fd);
	memset(out + (got > 0 ? got : 0), 0, out_bytes - (size_t)(got > 0 ? got : 0));
	return got > 0;
}

/* From the name on, which is in parentheses and may hold anything, parentheses too. Field numbers are those of proc(5). */
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
	process->is_kernel = fields[9] & 0x00200000; /* PF_KTHREAD */
	process->start_ticks = fields[22];
	process->rss_bytes = fields[24] > INT64_MAX ? 0 : fields[24] * (uint64_t)sysconf(_SC_PAGESIZE);
	process->stack_start = fields[28];
	return state != 'Z' && state != 'X';
}

static bool read_stat(struct mt_process *process)
{
	char text[1024];

	return read_small(process->pid, "stat", text, sizeof(text)) && parse_stat(text, process);
}

/* The last of "NSpid:\t12\t1": what the process calls itself. Kernels without the line have no other namespace. */
static pid_t last_pid(const char *status, pid_t pid)
{
	const char *line = strstr(status, "\nNSpid:");
	char *next;
	long own = pid;

	if (!line)
		return pid;
	line += strlen("\nNSpid:");
	for (long value = strtol(line, &next, 10); next != line && *line != '\n'; value = strtol(line, &next, 10)) {
		own = value;
		line = next;
	}
	return (pid_t)own;
}

static bool read_status(struct mt_process *process)
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
	if (mt_text_find_number(status, "Tgid", &group) && group && group <= INT_MAX)
		process->pid = (pid_t)group;
	free(status);
	return true;
}

/* Arguments are separated by NULs; a program that has written its title there leaves blanks behind it. */
static void join_arguments(char *text, size_t length)
{
	while (length && (text[length - 1] == '\0' || text[length - 1] == ' '))
		text[--length] = '\0';
	for (size_t i = 0; i < length; i++)
		if (!text[i])
			text[i] = ' ';
}

void mt_process_read_command(struct mt_process *process)
{
	char text[sizeof(process->command)] = "";

	if (read_small(process->pid, "cmdline", text, sizeof(text)))
		join_arguments(text, sizeof(text) - 1);
	snprintf(process->command, sizeof(process->command), "%s", *text ? text : process->comm);
	mt_text_clean(process->command, sizeof(process->command));
}

static uint64_t pidns_of(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

uint64_t mt_process_own_pidns(void)
{
	static bool asked;
	static uint64_t pidns;
	char link[32] = "";

	if (!asked && readlink("/proc/self", link, sizeof(link) - 1) > 0 && strtol(link, NULL, 10) == (long)getpid())
		pidns = pidns_of("/proc/self/ns/pid");
	asked = true;
	return pidns;
}

/* What it calls itself. The status file is asked only where there is more than one answer: it is long. */
static void read_identity(struct mt_process *process)
{
	char path[64], *status = NULL;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)process->pid);
	process->pidns = pidns_of(path);
	if (!process->pidns || process->pidns != mt_process_own_pidns())
		status = mt_process_read(process->pid, "status", NULL);
	process->own_pid = status ? last_pid(status, process->pid) : process->pid;
	free(status);
}

bool mt_process_may_look_into(const struct mt_process *process)
{
	static uid_t asker = (uid_t)-1; /* no system call for each of thousands */

	if (asker == (uid_t)-1)
		asker = geteuid();
	return !process->is_kernel && (asker == 0 || asker == process->uid);
}

enum mt_err mt_process_look(struct mt_process *process, struct mt_why *why)
{
	bool shimmed = false, deleted = false;
	int fd = open_proc(process->pid, "maps");

	if (fd < 0 && errno != ENOENT && errno != ESRCH)
		return mt_error_because(why, MT_ERR_FOREIGN, "process %d (%s) may not be looked into: %s", (int)process->pid,
					process->comm, strerror(errno));
	if (fd >= 0 && !query_has_shim(fd, &shimmed, &deleted))
		shimmed = maps_have_shim(fd, &deleted);
	if (fd >= 0)
		close(fd);
	process->shimmed = shimmed;
	process->library_deleted = shimmed && deleted;
	if (process->shimmed)
		read_identity(process);
	return MT_ERR_OK;
}

enum mt_err mt_process_find(pid_t pid, struct mt_process *out, struct mt_why *why)
{
	struct mt_process process = {.pid = pid};
	enum mt_err error;

	if (!read_status(&process) || !read_stat(&process))
		return mt_error_because(why, MT_ERR_UNKNOWN, "no process %d", (int)pid);
	mt_process_read_command(&process);
	error = mt_process_look(&process, why);
	if (error)
		return error;
	if (!process.shimmed)
		read_identity(&process);
	*out = process;
	return MT_ERR_OK;
}

enum mt_err mt_process_find_shimmed(pid_t pid, struct mt_process *out, struct mt_why *why)
{
	struct mt_process process;
	enum mt_err error = mt_process_find(pid, &process, why);

	if (error)
		return error;
	if (!process.shimmed)
		return mt_error_because(why, MT_ERR_UNKNOWN, "process %d (%s) does not carry the shim", (int)pid,
					process.comm);
	*out = process;
	return MT_ERR_OK;
}

/* The owner of the directory is the effective user, of a process that may not be looked into as well; a stat file belongs to
 * root then. Much cheaper than the status file. */
static bool scan(pid_t pid, struct mt_process *out)
{
	struct mt_process process = {.pid = pid, .own_pid = pid};
	struct stat status;
	char path[32];

	snprintf(path, sizeof(path), "%d", (int)pid);
	if (fstatat(proc_directory(), path, &status, 0) != 0 || !read_stat(&process))
		return false;
	process.uid = status.st_uid;
	snprintf(process.command, sizeof(process.command), "%s", process.comm);
	*out = process;
	return true;
}

static int compare_pids(const void *a, const void *b)
{
	const struct mt_process *left = a, *right = b;

	return (left->pid > right->pid) - (left->pid < right->pid);
}

size_t mt_process_scan(struct mt_process **out)
{
	struct mt_process *list = NULL;
	size_t count = 0, room = 0;
	DIR *directory = opendir("/proc");
	const struct dirent *entry;
	pid_t pid;

	while (directory && (entry = readdir(directory))) {
		if (mt_process_parse_pid(entry->d_name, &pid) != MT_ERR_OK)
			continue;
		if (count == room) {
			room = room ? room * 2 : 64;
			list = mt_error_check_memory(realloc(list, room * sizeof(*list)));
		}
		count += scan(pid, &list[count]);
	}
	if (directory)
		closedir(directory);
	if (count)
		qsort(list, count, sizeof(*list), compare_pids);
	*out = list;
	return count;
}

size_t mt_process_list(struct mt_process **out)
{
	size_t count = mt_process_scan(out);
	struct mt_why why;

	for (size_t i = 0; i < count; i++) {
		if (!mt_process_may_look_into(&(*out)[i]))
			continue;
		mt_process_look(&(*out)[i], &why);
		mt_process_read_command(&(*out)[i]);
	}
	return count;
}

bool mt_process_is_alive(const struct mt_process *process)
{
	struct mt_process now = {.pid = process->pid};

	return read_stat(&now) && now.start_ticks == process->start_ticks;
}

bool mt_process_runs(pid_t pid, uint64_t stack_start)
{
	struct mt_process now = {.pid = pid};

	return !stack_start || !read_stat(&now) || !now.stack_start || now.stack_start == stack_start;
}

bool mt_process_find_variable(const char *list, size_t length, const char *name, char *out, size_t out_bytes)
{
	size_t name_length = strlen(name);

	for (const char *entry = list; entry < list + length; entry += strlen(entry) + 1) {
		if (strncmp(entry, name, name_length) != 0 || entry[name_length] != '=')
			continue;
		if (strlen(entry + name_length + 1) >= out_bytes)
			return false;
		strcpy(out, entry + name_length + 1);
		return true;
	}
	return false;
}

bool mt_process_environ(pid_t pid, const char *name, char *out, size_t out_bytes)
{
	size_t length = 0;
	char *list = mt_process_read_memory(pid, "environ", &length);
	bool found = list && mt_process_find_variable(list, length, name, out, out_bytes);

	free(list);
	return found;
}
