/* ctl/cmd/check.c -- `mtctl check`: how near memory is to its limit, for scripts that stop before
 * they are killed. */
#include <stdio.h>
#include <stdlib.h>

#include "ctl/channel/target.h"
#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/output/text.h"
#include "ctl/process/limit.h"

static void print_json(const struct mt_limit *memory, double threshold)
{
	json_t *root = json_object();

	mt_json_set(root, "used_pct", json_real(mt_limit_percent(memory)));
	mt_json_set(root, "threshold_pct", json_real(threshold));
	mt_json_set_bool(root, "above", mt_limit_percent(memory) >= threshold);
	mt_json_set_u64(root, "used_bytes", memory->used_bytes);
	mt_json_set_u64(root, "limit_bytes", memory->limit_bytes);
	mt_json_set_text(root, "source", memory->source);
	mt_json_print(root, false);
}

/* Of a process with the shim the limit that the shim goes by. */
static enum mt_err find_limit(const struct mt_process *process, pid_t pid, struct mt_limit *out)
{
	struct mt_stats_file *file = mt_error_check_memory(malloc(sizeof(*file)));
	struct mt_error_reason why;
	bool is_read = process->shimmed && mt_target_read(process, file, &why) == MT_ERR_OK;
	enum mt_err error = process->shimmed
				    ? mt_process_limit_find(process, is_read ? file : NULL, out)
				    : mt_limit_find("", pid, out);

	free(file);
	return error;
}

static int check(const char *pid_text, double threshold, bool json)
{
	struct mt_limit memory;
	struct mt_process process = {0};
	struct mt_error_reason why;
	enum mt_err found = MT_ERR_OK;
	enum mt_exit code;
	pid_t pid = 0;
	bool above;

	if (pid_text && (code = mt_target_choose(pid_text, false, &pid)) != MT_EXIT_OK)
		return code;
	if (pid)
		found = mt_process_find(pid, &process, &why);
	if (found == MT_ERR_UNKNOWN)
		return mt_error_fail(MT_EXIT_NO_PROCESS, &why);
	if (found != MT_ERR_OK)
		mt_error_say("process %d: its MT_LIMIT_MB and MT_CGROUP may not be read; its "
			     "cgroup and the machine count",
			     (int)pid);
	if (find_limit(&process, pid, &memory) != MT_ERR_OK) {
		mt_error_say("neither a cgroup limit nor /proc/meminfo can be read");
		return MT_EXIT_NOT_PERMITTED;
	}
	above = mt_limit_percent(&memory) >= threshold;
	mt_text_clean(memory.source, sizeof(memory.source));
	if (json)
		print_json(&memory, threshold);
	else
		printf("RAM at %.1f %% of %s (%s), %s the threshold of %g %%\n",
		       mt_limit_percent(&memory), mt_text_bytes(memory.limit_bytes).text,
		       *memory.source != '/' ? memory.source
		       : memory.is_cgroup    ? "cgroup limit"
					     : "machine",
		       above ? "at or above" : "below", threshold);
	return above ? MT_EXIT_NOTHING : MT_EXIT_OK;
}

int mt_command_check(int argc, char **argv)
{
	double threshold = 85;
	bool json = false;
	const struct mt_option options[] = {{.name = "threshold",
					     .target = &threshold,
					     .take = mt_option_percent,
					     .letter = 't'},
					    {.name = "json", .target = &json},
					    {0}};
	const struct mt_command_line line = {"check", NULL, options, 0, 1};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	return check(argv[optind], threshold, json);
}
