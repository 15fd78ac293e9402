/* settings_ctl.c -- see settings_ctl.h. */
#include "settings_ctl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ctl/channel/control_file.h"
#include "ctl/figures/setting.h"
#include "ctl/output/text.h"
#include "ctl/process/process.h"
#include "fuzz.h"

/* fuzz.mk: --wrap. What is wrong with a command line repeats it: it is the asking user's own, and
 * not looked at here. */
void __wrap_mt_error_say(const char *format, ...);
void __wrap_mt_error_say(const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
}

bool mtctl_takes(const char *name, const char *value)
{
	const struct mt_setting *setting = mt_setting_find(name);
	struct mt_error_reason why;

	return !setting || mt_setting_check(setting, value, &why) == MT_ERR_OK;
}

void mtctl_set(const char *text)
{
	const char *equals = strchr(text, '=');
	struct mt_request request;
	struct mt_error_reason why = {.text = ""};
	enum mt_err error = mt_set_request_parse(text, &request, &why);

	fuzz_expect_text("why an assignment is refused", why.text, sizeof(why.text));
	if (error)
		return;
	fuzz_expect(equals && strcmp(request.value, equals + 1) == 0, "%s is asked for as %s", text,
		    request.value);
	fuzz_expect(request.kind == MT_REQUEST_SET && mt_setting_find(request.name), "%s",
		    request.name);
}

void mtctl_read(const char *text)
{
	double number = 0;
	pid_t pid = 1;

	if (mt_units_number(text, &number) || mt_units_count(text, &number) ||
	    mt_units_bytes(text, &number))
		fuzz_expect(isfinite(number) && number >= 0, "%s is %g", text, number);
	if (mt_units_duration(text, &number))
		fuzz_expect(isfinite(number) && number >= 0, "%s is %g s", text, number);
	if (mt_units_percent(text, &number))
		fuzz_expect(number >= 0 && number <= 100, "%s is %g %%", text, number);
	if (mt_process_parse_pid(text, &pid) == MT_ERR_OK)
		fuzz_expect(pid > 0, "%s is %d", text, (int)pid);
	(void)mt_setting_find(text);
	(void)mt_setting_nearest(text);
}
