/* ctl/ui/top/action.h -- requests of the view to processes, and their outcomes. No function waits:
 * a request is sent when its control file is free, and every call of mt_top_actions_poll takes it
 * further. A process has at most one request at a time. For one thread. */
#ifndef MT_CTL_UI_TOP_ACTION_H
#define MT_CTL_UI_TOP_ACTION_H

#include "ctl/channel/control_file.h"
#include "ctl/output/cells.h"

#define MT_TOP_ACTIONS_MAX 16

enum mt_top_action_state { MT_ACTION_FREE, MT_ACTION_SENDING, MT_ACTION_SENT, MT_ACTION_CLEANUP };

struct mt_top_action {
	enum mt_top_action_state state;
	struct mt_process process;
	struct mt_request request;
	struct mt_control_call call;
	char before[72];      /* of a setting: its value before */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC: of the reply, then of the cleanup's record */
};

struct mt_top_actions {
	struct mt_top_action list[MT_TOP_ACTIONS_MAX];
	struct mt_stats_file *file; /* the last one that was read */
};

struct mt_top_outcome {
	char text[400];
	enum mt_cell_style style;
};

void mt_top_actions_start(struct mt_top_actions *actions);

/* Gives up every control file and frees. Requests that were sent may still be carried out. */
void mt_top_actions_end(struct mt_top_actions *actions);

/* Accepts a request, TRIM or SET. Returns false with the reason in *why if another one is under
 * way for the process, or MT_TOP_ACTIONS_MAX are under way. */
bool mt_top_actions_send(struct mt_top_actions *actions, const struct mt_process *process,
			 const struct mt_request *request, struct mt_error_reason *why);

bool mt_top_actions_pending(const struct mt_top_actions *actions);

/* Takes all requests further. Returns true if one of them is over, and *out says how. */
bool mt_top_actions_poll(struct mt_top_actions *actions, struct mt_top_outcome *out);

#endif
