#include "core/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* for rename */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/file_owner.h"
#include "core/log.h"
#include "core/stats_layout.h"
#include "core/thread.h"
#include "sys/atomic.h"
#include "sys/format.h"
#include "sys/lock.h"
#include "sys/os.h"

/* In glibc from 2.32 on. Weak: musl lacks it, and its loader rejects a missing symbol
 * (sys/libc.h). */
extern const char *strerrorname_np(int code) __attribute__((weak));

#define PATH_BYTES   512
#define FOLDER_BYTES (PATH_BYTES - 80)

#define SWEEP_STEP_S 2 /* of a folder */
/* longest time of one sweep; the next tick continues */
#define SWEEP_MAX_NS (20 * MT_NS_PER_MS)
/* up to this number of live owners are all checked each time */
#define CHECK_ALL_COUNT 64

struct own_file {
	char path[PATH_BYTES];
	dev_t device;
	ino_t inode;
};

static struct own_file stats_file;
static struct own_file control_file;
static struct own_file dumps[MT_DUMP_COUNT]; /* the last dumps; path "": none */
static char new_path[PATH_BYTES];            /* path of the dump that is being written */
static char folder_path[FOLDER_BYTES];
static void *mapped_area;
static MT_TLS int control_fd; /* descriptor in the worker's own table, plus one; 0: none */
static bool dump_begun;       /* a file may exist at new_path */
/* written under the publish lock; the worker reads it without */
static _Atomic bool files_exist;
static bool failure_logged; /* inherited by forked children, which do not repeat the warning */

/* The last failure; only the thread that makes the files uses it. */
static char failure[PATH_BYTES + 100];
static uid_t opened_by; /* the effective user when the folder was opened */

#define X(kind, suffix) suffix,
static const char *const suffixes[] = {MT_FILE_KINDS(X)};
static const char *const dump_suffixes[] = {MT_DUMP_KINDS(X)};
#undef X

static enum mt_err fail(const char *what, const char *path, int code)
{
	if (strerrorname_np)
		mt_format(failure, sizeof(failure), "%s %s: %s", what, path, strerrorname_np(code));
	else
		mt_format(failure, sizeof(failure), "%s %s: errno %d", what, path, code);
	return MT_ERR_SYSTEM;
}

static enum mt_err fail_owner(void)
{
	mt_format(failure, sizeof(failure),
		  "%s is not private to this user (wanted: owner %u, mode 0700)", folder_path,
		  (unsigned)geteuid());
	return MT_ERR_FOREIGN;
}

void mt_files_log_failure(void)
{
	bool has_stats = mt_files_exist(); /* then it is a dump that failed */

	/* Not after a change of user: the former user's folder is then no error. */
	if (failure[0] && (has_stats || !failure_logged) && geteuid() == opened_by)
		mt_log(MT_LOG_WARN, "%s%s", failure,
		       has_stats ? "" : "; running without stats file");
	failure_logged = failure_logged || (failure[0] && !has_stats);
	failure[0] = 0;
}

/* Reads the file system of the folder, or of the directory in which it will be made. */
static int stat_file_system(struct statfs *out)
{
	char path[FOLDER_BYTES];
	char *slash;
	int kept = errno;
	int code = statfs(folder_path, out) == 0 ? 0 : errno;

	if (code == ENOENT) {
		mt_format(path, sizeof(path), "%s", folder_path);
		slash = strrchr(path, '/');
		if (slash)
			slash[slash == path] = 0;
		code = statfs(slash ? path : ".", out) == 0 ? 0 : errno;
	}
	errno = kept;
	return code;
}

/* Accepts only file systems in memory. On a disk or a network, a thread of the program would wait
 * for I/O in a write, a fork or exit: the file system may be frozen, or its server down. */
static enum mt_err check_in_memory(void)
{
	struct statfs where;
	int code = stat_file_system(&where);

	if (code)
		return fail("cannot make", folder_path, code);
	if (MT_STATS_IS_MEMORY(where.f_type))
		return MT_ERR_OK;
	mt_format(failure, sizeof(failure), "%s is not on a file system in memory (tmpfs, ramfs)",
		  folder_path);
	return MT_ERR_NOT_AVAILABLE;
}

/* Opens the folder if this user owns it and no other user may enter it (else -EPERM). Returns a
 * descriptor or -errno. */
static int open_private(void)
{
	int fd = mt_os_open(folder_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	struct stat seen = {0};
	int code;

	if (fd < 0)
		return fd;
	code = mt_os_fstat(fd, &seen);
	if (!code && seen.st_uid == geteuid() && !(seen.st_mode & 077))
		return fd;
	mt_os_close(fd);
	return code ? code : -EPERM;
}

static enum mt_err open_checked(int *out_fd)
{
	int fd = open_private();

	if (fd < 0)
		return fd == -EPERM ? fail_owner() : fail("cannot use", folder_path, -fd);
	*out_fd = fd;
	return MT_ERR_OK;
}

static enum mt_err open_folder(int *out_fd)
{
	enum mt_err answer = check_in_memory();

	if (answer != MT_ERR_OK)
		return answer;
	if (mkdir(folder_path, 0700) != 0 && errno != EEXIST)
		return fail("cannot make", folder_path, errno);
	return open_checked(out_fd);
}

static enum mt_err check_folder(void)
{
	int fd = -1;
	enum mt_err answer = open_folder(&fd);

	if (answer == MT_ERR_OK)
		mt_os_close(fd);
	return answer;
}

/* Source: proc(5), starttime. */
static uint64_t start_ticks(void)
{
	return mt_os_own_procstat_number(22);
}

static uint64_t pid_namespace(void)
{
	struct stat seen;

	return mt_os_stat("/proc/self/ns/pid", &seen) == 0 ? (uint64_t)seen.st_ino : 0;
}

/* Returns 0 or the errno. */
static int fill_file(int fd, struct own_file *file, const struct mt_piece *first, off_t size)
{
	struct stat seen;
	ssize_t written;
	int code;

	if (!mt_os_file_size_is_allowed((uint64_t)size))
		return EFBIG;
	code = -mt_os_fstat(fd, &seen);
	if (code)
		return code;
	if (ftruncate(fd, size) != 0)
		return errno;
	file->device = seen.st_dev;
	file->inode = seen.st_ino;
	mt_assert((off_t)first->bytes <= size);
	written = mt_os_write_at(fd, first->from, first->bytes, 0);
	if (written < 0)
		return (int)-written;
	return (size_t)written == first->bytes ? 0 : ENOSPC;
}

/* Makes a file through the descriptor of the checked folder: other users may rename its path to a
 * link after the check. */
static enum mt_err make_file(int at, struct own_file *file, const struct mt_piece *first,
			     off_t size)
{
	const char *name = strrchr(file->path, '/') + 1;
	int code;
	int fd;

	/* An existing file belongs to an ended process of the same name, or another user planted
	 * it: never reused. */
	(void)unlinkat(at, name, 0);
	fd = mt_os_open_at(at, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail("cannot make", file->path, -fd);
	code = fill_file(fd, file, first, size);
	mt_os_close(fd);
	if (!code)
		return MT_ERR_OK;
	(void)unlinkat(at, name, 0);
	return fail("cannot write", file->path, code);
}

/* Returns whether this is the file that the process made. */
static bool is_file(const struct stat *seen, const struct own_file *file)
{
	return seen->st_dev == file->device && seen->st_ino == file->inode;
}

static int open_own(const struct own_file *file, int flags)
{
	struct stat seen;
	int fd = mt_os_open(file->path, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (mt_os_fstat(fd, &seen) == 0 && is_file(&seen, file))
		return fd;
	mt_os_close(fd);
	return -1;
}

static void format_path(char path[PATH_BYTES], const char *suffix, uint64_t ticks, uint64_t pidns)
{
	mt_assert(folder_path[0] != '\0'); /* mt_files_set_folder comes first */
	mt_format(path, PATH_BYTES, "%s/%d-%llu-%llu.%s", folder_path, (int)mt_os_getpid(),
		  (unsigned long long)ticks, (unsigned long long)pidns, suffix);
}

void mt_files_set_folder(const struct mt_config *config)
{
	char fresh[FOLDER_BYTES];

	if (config->dir[0])
		mt_format(fresh, sizeof(fresh), "%s", config->dir);
	else
		mt_format(fresh, sizeof(fresh), "/dev/shm/mtshim-%u", (unsigned)geteuid());
	/* most times it is the same, and another thread may read it */
	if (strcmp(fresh, folder_path) != 0)
		memcpy(folder_path, fresh, strlen(fresh) + 1);
}

/* Unlinks dumps that the program before an exec left under the same name. */
static void remove_dumps(int at, uint64_t ticks, uint64_t pidns)
{
	char path[PATH_BYTES];

	for (int i = 0; i < MT_DUMP_COUNT; i++) {
		format_path(path, dump_suffixes[i], ticks, pidns);
		(void)unlinkat(at, strrchr(path, '/') + 1, 0);
	}
	(void)unlinkat(at, strrchr(new_path, '/') + 1, 0);
}

static enum mt_err make_files(int at)
{
	static const struct mt_control_file new_file = {.magic = MT_CONTROL_MAGIC,
							.version = MT_STATS_VERSION};
	static const uint64_t zero;
	static const struct mt_piece control = {&new_file, sizeof(new_file), 0},
				     stats = {&zero, sizeof(zero), 0};
	enum mt_err answer = make_file(at, &control_file, &control, 4096);

	if (answer != MT_ERR_OK)
		return answer;
	answer = make_file(at, &stats_file, &stats, (off_t)sizeof(struct mt_stats_file));
	if (answer != MT_ERR_OK)
		(void)unlinkat(at, strrchr(control_file.path, '/') + 1, 0);
	return answer;
}

enum mt_err mt_files_open_folder(const struct mt_config *config, int *out_folder)
{
	int kept = errno;
	enum mt_err answer;

	opened_by = geteuid();
	mt_files_set_folder(config);
	answer = open_folder(out_folder);
	errno = kept;
	return answer;
}

enum mt_err mt_files_make(int folder, uint64_t *out_start_ticks, uint64_t *out_pidns)
{
	uint64_t ticks = start_ticks();
	uint64_t pidns = pid_namespace();
	int kept = errno;
	enum mt_err answer;

	mt_assert(mt_lock_is_held(MT_RANK_publish));
	format_path(stats_file.path, "stats", ticks, pidns);
	format_path(control_file.path, "control", ticks, pidns);
	format_path(new_path, "fresh", ticks, pidns);
	remove_dumps(folder, ticks, pidns);
	answer = make_files(folder);
	/* release: pairs with the acquire in mt_files_unlink_at_exit, which reads the names */
	mt_store_release(&files_exist, answer == MT_ERR_OK);
	*out_start_ticks = ticks;
	*out_pidns = pidns;
	errno = kept;
	return answer;
}

enum mt_err mt_files_reopen_folder(int *out_folder)
{
	int fd = files_exist ? open_private() : -ENOENT;

	if (fd < 0)
		return MT_ERR_NOT_AVAILABLE;
	*out_folder = fd;
	return MT_ERR_OK;
}

bool mt_files_exist(void)
{
	return files_exist;
}

_Atomic uint32_t *mt_files_map_word(void)
{
	int kept = errno;
	void *area = mapped_area ? mapped_area : MAP_FAILED;
	int fd = files_exist && !mapped_area ? open_own(&control_file, O_RDWR) : -1;

	if (fd >= 0) {
		area = mmap(NULL, sizeof(struct mt_control_file), PROT_READ | PROT_WRITE,
			    MAP_SHARED, fd, 0);
		mt_os_close(fd);
	}
	errno = kept;
	if (area == MAP_FAILED)
		return NULL;
	mapped_area = area;
	return (_Atomic uint32_t *)(void *)((char *)area + offsetof(struct mt_control_file, word));
}

enum mt_err mt_files_write_stats(const struct mt_piece *pieces, int count)
{
	int kept = errno;
	enum mt_err answer = MT_ERR_OK;
	int fd;

	mt_assert(mt_lock_is_held(MT_RANK_publish));
	if (!files_exist)
		return MT_ERR_NOT_AVAILABLE;
	fd = open_own(&stats_file, O_WRONLY);
	if (fd < 0)
		answer = MT_ERR_FOREIGN;
	for (int i = 0; fd >= 0 && i < count; i++)
		if (pieces[i].bytes && mt_os_write_at(fd, pieces[i].from, pieces[i].bytes,
						      pieces[i].offset) != (ssize_t)pieces[i].bytes)
			answer = MT_ERR_SYSTEM;
	if (fd >= 0)
		mt_os_close(fd);
	errno = kept;
	return answer;
}

void mt_files_keep_control_open(void)
{
	int kept = errno;
	int fd = files_exist ? open_own(&control_file, O_RDONLY) : -1;

	control_fd = fd < 0 ? 0 : fd + 1;
	errno = kept;
}

ssize_t mt_files_read_control(void *out, size_t bytes)
{
	int kept = errno;
	ssize_t got = -1;
	int fd = !files_exist ? -1
		 : control_fd ? control_fd - 1
			      : open_own(&control_file, O_RDONLY);

	if (fd >= 0)
		got = mt_os_read_at(fd, out, bytes, 0);
	if (fd >= 0 && !control_fd)
		mt_os_close(fd);
	errno = kept;
	return got;
}

void mt_files_write_control(const void *from, size_t bytes, size_t offset)
{
	int kept = errno;
	int fd = files_exist ? open_own(&control_file, O_WRONLY) : -1;

	if (fd >= 0) {
		(void)mt_os_write_at(fd, from, bytes, offset);
		mt_os_close(fd);
	}
	errno = kept;
}

/* ---- dumps ---- */

enum mt_err mt_files_begin_dump(char *out, size_t out_bytes)
{
	int kept = errno;
	enum mt_err answer = MT_ERR_NOT_AVAILABLE;

	mt_assert(mt_lock_is_held(MT_RANK_publish));
	if (files_exist && check_folder() == MT_ERR_OK) {
		(void)unlink(new_path);
		mt_format(out, out_bytes, "%s", new_path);
		dump_begun = true;
		answer = MT_ERR_OK;
	}
	errno = kept;
	return answer;
}

/* Returns whether the file is the one that the caller of begin made. */
static bool is_new_dump(int fd, struct own_file *out)
{
	struct stat seen;

	if (fd < 0 || mt_os_fstat(fd, &seen) != 0 || !S_ISREG(seen.st_mode) ||
	    seen.st_uid != geteuid() || (seen.st_mode & 0777) != 0600 || seen.st_size == 0)
		return false;
	out->device = seen.st_dev;
	out->inode = seen.st_ino;
	return true;
}

enum mt_err mt_files_end_dump(enum mt_dump dump, bool whole)
{
	int kept = errno;
	struct own_file new_file = {{0}, 0, 0};
	int fd = -1;
	bool placed = false;

	mt_assert((unsigned)dump < MT_DUMP_COUNT && mt_lock_is_held(MT_RANK_publish));
	if (files_exist && whole)
		fd = mt_os_open(new_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
	if (is_new_dump(fd, &new_file)) {
		mt_format(new_file.path, PATH_BYTES, "%.*s.%s",
			  (int)(strlen(stats_file.path) - strlen(".stats")), stats_file.path,
			  dump_suffixes[dump]);
		placed = rename(new_path, new_file.path) == 0;
	}
	if (fd >= 0)
		mt_os_close(fd);
	if (placed)
		dumps[dump] = new_file;
	else
		(void)unlink(new_path);
	dump_begun = false;
	errno = kept;
	return placed ? MT_ERR_OK : MT_ERR_SYSTEM;
}

/* Needs no descriptor: a program may have used up all of its own. */
static void unlink_own(const struct own_file *file)
{
	struct stat seen;

	if (file->path[0] && mt_os_lstat(file->path, &seen) == 0 && is_file(&seen, file))
		(void)unlink(file->path);
}

void mt_files_remove_dump(enum mt_dump dump)
{
	int kept = errno;

	mt_assert((unsigned)dump < MT_DUMP_COUNT && mt_lock_is_held(MT_RANK_publish));
	if (files_exist)
		unlink_own(&dumps[dump]);
	dumps[dump].path[0] = 0;
	errno = kept;
}

static void unlink_all(void)
{
	unlink_own(&stats_file);
	unlink_own(&control_file);
	for (int i = 0; i < MT_DUMP_COUNT; i++)
		unlink_own(&dumps[i]);
	if (dump_begun) /* the worker may be writing it while the process ends */
		(void)unlink(new_path);
}

void mt_files_remove(void)
{
	int kept = errno;

	if (files_exist)
		unlink_all();
	files_exist = false;
	errno = kept;
}

void mt_files_unlink_at_exit(void)
{
	if (mt_load_acquire(&files_exist))
		unlink_all();
}

void mt_files_remove_inherited(const struct mt_config *config)
{
	char path[PATH_BYTES];
	struct stat seen;
	int kept = errno;

	mt_files_set_folder(config);
	if (check_in_memory() == MT_ERR_OK && mt_os_lstat(folder_path, &seen) == 0 &&
	    S_ISDIR(seen.st_mode) && seen.st_uid == geteuid()) {
		uint64_t ticks = start_ticks(), pidns = pid_namespace();

		for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
			format_path(path, suffixes[i], ticks, pidns);
			(void)unlink(path);
		}
	}
	errno = kept;
}

void mt_files_fork_child(void)
{
	if (mapped_area)
		munmap(mapped_area, sizeof(struct mt_control_file));
	mapped_area = NULL;
	memset(dumps, 0, sizeof(dumps));
	dump_begun = false;
	control_fd = 0;
	failure[0] = 0;
	files_exist = false;
}

/* ---- sweep ---- */

struct sweep {
	int folder;
	uint64_t pidns;
	uint64_t began_ns, now_s;
	uint32_t live_count;
	struct mt_file_owner last; /* the files of one owner mostly follow one another */
	bool last_is_gone;
};

static uint64_t next_sweep_ns;
static bool sweep_is_unfinished;

/* Selects the owners to check, since a check reads a file of /proc. All of the first
 * CHECK_ALL_COUNT, every second of the next ones, every third after them. Selects others each time,
 * so that each has its turn. */
static bool is_selected(struct sweep *sweep, uint64_t pid)
{
	uint32_t among = 1 + sweep->live_count++ / CHECK_ALL_COUNT;
	uint64_t mixed = (pid + sweep->now_s * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;

	return (mixed >> 32) % among == 0;
}

static bool owner_is_gone(struct sweep *sweep, const struct mt_file_owner *owner)
{
	if (owner->pid == sweep->last.pid && owner->start_ticks == sweep->last.start_ticks)
		return sweep->last_is_gone;
	sweep->last = *owner;
	sweep->last_is_gone = mt_file_owner_is_missing(owner) ||
			      (is_selected(sweep, owner->pid) && mt_file_owner_has_ended(owner));
	return sweep->last_is_gone;
}

/* Returns false if /proc is missing or shows another pid namespace: all owners would seem ended. */
static bool proc_is_usable(uint64_t *out_pidns)
{
	struct stat space;
	char text[1024];

	if (mt_os_read_file("/proc/self/stat", text, sizeof(text)) <= 0 ||
	    mt_os_parse_number(text) != (uint64_t)mt_os_getpid() ||
	    mt_os_stat("/proc/self/ns/pid", &space) != 0)
		return false;
	*out_pidns = space.st_ino;
	return true;
}

/* Returns whether this process sweeps now: of all processes that share the folder one does every
 * SWEEP_STEP_S. The folder's access time is the time of the last sweep, in whole seconds. A
 * fraction means that the kernel set it when a process listed the folder. */
static bool claim_turn(struct sweep *sweep)
{
	struct timespec times[2] = {{.tv_sec = (time_t)sweep->now_s}, {.tv_nsec = UTIME_OMIT}};
	struct stat seen;
	uint64_t since;

	if (mt_os_fstat(sweep->folder, &seen) != 0)
		return false;
	/* huge if the clock was set back */
	since = sweep->now_s - (uint64_t)seen.st_atim.tv_sec;
	if (seen.st_atim.tv_nsec == 0 && since < SWEEP_STEP_S)
		return false;
	return mt_raw_syscall(SYS_utimensat, sweep->folder, NULL, times, 0) == 0;
}

/* Returns false if the time is over. */
static bool sweep_file(const char *name, const struct mt_file_owner *owner, void *data)
{
	struct sweep *sweep = data;

	if (owner->pidns == sweep->pidns && owner_is_gone(sweep, owner))
		(void)unlinkat(sweep->folder, name, 0);
	return mt_os_now_ns() - sweep->began_ns < SWEEP_MAX_NS;
}

static void sweep_folder(int folder, bool at_once)
{
	struct sweep sweep = {.folder = folder,
			      .began_ns = mt_os_now_ns(),
			      .now_s = mt_os_realtime_ns() / MT_NS_PER_S};
	bool goes_on = sweep_is_unfinished || at_once;
	int kept = errno;

	sweep_is_unfinished = (goes_on || claim_turn(&sweep)) && proc_is_usable(&sweep.pidns) &&
			      !mt_file_owner_each(folder, NULL, sweep_file, &sweep);
	errno = kept;
}

void mt_files_sweep_at_start(int folder)
{
	sweep_folder(folder, false);
}

static void sweep_own_folder(bool at_once)
{
	int folder = -1;

	if (mt_files_reopen_folder(&folder) == MT_ERR_OK) {
		sweep_folder(folder, at_once);
		mt_os_close(folder);
	}
}

void mt_files_sweep_at_tick(uint64_t now_ns)
{
	mt_assert(mt_thread_is_ours());
	if (now_ns < next_sweep_ns && !sweep_is_unfinished)
		return;
	next_sweep_ns = now_ns + SWEEP_STEP_S * MT_NS_PER_S;
	sweep_own_folder(false);
}

void mt_files_sweep_at_end(bool has_children)
{
	sweep_own_folder(has_children);
}
