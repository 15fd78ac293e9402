/* ctl/channel/process_name.h -- processes by name: by that of the command, "python3", or of the
 * script that an interpreter runs, "train.py". One thread may call. */
#ifndef MT_CTL_CHANNEL_PROCESS_NAME_H
#define MT_CTL_CHANNEL_PROCESS_NAME_H

#include "ctl/process/process.h"

/* Writes the name of the script that a command line runs, without its folder: of "python3 -u
 * /srv/train.py --fast" it is "train.py", of "python3 -m http.server" it is "http.server". Writes
 * "" if the command is no interpreter, or runs no script. Pure. */
void mt_process_script(const char *command, char *out, size_t out_bytes);

/* Writes a command line as a list shows it: the name of the script, or of the module, then the
 * arguments. Of "/usr/bin/python3 -u /srv/train.py --fast" it is "train.py --fast". Of a command
 * that runs no script it is the whole line without the folder of the program: "python3 -c ...",
 * "redis-server *:6379". Pure. */
void mt_process_title(const char *command, char *out, size_t out_bytes);

/* Returns whether the name is that of the process (comm), that of its command without the folder,
 * or that of its script. Pure. */
bool mt_process_has_name(const struct mt_process *process, const char *name);

/* Lists the processes of the calling user (root: of every user) that have the name, sorted by pid.
 * If some of them carry the shim and are shown (mt_stats_dir_is_shown), only those. Leaves out
 * mtctl itself. Returns how many; the caller frees *out. *out_nearest: the name of a shimmed
 * process that the caller may have meant, "" for none; only if the count is 0. */
size_t mt_process_find_named(const char *name, struct mt_process **out,
			     struct mt_error_reason *out_nearest);

#endif
