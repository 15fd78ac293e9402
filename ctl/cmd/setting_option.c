/* ctl/cmd/setting_option.c -- see setting_option.h. */
#include "ctl/cmd/setting_option.h"

#include <stdio.h>
#include <stdlib.h>

#include "ctl/process/setting.h"

#define FIRST 256 /* above every character that getopt_long may answer */

struct option *mt_setting_option_list(const struct option *own)
{
	size_t count, own_count = 0;
	const struct mt_setting *all = mt_setting_all(&count);
	struct option *options;

	while (own[own_count].name)
		own_count++;
	options = mt_error_check_memory(calloc(own_count + count + 1, sizeof(*options)));
	for (size_t i = 0; i < own_count; i++)
		options[i] = own[i];
	for (size_t i = 0; i < count; i++) {
		options[own_count + i].name = all[i].option;
		options[own_count + i].has_arg =
			all[i].kind == MT_SETTING_bool ? optional_argument : required_argument;
		options[own_count + i].val = FIRST + (int)i;
	}
	return options;
}

bool mt_setting_option_is(int option)
{
	return option >= FIRST;
}

enum mt_exit mt_setting_option_take(int option, const char *value)
{
	size_t count;
	const struct mt_setting *setting = &mt_setting_all(&count)[option - FIRST];
	struct mt_why why;

	value = value ? value : "1";
	if (mt_setting_check(setting, value, &why) != MT_ERR_OK) {
		mt_error_say("%s", why.text);
		return MT_EXIT_USAGE;
	}
	if (setenv(setting->environment, value, 1) != 0)
		mt_error_check_memory(NULL);
	return MT_EXIT_OK;
}

void mt_setting_option_print(void)
{
	size_t count;
	const struct mt_setting *all = mt_setting_all(&count);
	char allowed[128];

	for (size_t i = 0; i < count; i++) {
		mt_setting_allowed(&all[i], allowed, sizeof(allowed));
		printf("  --%s%s   %s\n        %s%s; default %s\n", all[i].option,
		       all[i].kind == MT_SETTING_bool ? "[=VALUE]" : "=VALUE", allowed, all[i].help,
		       all[i].live ? "" : " (start only)",
		       *all[i].initial ? all[i].initial : "\"\"");
	}
}
