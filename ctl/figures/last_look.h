/* ctl/figures/last_look.h -- the files in which processes have written what they held when their
 * limit came near (core/dump_layout.h). The files are not trusted: magic, versions, sizes, checksum
 * and each count are checked, and all text is cleaned. For one thread. */
#ifndef MT_CTL_FIGURES_LAST_LOOK_H
#define MT_CTL_FIGURES_LAST_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/dump_layout.h"
#include "ctl/output/error.h"

/* What became of the process, as far as it can be told. */
#define MT_LAST_FATES(X)                                                                           \
	X(RUNS, "running", "still runs")                                                           \
	X(KILLED, "killed", "was killed by the kernel for its limit")                              \
	X(ENDED, "ended", "is gone, without an exit of its own")

enum mt_last_fate {
#define X(name, word, text) MT_LAST_##name,
	MT_LAST_FATES(X) MT_LAST_FATE_COUNT
#undef X
};

struct mt_last_look {
	char path[600];
	char evidence[160]; /* of the fate: "oom_kill of the cgroup rose from 0 to 1"; "" */
	enum mt_last_fate fate;
	struct mt_last_file file;
};

/* Returns the folder that is read: `given`, or MT_LAST_DIR, or the user's state folder. "" if
 * there is none. */
void mt_last_look_folder(const char *given, char *out, size_t out_bytes);

/* Returns whether the file begins as one of these files does. */
bool mt_last_look_is_file(const char *path);

/* Reads a file. Returns MT_ERR_INVALID, with the reason, for one that is not valid. */
enum mt_err mt_last_look_read(const char *path, struct mt_last_look *out,
			      struct mt_error_reason *why);

/* Says in one line on stderr that the kernel has killed the process at its limit, if the process
 * has left a file that `mtctl last` explains. Else nothing. */
void mt_last_look_say(pid_t pid);

/* Reads all valid files of a folder, the newest first. Returns how many; the caller frees *out. */
size_t mt_last_look_list(const char *folder, struct mt_last_look **out);

#endif
