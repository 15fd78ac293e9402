#include "ctl/metrics/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ctl/channel/control_file.h"
#include "ctl/channel/stats_dir.h"
#include "ctl/figures/figures.h"
#include "ctl/process/clock.h"
#include "ctl/process/look.h"
#include "ctl/process/process.h"
#include "ctl/process/read_file.h"
#include "sys/saturating.h"

enum watched_state {
	WATCHED_NEW,   /* or it ended before its loader was seen to map the shim */
	WATCHED_PLAIN, /* without the shim, or `shim` is false */
	WATCHED_ASLEEP,
	WATCHED_AWAKE,
	WATCHED_REFUSED,
	WATCHED_STATES_COUNT
};

struct watched {
	struct mt_process process;
	enum watched_state state; /* of the last process line */
	/* older than the recording, with counters that have not been read yet */
	bool is_older;
	uint32_t devices_count;
	uint32_t silent_count; /* samples in a row without a reply */
	uint64_t identity;     /* hash of its name and arguments */
	uint64_t identity_ns;  /* when it was read; CLOCK_MONOTONIC */
	uint64_t same_count;   /* readings with this identity */
	uint64_t records_seen, rounds_seen, pressure_level;
	uint64_t program_ns;   /* time of the first line after an exec; 0: none was seen */
	uint64_t published_ns; /* time_ns of the figures that those are from */
};

/* ---- lines, one function for each kind ---- */

/* Returns the start time of the process, CLOCK_REALTIME, to about 10 ms. */
static uint64_t recorder_start_ns(const struct mt_process *process)
{
	uint64_t since_boot = process->start_ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));

	return mt_clock_realtime_ns() - mt_clock_read_ns(CLOCK_BOOTTIME) + since_boot;
}

uint64_t mt_recorder_interval_ns(const struct mt_recorder_options *options, uint64_t since_ns)
{
	uint64_t part_ns = since_ns / MT_RECORDER_PART;

	if (options->interval_ns)
		return options->interval_ns;
	return part_ns < MT_RECORDER_FIRST_NS  ? MT_RECORDER_FIRST_NS
	       : part_ns > MT_RECORDER_LAST_NS ? MT_RECORDER_LAST_NS
					       : part_ns;
}

static uint64_t hash_text(uint64_t hash, char *text, size_t length)
{
	for (size_t i = 0; text && i < length; i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u; /* FNV-1a */
	free(text);
	return hash;
}

/* Returns a hash of name and arguments: it changes with prctl(PR_SET_NAME) and exec. */
static uint64_t recorder_identity(pid_t pid)
{
	size_t comm_length = 0, command_length = 0;
	char *comm = mt_process_read(pid, "comm", &comm_length);
	char *command = mt_process_read_memory(pid, "cmdline", &command_length);

	return hash_text(hash_text(0xcbf29ce484222325u, comm, comm_length), command,
			 command_length);
}

/* {"kind": KIND, "time_ns": ..., "pid": ...}; the caller adds the rest. */
static json_t *recorder_line(const char *kind, pid_t pid, uint64_t time_ns)
{
	json_t *line = json_object();

	mt_json_set_text(line, "kind", kind);
	mt_json_set_u64(line, "time_ns", time_ns);
	mt_json_set_u64(line, "pid", (uint64_t)pid);
	return line;
}

static void set_clean(json_t *object, const char *name, const char *text)
{
	char clean[160];

	strncpy(clean, text, sizeof(clean) - 1);
	clean[sizeof(clean) - 1] = '\0';
	mt_text_clean(clean, sizeof(clean));
	mt_json_set_text(object, name, clean);
}

static json_t *recorder_header(const struct mt_process *root,
			       const struct mt_recorder_options *options, uint64_t now_ns)
{
	json_t *line = recorder_line("header", root->pid, now_ns);
	struct utsname machine;

	mt_json_set_text(line, "format", MT_RECORDER_FORMAT);
	mt_json_set_u64(line, "version", MT_RECORDER_VERSION);
	mt_json_set_text(line, "comm", root->comm);
	mt_json_set_text(line, "command", root->command);
	mt_json_set_bool(line, "started", options->started);
	mt_json_set_bool(line, "shim", options->shim);
	mt_json_set_bool(line, "tree", options->tree);
	mt_json_set_u64(line, "interval_ms", mt_recorder_interval_ns(options, 0) / 1000000u);
	mt_json_set_u64(line, "interval_max_ms",
			mt_recorder_interval_ns(options, UINT64_MAX) / 1000000u);
	mt_json_set_text(line, "mtctl_version", MT_VERSION);
	if (uname(&machine) == 0) {
		set_clean(line, "host", machine.nodename);
		set_clean(line, "machine", machine.machine);
		set_clean(line, "kernel", machine.release);
	}
	mt_json_set_u64(line, "cpus_count", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	mt_json_set_u64(line, "memory_bytes",
			(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
	return line;
}

/* ---- processes ---- */

static json_t *devices_json(const struct mt_stats_file *file)
{
	json_t *array = json_array();

	for (size_t i = 0; i < file->head.devices_count; i++) {
		json_t *device = mt_json_append_object(array);

		mt_json_set_u64(device, "ordinal", file->devices[i].ordinal);
		mt_json_set_text(device, "name", file->devices[i].name);
		mt_json_set_u64(device, "total_bytes", file->devices[i].total_bytes);
	}
	return array;
}

/* `file` is used if the process is awake; `why` is "" or the reason why its file is refused. */
static json_t *recorder_process_line(const struct watched *watched,
				     const struct mt_stats_file *file, const char *why,
				     uint64_t now_ns)
{
	static const char *const states[WATCHED_STATES_COUNT] = {"new", "plain", "asleep", "awake",
								 "refused"};
	const struct mt_process *process = &watched->process;
	struct mt_runtime runtime;
	json_t *line = recorder_line("process", process->pid, now_ns);

	mt_json_set_text(line, "comm", process->comm);
	mt_json_set_text(line, "command", process->command);
	if (process->start_ticks) {
		mt_json_set_u64(line, "ppid", (uint64_t)process->parent);
		mt_json_set_u64(line, "start_ns", recorder_start_ns(process));
	}
	if (watched->program_ns)
		mt_json_set_u64(line, "program_ns", watched->program_ns);
	if (watched->state != WATCHED_NEW)
		mt_json_set_text(line, "state", states[watched->state]);
	if (watched->state == WATCHED_REFUSED)
		set_clean(line, "why", why);
	if (watched->state != WATCHED_AWAKE)
		return line;
	mt_json_set_text(line, "shim_version", file->head.shim_version);
	mt_json_set_text(line, "allocator", file->head.allocator);
	mt_json_set_text(line, "mode", mt_stats_word_mode(file->head.mode));
	mt_json_set(line, "rank", *file->head.rank ? json_string(file->head.rank) : json_null());
	mt_json_set(line, "devices", devices_json(file));
	mt_json_set(line, "settings", mt_stats_json_settings(file));
	mt_json_set_u64_if(line, "limit_bytes", file->head.snapshot.pressure_limit_bytes != 0,
			   file->head.snapshot.pressure_limit_bytes);
	mt_json_set_text(line, "limit_source", file->head.limit_source);
	mt_runtime_read(process->pid, &runtime);
	mt_json_set_text(line, "libc_version", runtime.libc);
	mt_json_set_text(line, "python_version", runtime.python);
	return line;
}

/* ---- samples ---- */

static void set_kernel_figures(json_t *line, const char *status)
{
	uint64_t kb;

	for (const struct mt_figure *figure = mt_figures(MT_FIGURES_PROCESS); figure->name;
	     figure++)
		if (mt_read_file_number(status, figure->recorded, &kb) && kb < UINT64_MAX / 1024)
			mt_json_set_u64(line, figure->name, kb * 1024);
}

/* Fields 14 and 15 of /proc/PID/stat, in clock ticks. The name before them may hold anything. */
static void set_cpu_time(json_t *line, pid_t pid)
{
	char *text = mt_process_read(pid, "stat", NULL), *at = text ? strrchr(text, ')') : NULL;
	unsigned long long user, system;

	if (at && sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
			 &system) == 2)
		mt_json_set_u64(line, "cpu_ns",
				(user + system) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK)));
	free(text);
}

static json_t *device_samples(const struct mt_stats_file *file)
{
	json_t *array = json_array();

	for (size_t i = 0; i < file->head.devices_count; i++) {
		json_t *device = mt_json_append_object(array);

		mt_figures_set_recorded(device, MT_FIGURES_DEVICE, &file->devices[i], true);
	}
	return array;
}

static void set_shim_figures(json_t *line, const struct mt_stats_file *file)
{
	bool uses_cuda = mt_stats_file_uses_cuda(&file->head);

	mt_json_set_u64(line, "shim_time_ns", file->head.time_ns);
	mt_figures_set_recorded(line, MT_FIGURES_PROCESS, &file->head.snapshot, uses_cuda);
	if (uses_cuda)
		mt_json_set(line, "devices", device_samples(file));
}

/* Returns NULL if the process has no memory any more. `file` NULL: only the kernel's figures. */
static json_t *recorder_sample_line(const struct watched *watched, const struct mt_stats_file *file,
				    uint64_t now_ns)
{
	char *status = mt_process_read(watched->process.pid, "status", NULL);
	json_t *line = NULL;
	uint64_t kb;

	if (status && mt_read_file_number(status, "VmRSS", &kb)) {
		line = recorder_line("sample", watched->process.pid, now_ns);
		set_kernel_figures(line, status);
		set_cpu_time(line, watched->process.pid);
		if (file)
			set_shim_figures(line, file);
	}
	free(status);
	return line;
}

#define WATCHED_MAX 4096u /* processes of a tree at one time */
#define STALE_NS    UINT64_C(1000000000)
#define WAIT_MAX_NS UINT64_C(200000000) /* for all replies together */
#define LOOK_NS     UINT64_C(1000000000)
#define IDENTITY_NS UINT64_C(1000000000)

struct mt_recorder {
	struct mt_recorder_options options;
	struct mt_json_lines *lines;
	struct mt_process root;
	uint64_t began_ns;    /* CLOCK_REALTIME; the start of a program that was started for it */
	struct watched *list; /* the first one is always the root */
	size_t count;
	uint64_t looked_ns;      /* for descendants; CLOCK_MONOTONIC */
	bool warned;             /* the message about too many processes was printed */
	int last_fd;             /* the root's stats file; -1: none yet */
	struct mt_target target; /* buffer for the process that is being read; large */
};

static struct watched *watch(struct mt_recorder *recorder, const struct mt_process *process)
{
	struct watched *watched;

	recorder->list =
		mt_error_make_room(recorder->list, recorder->count, sizeof(*recorder->list));
	watched = &recorder->list[recorder->count++];
	*watched = (struct watched){.process = *process, .state = WATCHED_NEW};
	/* Events before the recording are left out. */
	watched->is_older =
		recorder_start_ns(process) < recorder->began_ns && !recorder->options.started;
	return watched;
}

struct mt_recorder *mt_recorder_make(const struct mt_process *root,
				     const struct mt_recorder_options *options,
				     struct mt_json_lines *lines)
{
	struct mt_recorder *recorder = mt_error_check_memory(calloc(1, sizeof(*recorder)));

	recorder->options = *options;
	recorder->lines = lines;
	recorder->root = *root;
	recorder->last_fd = -1;
	/* A program that has already ended has no start time. */
	recorder->began_ns = options->started && root->start_ticks ? recorder_start_ns(root)
								   : mt_clock_realtime_ns();
	mt_json_lines_write(lines, recorder_header(root, options, recorder->began_ns));
	watch(recorder, root);
	return recorder;
}

static void put(struct mt_recorder *recorder, json_t *line)
{
	mt_json_lines_write(recorder->lines, line);
}

/* ---- events ---- */

static void put_records(struct mt_recorder *recorder, struct watched *watched, uint64_t now_ns)
{
	const struct mt_stats_file *file = &recorder->target.file;
	uint64_t last = file->head.cleanups_count;
	uint64_t first = last > MT_CLEANUPS_COUNT ? last - MT_CLEANUPS_COUNT + 1 : 1;

	if (watched->records_seen + 1 < first && !watched->is_older) {
		json_t *line = recorder_line("lost", watched->process.pid, now_ns);

		mt_json_set_u64(line, "records_count", first - watched->records_seen - 1);
		put(recorder, line);
	}
	if (first <= watched->records_seen)
		first = watched->records_seen + 1;
	for (uint64_t number = first; number <= last && number >= first; number++) {
		const struct mt_stats_cleanup *record = mt_stats_file_cleanup(file, number);
		json_t *line, *facts;

		if (!record || record->time_ns < recorder->began_ns)
			continue;
		line = recorder_line("cleanup", watched->process.pid, record->time_ns);
		facts = mt_stats_json_cleanup(record);
		if (json_object_update(line, facts) != 0)
			mt_error_check_memory(NULL);
		json_decref(facts);
		put(recorder, line);
	}
	watched->records_seen = last;
}

static void put_round(struct mt_recorder *recorder, struct watched *watched, uint64_t now_ns)
{
	uint64_t rounds = recorder->target.file.head.snapshot.rounds_count;
	json_t *line = recorder_line("round", watched->process.pid, now_ns);

	mt_json_set_u64(line, "number", rounds);
	mt_json_set_u64(line, "rounds_count", rounds - watched->rounds_seen);
	put(recorder, line);
	watched->rounds_seen = rounds;
}

static void put_pressure(struct mt_recorder *recorder, struct watched *watched, uint64_t now_ns)
{
	const struct mt_stats_snapshot *now = &recorder->target.file.head.snapshot;
	json_t *line = recorder_line("pressure", watched->process.pid, now_ns);

	mt_json_set_text(line, "level", mt_stats_word_pressure_level(now->pressure_level));
	if (now->pressure_limit_bytes) {
		mt_json_set_u64(line, "used_bytes", now->pressure_used_bytes);
		mt_json_set_u64(line, "limit_bytes", now->pressure_limit_bytes);
	}
	put(recorder, line);
	watched->pressure_level = now->pressure_level;
}

/* Needs a fresh head. Counters that fell belong to another program in the same process. */
static void put_counted(struct mt_recorder *recorder, struct watched *watched, uint64_t now_ns)
{
	const struct mt_stats_head *head = &recorder->target.file.head;

	watched->published_ns = head->time_ns;
	if (head->cleanups_count < watched->records_seen)
		watched->records_seen = 0;
	if (head->snapshot.rounds_count < watched->rounds_seen)
		watched->rounds_seen = 0;
	if (head->snapshot.rounds_count > watched->rounds_seen)
		put_round(recorder, watched, now_ns);
	if (head->snapshot.pressure_level != watched->pressure_level)
		put_pressure(recorder, watched, now_ns);
}

/* A process removes its files when it ends. An open descriptor can still be read. */
static void keep_root_open(struct mt_recorder *recorder, const struct watched *watched)
{
	struct mt_error_reason why;
	int fd;

	if (watched->process.pid != recorder->root.pid ||
	    mt_stats_dir_open(&watched->process, MT_STATS_DIR_STATS, &fd, &why) != MT_ERR_OK)
		return;
	if (recorder->last_fd >= 0)
		close(recorder->last_fd);
	recorder->last_fd = fd;
}

static void put_changes(struct mt_recorder *recorder, struct watched *watched, uint64_t now_ns)
{
	const struct mt_stats_head *head = &recorder->target.file.head;
	struct mt_error_reason why;

	keep_root_open(recorder, watched);
	put_counted(recorder, watched, now_ns);
	if (head->cleanups_count > watched->records_seen &&
	    mt_target_read(&watched->process, &recorder->target.file, &why) == MT_ERR_OK)
		put_records(recorder, watched, now_ns);
}

/* Events after the last poll. A file that is not newer may belong to the program before an exec. */
static void put_last_changes(struct mt_recorder *recorder, uint64_t now_ns)
{
	struct watched *root = &recorder->list[0];
	const struct mt_stats_head *head = &recorder->target.file.head;
	struct mt_error_reason why;

	if (recorder->last_fd < 0 ||
	    mt_target_read_open(&root->process, recorder->last_fd, &recorder->target.file, &why) !=
		    MT_ERR_OK ||
	    head->time_ns <= root->published_ns)
		return;
	put_counted(recorder, root, now_ns);
	if (head->cleanups_count > root->records_seen)
		put_records(recorder, root, now_ns);
}

/* ---- process lines ---- */

/* A process that ends has no command line any more before it is a zombie. */
static bool has_memory(pid_t pid)
{
	struct mt_process now = {.pid = pid};

	return mt_process_read_stat(&now) && now.rss_bytes;
}

static enum watched_state read_state(struct mt_recorder *recorder, struct watched *watched,
				     struct mt_error_reason *why)
{
	struct mt_stats_file *file = &recorder->target.file;
	enum mt_err error;

	if (!recorder->options.shim)
		return WATCHED_PLAIN;
	if (!watched->process.shimmed)
		return has_memory(watched->process.pid) ? WATCHED_PLAIN : WATCHED_NEW;
	error = mt_target_read_head(&watched->process, &file->head, why);
	/* The devices are behind the head. */
	if (!error && file->head.devices_count)
		error = mt_target_read(&watched->process, file, why);
	if (!error)
		return WATCHED_AWAKE;
	return error == MT_ERR_NOT_AVAILABLE ? WATCHED_ASLEEP : WATCHED_REFUSED;
}

/* Counters start at their values of the first reading. */
static void begin_counting(const struct mt_recorder *recorder, struct watched *watched)
{
	const struct mt_stats_head *head = &recorder->target.file.head;

	if (!watched->is_older)
		return;
	watched->records_seen = head->cleanups_count;
	watched->rounds_seen = head->snapshot.rounds_count;
	watched->is_older = false;
}

/* Whether the identity need not be read again, which takes a child process. An exec chooses another
 * address for the stack; a new title that leaves the name as it was is seen after IDENTITY_NS. */
static bool is_same_program(const struct mt_recorder *recorder, const struct watched *watched,
			    uint64_t now_ns)
{
	struct mt_process now = {.pid = watched->process.pid};

	return watched->identity && (watched->process.shimmed || !recorder->options.shim) &&
	       now_ns - watched->identity_ns < IDENTITY_NS && watched->process.stack_start &&
	       mt_process_read_stat(&now) && now.stack_start == watched->process.stack_start &&
	       strcmp(now.comm, watched->process.comm) == 0;
}

/* An exec changes the name, and whether the process carries the shim; the loader maps that a moment
 * later. A process without the shim is checked again at growing intervals, since the maps of a
 * large process are long. */
static uint64_t update_identity(const struct mt_recorder *recorder, struct watched *watched)
{
	uint64_t now_ns = mt_clock_now_ns(), identity;
	struct mt_process fresh;
	struct mt_stats_head head;
	struct mt_error_reason why;
	enum mt_err error;
	bool same;

	if (is_same_program(recorder, watched, now_ns))
		return watched->identity;
	identity = recorder_identity(watched->process.pid);
	same = identity == watched->identity;
	watched->identity_ns = now_ns;
	watched->same_count = same ? watched->same_count + 1 : 0;
	if (same && (watched->process.shimmed || !recorder->options.shim ||
		     watched->same_count & (watched->same_count - 1)))
		return identity;
	error = mt_process_find_soon(watched->process.pid, &fresh, &why);
	if (!has_memory(watched->process.pid))
		return watched->identity;
	if (error)
		return identity;
	if (recorder->options.shim && !fresh.shimmed)
		(void)mt_target_read_near(&fresh, &head);
	watched->process = fresh;
	return identity;
}

/* Writes a process line if something has changed. Returns true if the head has been read. */
static bool put_state(struct mt_recorder *recorder, struct watched *watched, uint64_t now_ns)
{
	uint64_t stack_start = watched->process.stack_start;
	uint64_t identity = update_identity(recorder, watched);
	uint32_t devices = watched->devices_count;
	enum watched_state state;
	struct mt_error_reason why = {.text = ""};

	if (stack_start && watched->process.stack_start != stack_start)
		watched->program_ns = now_ns;
	state = read_state(recorder, watched, &why);
	if (state == WATCHED_ASLEEP && watched->state == WATCHED_AWAKE &&
	    identity == watched->identity &&
	    mt_process_runs(watched->process.pid, watched->process.stack_start))
		return false; /* it ends, and has removed its files */
	if (state == WATCHED_AWAKE) {
		begin_counting(recorder, watched);
		devices = recorder->target.file.head.devices_count;
	}
	if (state != watched->state || identity != watched->identity ||
	    devices != watched->devices_count) {
		struct mt_error_reason unread;

		if (state == WATCHED_AWAKE &&
		    mt_target_read(&watched->process, &recorder->target.file, &unread) != MT_ERR_OK)
			state = WATCHED_ASLEEP;
		if (state == WATCHED_REFUSED && watched->state != state)
			mt_error_say("process %d (%s): %s", (int)watched->process.pid,
				     watched->process.comm, why.text);
		watched->state = state;
		put(recorder,
		    recorder_process_line(watched, &recorder->target.file, why.text, now_ns));
	}
	watched->identity = identity;
	watched->devices_count = devices;
	return state == WATCHED_AWAKE;
}

/* ---- the tree ---- */

static bool is_watched(const struct mt_recorder *recorder, const struct mt_process *process)
{
	for (size_t i = 0; i < recorder->count; i++)
		if (recorder->list[i].process.pid == process->pid &&
		    recorder->list[i].process.start_ticks == process->start_ticks)
			return true;
	return false;
}

/* Whether it descends from the root or from a recorded process: orphans get another parent. */
static bool descends(const struct mt_recorder *recorder, const struct mt_process *list,
		     size_t count, pid_t pid)
{
	if (mt_ancestry_descends(list, count, pid, recorder->root.pid))
		return true;
	for (size_t i = 0; i < recorder->count; i++)
		if (mt_ancestry_descends(list, count, pid, recorder->list[i].process.pid))
			return true;
	return false;
}

static void find_new(struct mt_recorder *recorder)
{
	struct mt_process *list;
	size_t count = mt_process_read_all(&list);

	for (size_t i = 0; i < count; i++) {
		if ((recorder->options.shim && !list[i].shimmed) || list[i].pid == getpid() ||
		    is_watched(recorder, &list[i]) || !descends(recorder, list, count, list[i].pid))
			continue;
		if (recorder->count < WATCHED_MAX)
			watch(recorder, &list[i]);
		else if (!recorder->warned)
			mt_error_say("more than %u processes: those beyond are not recorded",
				     WATCHED_MAX);
		recorder->warned |= recorder->count >= WATCHED_MAX;
	}
	free(list);
}

static json_t *end_line(const struct mt_process *process, uint64_t now_ns)
{
	json_t *line = recorder_line("end", process->pid, now_ns);

	mt_json_set_bool(line, "alive", mt_process_is_alive(process));
	return line;
}

/* The end of the root is written by mt_recorder_end, which knows its exit status. */
static void drop_ended(struct mt_recorder *recorder, uint64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < recorder->count; i++) {
		if (mt_process_is_alive(&recorder->list[i].process) ||
		    recorder->list[i].process.pid == recorder->root.pid)
			recorder->list[kept++] = recorder->list[i];
		else
			put(recorder, end_line(&recorder->list[i].process, now_ns));
	}
	recorder->count = kept;
}

/* ---- samples ---- */

/* A process that does not reply gets requests at growing intervals, since each wait delays the
 * others. */
static void refresh(struct watched *watched, uint64_t until_ns)
{
	const struct mt_request request = {.kind = MT_REQUEST_PUBLISH};
	uint64_t now_ns = mt_clock_now_ns();
	uint32_t silent = watched->silent_count;
	struct mt_error_reason why;

	if (watched->state != WATCHED_AWAKE || now_ns >= until_ns)
		return;
	watched->silent_count++;
	if (silent & (silent - 1))
		return;
	if (mt_control_file_request(&watched->process, request, (until_ns - now_ns) / 1000000u,
				    &why) == MT_ERR_OK)
		watched->silent_count = 0;
}

/* A look at all processes costs more than a sample. */
static bool is_time_to_look(struct mt_recorder *recorder)
{
	uint64_t now_ns = mt_clock_now_ns();

	if (!recorder->options.interval_ns && recorder->looked_ns &&
	    now_ns - recorder->looked_ns < LOOK_NS)
		return false;
	recorder->looked_ns = now_ns;
	return true;
}

bool mt_recorder_sample(struct mt_recorder *recorder, uint64_t interval_ns)
{
	uint64_t half_ns = interval_ns / 2, wait_ns = half_ns < WAIT_MAX_NS ? half_ns : WAIT_MAX_NS;
	uint64_t until_ns = mt_clock_now_ns() + wait_ns, now_ns;

	for (size_t i = 0; i < recorder->count; i++)
		refresh(&recorder->list[i], until_ns);
	now_ns = mt_clock_realtime_ns();
	if (recorder->options.tree) {
		drop_ended(recorder, now_ns);
		if (is_time_to_look(recorder))
			find_new(recorder);
	}
	for (size_t i = 0; i < recorder->count; i++) {
		struct watched *watched = &recorder->list[i];
		bool awake = put_state(recorder, watched, now_ns);
		/* figures of a process that does not reply; one at rest does */
		uint64_t age_ns = mt_sat_sub(now_ns, recorder->target.file.head.time_ns);
		bool fresh = awake && !(watched->silent_count && age_ns > STALE_NS);
		json_t *sample = recorder_sample_line(
			watched, fresh ? &recorder->target.file : NULL, now_ns);

		if (sample)
			put(recorder, sample);
		if (awake)
			put_changes(recorder, watched, now_ns);
	}
	return mt_process_is_alive(&recorder->root);
}

/* A sleeping process may have woken up since the last sample. */
static bool read_head(struct mt_recorder *recorder, struct watched *watched, uint64_t now_ns)
{
	struct mt_error_reason why;

	if (watched->state != WATCHED_AWAKE)
		return recorder->options.shim && mt_process_is_alive(&watched->process) &&
		       put_state(recorder, watched, now_ns);
	return mt_target_read_head(&watched->process, &recorder->target.file.head, &why) ==
	       MT_ERR_OK;
}

bool mt_recorder_poll(struct mt_recorder *recorder)
{
	uint64_t now_ns = mt_clock_realtime_ns();

	for (size_t i = 0; i < recorder->count; i++)
		if (read_head(recorder, &recorder->list[i], now_ns))
			put_changes(recorder, &recorder->list[i], now_ns);
	return mt_process_is_alive(&recorder->root);
}

static uint64_t ns_of(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_usec * 1000u;
}

void mt_recorder_end(struct mt_recorder *recorder, const struct mt_launch *launch)
{
	uint64_t now_ns = mt_clock_realtime_ns();
	json_t *line;

	put_last_changes(recorder, now_ns);
	for (size_t i = 0; i < recorder->count; i++)
		if (recorder->list[i].process.pid != recorder->root.pid)
			put(recorder, end_line(&recorder->list[i].process, now_ns));
	line = end_line(&recorder->root, now_ns);
	if (launch->pid && launch->ended) {
		bool killed = WIFSIGNALED(launch->status);

		mt_json_set(line, "exit_code",
			    killed ? json_null() : json_integer(WEXITSTATUS(launch->status)));
		mt_json_set(line, "signal",
			    killed ? json_integer(WTERMSIG(launch->status)) : json_null());
		mt_json_set_u64(line, "rss_peak_bytes", (uint64_t)launch->usage.ru_maxrss * 1024);
		mt_json_set_u64(line, "cpu_ns",
				ns_of(&launch->usage.ru_utime) + ns_of(&launch->usage.ru_stime));
	}
	put(recorder, line);
	if (recorder->last_fd >= 0)
		close(recorder->last_fd);
	free(recorder->list);
	free(recorder);
}
