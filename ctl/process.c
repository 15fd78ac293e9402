/* ctl/process.c -- see process.h. */
#include "ctl/process.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/text.h"

char *mt_process_read(pid_t pid, const char *file, size_t *length)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return mt_text_read_file(path, length);
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

/* One line of maps: an executable mapping of a file called libmtshim.so, also once it was replaced ("(deleted)"). */
static bool line_is_shim(const char *line, size_t length)
{
	const char *end = line + length, *name;
	const char deleted[] = " (deleted)";
	size_t shim_length = strlen(MT_SHIM_NAME);

	if (length > strlen(deleted) && strncmp(end - strlen(deleted), deleted, strlen(deleted)) == 0)
		end -= strlen(deleted);
	if ((size_t)(end - line) <= shim_length)
		return false;
	name = end - shim_length;
	if (strncmp(name, MT_SHIM_NAME, shim_length) != 0 || name[-1] != '/')
		return false;
	line = memchr(line, ' ', length);
	return line && line + 3 < end && line[3] == 'x';
}

static bool maps_have_shim(const char *maps)
{
	while (*maps) {
		size_t length = strcspn(maps, "\n");

		if (line_is_shim(maps, length))
			return true;
		maps += length + (maps[length] == '\n');
	}
	return false;
}

/* Fields after the name, which is in parentheses and may hold anything, parentheses and newlines too. */
static bool read_stat(struct mt_process *process)
{
	char *stat = mt_process_read(process->pid, "stat", NULL), *after;
	char state = 'Z';
	int parent = 0;
	unsigned long long start = 0;
	long rss_pages = 0;
	bool complete = false;

	after = stat ? strrchr(stat, ')') : NULL;
	if (after)
		complete = sscanf(after + 1,
				  " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu"
				  " %*s %ld", &state, &parent, &start, &rss_pages) == 4;
	free(stat);
	process->parent = parent;
	process->start_ticks = start;
	process->rss_bytes = (uint64_t)(rss_pages > 0 ? rss_pages : 0) * (uint64_t)sysconf(_SC_PAGESIZE);
	return complete && state != 'Z' && state != 'X';
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
	process->own_pid = last_pid(status, process->pid);
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

static void read_names(struct mt_process *process)
{
	size_t length = 0;
	char *text = mt_process_read(process->pid, "comm", NULL);

	if (text) {
		text[strcspn(text, "\n")] = '\0';
		snprintf(process->comm, sizeof(process->comm), "%s", text);
		free(text);
	}
	mt_text_clean(process->comm, sizeof(process->comm));
	text = mt_process_read(process->pid, "cmdline", &length);
	if (text)
		join_arguments(text, length);
	snprintf(process->command, sizeof(process->command), "%s", text && *text ? text : process->comm);
	mt_text_clean(process->command, sizeof(process->command));
	free(text);
}

static uint64_t pidns_of(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

static bool may_look_into(const struct mt_process *process)
{
	return geteuid() == 0 || geteuid() == process->uid;
}

enum mt_err mt_process_find(pid_t pid, struct mt_process *out, struct mt_why *why)
{
	struct mt_process process = {.pid = pid};
	char path[64], *maps;

	if (!read_status(&process) || !read_stat(&process))
		return mt_error_because(why, MT_ERR_UNKNOWN, "no process %d", (int)pid);
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)process.pid);
	process.pidns = pidns_of(path);
	read_names(&process);
	maps = mt_process_maps(process.pid);
	if (!maps && errno != ENOENT && errno != ESRCH)
		return mt_error_because(why, MT_ERR_FOREIGN, "process %d (%s) may not be looked into: %s", (int)pid,
					process.comm, strerror(errno));
	process.shimmed = maps && maps_have_shim(maps);
	free(maps);
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

/* For the list: another user's processes are kept without their maps. */
static bool load_for_list(pid_t pid, struct mt_process *out)
{
	struct mt_process process = {.pid = pid};
	struct mt_why why;

	if (!read_status(&process) || !read_stat(&process))
		return false;
	if (may_look_into(&process) && mt_process_find(pid, &process, &why) == MT_ERR_OK) {
		*out = process;
		return true;
	}
	process.shimmed = false;
	*out = process;
	return true;
}

static int compare_pids(const void *a, const void *b)
{
	const struct mt_process *left = a, *right = b;

	return (left->pid > right->pid) - (left->pid < right->pid);
}

size_t mt_process_list(struct mt_process **out)
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
		count += load_for_list(pid, &list[count]);
	}
	if (directory)
		closedir(directory);
	if (count)
		qsort(list, count, sizeof(*list), compare_pids);
	*out = list;
	return count;
}

bool mt_process_is_alive(const struct mt_process *process)
{
	struct mt_process now = {.pid = process->pid};

	return read_stat(&now) && now.start_ticks == process->start_ticks;
}

uint64_t mt_process_own_pidns(void)
{
	char link[32] = "";

	if (readlink("/proc/self", link, sizeof(link) - 1) < 0 || strtol(link, NULL, 10) != (long)getpid())
		return 0;
	return pidns_of("/proc/self/ns/pid");
}

bool mt_process_environ(pid_t pid, const char *name, char *out, size_t out_bytes)
{
	size_t length = 0, name_length = strlen(name);
	char *list = mt_process_read(pid, "environ", &length);
	bool found = false;

	for (const char *entry = list; list && entry < list + length && !found; entry += strlen(entry) + 1) {
		if (strncmp(entry, name, name_length) == 0 && entry[name_length] == '=') {
			found = strlen(entry + name_length + 1) < out_bytes;
			if (found)
				strcpy(out, entry + name_length + 1);
		}
	}
	free(list);
	return found;
}
