#include "ctl/channel/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/config.h"
#include "ctl/channel/stats_dir.h"
#include "ctl/figures/setting.h"
#include "ctl/output/text.h"
#include "ctl/process/clock.h"
#include "ctl/process/read_file.h"

/* how often, and how far apart, for the shim in a process */
#define LOOKS_MAX 30
#define LOOK_MS   5u

/* Refuses a valid file of another process that was copied or renamed. Also refuses a file that the
 * process wrote before its exec: the new program does not read the control file. */
static enum mt_err check_identity(const struct mt_process *process,
				  const struct mt_stats_head *head, struct mt_error_reason *why)
{
	if (head->pid != (uint64_t)process->own_pid || head->start_ticks != process->start_ticks ||
	    head->pidns != process->pidns)
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the stats file belongs to another process");
	if (head->stack_start != process->stack_start &&
	    !mt_process_runs(process->pid, head->stack_start)) {
		mt_error_because(why, MT_ERR_NOT_AVAILABLE,
				 "asleep: its files are those of the program before its exec");
		why->lacks_files = true;
		return MT_ERR_NOT_AVAILABLE;
	}
	return MT_ERR_OK;
}

static enum mt_err read_head(const struct mt_process *process,
			     enum mt_err (*read)(int, struct mt_stats_head *,
						 struct mt_error_reason *),
			     struct mt_stats_head *out, struct mt_error_reason *why)
{
	struct mt_stats_head head;
	int fd;
	enum mt_err error = mt_stats_dir_open(process, MT_STATS_DIR_STATS, &fd, why);

	if (error)
		return error;
	error = read(fd, &head, why);
	close(fd);
	if (!error)
		error = check_identity(process, &head, why);
	if (!error)
		*out = head;
	return error;
}

enum mt_err mt_target_read_head(const struct mt_process *process, struct mt_stats_head *out,
				struct mt_error_reason *why)
{
	return read_head(process, mt_stats_file_read_head, out, why);
}

enum mt_err mt_target_try_head(const struct mt_process *process, struct mt_stats_head *out,
			       struct mt_error_reason *why)
{
	return read_head(process, mt_stats_file_try_head, out, why);
}

enum mt_err mt_target_read_devices(const struct mt_process *process,
				   const struct mt_stats_head *head, bool is_near,
				   struct mt_stats_device *out, struct mt_error_reason *why)
{
	int fd;
	enum mt_err error = is_near ? mt_stats_dir_open_near(process, &fd, why)
				    : mt_stats_dir_open(process, MT_STATS_DIR_STATS, &fd, why);

	if (error)
		return error;
	error = mt_stats_file_read_devices(fd, head, out, why);
	close(fd);
	return error;
}

bool mt_target_read_near(struct mt_process *process, struct mt_stats_head *out)
{
	struct mt_process near = *process;
	struct mt_stats_head head;
	struct mt_error_reason why;
	enum mt_err error;
	int fd;

	near.own_pid = near.pid;
	near.pidns = mt_process_own_pidns();
	if (!near.pidns || !near.stack_start ||
	    mt_stats_dir_open_near(&near, &fd, &why) != MT_ERR_OK)
		return false;
	error = mt_stats_file_try_head(fd, &head, &why);
	close(fd);
	if (error || check_identity(&near, &head, &why) != MT_ERR_OK ||
	    head.stack_start != near.stack_start)
		return false;
	*out = head;
	near.shimmed = true;
	*process = near;
	return true;
}

enum mt_err mt_target_read_open(const struct mt_process *process, int fd, struct mt_stats_file *out,
				struct mt_error_reason *why)
{
	enum mt_err error = mt_stats_file_read(fd, out, why);

	return error ? error : check_identity(process, &out->head, why);
}

enum mt_err mt_target_read(const struct mt_process *process, struct mt_stats_file *out,
			   struct mt_error_reason *why)
{
	int fd;
	enum mt_err error = mt_stats_dir_open(process, MT_STATS_DIR_STATS, &fd, why);

	if (error)
		return error;
	error = mt_target_read_open(process, fd, out, why);
	close(fd);
	return error;
}

/* ---- words of the command line ---- */

#define LISTED_MAX 20u

struct pids {
	pid_t *list;
	size_t count;
};

/* Adds a pid that the list does not have yet. */
static void add_pid(struct pids *pids, pid_t pid)
{
	for (size_t i = 0; i < pids->count; i++)
		if (pids->list[i] == pid)
			return;
	pids->list = mt_error_make_room(pids->list, pids->count, sizeof(*pids->list));
	pids->list[pids->count++] = pid;
}

static void list_matches(const struct mt_process *list, size_t count)
{
	for (size_t i = 0; i < count && i < LISTED_MAX; i++)
		mt_error_say("  %7d  %.*s", (int)list[i].pid, mt_text_fit(list[i].command, 72),
			     list[i].command);
	if (count > LISTED_MAX)
		mt_error_say("  and %zu more", count - LISTED_MAX);
}

/* A name with a blank or a comma, or with a dash in front, names no process: the command line has
 * uses of its own for them. Lists the processes in whose command it is. */
static bool list_commands_with(const char *name)
{
	struct mt_process *list;
	size_t count = mt_process_read_all(&list), kept = 0;

	for (size_t i = 0; i < count && strpbrk(name, " ,-"); i++)
		if (list[i].pid != getpid() && strstr(list[i].command, name))
			list[kept++] = list[i];
	if (kept) {
		mt_error_say("'%.60s' cannot be given as a name: give the process id", name);
		list_matches(list, kept);
	}
	free(list);
	return kept > 0;
}

/* How many processes a word may mean. ROOT: one, that of which the others with the name descend. */
enum meaning { SEVERAL, ONE, ROOT };

/* Keeps those that descend from no other in the list. Returns how many. */
static size_t keep_roots(struct mt_process *list, size_t count)
{
	struct mt_process *all, *named = mt_error_check_memory(calloc(count + 1, sizeof(*named)));
	size_t all_count = mt_process_scan(&all), kept = 0;

	for (size_t i = 0; i < count; i++)
		named[i] = list[i];
	for (size_t i = 0; i < count; i++) {
		bool is_root = true;

		for (size_t j = 0; j < count; j++)
			is_root &= i == j || !mt_ancestry_descends(all, all_count, named[i].pid,
								   named[j].pid);
		if (is_root)
			list[kept++] = named[i];
	}
	free(named);
	free(all);
	return kept;
}

static enum mt_exit add_named(const char *name, enum meaning meaning, struct pids *out)
{
	struct mt_error_reason nearest;
	struct mt_process *list;
	size_t count = mt_process_find_named(name, &list, &nearest);
	bool only_one = meaning != SEVERAL;

	if (meaning == ROOT)
		count = keep_roots(list, count);
	if (!count && !list_commands_with(name)) {
		if (*nearest.text)
			mt_error_say("no process '%.60s'; did you mean '%.60s'?", name,
				     nearest.text);
		else
			mt_error_say("no process '%.60s'; `mtctl ps` lists those under the shim",
				     name);
	}
	if (count > 1) {
		mt_error_say("'%.60s' is the name of %zu processes%s", name, count,
			     only_one ? "; give the id of one" : "");
		list_matches(list, count);
	}
	for (size_t i = 0; i < count; i++)
		add_pid(out, list[i].pid);
	free(list);
	return !count ? MT_EXIT_NO_PROCESS : count > 1 && only_one ? MT_EXIT_USAGE : MT_EXIT_OK;
}

static enum mt_exit add_word(const char *word, enum meaning meaning, struct pids *out)
{
	pid_t pid;

	if (*word && *word != '-' && word[strspn(word, "0123456789")])
		return add_named(word, meaning, out);
	if (mt_process_parse_pid(word, &pid) != MT_ERR_OK) {
		if (*word != '-' || !list_commands_with(word))
			mt_error_say("'%.60s' is neither a process id nor the name of a process",
				     word);
		return MT_EXIT_USAGE;
	}
	add_pid(out, pid);
	return MT_EXIT_OK;
}

static void pids_free(struct pids *pids)
{
	free(pids->list);
	*pids = (struct pids){0};
}

static enum mt_exit choose_all(char **words, size_t count, struct pids *out)
{
	enum mt_exit code = MT_EXIT_OK;

	*out = (struct pids){0};
	for (size_t i = 0; i < count && code == MT_EXIT_OK; i++) {
		char *copy = mt_error_check_memory(strdup(words[i])), *rest = copy, *word;

		while (code == MT_EXIT_OK && (word = strsep(&rest, ",")))
			code = add_word(word, SEVERAL, out);
		if (code != MT_EXIT_OK && strchr(words[i], ','))
			(void)list_commands_with(words[i]);
		free(copy);
	}
	if (code != MT_EXIT_OK)
		pids_free(out);
	return code;
}

enum mt_exit mt_target_choose(const char *word, bool is_tree, pid_t *out)
{
	struct pids pids = {0};
	enum mt_exit code;

	if (strchr(word, ',')) {
		if (!list_commands_with(word))
			mt_error_say("'%.60s': this command takes one process", word);
		return MT_EXIT_USAGE;
	}
	code = add_word(word, is_tree ? ROOT : ONE, &pids);
	if (code == MT_EXIT_OK)
		*out = pids.list[0];
	pids_free(&pids);
	return code;
}

/* ---- processes ---- */

/* Whether it holds less anonymous memory than its MT_MIN_MB. */
static bool is_small(const struct mt_process *process)
{
	const struct mt_setting *setting = mt_setting_find("min_mb");
	char *status = mt_process_read(process->pid, "status", NULL), given[24];
	uint64_t anon_kb = 0, min_mb = 0;

	if (!mt_process_environ(process->pid, setting->environment, given, sizeof(given)) ||
	    !mt_text_parse_u64(given, &min_mb))
		(void)mt_text_parse_u64(setting->initial, &min_mb);
	if (status)
		(void)mt_read_file_number(status, "RssAnon", &anon_kb);
	free(status);
	return anon_kb / 1024 < min_mb;
}

/* Returns whether a title that the program has written over its arguments has destroyed its
 * environment. */
static bool has_lost_environ(const struct mt_process *process)
{
	size_t length = 0;
	char *list = mt_process_read_memory(process->pid, "environ", &length);
	bool is_lost = list && length && !strchr(list, '=');

	free(list);
	return is_lost;
}

/* The shim decides by the name in argv[0] at the start, which a title hides. */
static enum mt_asleep decide(const struct mt_process *process)
{
	const struct mt_option_row row = {.kind = MT_KIND_bool, .max = 1};
	struct mt_config config = *mt_config();
	char *name = mt_process_read(process->pid, "cmdline", NULL), given[8];
	bool is_admitted, is_hidden = name && strpbrk(name, " :");

	(void)mt_process_environ(process->pid, "MT_ONLY", config.only, sizeof(config.only));
	(void)mt_process_environ(process->pid, "MT_EXCLUDE", config.exclude,
				 sizeof(config.exclude));
	if (mt_process_environ(process->pid, "MT_ENABLE", given, sizeof(given)))
		(void)mt_config_value_parse(&row, given, &config.enable);
	is_hidden = is_hidden && config.enable && (*config.only || *config.exclude);
	is_admitted = mt_config_admits(&config, name);
	free(name);
	return is_hidden ? MT_ASLEEP_RECORDED : is_admitted ? MT_ASLEEP_LITTLE : MT_ASLEEP_OFF;
}

enum mt_asleep mt_target_asleep(const struct mt_process *process)
{
	enum mt_asleep reason = has_lost_environ(process) ? MT_ASLEEP_RECORDED : decide(process);

	if (reason == MT_ASLEEP_LITTLE && is_small(process))
		return MT_ASLEEP_SMALL;
	return reason == MT_ASLEEP_LITTLE && mt_target_full_pids_max(process) ? MT_ASLEEP_THREADS
									      : reason;
}

uint64_t mt_target_full_pids_max(const struct mt_process *process)
{
	char *list = mt_process_read(process->pid, "cgroup", NULL), directory[512];
	const char *old = strstr(list ? list : "", ":pids:/"),
		   *path = old ? old : strstr(list ? list : "", "0::/");
	uint64_t refused = 0, max = 0;

	path = path ? strchr(path, '/') : "";
	snprintf(directory, sizeof(directory), "/sys/fs/cgroup%s%.*s", old ? "/pids" : "",
		 (int)strcspn(path, "\n"), path);
	free(list);
	(void)mt_cgroup_file_number(directory, "pids.events", "max", &refused);
	(void)mt_cgroup_file_number(directory, "pids.max", NULL, &max);
	return refused ? max : 0;
}

const char *mt_target_asleep_text(enum mt_asleep reason)
{
	static const char *const texts[] = {
#define X(name, text) text,
		MT_ASLEEP_REASONS(X)
#undef X
	};

	return texts[reason];
}

enum mt_exit mt_target_fail(const struct mt_process *process, enum mt_err error,
			    const struct mt_error_reason *why)
{
	mt_error_say("process %d (%s): %s%s%s", (int)process->pid, process->comm, why->text,
		     why->lacks_files ? ": " : "",
		     why->lacks_files ? mt_target_asleep_text(mt_target_asleep(process)) : "");
	if (error == MT_ERR_FOREIGN &&
	    (!process->shimmed || (geteuid() != 0 && geteuid() != process->uid)))
		return MT_EXIT_NOT_PERMITTED;
	if (error == MT_ERR_NOT_AVAILABLE && !process->shimmed)
		return MT_EXIT_NOT_SHIMMED;
	return mt_error_exit(error);
}

/* A process that has just called exec carries the shim when its loader has mapped it. A library of
 * another file name that is gone, or of an older version, is known by the files that it makes. */
static enum mt_exit find_pid(pid_t pid, bool with_shim, struct mt_process *out)
{
	struct mt_error_reason why;
	struct mt_stats_head head;
	enum mt_err error = mt_process_find(pid, out, &why);

	for (int i = 0; i < LOOKS_MAX && !error && !out->shimmed; i++) {
		if (mt_target_read_near(out, &head) || !with_shim)
			break;
		mt_clock_sleep_ms(LOOK_MS);
		error = mt_process_find(pid, out, &why);
	}
	if (!error)
		return with_shim && !out->shimmed ? mt_process_refuse_bare(out) : MT_EXIT_OK;
	return mt_error_fail(error == MT_ERR_TIMEOUT   ? MT_EXIT_NO_ANSWER
			     : error == MT_ERR_FOREIGN ? MT_EXIT_NOT_PERMITTED
						       : MT_EXIT_NO_PROCESS,
			     &why);
}

enum mt_exit mt_target_find_any(const char *word, bool is_tree, struct mt_process *out)
{
	pid_t pid;
	enum mt_exit code = mt_target_choose(word, is_tree, &pid);

	return code == MT_EXIT_OK ? find_pid(pid, false, out) : code;
}

enum mt_exit mt_target_find(const char *word, struct mt_process *out)
{
	pid_t pid;
	enum mt_exit code = mt_target_choose(word, false, &pid);

	return code == MT_EXIT_OK ? find_pid(pid, true, out) : code;
}

enum mt_exit mt_target_find_all(char **words, size_t count, struct mt_process **out,
				size_t *out_count)
{
	struct pids pids;
	enum mt_exit code = choose_all(words, count, &pids);
	struct mt_process *list = mt_error_check_memory(calloc(pids.count + 1, sizeof(*list)));

	for (size_t i = 0; i < pids.count && code == MT_EXIT_OK; i++)
		code = find_pid(pids.list[i], true, &list[i]);
	*out_count = pids.count;
	pids_free(&pids);
	if (code == MT_EXIT_OK)
		*out = list;
	else
		free(list);
	return code;
}

enum mt_exit mt_target_load(struct mt_target *target)
{
	struct mt_error_reason why;
	enum mt_err error = mt_target_read(&target->process, &target->file, &why);

	/* it takes its files with it */
	if (error && !mt_process_is_alive(&target->process))
		error = mt_error_because(&why, MT_ERR_UNKNOWN, "the process has ended");
	return error ? mt_target_fail(&target->process, error, &why) : MT_EXIT_OK;
}
