/* core/cgroup_path.c -- finds a process's cgroup in a hierarchy, and reads the files of it and of
 * its ancestors. Contract: core/cgroup.h. */
#include "core/core_internal.h"

#include <fcntl.h>
#include <string.h>

#include "sys/format.h"
#include "sys/os.h"

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

bool mt_cgroup_path_set(const char *root, const char *directory, struct mt_cgroup_path *position)
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

bool mt_cgroup_path_has(const struct mt_cgroup_path *position, size_t length, const char *file)
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
