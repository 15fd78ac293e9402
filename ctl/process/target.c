/* ctl/process/target.c -- see target.h. */
#include "ctl/process/target.h"

#include <unistd.h>

#include "ctl/process/stats_dir.h"

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
	    !mt_process_runs(process->pid, head->stack_start))
		return mt_error_because(
			why, MT_ERR_NOT_AVAILABLE,
			"asleep: its files are those of the program before its exec");
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

enum mt_exit mt_target_parse_pid(const char *text, pid_t *out)
{
	if (mt_process_parse_pid(text, out) == MT_ERR_OK)
		return MT_EXIT_OK;
	mt_error_say("'%.60s' is not a process id", text);
	return MT_EXIT_USAGE;
}

enum mt_exit mt_target_fail(const struct mt_process *process, enum mt_err error,
			    const struct mt_error_reason *why)
{
	mt_process_say(process, why->text);
	return mt_error_exit(error);
}

enum mt_exit mt_target_find(const char *pid, struct mt_process *out)
{
	struct mt_error_reason why;
	pid_t number;
	enum mt_exit code = mt_target_parse_pid(pid, &number);
	enum mt_err error;

	if (code != MT_EXIT_OK)
		return code;
	error = mt_process_find_shimmed(number, out, &why);
	if (!error)
		return MT_EXIT_OK;
	return mt_error_fail(error == MT_ERR_TIMEOUT ? MT_EXIT_NO_ANSWER : MT_EXIT_NOT_SHIMMED,
			     &why);
}

enum mt_exit mt_target_open(const char *pid, struct mt_target *out)
{
	struct mt_error_reason why;
	enum mt_exit code = mt_target_find(pid, &out->process);
	enum mt_err error;

	if (code != MT_EXIT_OK)
		return code;
	error = mt_target_read(&out->process, &out->file, &why);
	return error ? mt_target_fail(&out->process, error, &why) : MT_EXIT_OK;
}
