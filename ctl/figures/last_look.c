#include "ctl/figures/stats_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <unistd.h>

#include "core/cgroup.h"
#include "ctl/output/text.h"
#include "ctl/process/process.h"
#include "ctl/process/read_file.h"

#define FILES_MAX        100
#define KERNEL_LOG_BYTES ((size_t)1 << 20)
#define KLOG_READ_ALL    3 /* syslog(2) */

/* ---- reading ---- */

void mt_last_look_folder(const char *given, char *out, size_t out_bytes)
{
	const char *named = given ? given : getenv("MT_LAST_DIR"),
		   *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	*out = '\0';
	if (named && *named)
		snprintf(out, out_bytes, "%s", *named == '/' || given ? named : "");
	else if (state && *state == '/')
		snprintf(out, out_bytes, "%s/mtshim", state);
	else if (home && *home == '/')
		snprintf(out, out_bytes, "%s/.local/state/mtshim", home);
}

static enum mt_err refuse(struct mt_error_reason *why, const char *path, const char *reason)
{
	return mt_error_because(why, MT_ERR_INVALID, "%s: refused: %s", path, reason);
}

static enum mt_err refuse_other(struct mt_error_reason *why, const char *path)
{
	(void)refuse(why, path, "another version wrote it; use the mtctl of that version");
	return MT_ERR_OLDER;
}

static enum mt_err check(const char *path, const struct mt_last_file *file, size_t got,
			 struct mt_error_reason *why)
{
	const struct mt_last_head *head = &file->head;

	if (got < sizeof(*head) || head->magic != MT_LAST_MAGIC)
		return refuse(why, path, "not written by a process at its limit");
	if (head->version != MT_LAST_VERSION || head->file_bytes != sizeof(*file) ||
	    head->stats_bytes != sizeof(file->stats))
		return refuse_other(why, path);
	if (got != sizeof(*file))
		return refuse(why, path, "it is cut short");
	if (file->checksum !=
	    mt_stats_checksum(MT_CHECKSUM_START, file, offsetof(struct mt_last_file, checksum)))
		return refuse(why, path, "its checksum is wrong");
	if (head->sites_count > MT_LAST_SITES_COUNT ||
	    head->processes_count > MT_LAST_PROCESSES_COUNT || head->cause >= MT_LAST_CAUSE_COUNT)
		return refuse(why, path, "its counts make no sense");
	return mt_stats_file_check(&file->stats, why) ? refuse_other(why, path) : MT_ERR_OK;
}

/* Each line is cleaned for itself. Tabs become blanks. */
static void clean_lines(char *text, size_t text_bytes)
{
	text[text_bytes - 1] = '\0';
	for (char *tab = text; (tab = strchr(tab, '\t'));)
		*tab = ' ';
	for (char *line = text; line;) {
		char *end = strchr(line, '\n');

		if (end)
			*end = '\0';
		mt_text_clean(line, strlen(line) + 1);
		if (end)
			*end = '\n';
		line = end ? end + 1 : NULL;
	}
}

static void clean(struct mt_last_file *file)
{
	struct mt_last_head *head = &file->head;

	mt_text_clean(head->limit_path, sizeof(head->limit_path));
	mt_text_clean(head->command, sizeof(head->command));
	clean_lines(head->status, sizeof(head->status));
	for (size_t i = 0; i < head->sites_count; i++)
		clean_lines(file->sites[i].text, sizeof(file->sites[i].text));
	for (size_t i = 0; i < head->processes_count; i++)
		mt_text_clean(file->processes[i].comm, sizeof(file->processes[i].comm));
	mt_stats_file_clean(&file->stats);
}

bool mt_last_look_is_file(const char *path)
{
	uint64_t magic = 0;
	int fd = mt_read_file_open(path);
	bool is_one = fd >= 0 && mt_read_file_at(fd, &magic, sizeof(magic), 0) == sizeof(magic) &&
		      magic == MT_LAST_MAGIC;

	if (fd >= 0)
		close(fd);
	return is_one;
}

/* ---- what became of the process ---- */

/* The kernel's log may be read by root alone (kernel.dmesg_restrict). */
static bool is_in_kernel_log(uint64_t pid)
{
	char *log = mt_error_check_memory(calloc(1, KERNEL_LOG_BYTES)), wanted[64];
	bool found;

	snprintf(wanted, sizeof(wanted), "Killed process %llu (", (unsigned long long)pid);
	found = klogctl(KLOG_READ_ALL, log, (int)KERNEL_LOG_BYTES - 1) > 0 && strstr(log, wanted);
	free(log);
	return found;
}

static void find_fate(struct mt_last_look *look)
{
	const struct mt_last_head *head = &look->file.head;
	const struct mt_stats_head *stats = &look->file.stats.head;
	struct mt_process process = {.pid = (pid_t)stats->pid, .start_ticks = stats->start_ticks};
	uint64_t kills = mt_cgroup_path_oom_kills(head->limit_path);

	look->fate = MT_LAST_ENDED;
	*look->evidence = '\0';
	if (stats->pidns == mt_process_own_pidns() && mt_process_is_alive(&process)) {
		look->fate = MT_LAST_RUNS;
	} else if (kills != UINT64_MAX && kills > head->oom_kills_count) {
		look->fate = MT_LAST_KILLED;
		snprintf(look->evidence, sizeof(look->evidence),
			 "oom_kill of the cgroup rose from %llu to %llu",
			 (unsigned long long)head->oom_kills_count, (unsigned long long)kills);
	} else if (is_in_kernel_log(stats->pid)) {
		look->fate = MT_LAST_KILLED;
		snprintf(look->evidence, sizeof(look->evidence), "the kernel's log names it");
	}
}

enum mt_err mt_last_look_read(const char *path, struct mt_last_look *out,
			      struct mt_error_reason *why)
{
	int fd = mt_read_file_open(path);
	enum mt_err error;
	size_t got;

	if (fd < 0)
		return mt_error_because(why, MT_ERR_SYSTEM, "%s: %s", path, strerror(errno));
	got = mt_read_file_at(fd, &out->file, sizeof(out->file), 0);
	close(fd);
	error = check(path, &out->file, got, why);
	if (error)
		return error;
	snprintf(out->path, sizeof(out->path), "%s", path);
	clean(&out->file);
	find_fate(out);
	return MT_ERR_OK;
}

/* ---- the folder ---- */

static int newest_first(const void *a, const void *b)
{
	uint64_t left = ((const struct mt_last_look *)a)->file.head.time_ns,
		 right = ((const struct mt_last_look *)b)->file.head.time_ns;

	return (left < right) - (left > right);
}

size_t mt_last_look_list(const char *folder, struct mt_last_look **out)
{
	DIR *open = opendir(folder);
	struct mt_error_reason why;
	enum mt_err error;
	struct dirent *entry;
	size_t count = 0, others_count = 0;
	char path[600];

	*out = NULL;
	while (open && count < FILES_MAX && (entry = readdir(open))) {
		if (!mt_text_ends_with(entry->d_name, ".last"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		*out = mt_error_make_room(*out, count, sizeof(**out));
		error = mt_last_look_read(path, &(*out)[count], &why);
		count += !error;
		others_count += error == MT_ERR_OLDER;
		if (error && error != MT_ERR_OLDER)
			mt_error_say("%s", why.text);
	}
	if (others_count)
		mt_error_say("%s: %s of another version: use the mtctl of that version", folder,
			     mt_text_counted(others_count, "file is", "files are").text);
	if (open)
		closedir(open);
	if (count)
		qsort(*out, count, sizeof(**out), newest_first);
	return count;
}

/* The newest valid file of a process with this id, as the process saw itself. */
static bool find(const char *folder, pid_t pid, struct mt_last_look *out)
{
	struct mt_last_look *list;
	size_t count = mt_last_look_list(folder, &list), at = 0;

	while (at < count && list[at].file.stats.head.pid != (uint64_t)pid)
		at++;
	if (at < count)
		*out = list[at];
	free(list);
	return at < count;
}

void mt_last_look_say(pid_t pid)
{
	struct mt_last_look *look = mt_error_check_memory(malloc(sizeof(*look)));
	char folder[600];

	mt_last_look_folder(NULL, folder, sizeof(folder));
	if (find(folder, pid, look))
		mt_error_say("killed with %s of its limit of %s in use; `mtctl last %d` says what "
			     "filled it",
			     mt_text_bytes(look->file.head.used_bytes).text,
			     mt_text_bytes(look->file.head.limit_bytes).text, (int)pid);
	free(look);
}
