/* ctl/cmd/reset_peak.c -- `mtctl reset-peak`. */
#include <stdio.h>

#include "ctl/command.h"
#include "ctl/cmd/request.h"
#include "ctl/output/text.h"

int mt_command_reset_peak(int argc, char **argv)
{
	struct mt_request_command ask = {.command = "reset-peak",
					 .request = {.kind = MT_REQUEST_RESET_PEAK}};
	int code = mt_request_command_run(&ask, argc, argv);

	if (ask.answered && mt_stats_file_uses_cuda(&ask.head))
		printf("process %d (%s): the peaks start again: live bytes at %s, GPU allocated at "
		       "%s, reserved at %s\n",
		       (int)ask.process.pid, ask.process.comm,
		       mt_text_bytes(ask.head.snapshot.heap_live_peak_bytes).text,
		       mt_text_bytes(ask.head.snapshot.gpu_allocated_peak_bytes).text,
		       mt_text_bytes(ask.head.snapshot.gpu_reserved_peak_bytes).text);
	else if (ask.answered)
		printf("process %d (%s): the peak of live bytes starts again at %s\n",
		       (int)ask.process.pid, ask.process.comm,
		       mt_text_bytes(ask.head.snapshot.heap_live_peak_bytes).text);
	return code;
}
