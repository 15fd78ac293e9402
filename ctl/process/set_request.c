#include "ctl/process/set_request.h"

#include <stdio.h>
#include <string.h>

#include "ctl/process/setting.h"

static enum mt_err refuse_name(const char *name, struct mt_error_reason *why)
{
	const char *nearest = mt_setting_nearest(name);

	if (nearest)
		return mt_error_because(why, MT_ERR_INVALID,
					"no setting '%.40s'; did you mean '%s'?", name, nearest);
	return mt_error_because(why, MT_ERR_INVALID,
				"no setting '%.40s'; `mtctl options` lists them", name);
}

enum mt_err mt_set_request_parse(const char *text, struct mt_request *out,
				 struct mt_error_reason *why)
{
	const char *value = strchr(text, '=');
	const struct mt_setting *setting;
	char name[64];
	enum mt_err error;

	if (!value)
		return mt_error_because(why, MT_ERR_INVALID, "'%.60s': NAME=VALUE is wanted", text);
	snprintf(name, sizeof(name), "%.*s", value - text < 63 ? (int)(value - text) : 63, text);
	value++;
	setting = mt_setting_find(name);
	if (!setting)
		return refuse_name(name, why);
	if (!setting->live)
		return mt_error_because(why, MT_ERR_START_ONLY, "%s %s", setting->name,
					mt_error_text(MT_ERR_START_ONLY));
	error = mt_setting_check(setting, value, why);
	if (error)
		return error;
	/* A number with many zeros before it would be another number when it is cut. */
	if (strlen(value) >= sizeof(out->value))
		return mt_error_because(why, MT_ERR_INVALID, "%s=%.40s...: longer than %zu bytes",
					setting->name, value, sizeof(out->value) - 1);
	*out = (struct mt_request){.kind = MT_REQUEST_SET};
	snprintf(out->name, sizeof(out->name), "%s", setting->name);
	snprintf(out->value, sizeof(out->value), "%s", value);
	return MT_ERR_OK;
}

static bool is_prof(const struct mt_request *request)
{
	return strcmp(request->name, "prof") == 0;
}

const char *mt_set_request_unavailable(const struct mt_request *request,
				       const struct mt_stats_head *head)
{
	return is_prof(request) ? mt_stats_why_no_profile(head) : NULL;
}

void mt_set_request_explain(const struct mt_request *request, struct mt_error_reason *why)
{
	if (strcmp(why->text, mt_error_text(MT_ERR_UNKNOWN)) == 0)
		mt_error_because(
			why, MT_ERR_UNKNOWN,
			"its shim is of another version than this mtctl, and has no such setting");
	if (is_prof(request) && strcmp(why->text, mt_error_text(MT_ERR_SYSTEM)) == 0)
		mt_error_because(why, MT_ERR_SYSTEM,
				 "it cannot walk stacks: that takes libgcc_s.so.1, glibc 2.35 and "
				 "process_vm_readv");
}

const char *mt_set_request_value(const struct mt_request *request, const struct mt_stats_file *file)
{
	const char *value = mt_stats_file_setting(file, request->name);

	/* 0 and 1 say whether it was made ready at the start, and sample nothing */
	if (value && is_prof(request) && (strcmp(value, "0") == 0 || strcmp(value, "1") == 0))
		return "off";
	return value ? value : "?";
}
