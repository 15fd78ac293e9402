/* ctl/process/process_probe.c -- see process_probe.h; also what process.h finds by it. */
#include "ctl/process/process_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "ctl/output/text.h"
#include "ctl/process/clock.h"
#include "ctl/process/obstacle.h"
#include "ctl/process/preload.h"
#include "ctl/process/read_file.h"
#include "ctl/process/smaps.h"
#include "ctl/process/start_command.h"
#include "ctl/process/watchdog.h"

/* ---- user name: whose process it is, for messages ---- */

/* Returns the name of a user, clean and cut; "user 1001" if it has none. Asks the services of
 * nsswitch.conf, which may take long: for errors only. */
static struct mt_short_text user_name(uid_t uid)
{
	struct mt_short_text result;
	const struct passwd *user = getpwuid(uid);

	if (user)
		snprintf(result.text, sizeof(result.text), "%.40s", user->pw_name);
	else
		snprintf(result.text, sizeof(result.text), "user %u", (unsigned)uid);
	mt_text_clean(result.text, sizeof(result.text));
	return result;
}

#define MS UINT64_C(1000000)
/* free for each process: an honest one takes less */
#define FREE_NS         (MS / 2)
#define USER_NS         (1000 * MS)
#define ALL_NS          (5000 * MS)
#define USERS_MAX       64u
#define COMPUTES_MAX_MS 1000u
/* of one process alone, which a user has named: on a busy machine, who holds its mmap_lock waits
 * for a CPU. In a list, others wait behind it, and the next list has it. */
#define ONE_WAIT_MS 2000u
#define ONE_MAX_MS  4000u
#define BATCH_MAX   4096u /* processes that one child looks at */
#define RESULT_MAX  (sizeof(struct result) + PATH_MAX)

/* ---- whether a process has an executable mapping of the library ---- */

#define MAPS_BYTES 32768
#define MAPS_MAX   ((size_t)512 << 20)

static bool is_library(char *line, struct mt_process *process)
{
	const char *blank = strchr(line, ' ');
	struct mt_maps_line mapping;

	if (!blank || strncmp(blank + 1, "r-x", 3) != 0 || !mt_maps_next(&line, &mapping) ||
	    !mt_library_is_at(process->pid, &mapping, &process->library_deleted))
		return false;
	process->library_start = mapping.start;
	return true;
}

/* Returns whether the process has an executable mapping of the library, and notes it. fd: its
 * /proc/PID/maps. Stops at the first match: every line costs the kernel a path. Examines the first
 * 512 MB of the text: a process may have a million mappings, each with a path of 31 kB. Waits for
 * the mmap_lock of the process. */
static bool detect_shim(int fd, struct mt_process *process)
{
	/* longer than the longest line: a path of 4096 bytes, each written as \012 */
	static char text[MAPS_BYTES];
	size_t used = 0, all = 0;
	ssize_t got;

	while (all < MAPS_MAX && (got = read(fd, text + used, sizeof(text) - used)) > 0) {
		char *line = text, *end;

		used += (size_t)got;
		all += (size_t)got;
		for (; (end = memchr(line, '\n', used - (size_t)(line - text))); line = end + 1) {
			*end = '\0';
			if (is_library(line, process))
				return true;
		}
		used -= (size_t)(line - text);
		memmove(text, line, used);
	}
	return false;
}

/* ---- the time budget of each user ---- */

static struct {
	struct {
		uid_t uid;
		uint64_t spent_ns;
	} users[USERS_MAX];
	size_t users_count;
	uint64_t spent_ns;
} budget;

static uint64_t *spent_of(uid_t uid)
{
	for (size_t i = 0; i < budget.users_count; i++)
		if (budget.users[i].uid == uid)
			return &budget.users[i].spent_ns;
	if (budget.users_count == USERS_MAX)
		/* beyond USERS_MAX users, the others share the total */
		return &budget.spent_ns;
	budget.users[budget.users_count].uid = uid;
	budget.users[budget.users_count].spent_ns = 0;
	return &budget.users[budget.users_count++].spent_ns;
}

bool mt_process_budget_is_left(uid_t uid)
{
	/* The calling user has no bound of its own: on a busy machine time passes that its
	 * processes did not use. */
	return budget.spent_ns < ALL_NS && (uid == geteuid() || *spent_of(uid) < USER_NS);
}

void mt_process_budget_spend(uid_t uid, uint64_t ns)
{
	uint64_t *spent = spent_of(uid);

	ns = ns > FREE_NS ? ns - FREE_NS : 0;
	budget.spent_ns += ns;
	if (spent != &budget.spent_ns)
		*spent += ns;
}

/* ---- the MT_DIR of processes, for a minute ---- */

#define DIR_HOLDS_NS UINT64_C(60000000000)
#define DIR_FRESH_NS UINT64_C(50000000000) /* holds for another 10 s */
/* the slot is pid % SLOTS_COUNT; processes with the same slot evict each other */
#define SLOTS_COUNT 4096u

static struct entry {
	pid_t pid; /* 0: empty */
	uint64_t start_ticks, stack_start, read_ns;
	enum mt_env_dir_state state;
	char *path; /* NAMED */
} slots[SLOTS_COUNT];

static struct entry *slot_of(const struct mt_process *process)
{
	return &slots[(unsigned)process->pid % SLOTS_COUNT];
}

static bool holds(const struct mt_process *process, uint64_t for_ns)
{
	const struct entry *slot = slot_of(process);

	return slot->pid == process->pid && slot->start_ticks == process->start_ticks &&
	       slot->stack_start && slot->stack_start == process->stack_start &&
	       mt_clock_now_ns() - slot->read_ns < for_ns;
}

void mt_env_dir_remember(const struct mt_process *process, enum mt_env_dir_state state,
			 const char *path)
{
	struct entry *slot = slot_of(process);

	if (state == MT_ENV_DIR_NAMED && !*path)
		state = MT_ENV_DIR_NONE;
	free(slot->path);
	*slot = (struct entry){
		.pid = process->pid, .start_ticks = process->start_ticks, .state = state};
	slot->read_ns = mt_clock_now_ns();
	slot->stack_start = state == MT_ENV_DIR_EMPTY ? 0 : process->stack_start;
	slot->path = state == MT_ENV_DIR_NAMED ? mt_error_check_memory(strdup(path)) : NULL;
}

static void read_environment(const struct mt_process *process)
{
	char path[PATH_MAX];
	size_t length = 0;
	char *list = mt_process_read_memory(process->pid, "environ", &length);
	bool is_late = !list && errno == ETIMEDOUT;

	if (list && mt_process_find_variable(list, length, "MT_DIR", path, sizeof(path)))
		mt_env_dir_remember(process, MT_ENV_DIR_NAMED, path);
	else
		mt_env_dir_remember(process, length || is_late ? MT_ENV_DIR_NONE : MT_ENV_DIR_EMPTY,
				    NULL);
	free(list);
}

enum mt_env_dir_state mt_env_dir_find(const struct mt_process *process, char *out, size_t out_bytes)
{
	const struct entry *slot = slot_of(process);

	if (!holds(process, DIR_HOLDS_NS))
		read_environment(process);
	if (slot->state == MT_ENV_DIR_COSTLY)
		return MT_ENV_DIR_COSTLY;
	if (!slot->path || strlen(slot->path) >= out_bytes)
		return MT_ENV_DIR_NONE;
	strcpy(out, slot->path);
	return MT_ENV_DIR_NAMED;
}

/* ---- the child ---- */

struct batch {
	struct mt_process_probe *probes;
	size_t first, end;
	bool is_one;
};

/* What the child writes for each process, followed by `directory_bytes` of its MT_DIR. */
struct result {
	size_t item;
	enum mt_err error;
	int errno_value;
	uint64_t cost_ns;
	struct mt_process process;
	enum mt_env_dir_state environment;
	size_t directory_bytes;
};

static void read_command(struct mt_process *process)
{
	char text[sizeof(process->command)] = "";
	size_t length = sizeof(text) - 1;

	(void)mt_process_read_small(process->pid, "cmdline", text, sizeof(text));
	/* NULs separate arguments; a title that the program has written over them leaves blanks */
	while (length && (text[length - 1] == '\0' || text[length - 1] == ' '))
		text[--length] = '\0';
	for (size_t i = 0; i < length; i++)
		text[i] = text[i] ? text[i] : ' ';
	snprintf(process->command, sizeof(process->command), "%s", *text ? text : process->comm);
	mt_text_clean(process->command, sizeof(process->command));
}

/* musl's loader maps the library as well, in which nothing then runs. */
static bool is_musl(const struct mt_process *process)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)process->pid);
	return mt_obstacle_of_file(path, process->uid, 0) == MT_OBSTACLE_MUSL;
}

static void read_maps(struct result *result)
{
	struct mt_process *process = &result->process;
	int fd = mt_process_open(process->pid, "maps");

	result->errno_value = fd < 0 ? errno : 0;
	if (fd < 0) {
		result->error = result->errno_value == ENOENT || result->errno_value == ESRCH
					? MT_ERR_OK
					: MT_ERR_FOREIGN;
		return;
	}
	process->shimmed = detect_shim(fd, process) && !is_musl(process);
	process->library_deleted &= process->shimmed;
	close(fd);
	if (process->shimmed)
		mt_process_read_identity(process);
}

static void read_directory(struct result *result, char *out, size_t out_bytes)
{
	char path[64];
	size_t length = 0;
	char *list;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)result->process.pid);
	list = mt_read_file_first(path, MT_PROCESS_MEMORY_MAX, &length);
	result->environment = length ? MT_ENV_DIR_NONE : MT_ENV_DIR_EMPTY;
	if (list && mt_process_find_variable(list, length, "MT_DIR", out, out_bytes)) {
		result->environment = MT_ENV_DIR_NAMED;
		result->directory_bytes = strlen(out) + 1;
	}
	free(list);
}

static void probe_one(const struct mt_process_probe *wanted, size_t item, int to)
{
	struct result result = {
		.item = item, .process = *wanted->process, .environment = MT_ENV_DIR_NOT_READ};
	uint64_t from_ns = mt_clock_now_ns();
	char directory[PATH_MAX];

	if (wanted->maps)
		read_maps(&result);
	if (wanted->command || result.process.shimmed)
		read_command(&result.process);
	if (wanted->maps && result.process.shimmed && !holds(&result.process, DIR_FRESH_NS))
		read_directory(&result, directory, sizeof(directory));
	result.cost_ns = mt_clock_now_ns() - from_ns;
	mt_process_budget_spend(result.process.uid, result.cost_ns);
	mt_watchdog_write(to, &result, sizeof(result));
	mt_watchdog_write(to, directory, result.directory_bytes);
}

/* The child starts with a copy of the budget, and charges it as the parent will. */
static bool is_wanted(const struct mt_process_probe *one)
{
	return !one->done && mt_process_budget_is_left(one->process->uid);
}

static void probe_batch(const void *argument, int to)
{
	const struct batch *batch = argument;

	for (size_t i = batch->first; i < batch->end; i++)
		if (is_wanted(&batch->probes[i]))
			probe_one(&batch->probes[i], i, to);
}

/* ---- the parent ---- */

static void store_result(struct mt_process_probe *one, const struct result *result,
			 const char *directory)
{
	mt_process_budget_spend(one->process->uid, result->cost_ns);
	*one->process = result->process;
	one->error = result->error;
	one->errno_value = result->errno_value;
	one->done = true;
	if (result->environment != MT_ENV_DIR_NOT_READ)
		mt_env_dir_remember(one->process, result->environment, directory);
}

static uint64_t store_results(const struct batch *batch, const char *text, size_t length)
{
	struct result result;
	uint64_t cost_ns = 0;

	while (length >= sizeof(result)) {
		memcpy(&result, text, sizeof(result));
		text += sizeof(result);
		length -= sizeof(result);
		if (length < result.directory_bytes)
			break;
		store_result(&batch->probes[result.item], &result, text);
		text += result.directory_bytes;
		length -= result.directory_bytes;
		cost_ns += result.cost_ns;
	}
	return cost_ns;
}

/* Returns the index to go on with: the end, or the one after the process at which the child was
 * stuck or died. */
static size_t run_child(const struct batch *batch)
{
	const struct mt_watchdog watchdog = {
		probe_batch, batch, (batch->end - batch->first) * RESULT_MAX,
		batch->is_one ? ONE_MAX_MS : COMPUTES_MAX_MS, batch->is_one ? ONE_WAIT_MS : 0};
	uint64_t from_ns = mt_clock_now_ns(), cost_ns;
	size_t length, at = batch->first;
	struct mt_watchdog_end end;
	char *text = mt_watchdog_run(&watchdog, &length, &end);

	cost_ns = store_results(batch, text, length);
	free(text);
	while (at < batch->end && !is_wanted(&batch->probes[at]))
		at++;
	if (at == batch->end)
		return at;
	batch->probes[at].errno_value = ETIMEDOUT;
	mt_process_budget_spend(batch->probes[at].process->uid,
				mt_clock_now_ns() - from_ns - cost_ns);
	return at + 1;
}

void mt_process_probe_all(struct mt_process_probe *probes, size_t count)
{
	struct batch batch = {.probes = probes, .is_one = count == 1 && probes->is_named};

	memset(&budget, 0, sizeof(budget));
	while (batch.first < count) {
		batch.end = count - batch.first < BATCH_MAX ? count : batch.first + BATCH_MAX;
		for (; batch.first < batch.end && probes[batch.first].done; batch.first++)
			continue;
		if (batch.first < batch.end)
			batch.first = run_child(&batch);
	}
	for (size_t i = 0; i < count; i++) {
		if (probes[i].done)
			continue;
		probes[i].error = MT_ERR_TIMEOUT;
		if (!probes[i].errno_value && *spent_of(probes[i].process->uid) < USER_NS)
			probes[i].errno_value = EAGAIN;
	}
}

/* ---- process.h ---- */

static enum mt_err find(pid_t pid, bool is_named, struct mt_process *out,
			struct mt_error_reason *why)
{
	struct mt_process process = {.pid = pid};
	struct mt_process_probe one = {
		.process = &process, .maps = true, .command = true, .is_named = is_named};

	if (!mt_process_read_status(&process) || !mt_process_read_stat(&process))
		return mt_error_because(why, MT_ERR_UNKNOWN,
					"no process %d; `mtctl ps` lists those under the shim",
					(int)pid);
	mt_process_probe_all(&one, 1);
	if (one.error == MT_ERR_TIMEOUT)
		return mt_error_because(
			why, MT_ERR_TIMEOUT,
			"process %d (%s) does not answer: /proc/%d/maps cannot be read in %u ms",
			(int)process.pid, process.comm, (int)process.pid,
			is_named ? ONE_WAIT_MS : MT_WATCHDOG_WAIT_MS);
	if (one.error)
		return mt_error_because(
			why, MT_ERR_FOREIGN,
			"process %d (%s) of %.40s may not be looked into (%s): %s",
			(int)process.pid, process.comm, user_name(process.uid).text,
			strerror(one.errno_value),
			!geteuid() ? "root needs CAP_SYS_PTRACE here, and no security module or "
				     "user namespace in between"
			: process.uid && process.uid != geteuid()
				? "run mtctl as that user, or as root"
				: "run mtctl as root");
	if (!process.shimmed)
		mt_process_read_identity(&process);
	*out = process;
	return MT_ERR_OK;
}

enum mt_err mt_process_find(pid_t pid, struct mt_process *out, struct mt_error_reason *why)
{
	return find(pid, true, out, why);
}

enum mt_err mt_process_find_soon(pid_t pid, struct mt_process *out, struct mt_error_reason *why)
{
	return find(pid, false, out, why);
}

enum mt_exit mt_process_refuse_bare(const struct mt_process *process)
{
	enum mt_obstacle obstacle = mt_obstacle_of_process(process->pid, process->uid);
	char command[MT_START_COMMAND_BYTES];

	mt_start_command_say(process, command, sizeof(command));
	if (obstacle != MT_OBSTACLE_NONE)
		mt_error_say("process %d (%s) of %.40s is out of the shim's reach: %s",
			     (int)process->pid, process->comm, user_name(process->uid).text,
			     mt_obstacle_text(obstacle));
	else
		mt_error_say("process %d (%s) of %.40s does not carry the shim; a start under it: "
			     "mtctl run -- %s",
			     (int)process->pid, process->comm, user_name(process->uid).text,
			     command);
	return MT_EXIT_NOT_SHIMMED;
}

size_t mt_process_read_all(struct mt_process **out)
{
	size_t count = mt_process_scan(out), probes_count = 0;
	struct mt_process_probe *probes = mt_error_check_memory(calloc(count + 1, sizeof(*probes)));

	for (size_t i = 0; i < count; i++)
		if (mt_process_may_probe(&(*out)[i]))
			probes[probes_count++] = (struct mt_process_probe){
				.process = &(*out)[i], .maps = true, .command = true};
	mt_process_probe_all(probes, probes_count);
	free(probes);
	return count;
}

/* ---- cache ---- */

#define HOLDS_NS        UINT64_C(5000000000)
#define UNRESPONSIVE_NS UINT64_C(60000000000)

struct cached {
	struct mt_process process;
	uint64_t read_ns;
	enum mt_err error;
	bool has_maps;    /* its maps were read */
	bool has_command; /* its command line was read */
};

static struct {
	struct cached *list;
	size_t count, room;
} before, now;

static const struct cached *find_cached(const struct mt_process *process, size_t *cursor,
					uint64_t now_ns)
{
	const struct cached *found;

	while (*cursor < before.count && before.list[*cursor].process.pid < process->pid)
		(*cursor)++;
	found = *cursor < before.count ? &before.list[*cursor] : NULL;
	if (!found || found->process.pid != process->pid ||
	    found->process.start_ticks != process->start_ticks ||
	    found->process.stack_start != process->stack_start || !process->stack_start ||
	    now_ns - found->read_ns > (found->error == MT_ERR_TIMEOUT ? UNRESPONSIVE_NS : HOLDS_NS))
		return NULL;
	return found;
}

/* Fills in a probe from an entry that has all that is wanted. */
static void fill(struct mt_process_probe *probe, const struct cached *entry)
{
	struct mt_process *process = probe->process;

	if (entry->error == MT_ERR_TIMEOUT || (probe->maps && entry->has_maps) ||
	    (!probe->maps && entry->has_command)) {
		probe->done = true;
		probe->error = entry->error;
		probe->read_ns = entry->read_ns;
	}
	if (!probe->done || entry->error == MT_ERR_TIMEOUT)
		return;
	if (probe->maps) {
		process->shimmed = entry->process.shimmed;
		process->library_deleted = entry->process.library_deleted;
		process->library_start = entry->process.library_start;
		process->own_pid = entry->process.own_pid;
		process->pidns = entry->process.pidns;
	}
	memcpy(process->command, entry->process.command, sizeof(process->command));
}

static void store(const struct mt_process_probe *probe)
{
	struct cached entry = {*probe->process, probe->read_ns, probe->error, probe->maps,
			       probe->command || probe->process->shimmed};

	if (probe->error == MT_ERR_TIMEOUT && probe->errno_value == EAGAIN)
		entry.read_ns = 0;
	if (now.count == now.room) {
		now.room = now.room ? now.room * 2 : 256;
		now.list = mt_error_check_memory(realloc(now.list, now.room * sizeof(*now.list)));
	}
	now.list[now.count++] = entry;
}

void mt_process_cache_probe(struct mt_process_probe *probes, size_t count)
{
	uint64_t now_ns = mt_clock_now_ns();
	size_t cursor = 0, room = before.room;
	struct cached *list = before.list;

	for (size_t i = 0; i < count; i++) {
		const struct cached *entry = find_cached(probes[i].process, &cursor, now_ns);

		probes[i].read_ns = now_ns;
		if (entry)
			fill(&probes[i], entry);
	}
	mt_process_probe_all(probes, count);
	now.count = 0;
	for (size_t i = 0; i < count; i++)
		store(&probes[i]);
	before = now;
	now.list = list;
	now.room = room;
}

/* ---- process memory ---- */

/* a process may have a million mappings: 750 MB of smaps */
#define SMAPS_MAX      ((size_t)1 << 30)
#define WHOLE_MAPS_MAX ((size_t)64 << 20)
/* the kernel walks the page tables of a large process for seconds */
#define READ_MAX_MS 10000u

#define PIECE_BYTES 65536u

struct request {
	char path[64];
	size_t max_bytes;
};

/* Writes errno first, 0 for none, so that a file that cannot be read differs from an empty one.
 * Reads the whole file before it writes: the kernel takes the mmap_lock for each piece, and the
 * process could delay each of them a little. */
static void copy(const void *argument, int to)
{
	const struct request *request = argument;
	size_t room = PIECE_BYTES, used = 0;
	char *text = mt_error_check_memory(malloc(room));
	int fd = open(request->path, O_RDONLY | O_CLOEXEC), failed;
	ssize_t got = fd < 0 ? -1 : read(fd, text, PIECE_BYTES);

	failed = got < 0 ? errno : 0;
	for (; got > 0 && used < request->max_bytes; got = read(fd, text + used, PIECE_BYTES)) {
		used += (size_t)got;
		if (room - used < PIECE_BYTES)
			text = mt_error_check_memory(realloc(text, room *= 2));
	}
	mt_watchdog_write(to, &failed, sizeof(failed));
	mt_watchdog_write(to, text, used);
}

/* Returns the first bytes of the file; NULL with errno. */
static char *read_file(pid_t pid, const char *file, size_t max_bytes, unsigned max_ms,
		       size_t *length)
{
	struct request request = {.max_bytes = max_bytes};
	const struct mt_watchdog watchdog = {copy, &request, sizeof(int) + max_bytes, max_ms, 0};
	struct mt_watchdog_end end = {.is_stuck = true};
	uint64_t from_ns = mt_clock_now_ns();
	int failed = ETIMEDOUT;
	size_t bytes = 0;
	struct stat status;
	char *text = NULL;

	snprintf(request.path, sizeof(request.path), "/proc/%d", (int)pid);
	if (stat(request.path, &status) != 0)
		return NULL;
	snprintf(request.path, sizeof(request.path), "/proc/%d/%s", (int)pid, file);
	if (mt_process_budget_is_left(status.st_uid))
		text = mt_watchdog_run(&watchdog, &bytes, &end);
	mt_process_budget_spend(status.st_uid, end.is_stuck ? mt_clock_now_ns() - from_ns
							    : end.waited_ms * UINT64_C(1000000));
	if (!end.is_stuck && bytes >= sizeof(failed))
		memcpy(&failed, text, sizeof(failed));
	if (failed) {
		free(text);
		errno = failed;
		return NULL;
	}
	*length = bytes - sizeof(failed);
	memmove(text, text + sizeof(failed), *length + 1);
	return text;
}

/* Returns NULL with EFBIG instead of a part of the file. */
static char *read_whole(pid_t pid, const char *file, size_t max_bytes, unsigned max_ms)
{
	size_t length;
	char *text = read_file(pid, file, max_bytes + 1, max_ms, &length);

	if (!text || length <= max_bytes)
		return text;
	free(text);
	errno = EFBIG;
	return NULL;
}

char *mt_process_read_memory(pid_t pid, const char *file, size_t *length)
{
	return read_file(pid, file, MT_PROCESS_MEMORY_MAX, READ_MAX_MS, length);
}

char *mt_process_maps(pid_t pid)
{
	return read_whole(pid, "maps", WHOLE_MAPS_MAX, READ_MAX_MS);
}

static uint64_t smaps_until_ns = UINT64_MAX;

void mt_process_smaps_until(uint64_t until_ns)
{
	smaps_until_ns = until_ns;
}

char *mt_process_smaps(pid_t pid, const char *file)
{
	uint64_t now_ns = mt_clock_now_ns();
	uint64_t left_ms = now_ns < smaps_until_ns ? (smaps_until_ns - now_ns) / 1000000u : 0;

	errno = ETIMEDOUT;
	if (!left_ms)
		return NULL;
	return read_whole(pid, file, SMAPS_MAX,
			  left_ms < READ_MAX_MS ? (unsigned)left_ms : READ_MAX_MS);
}

/* Skips NULs, of which there may be millions. */
static const char *skip_empty(const char *at, const char *end)
{
	static const char zeros[4096];

	while ((size_t)(end - at) >= sizeof(zeros) && memcmp(at, zeros, sizeof(zeros)) == 0)
		at += sizeof(zeros);
	while (at < end && !*at)
		at++;
	return at;
}

bool mt_process_find_variable(const char *list, size_t length, const char *name, char *out,
			      size_t out_bytes)
{
	size_t name_length = strlen(name);
	const char *entry = skip_empty(list, list + length);

	for (; entry < list + length; entry = skip_empty(entry + strlen(entry), list + length)) {
		if (strncmp(entry, name, name_length) != 0 || entry[name_length] != '=')
			continue;
		if (strlen(entry + name_length + 1) >= out_bytes)
			return false;
		strcpy(out, entry + name_length + 1);
		return true;
	}
	return false;
}

bool mt_process_environ(pid_t pid, const char *name, char *out, size_t out_bytes)
{
	size_t length = 0;
	char *list = mt_process_read_memory(pid, "environ", &length);
	bool found = list && mt_process_find_variable(list, length, name, out, out_bytes);

	free(list);
	return found;
}
