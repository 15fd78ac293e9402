/* settings_ctl.h -- mtctl's half of fuzz_settings.c: its headers and the shim's have one enum of
 * errors each, and no file can see both. */
#ifndef MT_FUZZ_SETTINGS_CTL_H
#define MT_FUZZ_SETTINGS_CTL_H

#include <stdbool.h>

/* Whether mtctl lets this value pass: also where it knows no such setting. */
bool mtctl_takes(const char *name, const char *value);

/* NAME=VALUE as `mtctl set` has it: what is asked of the process is what was written. */
void mtctl_set(const char *text);

/* A count, a size, a time, a place, a name, as they stand on command lines. */
void mtctl_read(const char *text);

#endif
