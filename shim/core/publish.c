#include "core/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/cgroup.h"
#include "core/config.h"
#include "core/files.h"
#include "core/stats_layout.h"
#include "core/thread.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/lock.h"
#include "sys/os.h"

/* 1024 samples then span 15 minutes, or half of that if a cleanup follows each */
#define SAMPLE_STEP_NS (900 * MT_NS_PER_MS)
/* mtctl reads a dump at once, or not at all */
#define FETCH_NS (60 * MT_NS_PER_S)

static struct mt_lock lock = MT_LOCK(publish); /* protects all below */
static struct mt_stats_file stats_file;
static uint64_t sampled_ns;
static uint64_t cleanup_sampled_ns; /* of the last sample after a cleanup */
static uint64_t unwritten_count;    /* cleanups that are stored but not in the file yet */
/* set before the files exist, and inherited by forked children */
static char python_text[sizeof(stats_file.head.python)];
/* the process ends: a worker that is just starting must make no files */
static bool has_ended;

static MT_TLS bool is_ours; /* see mt_lock_lock_noted */

static void enter(void)
{
	mt_lock_lock_noted(&lock, &is_ours);
}

static void leave(void)
{
	mt_lock_unlock_noted(&lock, &is_ours);
}

/* from: in stats_file. */
static struct mt_piece piece_of(const void *from, size_t bytes)
{
	size_t offset = (size_t)((const char *)from - (const char *)&stats_file);

	mt_assert(offset <= sizeof(stats_file) && bytes <= sizeof(stats_file) - offset);
	return (struct mt_piece){from, bytes, offset};
}

static struct mt_piece head_piece(void)
{
	mt_assert(is_ours);
	stats_file.head.time_ns = mt_os_realtime_ns();
	stats_file.head.checksum = mt_stats_checksum(MT_CHECKSUM_START, &stats_file.head,
						     offsetof(struct mt_stats_head, checksum));
	return piece_of(&stats_file.head, sizeof(stats_file.head));
}

/* The head after what it counts: a reader that sees the new head finds it. */
static void write_with_head(const void *from, size_t bytes)
{
	const struct mt_piece pieces[] = {piece_of(from, bytes), head_piece()};

	(void)mt_files_write_stats(pieces, 2);
}

static void fill_settings(const struct mt_config *config)
{
	mt_assert(is_ours);
	for (int i = 0; i < MT_OPTION_COUNT && i < (int)MT_SETTINGS_COUNT; i++) {
		struct mt_stats_setting *to = &stats_file.settings[i];

		mt_format(to->name, sizeof(to->name), "%s", mt_config_name((enum mt_option)i));
		mt_config_format(config, (enum mt_option)i, to->value, sizeof(to->value));
		mt_config_format_origin(config, (enum mt_option)i, to->origin, sizeof(to->origin));
	}
	stats_file.head.settings_count = MT_OPTION_COUNT;
}

/* Truncates at a comma: half a pair would be another setting ("narenas:1" of "narenas:16"). */
static void fill_conf(const char *conf, char *out, size_t out_bytes)
{
	static const char more[] = ",...";
	char *last;

	mt_format(out, out_bytes, "%s", conf);
	if (strlen(conf) < out_bytes)
		return;
	out[out_bytes - sizeof(more) + 1] = 0;
	last = strrchr(out, ',');
	last = last ? last : out;
	mt_assert((size_t)(last - out) + sizeof(more) <= out_bytes);
	memcpy(last, more, sizeof(more));
}

/* Returns the start of the stack, which tells one exec from the next if it is random; else 0. It is
 * not random under setarch -R or a debugger (ADDR_NO_RANDOMIZE, 0x0040000 of personality(2)), or if
 * the machine disables it. Reads files: a sandbox may kill a process for an unknown system call. */
static uint64_t random_stack_start(void)
{
	char machine[16], personality[16];

	if (mt_os_read_file("/proc/sys/kernel/randomize_va_space", machine, sizeof(machine)) <= 0 ||
	    machine[0] == '0' ||
	    mt_os_read_file("/proc/self/personality", personality, sizeof(personality)) < 8 ||
	    strchr("4567cdef", personality[3]))
		return 0;
	return mt_os_own_procstat_number(28);
}

static void fill_layout(struct mt_stats_head *head)
{
	head->magic = MT_STATS_MAGIC;
	head->version = MT_STATS_VERSION;
	head->head_bytes = sizeof(*head);
	head->fields_count = sizeof(head->snapshot) / sizeof(uint64_t);
	head->cleanup_bytes = sizeof(struct mt_stats_cleanup);
	head->sample_bytes = sizeof(struct mt_stats_sample);
	head->device_bytes = sizeof(struct mt_stats_device);
	head->oom_bytes = sizeof(struct mt_stats_oom);
	head->limit_report_bytes = sizeof(struct mt_stats_limit_report);
	head->class_bytes = sizeof(struct mt_stats_class);
}

static void fill_identity(struct mt_stats_head *head, const struct mt_publish_identity *identity)
{
	head->pid = (uint64_t)mt_os_getpid();
	head->stack_start = random_stack_start();
	mt_format(head->shim_version, sizeof(head->shim_version), "%s", MT_VERSION);
	/* the process's name, not this thread's */
	(void)mt_os_read_file("/proc/self/comm", head->comm, sizeof(head->comm));
	head->comm[strcspn(head->comm, "\n")] = 0;
	mt_format(head->allocator, sizeof(head->allocator), "%s", identity->allocator);
	mt_format(head->evidence, sizeof(head->evidence), "%s", identity->evidence);
	mt_format(head->mode, sizeof(head->mode), "%s", identity->mode);
	fill_conf(identity->conf, head->conf, sizeof(head->conf));
	head->world_size = mt_config_launch_env()->world_size;
	mt_format(head->rank, sizeof(head->rank), "%s", mt_config_launch_env()->rank);
	mt_format(head->rank_source, sizeof(head->rank_source), "%s",
		  mt_config_launch_env()->rank_source);
	memcpy(head->python, python_text, sizeof(head->python));
}

void mt_publish_start(const struct mt_config *config, const struct mt_publish_identity *identity)
{
	struct mt_stats_head *head = &stats_file.head;
	int folder = -1;

	/* A worker that starts again has the files already; they stay with the user who made
	 * them. */
	if (!mt_files_exist() && mt_files_open_folder(config, &folder) == MT_ERR_OK)
		mt_files_sweep_at_start(folder);
	enter();
	fill_layout(head);
	fill_identity(head, identity);
	fill_settings(config);
	if (!has_ended && folder >= 0)
		(void)mt_files_make(folder, &head->start_ticks, &head->pidns);
	leave();
	if (folder >= 0)
		mt_os_close(folder);
	mt_files_log_failure();
	mt_publish_set_settings(config);
}

void mt_publish_set_settings(const struct mt_config *config)
{
	enter();
	fill_settings(config);
	write_with_head(stats_file.settings, sizeof(stats_file.settings));
	leave();
}

void mt_publish_set_python(const char *text)
{
	enter();
	(void)mt_format(python_text, sizeof(python_text), "%s", text);
	memcpy(stats_file.head.python, python_text, sizeof(python_text));
	leave();
}

struct mt_stats_snapshot *mt_publish_lock(void)
{
	enter();
	return &stats_file.head.snapshot;
}

void mt_publish_unlock(void)
{
	mt_assert(is_ours);
	leave();
}

static struct mt_piece sample_piece(uint64_t now, bool cleaned)
{
	const struct mt_stats_snapshot *from = &stats_file.head.snapshot;
	size_t slot;

	mt_assert(is_ours);
	if (now - (cleaned ? cleanup_sampled_ns : sampled_ns) < SAMPLE_STEP_NS)
		return (struct mt_piece){NULL, 0, 0};
	if (cleaned)
		cleanup_sampled_ns = now;
	sampled_ns = now;
	slot = stats_file.head.samples_count++ % MT_SAMPLES_COUNT;
	stats_file.samples[slot] = (struct mt_stats_sample){.time_ns = mt_os_realtime_ns(),
#define X(name, figure) .name = from->figure,
							    MT_SAMPLE_FIELDS(X)
#undef X
	};
	return piece_of(&stats_file.samples[slot], sizeof(stats_file.samples[slot]));
}

void mt_publish_set_cuda(const char *text, uint32_t driver_version)
{
	enter();
	(void)mt_format(stats_file.head.cuda, sizeof(stats_file.head.cuda), "%s", text);
	stats_file.head.driver_version = driver_version;
	leave();
}

void mt_publish_set_devices(const struct mt_stats_device *devices, uint32_t count)
{
	mt_assert(count <= MT_DEVICES_COUNT);
	enter();
	memcpy(stats_file.devices, devices, count * sizeof(*devices));
	stats_file.head.devices_count = count;
	leave();
}

void mt_publish_add_oom(struct mt_stats_oom *oom)
{
	size_t slot;

	enter();
	oom->number = ++stats_file.head.ooms_count;
	slot = (oom->number - 1) % MT_OOMS_COUNT;
	mt_assert(oom->number > 0);
	stats_file.ooms[slot] = *oom;
	write_with_head(&stats_file.ooms[slot], sizeof(stats_file.ooms[slot]));
	leave();
}

void mt_publish_add_limit_report(struct mt_stats_limit_report *limit_report)
{
	size_t slot;

	enter();
	limit_report->number = ++stats_file.head.limit_reports_count;
	slot = (limit_report->number - 1) % MT_LIMIT_REPORTS_COUNT;
	stats_file.limit_reports[slot] = *limit_report;
	stats_file.head.snapshot.limit_reports_count = limit_report->number;
	write_with_head(&stats_file.limit_reports[slot], sizeof(stats_file.limit_reports[slot]));
	leave();
}

void mt_publish_set_classes(const struct mt_stats_class *classes, uint32_t count)
{
	mt_assert(count <= MT_CLASSES_COUNT);
	enter();
	memcpy(stats_file.classes, classes, count * sizeof(*classes));
	stats_file.head.classes_count = count;
	stats_file.head.classes_time_ns = mt_os_realtime_ns();
	write_with_head(stats_file.classes, count * sizeof(*classes));
	leave();
}

enum mt_err mt_publish_begin_dump(char *out, size_t out_bytes)
{
	enum mt_err answer;

	enter();
	answer = mt_files_begin_dump(out, out_bytes);
	leave();
	mt_files_log_failure();
	return answer;
}

enum mt_err mt_publish_end_dump(enum mt_dump dump, bool whole)
{
	enum mt_err answer;

	enter();
	answer = mt_files_end_dump(dump, whole);
	if (answer == MT_ERR_OK && dump == MT_DUMP_HEAP)
		stats_file.head.snapshot.prof_dumps_count++;
	leave();
	return answer;
}

void mt_publish_remove_dump(enum mt_dump dump)
{
	enter();
	mt_files_remove_dump(dump);
	leave();
}

uint64_t mt_publish_expire_dump(enum mt_dump dump, uint64_t *placed_ns, uint64_t now_ns)
{
	if (!*placed_ns)
		return UINT64_MAX;
	if (now_ns < *placed_ns + FETCH_NS)
		return *placed_ns + FETCH_NS;
	mt_publish_remove_dump(dump);
	*placed_ns = 0;
	return UINT64_MAX;
}

void mt_publish_set_limit_source(const char *text)
{
	enter();
	(void)mt_format(stats_file.head.limit_source, sizeof(stats_file.head.limit_source), "%s",
			text);
	leave();
}

static void write_figures(bool cleaned)
{
	struct mt_piece pieces[3];

	enter();
	mt_assert(stats_file.head.devices_count <= MT_DEVICES_COUNT);
	pieces[1] = sample_piece(mt_os_now_ns(), cleaned);
	pieces[2] = piece_of(stats_file.devices,
			     stats_file.head.devices_count * sizeof(stats_file.devices[0]));
	pieces[0] = head_piece();
	(void)mt_files_write_stats(pieces, 3);
	leave();
}

void mt_publish_write(void)
{
	write_figures(false);
}

void mt_publish_write_after_cleanup(void)
{
	write_figures(true);
}

static void add_cleanup(struct mt_stats_cleanup *cleanup)
{
	mt_assert(is_ours && cleanup->reason < MT_REASON_COUNT);
	cleanup->number = ++stats_file.head.cleanups_count;
	if (!cleanup->merged)
		stats_file.head.cleanups_by_reason[cleanup->reason]++;
	stats_file.cleanups[(cleanup->number - 1) % MT_CLEANUPS_COUNT] = *cleanup;
	unwritten_count++;
}

static struct mt_piece cleanups_piece(size_t slot, size_t count)
{
	mt_assert(slot + count <= MT_CLEANUPS_COUNT);
	return piece_of(&stats_file.cleanups[slot], count * sizeof(stats_file.cleanups[0]));
}

void mt_publish_queue_cleanup(struct mt_stats_cleanup *cleanup)
{
	enter();
	add_cleanup(cleanup);
	leave();
}

void mt_publish_skip_cleanups(uint64_t count)
{
	enter();
	stats_file.head.cleanups_count += count;
	leave();
}

void mt_publish_add_cleanup(struct mt_stats_cleanup *cleanup)
{
	struct mt_piece pieces[3];
	/* cleanups to write, from `first` on, around the end of the circular buffer */
	size_t count;
	size_t first;
	size_t tail;

	enter();
	add_cleanup(cleanup);
	count = unwritten_count < MT_CLEANUPS_COUNT ? unwritten_count : MT_CLEANUPS_COUNT;
	first = (cleanup->number - count) % MT_CLEANUPS_COUNT;
	tail = MT_CLEANUPS_COUNT - first < count ? MT_CLEANUPS_COUNT - first : count;
	mt_assert(count > 0 && first < MT_CLEANUPS_COUNT && tail <= count);
	/* The cleanups before the head: a reader that sees the new head finds them. */
	pieces[0] = cleanups_piece(first, tail);
	pieces[1] = cleanups_piece(0, count - tail);
	pieces[2] = head_piece();
	/* After a failed write (a full file system) the next call writes them. */
	if (mt_files_write_stats(pieces, 3) == MT_ERR_OK)
		unwritten_count = 0;
	leave();
}

void mt_publish_copy(struct mt_stats_file *out)
{
	enter();
	(void)head_piece();
	memcpy(out, &stats_file, sizeof(stats_file));
	leave();
}

void mt_publish_end(const struct mt_config *config, bool inherited)
{
	enter();
	has_ended = true;
	inherited = inherited && !mt_files_exist();
	mt_files_remove();
	leave();
	if (inherited)
		mt_files_remove_inherited(config);
}

void mt_publish_fork_prepare(void)
{
	mt_lock_fork_prepare(&lock, is_ours);
}

void mt_publish_fork_parent(void)
{
	mt_lock_fork_parent(&lock, is_ours);
}

void mt_publish_fork_child(void)
{
	mt_lock_fork_child(&lock, is_ours);
	/* else the pages are untouched, and a child should not copy them */
	if (stats_file.head.magic)
		/* the slots may stay: each is written before the head names its number */
		memset(&stats_file.head, 0, sizeof(stats_file.head));
	sampled_ns = cleanup_sampled_ns = 0;
	unwritten_count = 0;
	has_ended = false;
	mt_files_fork_child();
}

/* ---- the last look on disk ---- */

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

bool mt_publish_last_is_wanted(void)
{
	char kind[KIND_BYTES];
	int kept = errno;

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
	bool is_over = mt_files_owner_is_missing(owner), is_new = strstr(name, ".new") != NULL;
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
	(void)mt_files_owner_each(fd, kinds, note_file, out);
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

bool mt_publish_last_write(struct mt_last_file *file)
{
	int kept = errno, fd = mt_publish_last_is_wanted() ? open_folder() : -1;
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

void mt_publish_last_remove(void)
{
	int kept = errno;

	if (atomic_exchange_explicit(&is_written, false, memory_order_acquire))
		(void)unlink(path);
	errno = kept;
}

void mt_publish_last_fork_child(void)
{
	mt_store_relaxed(&is_written, false);
	is_pruned = false;
}
