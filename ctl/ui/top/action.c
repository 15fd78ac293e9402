#include "ctl/ui/top/top.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/channel/target.h"
#include "ctl/output/text.h"

#define SET_TIMEOUT_MS 10000u

void mt_top_actions_start(struct mt_top_actions *actions)
{
	*actions = (struct mt_top_actions){0};
	actions->file = mt_error_check_memory(malloc(sizeof(*actions->file)));
}

void mt_top_actions_end(struct mt_top_actions *actions)
{
	for (size_t i = 0; i < MT_TOP_ACTIONS_MAX; i++)
		if (actions->list[i].is_pending)
			mt_control_call_end(&actions->list[i].call);
	free(actions->file);
	*actions = (struct mt_top_actions){0};
}

bool mt_top_actions_send(struct mt_top_actions *actions, const struct mt_process *process,
			 const struct mt_request *request, struct mt_error_reason *why)
{
	struct mt_top_action *unused = NULL;

	for (size_t i = 0; i < MT_TOP_ACTIONS_MAX; i++) {
		struct mt_top_action *action = &actions->list[i];

		if (!action->is_pending) {
			unused = action;
		} else if (action->call.process.pid == process->pid &&
			   action->call.process.start_ticks == process->start_ticks) {
			mt_error_because(why, MT_ERR_TIMEOUT, "still waiting for process %d",
					 (int)process->pid);
			return false;
		}
	}
	if (!unused) {
		mt_error_because(why, MT_ERR_TIMEOUT, "still waiting for %d processes",
				 MT_TOP_ACTIONS_MAX);
		return false;
	}
	unused->is_pending = true;
	mt_control_call_begin(process, request,
			      request->kind == MT_REQUEST_TRIM ? MT_TRIM_TIMEOUT_MS
							       : SET_TIMEOUT_MS,
			      &unused->call);
	return true;
}

bool mt_top_actions_pending(const struct mt_top_actions *actions)
{
	for (size_t i = 0; i < MT_TOP_ACTIONS_MAX; i++)
		if (actions->list[i].is_pending)
			return true;
	return false;
}

/* ---- outcomes ---- */

__attribute__((format(printf, 4, 5))) static void finish(struct mt_top_action *action,
							 struct mt_top_outcome *out,
							 enum mt_cell_style style,
							 const char *format, ...)
{
	va_list arguments;
	int used = snprintf(out->text, sizeof(out->text), "%d %s: ", (int)action->call.process.pid,
			    action->call.process.comm);

	va_start(arguments, format);
	vsnprintf(out->text + used, sizeof(out->text) - (size_t)used, format, arguments);
	va_end(arguments);
	out->style = style;
	mt_control_call_end(&action->call);
	action->is_pending = false;
}

static bool fail(struct mt_top_action *action, struct mt_top_outcome *out, enum mt_err error,
		 const struct mt_error_reason *why)
{
	if (error == MT_ERR_NOT_AVAILABLE)
		finish(action, out, MT_STYLE_WARN, "asleep: %s",
		       mt_target_asleep_text(mt_target_asleep(&action->call.process)));
	else
		finish(action, out, MT_STYLE_BAD, "%s", why->text);
	return true;
}

static void report_cleanup(struct mt_top_action *action, struct mt_top_outcome *out,
			   const struct mt_stats_cleanup *record)
{
	char gpu[120] = "", gc[72] = "";

	if (record->gpu_before_bytes)
		snprintf(gpu, sizeof(gpu), ", GPU %.30s -> %.30s (%.30s)",
			 mt_text_bytes(record->gpu_before_bytes).text,
			 mt_text_bytes(record->gpu_after_bytes).text,
			 mt_text_change(record->gpu_before_bytes, record->gpu_after_bytes).text);
	if (record->gc_state != MT_GC_NONE)
		snprintf(gc, sizeof(gc), ", gc %.58s",
			 mt_cleanup_gc_text(&(struct mt_cleanup_entry){.cleanup = record}).text);
	finish(action, out, mt_stats_has_freed(record) ? MT_STYLE_GOOD : MT_STYLE_WARN,
	       "%s, %s: RSS %s -> %s (%s)%s, %s%s", mt_stats_word_level(record->level),
	       mt_stats_word_outcome(record), mt_text_bytes(record->rss_before_bytes).text,
	       mt_text_bytes(record->rss_after_bytes).text,
	       mt_text_change(record->rss_before_bytes, record->rss_after_bytes).text, gpu,
	       mt_text_ns(mt_cleanup_cost_ns(record)).text, gc);
}

/* ---- the steps: each returns true when the request is over ---- */

/* Reads the value before, and whether the process can take the new one. */
static bool read_before_set(struct mt_top_actions *actions, struct mt_top_action *action,
			    struct mt_top_outcome *out)
{
	const struct mt_request *request = &action->call.request;
	struct mt_error_reason why;
	enum mt_err error = mt_target_read(&action->call.process, actions->file, &why);
	const char *why_not;

	if (error)
		return fail(action, out, error, &why);
	why_not = mt_set_request_unavailable(request, &actions->file->head);
	if (why_not) {
		finish(action, out, MT_STYLE_BAD, "%s", why_not);
		return true;
	}
	snprintf(action->before, sizeof(action->before), "%s",
		 mt_set_request_value(request, actions->file));
	return false;
}

static bool report_setting(struct mt_top_actions *actions, struct mt_top_action *action,
			   struct mt_top_outcome *out)
{
	const struct mt_request *request = &action->call.request;
	struct mt_error_reason why;
	enum mt_err error = mt_target_read(&action->call.process, actions->file, &why);

	if (error)
		return fail(action, out, error, &why);
	finish(action, out, MT_STYLE_GOOD, "%s: %s -> %s", request->name, action->before,
	       mt_set_request_value(request, actions->file));
	return true;
}

/* The reply is final. */
static bool report(struct mt_top_actions *actions, struct mt_top_action *action,
		   struct mt_top_outcome *out)
{
	struct mt_trim_reply *reply = &action->call.reply;

	if (reply->error || reply->request_error)
		return fail(action, out, reply->error, &reply->why);
	if (action->call.request.kind == MT_REQUEST_SET)
		return report_setting(actions, action, out);
	if (reply->has_cleanup)
		report_cleanup(action, out, &reply->cleanup);
	else
		finish(action, out, MT_STYLE_WARN, "%s", mt_trim_reply_error(reply));
	return true;
}

bool mt_top_actions_poll(struct mt_top_actions *actions, struct mt_top_outcome *out)
{
	for (size_t i = 0; i < MT_TOP_ACTIONS_MAX; i++) {
		struct mt_top_action *action = &actions->list[i];

		if (!action->is_pending)
			continue;
		if (action->call.request.kind == MT_REQUEST_SET &&
		    action->call.state == MT_CONTROL_SENDING &&
		    read_before_set(actions, action, out))
			return true;
		if (mt_control_call_step(&action->call, actions->file))
			return report(actions, action, out);
	}
	return false;
}
