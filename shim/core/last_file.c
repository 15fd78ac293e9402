#include "core/last_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/cgroup.h"
#include "core/config.h"
#include "core/file_owner.h"
#include "core/files.h"
#include "core/stats_layout.h"
#include "core/thread.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/os.h"

#define PATH_BYTES 512
#define NAME_BYTES 96

#define LINKS_MAX  40u /* as the kernel's own; path_resolution(7) */
#define KIND_BYTES 32  /* of the name of a file system */

static char folder[PATH_BYTES]; /* "": none */
static char path[PATH_BYTES + NAME_BYTES];
static bool is_given;              /* by MT_LAST_DIR */
static bool is_checked, is_usable; /* the kind of file system */
static bool is_pruned;
/* Written after `path`: release; the remover acquires. */
static _Atomic bool is_written;

/* ---- the folder ---- */

/* Sets `folder`; "" if there is none. */
static void choose_folder(void)
{
	const char *given = mt_config()->last_dir, *home = mt_config_launch_env()->state_home;
	size_t bytes = 0;

	is_given = *given != '\0';
	if (is_given && *given == '/')
		bytes = mt_format(folder, sizeof(folder), "%s", given);
	else if (!is_given && *home == '/')
		bytes = mt_format(folder, sizeof(folder), "%s/mtshim", home);
	if (bytes + 1 >= sizeof(folder))
		bytes = 0; /* a truncated path is another folder */
	folder[bytes] = '\0';
}

static bool is_one_of(const char *kind, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(kind, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

/* Whose answer may take for ever: a server's, or a program's. An automounter asks for one. */
static bool may_stall(const char *kind)
{
	static const char *const words[] = {"nfs",      "cifs", "smb",    "9p",     "fuse",
					    "virtiofs", "ceph", "lustre", "gpfs",   "afs",
					    "autofs",   "coda", "beegfs", "gluster"};

	return is_one_of(kind, words, sizeof(words) / sizeof(words[0]));
}

/* A container's own layer, or memory: gone with the container or the machine. */
static bool is_lost_at_the_end(const char *kind)
{
	static const char *const words[] = {"overlay", "aufs", "tmpfs", "ramfs", "devtmpfs"};

	return is_one_of(kind, words, sizeof(words) / sizeof(words[0]));
}

/* Replaces the link that ends at `rest` by its target. text: the whole path. */
static bool splice_link(char text[PATH_BYTES], size_t end, const char *target)
{
	char whole[2 * PATH_BYTES];
	size_t folder_length = end;

	while (folder_length > 0 && text[folder_length - 1] != '/')
		folder_length--;
	mt_format(whole, sizeof(whole), "%.*s%s%s", *target == '/' ? 0 : (int)folder_length, text,
		  target, text + end);
	mt_assert(end <= strlen(text));
	return mt_format(text, PATH_BYTES, "%s", whole) + 1 < PATH_BYTES;
}

/* The mount table has no other paths. */
static bool is_plain(const char *text)
{
	size_t length = strlen(text);
	const char *end = text + length;

	return !strstr(text, "/../") && !strstr(text, "/./") && !strstr(text, "//") &&
	       !(length >= 3 && strcmp(end - 3, "/..") == 0) &&
	       !(length >= 2 && strcmp(end - 2, "/.") == 0);
}

/* Writes the kind of the file system that has the folder, or will have it. Walks down from "/",
 * and asks nothing of a file system before the mount table has named a kind that answers. Returns
 * false if one may stall. */
static bool read_kind(char out[KIND_BYTES])
{
	char text[PATH_BYTES], target[PATH_BYTES], above[PATH_BYTES];
	unsigned links = 0;
	size_t end = 0;

	mt_format(text, sizeof(text), "%s", folder);
	if (!is_plain(text))
		return false;
	while (text[end]) {
		long bytes;

		end += 1 + strcspn(text + end + 1, "/");
		mt_assert(end < sizeof(text));
		mt_format(above, sizeof(above), "%.*s", (int)end, text);
		if (!mt_cgroup_path_mount_kind(above, out, KIND_BYTES) || may_stall(out))
			return false;
		bytes = mt_raw_syscall(SYS_readlinkat, AT_FDCWD, above, target, sizeof(target));
		if (bytes <= 0 || bytes >= (long)sizeof(target))
			continue;
		target[bytes] = '\0';
		if (++links > LINKS_MAX || !splice_link(text, end, target) || !is_plain(text))
			return false;
		end = 0;
	}
	return true;
}

bool mt_last_file_is_wanted(void)
{
	char kind[KIND_BYTES];
	int kept = errno;

	mt_assert(mt_thread_is_ours());
	if (is_checked)
		return is_usable;
	is_checked = true;
	choose_folder();
	is_usable = *folder && read_kind(kind) && (is_given || !is_lost_at_the_end(kind));
	errno = kept;
	return is_usable;
}

/* Makes the folder and those above it. */
static void make_folder(void)
{
	char above[PATH_BYTES];

	mt_format(above, sizeof(above), "%s", folder);
	for (char *at = above + 1; *at; at++)
		if (*at == '/') {
			*at = '\0';
			(void)mt_raw_syscall(SYS_mkdirat, AT_FDCWD, above, 0700);
			*at = '/';
		}
	(void)mt_raw_syscall(SYS_mkdirat, AT_FDCWD, above, 0700);
}

/* Returns a descriptor, or -1. */
static int open_folder(void)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = mt_os_open(folder, flags, 0);
	struct stat seen;

	if (fd == -ENOENT) {
		make_folder();
		fd = mt_os_open(folder, flags, 0);
	}
	if (fd < 0)
		return -1;
	if (mt_os_fstat(fd, &seen) == 0 && seen.st_uid == geteuid() && !(seen.st_mode & 022))
		return fd;
	mt_os_close(fd);
	return -1;
}

/* ---- old files ---- */

struct oldest {
	int folder;
	char name[NAME_BYTES]; /* "": none */
	int64_t time_s;
	unsigned count;
};

/* Also removes the new file of a process that was killed while it wrote. */
static bool note_file(const char *name, const struct mt_file_owner *owner, void *data)
{
	struct oldest *out = data;
	bool is_over = mt_file_owner_is_missing(owner), is_new = strstr(name, ".new") != NULL;
	struct stat seen;

	if (is_new && is_over)
		(void)unlinkat(out->folder, name, 0);
	if (is_new || strlen(name) >= NAME_BYTES ||
	    mt_raw_syscall(SYS_newfstatat, out->folder, name, &seen, AT_SYMLINK_NOFOLLOW) != 0)
		return true;
	out->count++;
	if (!is_over || (*out->name && seen.st_mtim.tv_sec >= out->time_s))
		return true;
	mt_format(out->name, sizeof(out->name), "%s", name);
	out->time_s = seen.st_mtim.tv_sec;
	return true;
}

/* Finds the oldest file whose process is gone, and counts all. */
static void find_oldest(int fd, struct oldest *out)
{
	static const char *const kinds[] = {"last", "last.new", NULL};

	*out = (struct oldest){.folder = fd};
	(void)mt_raw_syscall(SYS_lseek, fd, 0, SEEK_SET);
	(void)mt_file_owner_each(fd, kinds, note_file, out);
}

/* Keeps one place free for this process. */
static void prune(int fd)
{
	struct oldest oldest;

	for (unsigned i = 0; i < MT_LAST_FILES_MAX; i++) {
		find_oldest(fd, &oldest);
		if (oldest.count < MT_LAST_FILES_MAX || !*oldest.name)
			return;
		(void)unlinkat(fd, oldest.name, 0);
	}
}

/* ---- the file ---- */

static void complete(struct mt_last_file *file)
{
	file->head.magic = MT_LAST_MAGIC;
	file->head.version = MT_LAST_VERSION;
	file->head.file_bytes = sizeof(*file);
	file->head.stats_bytes = sizeof(file->stats);
	file->checksum =
		mt_stats_checksum(MT_CHECKSUM_START, file, offsetof(struct mt_last_file, checksum));
}

static bool put(int folder_fd, const char *name, const struct mt_last_file *file)
{
	char fresh[NAME_BYTES + 8];
	uint64_t at = 0;
	bool done;
	int fd;

	mt_format(fresh, sizeof(fresh), "%s.new", name);
	(void)unlinkat(folder_fd, fresh, 0);
	fd = mt_os_open_at(folder_fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			   0600);
	if (fd < 0)
		return false;
	done = mt_os_file_size_is_allowed(sizeof(*file)) &&
	       mt_os_write_whole(fd, file, sizeof(*file), &at);
	mt_os_close(fd);
	if (done && mt_raw_syscall(SYS_renameat, folder_fd, fresh, folder_fd, name) == 0)
		return true;
	(void)unlinkat(folder_fd, fresh, 0);
	return false;
}

static bool write_into(int folder_fd, struct mt_last_file *file)
{
	const struct mt_stats_head *head = &file->stats.head;
	char name[NAME_BYTES];

	mt_assert(head->pid == (uint64_t)mt_os_getpid());
	if (!is_pruned)
		prune(folder_fd);
	is_pruned = true;
	mt_format(name, sizeof(name), "%llu-%llu-%llu.last", (unsigned long long)head->pid,
		  (unsigned long long)head->start_ticks, (unsigned long long)head->pidns);
	if (!put(folder_fd, name, file))
		return false;
	if (!mt_load_relaxed(&is_written))
		mt_format(path, sizeof(path), "%s/%s", folder, name);
	mt_store_release(&is_written, true);
	return true;
}

bool mt_last_file_write(struct mt_last_file *file)
{
	int kept = errno, fd = mt_last_file_is_wanted() ? open_folder() : -1;
	bool done = false;

	mt_assert(mt_thread_is_ours());
	if (fd >= 0) {
		complete(file);
		done = write_into(fd, file);
		mt_os_close(fd);
	}
	errno = kept;
	return done;
}

void mt_last_file_remove(void)
{
	int kept = errno;

	if (atomic_exchange_explicit(&is_written, false, memory_order_acquire))
		(void)unlink(path);
	errno = kept;
}

void mt_last_file_fork_child(void)
{
	mt_store_relaxed(&is_written, false);
	is_pruned = false;
}
