/* ctl/diagnose/doctor_process.c -- one process: what the shim does in it, and what it cannot reach.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"
#include "ctl/diagnose/doctor.h"
#include "ctl/process/preload.h"
#include "ctl/process/control_file.h"
#include "ctl/process/smaps.h"
#include "ctl/process/target.h"
#include "ctl/output/text.h"
#include "ctl/process/read_file.h"

static void check_writing(const struct mt_process *process, const struct mt_stats_head *head)
{
	if (mt_library_is_rewritten(process, head->time_ns - head->snapshot.uptime_ms * 1000000u))
		mt_check_print(MT_CHECK_WARN,
			       "restart the program; replace a library by rename (make install, "
			       "dpkg, mv), never by cp over it",
			       "its " MT_SHIM_NAME " was written in place while it runs: its code "
			       "may be that of two versions");
}

static void print_signal_disposition(uint64_t disposition)
{
	switch (disposition) {
	case 0:
		mt_check_print(MT_CHECK_OK, NULL,
			       "signal: none is wanted; `mtctl trim` needs none");
		break;
	case 1:
		mt_check_print(MT_CHECK_OK, NULL, "signal: the handler of the shim is installed");
		break;
	case 2:
		mt_check_print(MT_CHECK_OK, NULL,
			       "signal: MT_SIGNAL is set, and the program has its own handler; "
			       "ours runs before it");
		break;
	case 3:
		mt_check_print(MT_CHECK_WARN, "use `mtctl trim`, or another MT_SIGNAL",
			       "signal: a raw system call has replaced the handler of the shim");
		break;
	case 5:
		mt_check_print(MT_CHECK_OK, NULL,
			       "signal: the program has its own handler, and the signal is the "
			       "program's alone; `mtctl trim` cleans up");
		break;
	default:
		mt_check_print(MT_CHECK_NOTE, "use `mtctl trim`, or another MT_SIGNAL",
			       "signal: the program ignores it, so it does nothing");
	}
}

/* Prints settings that are not at their defaults: `mtctl options` has those. */
static void print_settings(const struct mt_stats_file *file)
{
	char text[160];
	size_t printed = 0;

	for (size_t i = 0; i < file->head.settings_count; i++) {
		const struct mt_stats_setting *setting = &file->settings[i];

		if (strcmp(setting->origin, "default") == 0)
			continue;
		snprintf(text, sizeof(text), "%-18s = %-14s (%s)", setting->name, setting->value,
			 setting->origin);
		mt_doctor_fact(printed++ ? "" : "settings", text);
	}
	if (!printed && file->head.settings_count)
		mt_doctor_fact("settings", "all at their defaults");
}

static void check_stats(const struct mt_stats_file *file)
{
	const struct mt_stats_head *head = &file->head;
	bool unknown = strcmp(head->allocator, "unknown") == 0,
	     shadowed = strcmp(head->mode, "shadowed") == 0;

	mt_check_print(
		unknown || shadowed ? MT_CHECK_WARN : MT_CHECK_OK,
		shadowed  ? "something else serves malloc: put libmtshim.so first in LD_PRELOAD"
		: unknown ? "its heap is only counted; MT_ALLOCATOR=jemalloc replaces it"
			  : NULL,
		"allocator: %s, mode %s", head->allocator, head->mode);
	mt_doctor_fact("evidence", head->evidence);
	mt_doctor_fact("conf", head->conf);
	mt_doctor_fact("python", head->python);
	if (strcmp(head->mode, "system") == 0 && strcmp(head->allocator, "glibc") != 0 && !unknown)
		mt_check_print(
			MT_CHECK_NOTE, NULL,
			"MT_ALLOCATOR=jemalloc would serve malloc from the embedded jemalloc");
	if (strcmp(head->shim_version, MT_VERSION) != 0)
		mt_check_print(MT_CHECK_NOTE, "restart the program to get the new one",
			       "the shim in it is version %s, this mtctl is %s", head->shim_version,
			       MT_VERSION);
	print_signal_disposition(head->snapshot.signal_disposition);
	if (head->snapshot.gc_late_count)
		mt_check_print(MT_CHECK_NOTE, NULL,
			       "%s: the main thread was in C code or in a system call",
			       mt_text_counted(head->snapshot.gc_late_count, "late collection",
					       "late collections")
				       .text);
}

static void check_mapped_file(const char *path)
{
	const struct mt_diagnose_carrier *carried = mt_diagnose_carrier(path);
	const char *allocator = mt_preload_allocator(path);
	char name[160];

	snprintf(name, sizeof(name), "%s", path);
	mt_text_clean(name, sizeof(name));
	if (allocator)
		mt_check_print(MT_CHECK_NOTE, "out of reach unless it is the allocator named above",
			       "%s is loaded: %s", allocator, name);
	if (carried && carried->explanation)
		mt_check_print(MT_CHECK_NOTE, carried->way_back, "out of reach: %s (%s)",
			       carried->explanation, name);
}

struct maps_sums {
	uint64_t shm_bytes, shm_count;
};

/* "55d0-55e0 r-xp 00000000 fe:00 123   /path": each file is checked once, at its first mapping. */
static void check_mapping(char *line, char *last_path, size_t last_bytes, struct maps_sums *sums)
{
	uint64_t from, to;
	char *path = strchr(line, '/'), permissions[8];

	if (!path || sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &from, &to, permissions) != 3)
		return;
	if (mt_smaps_kind_of(path, strchr(permissions, 's') != NULL) == MT_SMAPS_SHM) {
		sums->shm_bytes += to - from;
		sums->shm_count++;
		return;
	}
	if (strncmp(path, last_path, last_bytes - 1) == 0)
		return;
	snprintf(last_path, last_bytes, "%s", path);
	check_mapped_file(path);
}

static void check_maps(char *maps)
{
	char *saved = NULL;
	char last[512] = "";
	struct maps_sums sums = {0};

	for (char *line = maps ? strtok_r(maps, "\n", &saved) : NULL; line;
	     line = strtok_r(NULL, "\n", &saved))
		check_mapping(line, last, sizeof(last), &sums);
	if (sums.shm_count)
		mt_check_print(MT_CHECK_NOTE, NULL,
			       "out of reach: %s (/dev/shm, memfd, SysV, anonymous MAP_SHARED), %s "
			       "of address space",
			       mt_text_counted(sums.shm_count, "shared memory mapping",
					       "shared memory mappings")
				       .text,
			       mt_text_bytes(sums.shm_bytes).text);
}

static void check_status(pid_t pid)
{
	char *status = mt_process_read(pid, "status", NULL);
	uint64_t kilobytes, thp;

	if (!status)
		return;
	if (mt_read_file_number(status, "VmLck", &kilobytes) && kilobytes >= 1024)
		mt_check_print(MT_CHECK_WARN,
			       "mlock(2) keeps freed pages resident: a purge cannot return them",
			       "%s are locked", mt_text_bytes(kilobytes * 1024).text);
	if (mt_read_file_number(status, "RssShmem", &kilobytes) && kilobytes >= 1024)
		mt_check_print(MT_CHECK_NOTE, NULL, "out of reach: %s of its RSS is shared memory",
			       mt_text_bytes(kilobytes * 1024).text);
	if (mt_read_file_number(status, "VmSwap", &kilobytes) && kilobytes >= 1024)
		mt_check_print(MT_CHECK_NOTE, NULL, "%s of it are swapped out and count as well",
			       mt_text_bytes(kilobytes * 1024).text);
	if (mt_read_file_number(status, "THP_enabled", &thp))
		mt_check_print(MT_CHECK_OK, NULL, "transparent huge pages: %s in this process",
			       thp ? "allowed" : "off");
	free(status);
}

static void check_process_environment(pid_t pid)
{
	size_t bytes = 0;
	char *list = mt_process_read_memory(pid, "environ", &bytes);

	if (list)
		mt_doctor_check_names(list, bytes);
	free(list);
}

void mt_doctor_check_process(const struct mt_process *process)
{
	struct mt_stats_file *file = mt_error_check_memory(malloc(sizeof(*file)));
	char *maps = mt_process_maps(process->pid);
	struct mt_error_reason why;
	enum mt_err error;

	mt_control_file_refresh(process);
	error = mt_target_read(process, file, &why);
	if (process->library_deleted)
		mt_check_print(MT_CHECK_NOTE, "restart the program to get the present one",
			       "runs an older library, deleted from disk: replaced by another one, "
			       "or removed");
	if (!error) {
		check_stats(file);
		check_writing(process, &file->head);
		if (file->head.cleanups_by_reason[MT_REASON_HUGE_PAGES])
			mt_check_print(
				MT_CHECK_WARN, "MT_MALLOC_CONF=thp:never, NUMPY_MADVISE_HUGEPAGE=0",
				"huge pages: the kernel has filled what was purged, %s",
				mt_text_counted(file->head.cleanups_by_reason[MT_REASON_HUGE_PAGES],
						"time", "times")
					.text);
		mt_doctor_check_gpu(file, maps && strstr(maps, "/libcuda.so"));
		mt_doctor_check_limit(process, file);
		print_settings(file);
	} else if (error == MT_ERR_NOT_AVAILABLE) {
		mt_check_print(
			MT_CHECK_NOTE,
			"MT_MIN_MB=0 wakes it at once, MT_LOG_LEVEL=info says how it is loaded",
			"asleep: it carries the shim, but holds too little memory, or was forked "
			"and has allocated too little since");
	} else {
		mt_check_print(
			MT_CHECK_WARN,
			"MT_DIR must be a directory on a tmpfs, and its owner's alone (mode 700)",
			"%s", why.text);
	}
	if (error)
		mt_doctor_check_limit(process, NULL);
	free(file);
	check_process_environment(process->pid);
	mt_doctor_check_gpu_environment(process->pid);
	check_status(process->pid);
	check_maps(maps);
	free(maps);
}
