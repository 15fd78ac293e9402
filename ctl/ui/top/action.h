/* ctl/ui/top/action.h -- what the view has asked processes for, and what became of it. Nothing here
 * waits: a request is sent when its control file is free, and looked after at every call of
 * mt_top_actions_poll. One thing at a time for each process. */
#ifndef MT_CTL_UI_TOP_ACTION_H
#define MT_CTL_UI_TOP_ACTION_H

#include "ctl/process/control_file.h"
#include "ctl/ui/top/canvas.h"

#define MT_TOP_ACTIONS_MOST 16

enum mt_top_action_state { MT_ACTION_FREE, MT_ACTION_SENDING, MT_ACTION_ASKED, MT_ACTION_RECORD };

struct mt_top_action {
	enum mt_top_action_state state;
	struct mt_process process;
	struct mt_request request;
	struct mt_control_call call;
	char before[72];      /* of a setting: the value it had */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC: of the answer, then of the record */
};

struct mt_top_actions {
	struct mt_top_action list[MT_TOP_ACTIONS_MOST];
	struct mt_stats_file *file; /* the last that was read */
};

struct mt_top_outcome {
	char text[400];
	enum mt_top_style style;
};

void mt_top_actions_start(struct mt_top_actions *actions);

/* Gives up every control file. What was asked for may still be done. */
void mt_top_actions_end(struct mt_top_actions *actions);

/* Takes a TRIM or a SET. false, with the reason in *why: something is still under way for this
 * process, or for too many. */
bool mt_top_actions_ask(struct mt_top_actions *actions, const struct mt_process *process,
			const struct mt_request *request, struct mt_why *why);

bool mt_top_actions_pending(const struct mt_top_actions *actions);

/* Looks after all; true: one of them is over, and *out says how. */
bool mt_top_actions_poll(struct mt_top_actions *actions, struct mt_top_outcome *out);

#endif
