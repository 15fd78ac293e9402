/* ctl/process/user_name.c -- see user_name.h. */
#include "ctl/process/user_name.h"

#include <pwd.h>
#include <stdio.h>

struct mt_short_text mt_user_name(uid_t uid)
{
	struct mt_short_text result;
	const struct passwd *user = getpwuid(uid);

	if (user)
		snprintf(result.text, sizeof(result.text), "%.40s", user->pw_name);
	else
		snprintf(result.text, sizeof(result.text), "user %u", (unsigned)uid);
	mt_text_clean(result.text, sizeof(result.text));
	return result;
}
