/* ctl/diagnose/doctor.h -- the examinations of `mtctl doctor`. Each finding is one line on stdout;
 * a warning has a second line that says what to do. Findings are counted, so that the exit code can
 * tell. */
#ifndef MT_CTL_DIAGNOSE_DOCTOR_H
#define MT_CTL_DIAGNOSE_DOCTOR_H

#include "ctl/process/process.h"
#include "ctl/process/stats_file.h"

enum mt_check_state { MT_CHECK_OK, MT_CHECK_NOTE, MT_CHECK_WARN };

/* `advice` may be NULL. */
void mt_check_print(enum mt_check_state finding, const char *advice, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* How many warnings mt_check_print has printed. */
size_t mt_doctor_warnings(void);

/* A line of text with its label, for facts that are neither good nor bad. */
void mt_doctor_fact(const char *label, const char *text);

/* A variable of the environment of `pid`, or for pid 0 of mtctl, as it is: it may hold what
 * is not printable. false: it is not set, is longer, or may not be read. */
bool mt_doctor_variable(pid_t pid, const char *name, char *out, size_t out_bytes);

/* The machine: THP, /dev/shm, MT_DIR, PSI, swap. pid 0: mtctl's own place. */
void mt_doctor_check_machine(pid_t pid);

/* The environment that a program started from here would get. */
void mt_doctor_check_environment(void);

/* One shimmed process, awake or asleep. */
void mt_doctor_check_process(const struct mt_process *process);

/* The GPUs of an awake process: mode and why, memory, what the pool cannot reach. */
void mt_doctor_check_gpu(const struct mt_stats_file *file, bool libcuda_is_mapped);

/* Variables of CUDA frameworks: those of the process, or for pid 0 those that a program from here
 * would get. */
void mt_doctor_check_gpu_environment(pid_t pid);

/* The limit that holds for a process, what is used of it, and what the shim does when it comes
 * near. process NULL: for mtctl's own place; file NULL: it is asleep, or its file is refused. */
void mt_doctor_check_limit(const struct mt_process *process, const struct mt_stats_file *file);

/* Who else tells of pressure: PSI of the machine and of the process's cgroup, swap,
 * MEMORY_PRESSURE_WATCH. pid 0: as above. */
void mt_doctor_check_stalls(pid_t pid);

/* Variables of an environment that begin with MT_ and name no setting; `list` as in
 * /proc/PID/environ. */
void mt_doctor_check_names(const char *list, size_t list_bytes);

#endif
