#include "ctl/channel/stats_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ctl/process/clock.h"
#include "ctl/process/process_probe.h"
#include "ctl/process/read_file.h"
#include "core/file_owner.h"
#include "core/stats_layout.h"

/* seconds in which the worker thread makes its files */
#define FILES_MADE_S 2
#define ENDS_MS      10u
/* CPU time to follow the MT_DIR of another user; a plain path takes some microseconds */
#define PATH_NS 3000000u

static void default_path(uid_t uid, char *out, size_t out_bytes)
{
	snprintf(out, out_bytes, "/dev/shm/mtshim-%u", (unsigned)uid);
}

/* The directory of the MT_DIR of mtctl, or "". */
static void named_path(char *out, size_t out_bytes)
{
	const char *named = getenv("MT_DIR");

	snprintf(out, out_bytes, "%s", named ? named : "");
}

void mt_stats_dir_path(char *out, size_t out_bytes)
{
	named_path(out, out_bytes);
	if (!*out)
		default_path(geteuid(), out, out_bytes);
}

static bool is_same_file(const char *path, const char *other)
{
	struct stat one, two;

	return stat(path, &one) != 0 || stat(other, &two) != 0 ||
	       (one.st_dev == two.st_dev && one.st_ino == two.st_ino);
}

/* Where a process has another root than mtctl: a container, or a chroot(2). */
enum root { ROOT_SAME, ROOT_CHROOT, ROOT_MOUNTS };

static enum root root_of(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	if (!is_same_file("/proc/self/ns/mnt", path))
		return ROOT_MOUNTS;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	return is_same_file("/proc/self/root", path) ? ROOT_SAME : ROOT_CHROOT;
}

bool mt_stats_dir_in_chroot(const struct mt_process *process)
{
	return root_of(process->pid) == ROOT_CHROOT;
}

/* Follows the path as the process would: a link in a container must not lead out of it. Files that
 * a process made before its chroot are below the root of mtctl. */
static int open_directory(const struct mt_process *process, const char *directory)
{
	enum root root = root_of(process->pid);
	char start[64];
	int fd;

	if (root != ROOT_SAME)
		snprintf(start, sizeof(start), "/proc/%d/root", (int)process->pid);
	else if (directory[0] == '/')
		snprintf(start, sizeof(start), "/");
	else
		snprintf(start, sizeof(start), "/proc/%d/cwd", (int)process->pid);
	fd = mt_foreign_path_open(open(start, O_PATH | O_DIRECTORY | O_CLOEXEC), root != ROOT_SAME,
				  directory);
	if (fd < 0 && root == ROOT_CHROOT && errno == ENOENT && directory[0] == '/')
		fd = mt_foreign_path_open(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), false,
					  directory);
	return fd;
}

/* A process that started as root may run as another user now, while its files belong to root. Only
 * root accepts those. */
static bool may_own(const struct mt_process *process, uid_t owner)
{
	return owner == process->uid || (owner == 0 && geteuid() == 0);
}

/* Refuses what the process would not have made itself. */
static enum mt_err check_owner(int fd, mode_t kind, const struct mt_process *process,
			       struct mt_error_reason *why)
{
	const char *what = kind == S_IFDIR ? "directory" : "file";
	struct stat status;

	if (fstat(fd, &status) != 0)
		return mt_error_because(why, MT_ERR_SYSTEM, "fstat: %s", strerror(errno));
	if ((status.st_mode & S_IFMT) != kind)
		return mt_error_because(why, MT_ERR_FOREIGN, "refused: what should be a %s is not",
					what);
	if (!may_own(process, status.st_uid))
		return mt_error_because(why, MT_ERR_FOREIGN,
					"refused: a %s of user %u, where the process runs as %u",
					what, (unsigned)status.st_uid, (unsigned)process->uid);
	if (status.st_mode & (S_IWGRP | S_IWOTH))
		return mt_error_because(why, MT_ERR_FOREIGN,
					"refused: a %s that others may write (mode %03o)", what,
					(unsigned)(status.st_mode & 0777));
	return MT_ERR_OK;
}

static enum mt_err asleep_error(struct mt_error_reason *why)
{
	mt_error_because(why, MT_ERR_NOT_AVAILABLE, "asleep: it has no files");
	why->lacks_files = true;
	return MT_ERR_NOT_AVAILABLE;
}

static enum mt_err open_file(int directory, const char *name, int flags, int *out_fd,
			     struct mt_error_reason *why)
{
	int fd = openat(directory, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return asleep_error(why);
	if (fd < 0)
		return mt_error_because(
			why, errno == ELOOP ? MT_ERR_FOREIGN : MT_ERR_SYSTEM, "%s: %s", name,
			errno == ELOOP ? "refused: a symbolic link" : strerror(errno));
	*out_fd = fd;
	return MT_ERR_OK;
}

#define X(kind, suffix) suffix,
static const char *const suffixes[] = {MT_FILE_KINDS(X)};
#undef X

/* The owner of the files is the owner of the directory. This refuses a hard link to a file of root
 * in the directory of another user. */
static enum mt_err check_same_owner(int directory, int file, struct mt_error_reason *why)
{
	struct stat above, status;

	if (fstat(directory, &above) != 0 || fstat(file, &status) != 0)
		return mt_error_because(why, MT_ERR_SYSTEM, "fstat: %s", strerror(errno));
	if (above.st_uid != status.st_uid)
		return mt_error_because(why, MT_ERR_FOREIGN,
					"refused: a file of user %u in a directory of user %u",
					(unsigned)status.st_uid, (unsigned)above.st_uid);
	return MT_ERR_OK;
}

struct wanted {
	const struct mt_process *process;
	enum mt_stats_dir_file which;
};

/* Opens a file in a directory that has been checked. */
static enum mt_err open_at(const struct wanted *wanted, int directory, int *out_fd,
			   struct mt_error_reason *why)
{
	const struct mt_process *process = wanted->process;
	enum mt_stats_dir_file which = wanted->which;
	char name[96];
	int file = -1;
	enum mt_err error;

	snprintf(name, sizeof(name), "%d-%" PRIu64 "-%" PRIu64 ".%s", (int)process->own_pid,
		 process->start_ticks, process->pidns, suffixes[which]);
	error = open_file(directory, name, which == MT_STATS_DIR_CONTROL ? O_RDWR : O_RDONLY, &file,
			  why);
	if (!error)
		error = check_owner(file, S_IFREG, process, why);
	if (!error)
		error = check_same_owner(directory, file, why);
	if (!error && (which == MT_STATS_DIR_BLOCKS || which == MT_STATS_DIR_LINES))
		unlinkat(directory, name, 0);
	if (error && file >= 0)
		close(file);
	else if (!error)
		*out_fd = file;
	return error;
}

static enum mt_err open_in(const struct wanted *wanted, const char *path, int *out_fd,
			   struct mt_error_reason *why)
{
	int directory = open_directory(wanted->process, path);
	enum mt_err error;

	if (directory < 0 && errno == ENOENT)
		return asleep_error(why);
	if (directory < 0)
		return mt_error_because(why, MT_ERR_FOREIGN, "%.150s: %s", path,
					errno == EXDEV ? "refused: it leads through /proc"
					: errno == ELOOP || errno == ENOTDIR
						? "refused: not a directory"
						: strerror(errno));
	error = check_owner(directory, S_IFDIR, wanted->process, why);
	if (!error)
		error = open_at(wanted, directory, out_fd, why);
	close(directory);
	return error;
}

/* Cuts the last name of a path; "." for a bare name. */
static void cut_to_parent(char *path, size_t path_bytes)
{
	char *slash = strrchr(path, '/');

	if (slash)
		slash[slash == path] = '\0';
	else
		snprintf(path, path_bytes, ".");
}

bool mt_stats_dir_is_in_memory(const char *path)
{
	char parent[PATH_MAX];
	struct statfs where;

	snprintf(parent, sizeof(parent), "%s", path);
	cut_to_parent(parent, sizeof(parent));
	if (statfs(path, &where) != 0 && (errno != ENOENT || statfs(parent, &where) != 0))
		return true;
	return MT_STATS_IS_MEMORY(where.f_type);
}

/* The groups of the process are not read: a directory that its group may write counts as writable.
 */
static bool may_make_in(int parent, const struct statfs *where, uid_t uid)
{
	struct stat status;

	if (where->f_flags & ST_RDONLY)
		return false;
	if (uid == 0 || fstat(parent, &status) != 0)
		return true;
	return status.st_mode & (status.st_uid == uid ? S_IWUSR : S_IWGRP | S_IWOTH);
}

const char *mt_stats_dir_check(int directory, int parent, uid_t uid)
{
	struct statfs where;
	struct stat status;

	if (directory < 0 && parent < 0)
		return "cannot be made: the directory above it does not exist";
	if (fstatfs(directory >= 0 ? directory : parent, &where) != 0)
		return NULL;
	if (!MT_STATS_IS_MEMORY(where.f_type))
		return "is not on a file system in memory (tmpfs)";
	if (directory < 0)
		return may_make_in(parent, &where, uid)
			       ? NULL
			       : "cannot be made: the directory above it is not writable";
	if (fstat(directory, &status) == 0 && status.st_mode & 077)
		return "is open to others (mode 700 is wanted)";
	return NULL;
}

/* Returns why the process keeps no files in this directory; NULL if it would, or if that
 * cannot be told. */
static const char *why_unusable(const struct mt_process *process, const char *path)
{
	char above[PATH_MAX];
	int directory = open_directory(process, path), parent = -1;
	const char *reason = NULL;

	if (directory < 0 && errno == ENOENT) {
		snprintf(above, sizeof(above), "%s", path);
		cut_to_parent(above, sizeof(above));
		parent = open_directory(process, above);
	}
	if (directory >= 0 || parent >= 0 || errno == ENOENT)
		reason = mt_stats_dir_check(directory, parent, process->uid);
	if (directory >= 0)
		close(directory);
	if (parent >= 0)
		close(parent);
	return reason;
}

/* The MT_DIR of mtctl is only a guess for a process whose own cannot be read. If it belongs to
 * another user, it is not used, and the process is not refused. */
static bool is_another_users(const struct mt_process *process, const char *path)
{
	int directory = open_directory(process, path);
	struct stat status;
	bool another = directory >= 0 && fstat(directory, &status) == 0 &&
		       !may_own(process, status.st_uid);

	if (directory >= 0)
		close(directory);
	return another;
}

/* The default directory of root, for root and a process of another user; "" if root does not own
 * it. */
static void roots_path(const struct mt_process *process, char *out, size_t out_bytes)
{
	struct mt_error_reason why;
	int directory = -1;

	if (geteuid() == 0 && process->uid != 0) {
		default_path(0, out, out_bytes);
		directory = open_directory(process, out);
	}
	if (directory < 0 ||
	    check_owner(directory, S_IFDIR, &(struct mt_process){.uid = 0}, &why) != MT_ERR_OK)
		out[0] = '\0';
	if (directory >= 0)
		close(directory);
}

/* The length of a path is up to the process: 40 links of 4 kB take 7 ms in each read of each
 * process. */
static void spend_since(const struct mt_process *process, uint64_t from_ns)
{
	uint64_t cost_ns = mt_clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - from_ns;

	mt_process_budget_spend(process->uid, cost_ns);
	if (cost_ns > PATH_NS && process->uid != geteuid())
		mt_env_dir_remember(process, MT_ENV_DIR_COSTLY, NULL);
}

/* Whether the worker thread of the library runs, which has a name of its own, and has had the time
 * to make its files. */
static bool has_worker(pid_t pid)
{
	char path[64];
	const struct dirent *entry;
	bool found = false;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && !found && (entry = readdir(tasks))) {
		struct mt_process thread = {.pid = (pid_t)strtol(entry->d_name, NULL, 10)};

		found = thread.pid && mt_process_read_stat(&thread) &&
			strcmp(thread.comm, "mtshim") == 0 &&
			mt_process_age_s(&thread) >= FILES_MADE_S;
	}
	if (tasks)
		closedir(tasks);
	return found;
}

/* The error for a process in a chroot without files. */
static enum mt_err chroot_error(const struct mt_process *process, struct mt_error_reason *why)
{
	char link[64], root[160] = "";

	snprintf(link, sizeof(link), "/proc/%d/root", (int)process->pid);
	(void)!readlink(link, root, sizeof(root) - 1);
	return mt_error_because(why, MT_ERR_FOREIGN,
				"out of reach: its root is %s (chroot), where the library has no "
				"place for its files; %s",
				root,
				has_worker(process->pid) ? "it is awake, and purges by itself"
							 : "it is asleep");
}

/* The error for a process whose worker runs, and which has no files where mtctl looks. */
static enum mt_err out_of_reach_error(const struct mt_process *process, struct mt_error_reason *why)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/time", (int)process->pid);
	return mt_error_because(why, MT_ERR_FOREIGN,
				"out of reach: it is awake, and purges by itself; %s",
				is_same_file("/proc/self/ns/time", path)
					? "it could not make its files, or they were removed"
					: "its files bear a start time of its own time namespace");
}

/* The error if mtctl has found no file. `own` is the MT_DIR of the process, NULL if it is not
 * known. */
static enum mt_err no_files_error(const struct mt_process *process, const char *own,
				  struct mt_error_reason *why)
{
	uint64_t from_ns = mt_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	char path[PATH_MAX];
	const char *reason;
	bool is_awake;

	if (!process->pidns && process->uid != geteuid())
		return mt_error_because(why, MT_ERR_FOREIGN,
					"awake or asleep is not known: that takes CAP_SYS_PTRACE, "
					"or to be its user, %u",
					(unsigned)process->uid);
	if (mt_stats_dir_in_chroot(process))
		return chroot_error(process, why);
	if (!own)
		default_path(process->uid, path, sizeof(path));
	reason = why_unusable(process, own ? own : path);
	is_awake = !reason && has_worker(process->pid);
	/* One that ends removes its files first. */
	if (is_awake)
		mt_clock_sleep_ms(ENDS_MS);
	is_awake = is_awake && has_worker(process->pid);
	spend_since(process, from_ns);
	if (!reason)
		return is_awake ? out_of_reach_error(process, why) : asleep_error(why);
	return mt_error_because(why, MT_ERR_FOREIGN,
				"awake or asleep is not known: its %s%.150s %s, and the library "
				"keeps no files there",
				own ? "MT_DIR=" : "", own ? own : path, reason);
}

enum mt_err mt_stats_dir_open(const struct mt_process *process, enum mt_stats_dir_file which,
			      int *out_fd, struct mt_error_reason *why)
{
	const struct wanted wanted = {process, which};
	char own[PATH_MAX], paths[3][PATH_MAX] = {"", "", ""};
	enum mt_err error = MT_ERR_NOT_AVAILABLE;
	enum mt_env_dir_state answer;

	if (geteuid() != 0 && geteuid() != process->uid)
		return mt_error_because(why, MT_ERR_FOREIGN, "process %d belongs to another user",
					(int)process->pid);
	answer = mt_env_dir_find(process, own, sizeof(own));
	if (answer == MT_ENV_DIR_COSTLY ||
	    (answer == MT_ENV_DIR_NAMED && !mt_process_budget_is_left(process->uid)))
		return mt_error_because(why, MT_ERR_FOREIGN,
					"refused: the path of its MT_DIR takes long to follow");
	if (answer == MT_ENV_DIR_NAMED) {
		uint64_t from_ns = mt_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);

		error = open_in(&wanted, own, out_fd, why);
		spend_since(process, from_ns);
	}
	if (error != MT_ERR_NOT_AVAILABLE)
		return error;
	named_path(paths[0], sizeof(paths[0]));
	if (paths[0][0] && is_another_users(process, paths[0]))
		paths[0][0] = '\0';
	roots_path(process, paths[1], sizeof(paths[1]));
	default_path(process->uid, paths[2], sizeof(paths[2]));
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]) && error == MT_ERR_NOT_AVAILABLE;
	     i++)
		if (paths[i][0])
			error = open_in(&wanted, paths[i], out_fd, why);
	if (error != MT_ERR_NOT_AVAILABLE || which == MT_STATS_DIR_HEAP ||
	    which == MT_STATS_DIR_BLOCKS || which == MT_STATS_DIR_LINES)
		return error;
	return no_files_error(process, answer == MT_ENV_DIR_NAMED ? own : NULL, why);
}

static bool is_same_directory(const struct mt_process *process, const char *path, const char *own)
{
	struct stat theirs, ours;
	int directory;
	bool same;

	if (strcmp(path, own) == 0)
		return true;
	directory = open_directory(process, path);
	same = directory >= 0 && fstat(directory, &theirs) == 0 && stat(own, &ours) == 0 &&
	       theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
	if (directory >= 0)
		close(directory);
	return same;
}

/* The environment of a program that rewrites its title cannot be read: its file tells. */
static bool has_file_in(const struct mt_process *process, const char *own)
{
	const struct wanted wanted = {process, MT_STATS_DIR_STATS};
	struct mt_error_reason why;
	int fd;

	if (open_in(&wanted, own, &fd, &why) != MT_ERR_OK)
		return false;
	close(fd);
	return true;
}

bool mt_stats_dir_is_shown(const struct mt_process *process)
{
	char own[PATH_MAX], path[PATH_MAX];
	uint64_t from_ns = mt_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	enum mt_env_dir_state state;
	bool shown;

	named_path(own, sizeof(own));
	if (!*own)
		return true;
	state = mt_env_dir_find(process, path, sizeof(path));
	if (state == MT_ENV_DIR_COSTLY)
		return false;
	if (state != MT_ENV_DIR_NAMED)
		default_path(process->uid, path, sizeof(path));
	shown = is_same_directory(process, path, own) ||
		(state != MT_ENV_DIR_NAMED && has_file_in(process, own));
	spend_since(process, from_ns);
	return shown;
}

/* Nearly all processes use the same two directories. They stay open from mt_stats_dir_open_near to
 * mt_stats_dir_forget. */
static struct near {
	int fd;    /* descriptor plus one; 0: none */
	uid_t uid; /* the user for which it was checked */
	char path[PATH_MAX];
} near[2];

static void close_near(struct near *place)
{
	if (place->fd)
		close(place->fd - 1);
	place->fd = 0;
}

static enum mt_err open_near(struct near *place, const char *path, const struct mt_process *process,
			     struct mt_error_reason *why)
{
	enum mt_err error;
	int fd;

	if (place->fd && place->uid == process->uid && strcmp(path, place->path) == 0)
		return MT_ERR_OK;
	close_near(place);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return MT_ERR_NOT_AVAILABLE;
	error = check_owner(fd, S_IFDIR, process, why);
	if (error) {
		close(fd);
		return error;
	}
	*place = (struct near){.fd = fd + 1, .uid = process->uid};
	snprintf(place->path, sizeof(place->path), "%.4095s", path);
	return MT_ERR_OK;
}

enum mt_err mt_stats_dir_open_near(const struct mt_process *process, int *out_fd,
				   struct mt_error_reason *why)
{
	const struct wanted wanted = {process, MT_STATS_DIR_STATS};
	char paths[2][PATH_MAX];
	enum mt_err error = MT_ERR_NOT_AVAILABLE;

	named_path(paths[0], sizeof(paths[0]));
	default_path(process->uid, paths[1], sizeof(paths[1]));
	/* with an MT_DIR of its own mtctl shows what is in it */
	for (size_t i = 0; i < (paths[0][0] ? 1 : 2) && error; i++) {
		if (!paths[i][0] || open_near(&near[i], paths[i], process, why) != MT_ERR_OK)
			continue;
		error = open_at(&wanted, near[i].fd - 1, out_fd, why);
		if (error && error != MT_ERR_NOT_AVAILABLE)
			break;
	}
	return error;
}

void mt_stats_dir_forget(void)
{
	for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++)
		close_near(&near[i]);
}

struct sweep {
	const struct mt_process *list; /* alive, sorted by pid */
	size_t count;
	uint64_t pidns;
	int folder;
};

/* A process that is not in the list may have started since. */
static bool is_listed(const struct sweep *sweep, const struct mt_file_owner *owner)
{
	size_t place = mt_ancestry_find(sweep->list, sweep->count, (pid_t)owner->pid);

	return place != MT_ANCESTRY_NONE && sweep->list[place].start_ticks == owner->start_ticks;
}

static bool sweep_file(const char *name, const struct mt_file_owner *owner, void *data)
{
	const struct sweep *sweep = data;

	if (owner->pidns == sweep->pidns && !is_listed(sweep, owner) &&
	    (mt_file_owner_is_missing(owner) || mt_file_owner_has_ended(owner)))
		unlinkat(sweep->folder, name, 0);
	return true;
}

void mt_stats_dir_sweep(const struct mt_process *list, size_t count)
{
	const struct mt_process self = {.uid = geteuid()};
	struct sweep sweep = {.list = list, .count = count, .pidns = mt_process_own_pidns()};
	char path[PATH_MAX];
	struct mt_error_reason why;

	mt_stats_dir_path(path, sizeof(path));
	sweep.folder =
		sweep.pidns ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (sweep.folder < 0)
		return;
	if (check_owner(sweep.folder, S_IFDIR, &self, &why) == MT_ERR_OK)
		(void)mt_file_owner_each(sweep.folder, NULL, sweep_file, &sweep);
	close(sweep.folder);
}
