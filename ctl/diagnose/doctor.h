/* ctl/diagnose/doctor.h -- the examinations of `mtctl doctor`. Each finding is one line on stdout;
 * a warning has a second line that says what to do. With mt_doctor_collect they are kept as JSON
 * instead. Warnings are counted for the exit code. For one thread. */
#ifndef MT_CTL_DIAGNOSE_DOCTOR_H
#define MT_CTL_DIAGNOSE_DOCTOR_H

#include <jansson.h>

#include "ctl/process/process.h"
#include "ctl/process/stats_file.h"

enum mt_check_state { MT_CHECK_OK, MT_CHECK_NOTE, MT_CHECK_WARN };

/* Prints one finding in the format of printf, and `advice` (or NULL) below it. */
void mt_check_print(enum mt_check_state finding, const char *advice, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* From now on findings are kept, and nothing is printed. mt_doctor_json returns them: `checks`,
 * `facts`, `warnings_count`. The caller owns the object. */
void mt_doctor_collect(void);
json_t *mt_doctor_json(void);

/* Begins a section, whose title is printed. */
void mt_doctor_begin(const char *title);

/* How many warnings mt_check_print has printed. */
size_t mt_doctor_warnings(void);

/* Prints a labelled line that is neither good nor bad; nothing for an empty text. */
void mt_doctor_fact(const char *label, const char *text);

/* Reads an environment variable of `pid`, or of mtctl for pid 0. The value may not be printable.
 * Returns false where it is not set, is longer than out_bytes - 1, or may not be read. */
bool mt_doctor_variable(pid_t pid, const char *name, char *out, size_t out_bytes);

/* Examines the machine: THP, /dev/shm, MT_DIR, PSI, swap. pid 0: as mtctl itself is placed. */
void mt_doctor_check_machine(pid_t pid);

/* Examines the environment that a program started from here would get. */
void mt_doctor_check_environment(void);

/* Examines one shimmed process, awake or asleep. Asks it to publish first. */
void mt_doctor_check_process(const struct mt_process *process);

/* Examines the GPUs of an awake process: mode and reason, memory, what the pool cannot reach. */
void mt_doctor_check_gpu(const struct mt_stats_file *file, bool libcuda_is_mapped);

/* Examines the variables of CUDA frameworks of the process, or of mtctl for pid 0. */
void mt_doctor_check_gpu_environment(pid_t pid);

/* Examines the limit that applies to a process, its use, and what the shim does near it. process
 * NULL: to mtctl itself; file NULL: the process is asleep, or its file is refused. */
void mt_doctor_check_limit(const struct mt_process *process, const struct mt_stats_file *file);

/* Examines other sources of pressure: PSI of the machine and of the cgroup, swap,
 * MEMORY_PRESSURE_WATCH. pid 0: of mtctl itself. */
void mt_doctor_check_stalls(pid_t pid);

/* Warns of variables that begin with MT_ and are no settings; `list` as in /proc/PID/environ. */
void mt_doctor_check_names(const char *list, size_t list_bytes);

#endif
