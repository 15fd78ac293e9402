#include "ctl/process/look.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/channel/target.h"
#include "ctl/output/text.h"
#include "ctl/process/look_internal.h"
#include "ctl/process/preload.h"
#include "ctl/process/read_file.h"
#include "ctl/process/start_command.h"
#include "ctl/process/watchdog.h"
#include "sys/saturating.h"

#define HEAP_BYTES ((uint64_t)64 << 20) /* HEAP_MAX_SIZE of glibc */
/* a guard is a page by default; an arena's rest that is not writable is larger */
#define GUARD_MAX_BYTES ((uint64_t)1 << 20)
#define PROGRAM_MAX     ((size_t)256 << 20) /* of a program's file that is searched */
#define PIECE_BYTES     ((size_t)1 << 20)
#define OVERLAP_BYTES   64u /* longer than every text that is searched */
#define SEARCH_MAX_MS   5000u

/* ---- mappings ---- */

static bool is_anonymous(const struct mt_smaps_mapping *mapping)
{
	return mapping->kind == MT_SMAPS_ANON && !mapping->name[0];
}

/* How many heaps the mappings from `first` on are: writable memory, and its rest that is not. */
static uint64_t heaps_at(const struct mt_smaps *smaps, size_t first)
{
	const struct mt_smaps_mapping *at = &smaps->list[first], *rest = at + 1;
	uint64_t end = at->end;

	if (!is_anonymous(at) || !at->is_writable || at->start % HEAP_BYTES || !(at->start >> 32))
		return 0;
	if (end % HEAP_BYTES && first + 1 < smaps->count && is_anonymous(rest) &&
	    !rest->is_writable && rest->start == end)
		end = rest->end;
	return end % HEAP_BYTES ? 0 : (end - at->start) / HEAP_BYTES;
}

static bool is_stack(const struct mt_smaps *smaps, size_t i)
{
	const struct mt_smaps_mapping *at = &smaps->list[i], *guard = at - 1;

	if (strncmp(at->name, "[stack", 6) == 0)
		return true;
	return i && is_anonymous(at) && at->is_writable && is_anonymous(guard) &&
	       !guard->is_writable && guard->end == at->start &&
	       guard->end - guard->start <= GUARD_MAX_BYTES;
}

void mt_look_sort(const struct mt_smaps *smaps, struct mt_look *out)
{
	for (size_t i = 0; i < smaps->count; i++) {
		const struct mt_smaps_mapping *at = &smaps->list[i];
		uint64_t rss = at->sizes.rss_bytes, heaps = heaps_at(smaps, i);

		if (heaps || strcmp(at->name, "[heap]") == 0)
			out->heaps_absent_bytes +=
				mt_sat_sub(at->end - at->start, rss + at->sizes.swap_bytes);
		out->arena_heaps_count += heaps;
		if (at->kind == MT_SMAPS_SPECIAL)
			out->kernel_bytes += rss;
		else if (at->kind == MT_SMAPS_SHM)
			out->shared_bytes += rss;
		else if (at->kind == MT_SMAPS_FILE)
			out->files_bytes += rss;
		else if (strcmp(at->name, "[heap]") == 0)
			out->brk_bytes += rss;
		else if (heaps)
			out->arenas_bytes += rss;
		else if (is_stack(smaps, i))
			out->stacks_bytes += rss;
		else
			out->mapped_bytes += rss;
	}
	out->total = smaps->total;
}

bool mt_look_heaps_absent(const struct mt_process *process, uint64_t *out_bytes)
{
	struct mt_look look = {.heaps_absent_bytes = 0};
	struct mt_smaps smaps;
	struct mt_error_reason why;

	if (mt_smaps_read(process, &smaps, &why) != MT_ERR_OK)
		return false;
	mt_look_sort(&smaps, &look);
	mt_smaps_free(&smaps);
	*out_bytes = look.heaps_absent_bytes;
	return true;
}

/* ---- the program's file ---- */

/* Texts that an allocator leaves in a program that it is linked into. */
static const struct {
	const char *text, *name;
} traces[] = {
	{"<jemalloc>: ", "jemalloc"},
	{"mimalloc: ", "mimalloc"},
	{"tcmalloc: large alloc", "tcmalloc"},
	{"\xff Go buildinf:", "Go"},
};

#define TRACES_COUNT (sizeof(traces) / sizeof(traces[0]))

/* In a child: the file may lie on a file system that hangs. Writes which traces the file has. */
struct program {
	bool has[TRACES_COUNT];
};

static void search(const void *argument, int to)
{
	struct program program = {0};
	char *piece = mt_error_check_memory(calloc(1, OVERLAP_BYTES + PIECE_BYTES));
	int fd = open(argument, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t kept = 0, done = 0;
	ssize_t got;

	while (fd >= 0 && done < PROGRAM_MAX && (got = read(fd, piece + kept, PIECE_BYTES)) > 0) {
		size_t length = kept + (size_t)got;

		for (size_t i = 0; i < TRACES_COUNT; i++)
			program.has[i] |= memmem(piece, length, traces[i].text,
						 strlen(traces[i].text)) != NULL;
		done += (size_t)got;
		kept = length < OVERLAP_BYTES ? length : OVERLAP_BYTES;
		memmove(piece, piece + length - kept, kept);
	}
	mt_watchdog_write(to, &program, sizeof(program));
}

static void read_program(struct mt_look *out)
{
	struct program program;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)out->process.pid);
	if (!mt_watchdog_value(search, path, SEARCH_MAX_MS, &program, sizeof(program)))
		return;
	for (size_t i = 0; i < TRACES_COUNT; i++) {
		if (!program.has[i])
			continue;
		if (strcmp(traces[i].name, "Go") == 0) {
			out->is_go = true;
		} else if ((out->how == MT_LOOK_UNKNOWN || out->how == MT_LOOK_ASLEEP) &&
			   !out->is_python) {
			/* CPython 3.13 and later has texts of mimalloc, and malloc of libc */
			out->how = MT_LOOK_IN_FILE;
			snprintf(out->allocator, sizeof(out->allocator), "%s", traces[i].name);
		}
	}
}

/* ---- the allocator ---- */

struct files {
	bool has_loader, has_glibc, has_musl;
	char libc[96];
};

static void note_file(const char *path, struct files *files, struct mt_look *out)
{
	const char *base = mt_text_basename(path), *name = mt_preload_allocator(path);

	out->is_python |= mt_runtime_python(base, out->python_version, sizeof(out->python_version));
	files->has_loader |= strncmp(base, "ld-", 3) == 0 || strncmp(base, "ld64", 4) == 0;
	/* musl's loader and libc are one file. libc.so: as in Debian; glibc's is a linker script */
	if (strncmp(base, "ld-musl", 7) == 0 || strncmp(base, "libc.musl", 9) == 0 ||
	    strcmp(base, "libc.so") == 0)
		files->has_loader = files->has_musl = true;
	if (strncmp(base, "libc.so.6", 9) == 0 || strncmp(base, "libc-2.", 7) == 0)
		files->has_glibc = true;
	if (files->has_glibc && !files->libc[0])
		snprintf(files->libc, sizeof(files->libc), "%.95s", base);
	if (!name || out->how == MT_LOOK_LIBRARY)
		return;
	out->how = MT_LOOK_LIBRARY;
	snprintf(out->allocator, sizeof(out->allocator), "%s", name);
	snprintf(out->allocator_file, sizeof(out->allocator_file), "%.95s", base);
}

/* The maps do not tell whether libc's malloc serves or the jemalloc in the shim; its stats file
 * does. */
static void ask_shim(struct mt_look *out)
{
	struct mt_stats_head head;
	struct mt_error_reason why;

	if (!out->process.shimmed)
		return;
	if (mt_target_read_head(&out->process, &head, &why)) {
		out->is_off = mt_target_asleep(&out->process) == MT_ASLEEP_OFF;
		if (out->how == MT_LOOK_UNKNOWN && !out->is_off)
			out->how = MT_LOOK_ASLEEP;
	} else if (head.mode == MT_MODE_JEMALLOC) {
		out->how = MT_LOOK_LIBRARY;
		snprintf(out->allocator, sizeof(out->allocator), "jemalloc");
		snprintf(out->allocator_file, sizeof(out->allocator_file), MT_SHIM_NAME);
	}
}

static void read_allocator(struct mt_look *out)
{
	char *maps = mt_process_maps(out->process.pid), *rest = maps;
	struct mt_maps_line line;
	struct files files = {0};

	while (mt_maps_next(&rest, &line))
		if (*line.name == '/' && strcmp(line.permissions, "r-xp") == 0)
			note_file(line.name, &files, out);
	free(maps);
	ask_shim(out);
	read_program(out);
	if (out->how == MT_LOOK_UNKNOWN && (files.has_glibc || files.has_musl)) {
		out->how = MT_LOOK_LIBC;
		snprintf(out->allocator, sizeof(out->allocator), "%s",
			 files.has_glibc ? "glibc" : "musl");
		snprintf(out->allocator_file, sizeof(out->allocator_file), "%s", files.libc);
	} else if (out->how == MT_LOOK_UNKNOWN && !files.has_loader) {
		out->how = MT_LOOK_STATIC;
	}
	mt_text_clean(out->allocator_file, sizeof(out->allocator_file));
}

static void read_python(struct mt_look *out)
{
	const char *value = out->python_malloc;

	if (!out->is_python)
		return;
	if (!mt_process_environ(out->process.pid, "PYTHONMALLOC", out->python_malloc,
				sizeof(out->python_malloc)))
		out->python_malloc[0] = '\0';
	mt_text_clean(out->python_malloc, sizeof(out->python_malloc));
	if (!*value || strncmp(value, "pymalloc", 8) == 0 || strcmp(value, "default") == 0 ||
	    strcmp(value, "debug") == 0)
		out->arenas_known = mt_pymalloc_read(&out->process, &out->arenas);
}

/* ---- limits, owner, start ---- */

static uint64_t rlimit_of(const char *text, const char *word)
{
	const char *line = text ? strstr(text, word) : NULL;
	uint64_t value;
	char number[24];

	return line && sscanf(line + strlen(word), "%23s", number) == 1 &&
			       mt_text_parse_u64(number, &value)
		       ? value
		       : UINT64_MAX;
}

void mt_look_parse_rlimits(const char *text, struct mt_look_rlimits *out)
{
#define X(name, word) out->name##_bytes = rlimit_of(text, word);
	MT_LOOK_RLIMITS(X)
#undef X
}

void mt_look_parse_cgroup(const char *text, struct mt_look *out)
{
	static const struct {
		const char *part, *name;
	} runtimes[] = {{"kubepods", "kubernetes"},   {"docker", "docker"},
			{"libpod", "podman"},         {"lxc", "lxc"},
			{"containerd", "containerd"}, {"crio", "cri-o"}};
	const char *end = text ? strstr(text, ".service") : NULL, *start = end;

	for (size_t i = 0; text && i < sizeof(runtimes) / sizeof(runtimes[0]) && !out->container[0];
	     i++)
		if (strstr(text, runtimes[i].part))
			snprintf(out->container, sizeof(out->container), "%s", runtimes[i].name);
	while (start && start > text && start[-1] != '/' && start[-1] != '\n')
		start--;
	/* user@1000.service is the manager of a login, not a service of its own */
	if (!start || strncmp(start, "user@", 5) == 0 || end == start)
		return;
	snprintf(out->unit, sizeof(out->unit), "%.*s.service",
		 (int)(end - start < 80 ? end - start : 80), start);
	mt_text_clean(out->unit, sizeof(out->unit));
}

static void name_user(uid_t uid, char *out, size_t out_bytes)
{
	const struct passwd *entry = getpwuid(uid);

	if (entry)
		snprintf(out, out_bytes, "%s", entry->pw_name);
	else
		snprintf(out, out_bytes, "%u", (unsigned)uid);
	mt_text_clean(out, out_bytes);
}

static uint64_t status_number(const char *status, const char *key)
{
	uint64_t value = 0;

	return status && mt_read_file_number(status, key, &value) ? value : 0;
}

static void read_status(struct mt_look *out)
{
	char *status = mt_process_read(out->process.pid, "status", NULL),
	     *limits = mt_process_read(out->process.pid, "limits", NULL),
	     *cgroup = mt_process_read(out->process.pid, "cgroup", NULL);

	out->threads_count = status_number(status, "Threads");
	out->rss_peak_bytes = status_number(status, "VmHWM") * 1024;
	out->anon_bytes = status_number(status, "RssAnon") * 1024;
	mt_look_parse_rlimits(limits, &out->rlimits);
	mt_look_parse_cgroup(cgroup, out);
	free(status);
	free(limits);
	free(cgroup);
	out->is_command_cut =
		!mt_start_command_read(&out->process, out->command, sizeof(out->command));
}

/* Whose the process is, of which no more may be read. */
static enum mt_err refuse(pid_t pid, struct mt_error_reason *why)
{
	struct mt_process *list = NULL, *found = NULL;
	size_t count = mt_process_scan(&list);
	char user[32];

	for (size_t i = 0; i < count; i++)
		if (list[i].pid == pid)
			found = &list[i];
	if (found)
		name_user(found->uid, user, sizeof(user));
	if (found && geteuid() == 0)
		mt_error_because(
			why, MT_ERR_FOREIGN,
			"process %d (%s) of %s: even root may not read its memory from here "
			"(another user namespace, no CAP_SYS_PTRACE, or a security module)",
			(int)pid, found->comm, user);
	else if (found && found->uid == geteuid())
		mt_error_because(
			why, MT_ERR_FOREIGN,
			"process %d (%s) is yours (%s), and may not be read all the same, as "
			"after setuid or prctl(PR_SET_DUMPABLE): sudo mtctl look %d",
			(int)pid, found->comm, user, (int)pid);
	else if (found)
		mt_error_because(
			why, MT_ERR_FOREIGN,
			"process %d (%s) belongs to %s, and only %s%s may read its memory: "
			"sudo mtctl look %d",
			(int)pid, found->comm, user, user, found->uid ? " or root" : "", (int)pid);
	free(list);
	return MT_ERR_FOREIGN;
}

enum mt_err mt_look_read(pid_t pid, struct mt_look *out, struct mt_error_reason *why)
{
	struct mt_smaps smaps;
	struct mt_stats_head head;
	enum mt_err error;

	memset(out, 0, sizeof(*out));
	error = mt_process_find(pid, &out->process, why);
	if (error == MT_ERR_FOREIGN)
		return refuse(pid, why);
	/* a signal 0 is none: it only asks whether the process is there (kill(2)) */
	if (error == MT_ERR_UNKNOWN && kill(pid, 0) != 0 && errno == EPERM)
		return mt_error_because(
			why, MT_ERR_FOREIGN,
			"process %d belongs to another user, and /proc hides it from "
			"you (mount option hidepid): sudo mtctl look %d",
			(int)pid, (int)pid);
	if (error)
		return error;
	if (!out->process.shimmed)
		(void)mt_target_read_near(&out->process, &head);
	if (out->process.is_kernel)
		return mt_error_because(
			why, MT_ERR_INVALID,
			"process %d (%s) is a thread of the kernel: it has no memory of its own",
			(int)out->process.pid, out->process.comm);
	error = mt_smaps_read(&out->process, &smaps, why);
	if (error == MT_ERR_FOREIGN)
		return refuse(pid, why);
	if (error)
		return error;
	mt_look_sort(&smaps, out);
	mt_smaps_free(&smaps);
	name_user(out->process.uid, out->user, sizeof(out->user));
	read_status(out);
	read_allocator(out);
	read_python(out);
	out->obstacle = mt_obstacle_of_process(pid, out->process.uid);
	out->limit_known = mt_limit_find("", out->process.pid, &out->limit) == MT_ERR_OK;
	mt_text_clean(out->limit.source, sizeof(out->limit.source));
	return MT_ERR_OK;
}

/* ---- versions of what runs it ---- */

#define FILE_MAX    ((size_t)16 << 20) /* glibc has 2 MB */
#define BANNER_MAX  160u
#define READ_MAX_MS 2000u

/* "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36." */
static const char mark[] = "GNU C Library (";

bool mt_runtime_libc(const char *bytes, size_t length, char *out, size_t out_bytes)
{
	const char *at = memmem(bytes, length, mark, strlen(mark));
	char banner[BANNER_MAX + 1], package[80], version[16];
	size_t left;

	if (!at)
		return false;
	at += strlen(mark);
	left = length - (size_t)(at - bytes);
	snprintf(banner, sizeof(banner), "%.*s", (int)(left < BANNER_MAX ? left : BANNER_MAX), at);
	if (sscanf(banner, "%79[^)]) %*s release version %15[0-9.]", package, version) != 2)
		return false;
	if (version[strlen(version) - 1] == '.')
		version[strlen(version) - 1] = '\0';
	snprintf(out, out_bytes, "glibc %s (%s)", version, package);
	mt_text_clean(out, out_bytes);
	return true;
}

bool mt_runtime_python(const char *base, char *version, size_t version_bytes)
{
	const char *at = strncmp(base, "libpython", 9) == 0 ? base + 9
			 : strncmp(base, "python", 6) == 0  ? base + 6
							    : NULL;
	size_t length = at ? strspn(at, "0123456789.") : 0;

	if (!at || (*at && !length))
		return false;
	while (length && at[length - 1] == '.')
		length--;
	if (length > strlen(version) && length < version_bytes)
		snprintf(version, version_bytes, "%.*s", (int)length, at);
	return true;
}

static void read_file(const void *argument, int to)
{
	char found[sizeof(((struct mt_runtime *)NULL)->libc)] = "";
	size_t length = 0;
	char *bytes = mt_read_file_max(argument, FILE_MAX, &length);

	if (bytes)
		(void)mt_runtime_libc(bytes, length, found, sizeof(found));
	mt_watchdog_write(to, found, sizeof(found));
}

/* `path` as the process sees it. */
static void read_libc(pid_t pid, const char *path, struct mt_runtime *out)
{
	char place[PATH_MAX];

	if ((size_t)snprintf(place, sizeof(place), "/proc/%d/root%s", (int)pid, path) >=
	    sizeof(place))
		return;
	if (mt_watchdog_value(read_file, place, READ_MAX_MS, out->libc, sizeof(out->libc)))
		mt_text_clean(out->libc, sizeof(out->libc));
}

void mt_runtime_read(pid_t pid, struct mt_runtime *out)
{
	char *maps = mt_process_maps(pid), *rest = maps;
	struct mt_maps_line line;

	*out = (struct mt_runtime){.libc = ""};
	while (mt_maps_next(&rest, &line)) {
		const char *base = mt_text_basename(line.name);

		(void)mt_runtime_python(base, out->python, sizeof(out->python));
		if (!*out->libc && strcmp(line.permissions, "r-xp") == 0 &&
		    (strcmp(base, "libc.so.6") == 0 || strncmp(base, "libc-2.", 7) == 0))
			read_libc(pid, line.name, out);
	}
	free(maps);
}
