/* ctl/cmd/setting_option.h -- settings as options of a command that starts a program (run, record):
 * --gc-rounds=5 is MT_GC_ROUNDS=5 in the environment, which is the road to the shim; the program's
 * own grows by just these names. */
#ifndef MT_CTL_CMD_SETTING_OPTION_H
#define MT_CTL_CMD_SETTING_OPTION_H

#include <getopt.h>
#include <stdbool.h>

#include "ctl/output/error.h"

/* The command's own options, whose list ends with a zero, and one for every setting. The caller
 * frees. */
struct option *mt_setting_option_list(const struct option *own);

/* Whether what getopt_long has answered is a setting's, and not the command's own. */
bool mt_setting_option_is(int option);

/* Checks the value (NULL: a switch without one) and sets the variable. Says what is wrong with it.
 */
enum mt_exit mt_setting_option_take(int option, const char *value);

/* The list for a --help. */
void mt_setting_option_print(void);

#endif
