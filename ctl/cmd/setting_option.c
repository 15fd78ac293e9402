#include "ctl/cmd/setting_option.h"

#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>

#include "ctl/figures/setting.h"

static bool take(const struct mt_option *option, const char *value)
{
	const struct mt_setting *setting = option->target;
	struct mt_error_reason why;

	value = value ? value : "1";
	if (mt_setting_check(setting, value, &why) != MT_ERR_OK) {
		mt_error_say("%s", why.text);
		return false;
	}
	if (setenv(setting->environment, value, 1) != 0)
		mt_error_check_memory(NULL);
	return true;
}

struct mt_option *mt_setting_option_list(const struct mt_option *own)
{
	size_t count, own_count = 0;
	const struct mt_setting *all = mt_setting_all(&count);
	struct mt_option *options;

	while (own[own_count].name)
		own_count++;
	options = mt_error_check_memory(calloc(own_count + count + 1, sizeof(*options)));
	for (size_t i = 0; i < own_count; i++)
		options[i] = own[i];
	for (size_t i = 0; i < count; i++)
		options[own_count + i] =
			(struct mt_option){.name = all[i].option,
					   .target = (void *)(uintptr_t)&all[i],
					   .take = take,
					   .value_optional = all[i].kind == MT_SETTING_bool};
	return options;
}

void mt_setting_option_print(void)
{
	size_t count;
	const struct mt_setting *all = mt_setting_all(&count);
	char allowed[128];

	puts("settings of the program that is started, as `mtctl options` lists them:");
	for (size_t i = 0; i < count; i++) {
		mt_setting_allowed(&all[i], allowed, sizeof(allowed));
		printf("  --%s%s   %s\n        %s%s; default %s\n", all[i].option,
		       all[i].kind == MT_SETTING_bool ? "[=VALUE]" : "=VALUE", allowed, all[i].help,
		       all[i].live ? "" : " (start only)",
		       *all[i].initial ? all[i].initial : "\"\"");
	}
}
