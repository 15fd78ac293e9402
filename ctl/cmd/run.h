/* ctl/cmd/run.h -- settings as options of a command that starts a program (run, record):
 * --gc-rounds=5 sets MT_GC_ROUNDS=5 in the environment, where the shim reads it. */
#ifndef MT_CTL_CMD_RUN_H
#define MT_CTL_CMD_RUN_H

#include "ctl/command.h"

/* Returns the own options of the command, whose list ends with a zero, and one for each setting.
 * The caller frees. */
struct mt_option *mt_setting_option_list(const struct mt_option *own);

#endif
