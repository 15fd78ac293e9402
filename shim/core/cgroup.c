/* core/cgroup.c -- finds a process's cgroup in a hierarchy, and reads the files of it and of its
 * ancestors; memory limits of the cgroups, stall, load and CPUs. */
#include "core/cgroup.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

#include "core/core_internal.h"
#include "sys/format.h"
#include "sys/os.h"
#include "sys/saturating.h"

#define LINE_BYTES 8192 /* a longer line cannot name a cgroup whose path fits */

/* ---- numbers ---- */

bool mt_cgroup_path_number(const char *text, uint64_t *out)
{
	const char *at = text;
	uint64_t value = mt_os_parse_digits(&at);

	if (at == text || (*at && *at != '\n'))
		return false;
	*out = value;
	return true;
}

bool mt_cgroup_path_keyed(const char *text, const char *key, uint64_t *out)
{
	const char *value = mt_os_find_line(text, key);

	return value && mt_cgroup_path_number(value, out);
}

/* ---- lines ---- */

static void each_line(const char *path, bool (*visit)(char *line, void *context), void *context)
{
	static char text[LINE_BYTES];

	mt_os_each_line(path, text, sizeof(text), visit, context);
}

/* Returns the next word of a line, ended by NUL; "" at the end of the line. */
static char *next_word(char **at)
{
	char *word = *at;
	char *end = word + strcspn(word, " ");

	*at = end + (*end != 0);
	*end = 0;
	return word;
}

/* ---- finding the cgroup ---- */

/* Returns whether word is one whole element of a list that commas separate: "memory" is in
 * "cpu,memory". */
static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	while (list) {
		if (strncmp(list, word, length) == 0 && (list[length] == ',' || !list[length]))
			return true;
		list = strchr(list, ',');
		if (list)
			list++;
	}
	return false;
}

/* Returns whether the three characters at digits are an octal number below 256. */
static bool is_octal(const char *digits)
{
	return digits[0] >= '0' && digits[0] <= '3' && digits[1] >= '0' && digits[1] <= '7' &&
	       digits[2] >= '0' && digits[2] <= '7';
}

/* Replaces the escapes of a mountinfo path (\040 is a space) in place. Source: proc(5). */
static void unescape(char *text)
{
	char *to = text;

	for (const char *at = text; *at; at++) {
		if (at[0] == '\\' && is_octal(at + 1)) {
			*to++ = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
			at += 3;
		} else {
			*to++ = *at;
		}
	}
	*to = '\0';
}

/* Returns the part of a cgroup's path that lies below mount_root, the root of a mount. Returns NULL
 * if the mount does not show the cgroup. Inside a cgroup namespace, a path outside the namespace
 * begins with "/..". */
static const char *path_below(const char *path, const char *mount_root)
{
	size_t length = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);

	if (strncmp(path, mount_root, length) != 0 || (path[length] && path[length] != '/'))
		return NULL;
	path += length;
	if (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || !path[3]))
		return NULL;
	return strcmp(path, "/") == 0 ? "" : path;
}

struct search {
	const char *root;
	const char *controller;
	char path[MT_CGROUP_PATH_BYTES]; /* of the cgroup in its hierarchy */
	struct mt_cgroup_path *out;
	bool found;
};

/* "4:memory:/path"; "0::/path" is version 2. */
static bool parse_cgroup_line(char *line, void *context)
{
	struct search *search = context;
	char *controllers = strchr(line, ':');
	char *path = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!path || path[1] != '/' || strlen(path + 1) >= sizeof(search->path))
		return false;
	*path++ = 0;
	if (search->controller ? !has_word(controllers + 1, search->controller)
			       : strcmp(line, "0:") != 0)
		return false;
	memcpy(search->path, path, strlen(path) + 1);
	search->found = true;
	return true;
}

static bool set_directory(struct mt_cgroup_path *out, const char *root, const char *mount,
			  const char *below)
{
	if (strlen(root) + strlen(mount) + strlen(below) >= sizeof(out->directory))
		return false;
	out->mount_length = strlen(root) + strlen(mount);
	out->length =
		mt_format(out->directory, sizeof(out->directory), "%s%s%s", root, mount, below);
	return true;
}

/* "36 25 0:31 ROOT MOUNT options optional... - TYPE source superoptions". */
static bool parse_mount_line(char *line, void *context)
{
	struct search *search = context;
	char *rest = strstr(line, " - ");
	const char *type, *options, *below;
	char *mount_root, *mount;

	if (!rest)
		return false;
	*rest = 0;
	rest += 3;
	type = next_word(&rest);
	(void)next_word(&rest);
	options = next_word(&rest);
	if (strcmp(type, search->controller ? "cgroup" : "cgroup2") != 0 ||
	    (search->controller && !has_word(options, search->controller)))
		return false;
	for (int skipped = 0; skipped < 3; skipped++)
		(void)next_word(&line);
	mount_root = next_word(&line);
	mount = next_word(&line);
	unescape(mount_root);
	unescape(mount);
	if (*mount_root != '/' || *mount != '/')
		return false;
	below = path_below(search->path, mount_root);
	if (below || !search->found)
		search->found |=
			set_directory(search->out, search->root, mount, below ? below : "");
	return below != NULL;
}

struct mount_search {
	const char *path;
	size_t best_length;
	char *out;
	size_t out_bytes;
};

/* Of two mounts at one place the later line is on top. */
static bool match_mount(char *line, void *context)
{
	struct mount_search *search = context;
	char *rest = strstr(line, " - ");
	char *mount;
	size_t length;

	if (!rest)
		return false;
	rest += 3;
	for (int skipped = 0; skipped < 4; skipped++)
		(void)next_word(&line);
	mount = next_word(&line);
	unescape(mount);
	length = strcmp(mount, "/") == 0 ? 0 : strlen(mount);
	if (length < search->best_length || strncmp(search->path, mount, length) != 0 ||
	    (search->path[length] && search->path[length] != '/'))
		return false;
	search->best_length = length;
	(void)mt_format(search->out, search->out_bytes, "%s", next_word(&rest));
	return false;
}

bool mt_cgroup_path_mount_kind(const char *path, char *out, size_t out_bytes)
{
	struct mount_search search = {.path = path, .out = out, .out_bytes = out_bytes};

	mt_assert(*path == '/' && out_bytes > 0);
	*out = '\0';
	each_line("/proc/self/mountinfo", match_mount, &search);
	return *out != '\0';
}

bool mt_cgroup_path_find(const char *root, pid_t pid, const char *controller,
			 struct mt_cgroup_path *out)
{
	static struct search search;
	static char path[MT_CGROUP_PATH_BYTES];

	search.root = root;
	search.controller = controller;
	search.out = out;
	search.found = false;
	if (pid)
		(void)mt_format(path, sizeof(path), "%s/proc/%d/cgroup", root, (int)pid);
	else
		(void)mt_format(path, sizeof(path), "%s/proc/self/cgroup", root);
	each_line(path, parse_cgroup_line, &search);
	if (!search.found)
		return false;
	search.found = false;
	(void)mt_format(path, sizeof(path), "%s/proc/self/mountinfo", root);
	each_line(path, parse_mount_line, &search);
	return search.found;
}

/* Sets *position to a given directory. Returns false if it does not begin with a slash, or is too
 * long. */
static bool path_set(const char *root, const char *directory, struct mt_cgroup_path *position)
{
	if (*directory != '/' || !set_directory(position, root, "", directory))
		return false;
	mt_assert(position->length < sizeof(position->directory));
	while (position->length > position->mount_length &&
	       position->directory[position->length - 1] == '/')
		position->directory[--position->length] = 0;
	return true;
}

/* ---- the cgroup and its ancestors ---- */

size_t mt_cgroup_path_parent(const struct mt_cgroup_path *position, size_t length)
{
	mt_assert(length <= position->length || position->length == 0);
	if (length <= position->mount_length)
		return 0;
	while (length > position->mount_length && position->directory[length - 1] != '/')
		length--;
	while (length > position->mount_length && position->directory[length - 1] == '/')
		length--;
	return length;
}

static int open_plainly(const char *path)
{
	return mt_os_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
}

static int (*open_file)(const char *path) = open_plainly;

void mt_cgroup_path_open_by(int (*open_by)(const char *path))
{
	open_file = open_by;
}

static int open_in(const struct mt_cgroup_path *position, size_t length, const char *file)
{
	static char path[MT_CGROUP_PATH_BYTES + 64];

	(void)mt_format(path, sizeof(path), "%.*s/%s", (int)length, position->directory, file);
	return open_file(path);
}

/* Returns whether the cgroup whose path has this length has such a file. */
static bool path_has(const struct mt_cgroup_path *position, size_t length, const char *file)
{
	int fd = open_in(position, length, file);

	if (fd >= 0)
		mt_os_close(fd);
	return fd >= 0;
}

bool mt_cgroup_path_read(const struct mt_cgroup_path *position, size_t length, const char *file,
			 char *out, size_t out_bytes)
{
	return mt_os_read_and_close(open_in(position, length, file), out, out_bytes) > 0;
}

bool mt_cgroup_path_sibling(const char *file, const char *name, char *out, size_t out_bytes)
{
	const char *slash = strrchr(file, '/');

	return slash && *file == '/' &&
	       mt_format(out, out_bytes, "%.*s/%s", (int)(slash - file), file, name) + 1 <
		       out_bytes;
}

uint64_t mt_cgroup_path_oom_kills(const char *file)
{
	static const char *const names[] = {"memory.events", "memory.oom_control"};
	char path[640], text[1024];
	uint64_t count;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (mt_cgroup_path_sibling(file, names[i], path, sizeof(path)) &&
		    mt_os_read_and_close(open_file(path), text, sizeof(text)) > 0 &&
		    mt_cgroup_path_keyed(text, "oom_kill ", &count))
			return count;
	return UINT64_MAX;
}

/* ---- memory limits ---- */

#define GROUPS_MAX 64                 /* of more the outermost do not count */
#define FIND_NS    (60 * MT_NS_PER_S) /* a process rarely moves to another cgroup */
#define LIMITS_NS  (5 * MT_NS_PER_S)
/* shortest time between two searches after failed reads */
#define RETRY_NS   MT_NS_PER_S
#define FILE_BYTES 32 /* of a file's name, with its slash */

/* Sources: cgroup-v2.rst and cgroup-v1/memory.rst of the kernel. memory.events.local, since Linux
 * 5.2, counts the events of the cgroup's own limits; memory.events also counts those of its
 * descendants. */
struct version {
	const char *usage, *inactive;
	const char *limits[2], *events[2];
};
static const struct version versions[] = {
	{"memory.current",
	 "inactive_file ",
	 {"memory.max", "memory.high"},
	 {"memory.events.local", "memory.events"}},
	{"memory.usage_in_bytes",
	 "total_inactive_file ",
	 {"memory.limit_in_bytes", NULL},
	 {"memory.failcnt", NULL}},
};

struct group {
	size_t length;        /* of its path in position.directory */
	uint64_t limit_bytes; /* the smallest of its own limits; 0: none */
	const char *limit_file;
};

static struct list {
	struct mt_cgroup_path position;
	const struct version *version;
	struct group groups[GROUPS_MAX]; /* the process's own first, then its ancestors */
	size_t count;
	uint64_t machine_bytes; /* MemTotal; 0 unknown */
	uint64_t found_ns;
	uint64_t limits_ns;
	pid_t pid; /* 0: the caller's own process */
	bool is_found;
	bool is_without_given; /* MT_CGROUP is no memory cgroup */
	bool has_moved;        /* the groups are not those of the last sample */
} list;

static char pressure_directory[MT_CGROUP_PATH_BYTES];
static char source[MT_CGROUP_PATH_BYTES + FILE_BYTES];
static char stat_text[8192]; /* memory.stat is the longest file, 2 to 3 kB */

/* ---- figures ---- */

static bool reaches(uint64_t used, uint64_t limit, uint64_t pct)
{
	return (unsigned __int128)used * 100 >= (unsigned __int128)limit * pct;
}

static bool is_closer_to_limit(uint64_t used, uint64_t limit, const struct mt_cgroup_sample *than)
{
	return !than->limit_bytes || (unsigned __int128)used * than->limit_bytes >
					     (unsigned __int128)than->used_bytes * limit;
}

static bool read_number(size_t length, const char *file, uint64_t *out)
{
	char number[64];

	return mt_cgroup_path_read(&list.position, length, file, number, sizeof(number)) &&
	       mt_cgroup_path_number(number, out);
}

/* "MemTotal:       24682416 kB". */
bool mt_cgroup_meminfo(const char *root, const char *key, uint64_t *out_bytes)
{
	char path[256 + FILE_BYTES];
	const char *found;
	char *line;
	uint64_t kilobytes;
	size_t digits;

	(void)mt_format(path, sizeof(path), "%s/proc/meminfo", root);
	if (mt_os_read_file(path, stat_text, sizeof(stat_text)) <= 0)
		return false;
	found = mt_os_find_line(stat_text, key);
	if (!found)
		return false;
	line = stat_text + (found - stat_text);
	line += strspn(line, " ");
	digits = strcspn(line, " \n");
	if (strncmp(line + digits, " kB", 3) != 0)
		return false;
	line[digits] = 0;
	if (!mt_cgroup_path_number(line, &kilobytes) || kilobytes > UINT64_MAX / 1024)
		return false;
	*out_bytes = kilobytes * 1024;
	return true;
}

/* ---- finding the cgroups ---- */

static void add_group(size_t length)
{
	mt_assert(length > 0 && length <= list.position.length && list.count <= GROUPS_MAX);
	if (list.count < GROUPS_MAX)
		list.groups[list.count++] = (struct group){.length = length};
}

/* Returns whether it is the root of version 1, which has figures of the whole machine and no limit.
 * Only the root has release_agent. Source: cgroups.rst of the kernel. */
static bool is_root(size_t length)
{
	return length == list.position.mount_length &&
	       path_has(&list.position, length, "release_agent");
}

/* Uses the directory MT_CGROUP, and its ancestors as long as they are cgroups. */
static bool find_given(const char *root, const char *directory)
{
	size_t length;

	if (!path_set(root, directory, &list.position))
		return false;
	for (size_t i = 0; i < 2 && !list.count; i++) {
		list.version = &versions[i];
		length = list.position.length;
		while (length && path_has(&list.position, length, list.version->usage)) {
			add_group(length);
			length = mt_cgroup_path_parent(&list.position, length);
		}
	}
	(void)mt_format(pressure_directory, sizeof(pressure_directory), "%s",
			list.position.directory);
	return list.count > 0;
}

/* Uses the process's own cgroup. The memory controller is in one hierarchy only, of version 2 or
 * version 1. Skips ancestors that a container cannot see, or that lack the controller. */
static void find_own(const char *root)
{
	static const char *const controllers[] = {NULL, "memory"};

	pressure_directory[0] = 0;
	for (size_t i = 0; i < 2 && !list.count; i++) {
		if (!mt_cgroup_path_find(root, list.pid, controllers[i], &list.position))
			continue;
		list.version = &versions[i];
		if (i == 0)
			(void)mt_format(pressure_directory, sizeof(pressure_directory), "%s",
					list.position.directory);
		for (size_t length = list.position.length; length;
		     length = mt_cgroup_path_parent(&list.position, length))
			if (path_has(&list.position, length, list.version->usage) &&
			    !is_root(length))
				add_group(length);
	}
}

/* ---- limits ---- */

/* Reads a limit. Ignores "max", version 1's value near 2^63, and all above the machine's memory. */
static bool read_limit(size_t length, const char *file, uint64_t *out)
{
	return read_number(length, file, out) && *out &&
	       *out < (list.machine_bytes ? list.machine_bytes : UINT64_MAX / 4);
}

/* Returns false if a cgroup that had a limit has none now, as after its removal. */
static bool read_limits(uint64_t now_ns)
{
	bool is_whole = true;

	for (size_t i = 0; i < list.count; i++) {
		struct group *group = &list.groups[i];
		bool had = group->limit_bytes != 0;

		group->limit_bytes = 0;
		for (size_t j = 0; j < 2 && list.version->limits[j]; j++) {
			uint64_t limit;

			if (!read_limit(group->length, list.version->limits[j], &limit) ||
			    (group->limit_bytes && limit >= group->limit_bytes))
				continue;
			group->limit_bytes = limit;
			group->limit_file = list.version->limits[j];
		}
		is_whole &= !had || group->limit_bytes;
	}
	list.limits_ns = now_ns;
	return is_whole;
}

static void find(const char *root, const struct mt_config *cfg, uint64_t now_ns)
{
	static struct mt_cgroup_path before;
	size_t count = list.count;

	before = list.position;
	list.count = 0;
	if (!mt_cgroup_meminfo(root, "MemTotal:", &list.machine_bytes))
		list.machine_bytes = 0;
	list.is_without_given = *cfg->cgroup && !find_given(root, cfg->cgroup);
	if (!*cfg->cgroup || list.is_without_given)
		find_own(root);
	list.has_moved |= list.is_found &&
			  (list.count != count || before.length != list.position.length ||
			   memcmp(before.directory, list.position.directory, before.length) != 0);
	list.found_ns = now_ns;
	list.is_found = true;
	(void)read_limits(now_ns);
}

/* ---- reading the usage ---- */

/* Returns the limit of a cgroup; for the process's own also MT_LIMIT_MB. */
static uint64_t limit_of(const struct group *group, const struct mt_config *cfg,
			 const char **out_file)
{
	uint64_t limit = group->limit_bytes;
	uint64_t setting = group == &list.groups[0] ? cfg->limit_mb * MT_MIB : 0;

	if (list.machine_bytes && setting >= list.machine_bytes)
		setting = 0;
	mt_assert(group >= list.groups && group < list.groups + list.count);
	*out_file = group->limit_file;
	if (!setting || (limit && limit <= setting))
		return limit;
	*out_file = NULL;
	return setting;
}

/* Subtracts the inactive file pages of a cgroup. Returns false if they are not known. */
static bool subtract_inactive(size_t length, uint64_t *used)
{
	uint64_t inactive;

	if (!mt_cgroup_path_read(&list.position, length, "memory.stat", stat_text,
				 sizeof(stat_text)) ||
	    !mt_cgroup_path_keyed(stat_text, list.version->inactive, &inactive))
		return false;
	*used = mt_sat_sub(*used, inactive);
	return true;
}

static void consider_limit(const struct group *group, uint64_t used, uint64_t limit,
			   const char *file, uint64_t exact_pct, struct mt_cgroup_sample *out)
{
	bool exact = reaches(used, limit, exact_pct) && subtract_inactive(group->length, &used);

	if (!is_closer_to_limit(used, limit, out))
		return;
	out->used_bytes = used;
	out->limit_bytes = limit;
	out->is_cgroup = true;
	out->exact = exact;
	if (file)
		(void)mt_format(source, sizeof(source), "%.*s/%s", (int)group->length,
				list.position.directory, file);
	else
		(void)mt_format(source, sizeof(source), "MT_LIMIT_MB");
}

/* Reads max and high of version 2, or the single number of version 1. */
static bool read_events(size_t length, uint64_t *out)
{
	const char *const *file = list.version->events;
	char lines[256];
	uint64_t max = 0, high = 0;
	bool found;

	if (!mt_cgroup_path_read(&list.position, length, file[0], lines, sizeof(lines)) &&
	    (!file[1] ||
	     !mt_cgroup_path_read(&list.position, length, file[1], lines, sizeof(lines))))
		return false;
	if (!file[1])
		return mt_cgroup_path_number(lines, out);
	found = mt_cgroup_path_keyed(lines, "max ", &max);
	found |= mt_cgroup_path_keyed(lines, "high ", &high);
	*out = mt_sat_add(max, high);
	return found;
}

/* Returns false if a file that existed at the search is gone or holds no number. */
static bool read_groups(const struct mt_config *cfg, uint64_t exact_pct,
			struct mt_cgroup_sample *out)
{
	bool is_whole = true, has_events = false, all_events = true;

	for (size_t i = 0; i < list.count; i++) {
		struct group *group = &list.groups[i];
		const char *file;
		uint64_t limit = limit_of(group, cfg, &file);
		uint64_t used, events;

		if (!limit)
			continue;
		if (!read_number(group->length, list.version->usage, &used)) {
			is_whole = false;
			continue;
		}
		consider_limit(group, used, limit, file, exact_pct, out);
		if (group->limit_bytes && read_events(group->length, &events)) {
			has_events = true;
			out->events_count = mt_sat_add(out->events_count, events);
		} else if (group->limit_bytes) {
			all_events = false;
		}
	}
	out->events_known = has_events && all_events && !list.has_moved;
	return is_whole;
}

static void read_machine(const char *root, const struct mt_config *cfg,
			 struct mt_cgroup_sample *out)
{
	uint64_t total = list.machine_bytes, limit = cfg->limit_mb * MT_MIB;
	bool is_setting = limit && limit < total;
	uint64_t available;

	if (!total || !mt_cgroup_meminfo(root, "MemAvailable:", &available))
		return;
	out->exact = true;
	out->used_bytes = mt_sat_sub(total, available);
	out->limit_bytes = is_setting ? limit : total;
	(void)mt_format(source, sizeof(source), "%s", is_setting ? "MT_LIMIT_MB" : "/proc/meminfo");
}

void mt_cgroup_read(const char *root, const struct mt_config *cfg, uint64_t now_ns,
		    uint64_t exact_pct, struct mt_cgroup_sample *out)
{
	if (!list.is_found || now_ns - list.found_ns >= FIND_NS ||
	    (now_ns - list.limits_ns >= LIMITS_NS && !read_limits(now_ns)))
		find(root, cfg, now_ns);
	memset(out, 0, sizeof(*out));
	source[0] = 0;
	if (!read_groups(cfg, exact_pct, out) && now_ns - list.found_ns >= RETRY_NS) {
		memset(out, 0, sizeof(*out));
		find(root, cfg, now_ns);
		(void)read_groups(cfg, exact_pct, out);
	}
	if (!out->limit_bytes)
		read_machine(root, cfg, out);
	list.has_moved = false;
	out->is_without_given = list.is_without_given;
	out->source = source;
}

bool mt_cgroup_used(uint64_t *out_bytes, char *out, size_t out_size)
{
	uint64_t used;

	if (!list.count || !read_number(list.groups[0].length, list.version->usage, &used))
		return false;
	(void)subtract_inactive(list.groups[0].length, &used);
	(void)mt_format(out, out_size, "%.*s", (int)list.groups[0].length, list.position.directory);
	*out_bytes = used;
	return true;
}

const char *mt_cgroup_directory(void)
{
	return pressure_directory;
}

void mt_cgroup_of(pid_t pid)
{
	list.is_found = false;
	list.count = 0;
	list.pid = pid;
}

/* ---- stall ---- */

#define PSI_BYTES 512 /* two lines of some 70 bytes */

/* the file of the last total; "": none yet */
static char last_path[2 * MT_CGROUP_PATH_BYTES];

bool mt_cgroup_psi_parse(const char *text, const char *line, uint64_t *out_us)
{
	static const char key[] = " total=";
	char number[32];
	const char *from = mt_os_find_line(text, line);
	const char *at = from && *from == ' ' ? strstr(from, key) : NULL;

	if (!at || memchr(from, '\n', (size_t)(at - from)))
		return false;
	at += sizeof(key) - 1;
	(void)mt_format(number, sizeof(number), "%.*s", (int)strcspn(at, " \n"), at);
	return mt_cgroup_path_number(number, out_us);
}

/* Opens only regular files: to open a device may start it. */
static bool read_total(const char *path, uint64_t *out_us)
{
	char text[PSI_BYTES];
	struct stat seen;

	return mt_os_stat(path, &seen) == 0 && S_ISREG(seen.st_mode) &&
	       mt_os_read_file(path, text, sizeof(text)) > 0 &&
	       mt_cgroup_psi_parse(text, "some", out_us);
}

/* The root of all cgroups tells of the whole machine; it alone lacks these files. */
static bool group_is_root(const char *group)
{
	char path[sizeof(last_path)];
	struct stat seen;

	(void)mt_format(path, sizeof(path), "%s/cgroup.events", group);
	if (mt_os_stat(path, &seen) == 0)
		return false;
	(void)mt_format(path, sizeof(path), "%s/memory.current", group);
	return mt_os_stat(path, &seen) != 0;
}

/* Writes the path of the first file with a total. */
static bool find_total(const char *root, const char *group, const char *watched,
		       char path[sizeof(last_path)], struct mt_psi_sample *out)
{
	(void)mt_format(path, sizeof(last_path), "%s%s", root, watched);
	out->is_own = watched[0] == '/' && read_total(path, &out->some_us);
	if (out->is_own)
		return true;
	(void)mt_format(path, sizeof(last_path), "%s/memory.pressure", group);
	if (*group && read_total(path, &out->some_us)) {
		out->is_own = !group_is_root(group);
		return true;
	}
	(void)mt_format(path, sizeof(last_path), "%s/proc/pressure/memory", root);
	return read_total(path, &out->some_us);
}

void mt_cgroup_psi_read(const char *root, const char *group, const char *watched,
			struct mt_psi_sample *out)
{
	char path[sizeof(last_path)];

	memset(out, 0, sizeof(*out));
	if (!find_total(root, group, watched, path, out))
		return;
	/* The total of another file than the last one says nothing about the time between. */
	out->known = !last_path[0] || strcmp(path, last_path) == 0;
	(void)mt_format(last_path, sizeof(last_path), "%s", path);
}

void mt_cgroup_psi_fork_child(void)
{
	last_path[0] = 0;
}

/* ---- load and CPUs ---- */

#define RECOUNT_NS (60 * MT_NS_PER_S)
#define CPUS_MAX   8192 /* the largest number that a kernel supports */

static uint64_t counted_cpus;
static uint64_t quota_pct;
static uint64_t counted_at_ns;

bool mt_cgroup_load_parse(const char *text, uint64_t *out_thousandths)
{
	uint64_t value = 0;
	int decimals = -1; /* number of digits after the point; -1: no point yet */
	const char *at = text;

	for (; (*at >= '0' && *at <= '9') || (*at == '.' && decimals < 0 && at > text); at++) {
		if (*at == '.') {
			decimals = 0;
		} else if (decimals < 3) {
			if (value > UINT64_MAX / 100000)
				return false;
			value = value * 10 + (uint64_t)(*at - '0');
			decimals += decimals >= 0;
		}
	}
	if (at == text || at[-1] == '.' || (*at && *at != ' ' && *at != '\n'))
		return false;
	for (; decimals < 3; decimals += decimals < 0 ? 2 : 1)
		value *= 10;
	*out_thousandths = value;
	return true;
}

/* ---- CPUs ---- */

static uint64_t count_affinity(void)
{
	static unsigned char mask[CPUS_MAX / 8];
	uint64_t count = 0;

	memset(mask, 0, sizeof(mask));
	if (sched_getaffinity(mt_os_getpid(), sizeof(mask), (cpu_set_t *)(void *)mask) != 0)
		return 1;
	for (size_t i = 0; i < sizeof(mask); i++)
		count += (uint64_t)__builtin_popcount(mask[i]);
	return count ? count : 1;
}

/* cpu.max: "max 100000" or "150000 100000", microseconds of CPU time in each period of
 * microseconds. */
static bool read_v2(const struct mt_cgroup_path *place, size_t length, uint64_t *out_quota,
		    uint64_t *out_period)
{
	char text[64];
	char *blank;

	if (!mt_cgroup_path_read(place, length, "cpu.max", text, sizeof(text)) ||
	    !(blank = strchr(text, ' ')))
		return false;
	*blank = 0;
	return mt_cgroup_path_number(text, out_quota) &&
	       mt_cgroup_path_number(blank + 1, out_period);
}

/* A quota of -1 means no quota; the parser rejects it. */
static bool read_v1(const struct mt_cgroup_path *place, size_t length, uint64_t *out_quota,
		    uint64_t *out_period)
{
	char quota[64], period[64];

	return mt_cgroup_path_read(place, length, "cpu.cfs_quota_us", quota, sizeof(quota)) &&
	       mt_cgroup_path_number(quota, out_quota) &&
	       mt_cgroup_path_read(place, length, "cpu.cfs_period_us", period, sizeof(period)) &&
	       mt_cgroup_path_number(period, out_period);
}

/* Returns the smallest quota of the cgroup and its ancestors, in whole CPUs, up to max_count; and
 * sets quota_pct. */
static uint64_t read_quotas(const char *root, uint64_t max_count)
{
	static struct mt_cgroup_path place;

	quota_pct = 100;
	for (int is_v1 = 0; is_v1 < 2; is_v1++) {
		if (!mt_cgroup_path_find(root, 0, is_v1 ? "cpu" : NULL, &place))
			continue;
		for (size_t length = place.length; length;
		     length = mt_cgroup_path_parent(&place, length)) {
			uint64_t quota, period, count;

			if (!(is_v1 ? read_v1 : read_v2)(&place, length, &quota, &period) ||
			    !quota || !period)
				continue;
			count = quota / period + (quota % period != 0);
			max_count = mt_min_u64(max_count, count);
			if (quota < period)
				quota_pct =
					mt_min_u64(quota_pct, mt_max_u64(quota * 100 / period, 1));
		}
	}
	return max_count;
}

static void recount(const char *root, uint64_t now_ns)
{
	if (counted_cpus && now_ns - counted_at_ns < RECOUNT_NS)
		return;
	counted_cpus = read_quotas(root, count_affinity());
	counted_at_ns = now_ns;
}

uint64_t mt_cgroup_load_quota_pct(const char *root, uint64_t now_ns)
{
	recount(root, now_ns);
	return quota_pct;
}

void mt_cgroup_load_read(const char *root, uint64_t now_ns, struct mt_load *out)
{
	char path[256 + 32];
	char text[64];

	recount(root, now_ns);
	out->cpus_count = counted_cpus;
	out->load_thousandths = 0;
	(void)mt_format(path, sizeof(path), "%s/proc/loadavg", root);
	out->known = mt_os_read_file(path, text, sizeof(text)) > 0 &&
		     mt_cgroup_load_parse(text, &out->load_thousandths);
}

void mt_cgroup_load_fork_child(void)
{
	counted_cpus = 0;
}
