/* ctl/cmd/doctor.c -- `mtctl doctor`: checks the machine or a process for problems. */
#include "ctl/diagnose/doctor.h"

#include <stdio.h>

#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/process/target.h"

static const char help[] =
	"Without a PID: checks the machine and the environment for a program that is started\n"
	"from here. With a PID: shows the state of the shim in that process, where its settings\n"
	"came from, and the memory that it cannot reach.\n\n"
	"  --json  one object: checks, each with its finding (ok, note, warn) and advice; facts\n";

int mt_command_doctor(int argc, char **argv)
{
	bool json = false;
	const struct mt_option options[] = {{.name = "json", .target = &json}, {0}};
	const struct mt_command_line line = {"doctor", help, NULL, options, 0, 1};
	struct mt_process process = {0};
	char title[96];
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if (optind < argc) {
		code = mt_target_find(argv[optind], &process);
		if (code != MT_EXIT_OK)
			return code;
		snprintf(title, sizeof(title), "process %d (%s)", (int)process.pid, process.comm);
		if (json)
			mt_doctor_collect();
		mt_doctor_begin(title);
		mt_doctor_check_process(&process);
	} else {
		if (json)
			mt_doctor_collect();
		mt_doctor_begin("a program started from here");
		mt_doctor_check_environment();
		mt_doctor_check_limit(NULL, NULL);
	}
	mt_doctor_begin("the machine");
	mt_doctor_check_machine(process.pid);
	if (json)
		mt_json_print(mt_doctor_json(), true);
	return mt_doctor_warnings() ? MT_EXIT_NOTHING : MT_EXIT_OK;
}
