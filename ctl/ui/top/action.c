#include "ctl/ui/top/top.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/channel/target.h"
#include "ctl/output/text.h"
#include "ctl/process/clock.h"

#define TRIM_TIMEOUT_NS (30 * UINT64_C(1000000000))
#define SET_TIMEOUT_NS  (10 * UINT64_C(1000000000))
/* as long as `mtctl trim` waits for it */
#define RECORD_TIMEOUT_NS (7 * UINT64_C(500000000))

void mt_top_actions_start(struct mt_top_actions *actions)
{
	*actions = (struct mt_top_actions){0};
	actions->file = mt_error_check_memory(malloc(sizeof(*actions->file)));
}

void mt_top_actions_end(struct mt_top_actions *actions)
{
	for (size_t i = 0; i < MT_TOP_ACTIONS_MAX; i++)
		if (actions->list[i].state != MT_ACTION_FREE)
			mt_control_file_unlock(&actions->list[i].call);
	free(actions->file);
	*actions = (struct mt_top_actions){0};
}

bool mt_top_actions_send(struct mt_top_actions *actions, const struct mt_process *process,
			 const struct mt_request *request, struct mt_error_reason *why)
{
	struct mt_top_action *unused = NULL;

	for (size_t i = 0; i < MT_TOP_ACTIONS_MAX; i++) {
		struct mt_top_action *action = &actions->list[i];

		if (action->state == MT_ACTION_FREE) {
			unused = action;
		} else if (action->process.pid == process->pid &&
			   action->process.start_ticks == process->start_ticks) {
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
	*unused = (struct mt_top_action){.state = MT_ACTION_SENDING,
					 .process = *process,
					 .request = *request,
					 .call = {.fd = -1}};
	unused->deadline_ns = mt_clock_now_ns() +
			      (request->kind == MT_REQUEST_TRIM ? TRIM_TIMEOUT_NS : SET_TIMEOUT_NS);
	return true;
}

bool mt_top_actions_pending(const struct mt_top_actions *actions)
{
	for (size_t i = 0; i < MT_TOP_ACTIONS_MAX; i++)
		if (actions->list[i].state != MT_ACTION_FREE)
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
	int used = snprintf(out->text, sizeof(out->text), "%d %s: ", (int)action->process.pid,
			    action->process.comm);

	va_start(arguments, format);
	vsnprintf(out->text + used, sizeof(out->text) - (size_t)used, format, arguments);
	va_end(arguments);
	out->style = style;
	mt_control_file_unlock(&action->call);
	action->state = MT_ACTION_FREE;
}

static bool fail(struct mt_top_action *action, struct mt_top_outcome *out, enum mt_err error,
		 const struct mt_error_reason *why)
{
	if (error == MT_ERR_NOT_AVAILABLE)
		finish(action, out, MT_STYLE_WARN, "asleep: %s",
		       mt_target_why_asleep(&action->process));
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
	struct mt_error_reason why;
	enum mt_err error = mt_target_read(&action->process, actions->file, &why);
	const char *why_not;

	if (error)
		return fail(action, out, error, &why);
	why_not = mt_set_request_unavailable(&action->request, &actions->file->head);
	if (why_not) {
		finish(action, out, MT_STYLE_BAD, "%s", why_not);
		return true;
	}
	snprintf(action->before, sizeof(action->before), "%s",
		 mt_set_request_value(&action->request, actions->file));
	return false;
}

static bool step_sending(struct mt_top_actions *actions, struct mt_top_action *action,
			 struct mt_top_outcome *out)
{
	struct mt_error_reason why;
	enum mt_err error;

	if (action->request.kind == MT_REQUEST_SET && read_before_set(actions, action, out))
		return true;
	/* Tries once: another request may be under way for seconds. */
	error = mt_control_file_send(&action->process, action->request, 0, &action->call, &why);
	if (error == MT_ERR_TIMEOUT && mt_clock_now_ns() < action->deadline_ns)
		return false;
	if (error)
		return fail(action, out, error, &why);
	action->call.deadline_ns = action->deadline_ns;
	action->state = MT_ACTION_SENT;
	return false;
}

static bool report_setting(struct mt_top_actions *actions, struct mt_top_action *action,
			   struct mt_top_outcome *out)
{
	struct mt_error_reason why;
	enum mt_err error = mt_target_read(&action->process, actions->file, &why);

	if (error)
		return fail(action, out, error, &why);
	finish(action, out, MT_STYLE_GOOD, "%s: %s -> %s", action->request.name, action->before,
	       mt_set_request_value(&action->request, actions->file));
	return true;
}

static bool step_sent(struct mt_top_actions *actions, struct mt_top_action *action,
		      struct mt_top_outcome *out)
{
	struct mt_stats_head head;
	struct mt_error_reason why;
	enum mt_err error;

	if (!mt_control_file_poll(&action->call, &head, &error, &why))
		return false;
	if (!error && head.snapshot.request_error)
		error = mt_error_because(&why, MT_ERR_INVALID, "%s",
					 mt_error_text(head.snapshot.request_error));
	if (error && action->request.kind == MT_REQUEST_SET)
		mt_set_request_explain(&action->request, &why);
	if (error)
		return fail(action, out, error, &why);
	if (action->request.kind == MT_REQUEST_SET)
		return report_setting(actions, action, out);
	action->deadline_ns = mt_clock_now_ns() + RECORD_TIMEOUT_NS;
	action->state = MT_ACTION_CLEANUP;
	return false;
}

/* The record may come after the reply, if the request was merged into a running cleanup. */
static bool step_cleanup(struct mt_top_actions *actions, struct mt_top_action *action,
			 struct mt_top_outcome *out)
{
	struct mt_error_reason why;
	enum mt_err error = mt_target_read(&action->process, actions->file, &why);
	const struct mt_stats_cleanup *record =
		error ? NULL : mt_stats_file_cleanup_of_request(actions->file, action->call.seq);

	if (error)
		return fail(action, out, error, &why);
	if (record)
		report_cleanup(action, out, record);
	else if (mt_clock_now_ns() < action->deadline_ns)
		return false;
	else
		finish(action, out, MT_STYLE_WARN, "it answered, but left no record");
	return true;
}

bool mt_top_actions_poll(struct mt_top_actions *actions, struct mt_top_outcome *out)
{
	static bool (*const steps[])(struct mt_top_actions *, struct mt_top_action *,
				     struct mt_top_outcome *) = {[MT_ACTION_SENDING] = step_sending,
								 [MT_ACTION_SENT] = step_sent,
								 [MT_ACTION_CLEANUP] =
									 step_cleanup};

	for (size_t i = 0; i < MT_TOP_ACTIONS_MAX; i++) {
		struct mt_top_action *action = &actions->list[i];

		if (action->state != MT_ACTION_FREE && steps[action->state](actions, action, out))
			return true;
	}
	return false;
}
