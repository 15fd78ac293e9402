/* ctl/process/user_name.h -- whose process it is, for messages. One thread may call. */
#ifndef MT_CTL_PROCESS_USER_NAME_H
#define MT_CTL_PROCESS_USER_NAME_H

#include <sys/types.h>

#include "ctl/output/text.h"

/* Returns the name of a user, clean and cut; "user 1001" where it has none. Asks the services of
 * nsswitch.conf, which may take long: for errors only. */
struct mt_short_text mt_user_name(uid_t uid);

#endif
