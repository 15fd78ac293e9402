/* ctl/cmd/setting_option.h -- settings as options of a command that starts a program (run, record):
 * --gc-rounds=5 is MT_GC_ROUNDS=5 in the environment, which is the road to the shim; the program's
 * own grows by just these names. */
#ifndef MT_CTL_CMD_SETTING_OPTION_H
#define MT_CTL_CMD_SETTING_OPTION_H

#include "ctl/command.h"

/* The command's own options, whose list ends with a zero, and one for every setting, which sets its
 * variable of the environment. The caller frees. */
struct mt_option *mt_setting_option_list(const struct mt_option *own);

/* The list for a --help. */
void mt_setting_option_print(void);

#endif
