#include "core/control_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/file_owner.h"
#include "core/files.h"
#include "core/stats_layout.h"
#include "sys/atomic.h"
#include "sys/format.h"
#include "sys/lock.h"
#include "sys/os.h"

static _Atomic uint32_t bits_set;
static _Atomic uint32_t private_word;
/* The word on which the worker sleeps; a signal handler may read it at any moment. seq_cst with the
 * bits: a notifier sets a bit and then reads which word it is, the worker writes which word it is
 * and then reads the bits. So either the worker sees the bit, or its word is woken. */
static _Atomic uint32_t *_Atomic word_at = &private_word;
static uint64_t last_seq;
static uint64_t last_rescue_ns;

/* In the shim's own memory, which cannot be truncated. */
static void wake_private(void)
{
	atomic_fetch_add(&private_word, 1);
	mt_os_futex_wake(&private_word, 1, MT_FUTEX_SHARED);
}

void mt_control_notify(uint32_t bits)
{
	/* Release: stores before the notification are visible to the thread that sees the bit. */
	uint32_t old = atomic_fetch_or(&bits_set, bits);
	_Atomic uint32_t *word;

	if ((old & bits) == bits)
		return;
	word = atomic_load(&word_at);
	if (word != &private_word && mt_os_futex_add_wake(word) == 0)
		return;
	/* There is no file, or it is gone, and the worker falls back to this word too. Or a sandbox
	 * refuses FUTEX_WAKE_OP: then a plain wake ends the present sleep. */
	wake_private();
	if (word != &private_word)
		mt_os_futex_wake(word, 1, MT_FUTEX_SHARED);
}

void mt_control_use_file(bool keep)
{
	_Atomic uint32_t *word = mt_files_map_word();

	if (word && keep)
		mt_files_keep_control_open();
	if (word)
		atomic_store(&word_at, word);
}

static bool uses_file(void)
{
	return mt_load_relaxed(&word_at) != &private_word;
}

uint32_t mt_control_read_word(void)
{
	struct mt_control_file file;

	if (uses_file()) {
		if (mt_files_read_control(&file, sizeof(file)) >=
		    (ssize_t)(offsetof(struct mt_control_file, word) + 4))
			return file.word;
		atomic_store(&word_at, &private_word);
	}
	return mt_load_acquire(&private_word);
}

uint32_t mt_control_pending_bits(void)
{
	return atomic_load(&bits_set);
}

void mt_control_clear_bits(uint32_t bits)
{
	atomic_fetch_and_explicit(&bits_set, ~bits, memory_order_acq_rel);
}

void mt_control_wait(uint32_t word, uint64_t timeout_ns)
{
	_Atomic uint32_t *at = mt_load_acquire(&word_at);
	int answer;

	mt_lock_check_wait("the control file");
	answer = mt_os_futex_wait(at, word, timeout_ns, MT_FUTEX_SHARED);
	/* The file was truncated: the kernel returns EFAULT where a load would raise SIGBUS. */
	if (answer == EFAULT && at != &private_word)
		atomic_store(&word_at, &private_word);
}

bool mt_control_read_request(struct mt_request *out)
{
	struct mt_control_file file, again;

	/* Also if the word could not be mapped: the next tick then reads the request. */
	if (mt_files_read_control(&file, sizeof(file)) != (ssize_t)sizeof(file))
		return false;
	if (file.magic != MT_CONTROL_MAGIC || file.version != MT_STATS_VERSION ||
	    !file.request.seq || file.request.seq == last_seq)
		return false;
	/* mtctl wrote during the copy: its notification comes when it has written all. */
	if (mt_files_read_control(&again, sizeof(again)) != (ssize_t)sizeof(again) ||
	    memcmp(&file.request, &again.request, sizeof(file.request)) != 0)
		return false;
	last_seq = file.request.seq;
	if (file.request.kind == MT_REQUEST_NONE)
		return false;
	*out = file.request;
	mt_assert(file.request.kind != MT_REQUEST_NONE);
	if (out->kind >= MT_REQUEST_COUNT || out->level >= MT_LEVEL_COUNT) {
		out->kind = MT_REQUEST_COUNT;
		out->level = MT_LEVEL_PURGE;
	}
	out->name[sizeof(out->name) - 1] = 0;
	out->value[sizeof(out->value) - 1] = 0;
	return true;
}

bool mt_control_read_rescue(struct mt_rescue_request *out)
{
	struct mt_control_file file;

	if (mt_files_read_control(&file, sizeof(file)) != (ssize_t)sizeof(file) ||
	    file.rescue.asked_ns == last_rescue_ns)
		return false;
	last_rescue_ns = file.rescue.asked_ns;
	*out = file.rescue;
	/* The clock is read after the file: a request may be written in between. */
	return out->asked_ns <= mt_os_now_ns();
}

void mt_control_fork_child(void)
{
	mt_store_relaxed(&word_at, &private_word);
	mt_store_relaxed(&bits_set, 0);
	last_seq = 0;
	last_rescue_ns = 0;
}

/* ---- requests to other processes ---- */

#define NAME_BYTES 80

struct rescuer {
	char name[NAME_BYTES]; /* of its control file */
	uint64_t asked_ns;     /* the time of the request there */
	struct mt_rescue_reply reply;
	bool is_open; /* more may come */
};

static struct {
	struct mt_rescue_request request;
	uint64_t pidns;
	int folder;
	uint32_t count;
	struct rescuer list[MT_RESCUERS_COUNT];
} asked;

static int open_others(const char *name, int flags)
{
	struct stat seen;
	int fd = mt_os_open_at(asked.folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (mt_os_fstat(fd, &seen) == 0 && S_ISREG(seen.st_mode) && seen.st_uid == geteuid() &&
	    (seen.st_mode & 0777) == 0600 && seen.st_nlink == 1)
		return fd;
	mt_os_close(fd);
	return -1;
}

static bool read_others(int fd, struct mt_control_file *out)
{
	return mt_os_read_at(fd, out, sizeof(*out), 0) == (ssize_t)sizeof(*out) &&
	       out->magic == MT_CONTROL_MAGIC && out->version == MT_STATS_VERSION;
}

/* The kernel adds to the word and wakes the worker that sleeps on it: a file that is truncated
 * meanwhile raises no signal here. */
static void wake_other(int fd)
{
	const size_t bytes = sizeof(struct mt_control_file);
	char *map = (char *)mt_raw_syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
					   MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return;
	(void)mt_os_futex_add_wake(
		(_Atomic uint32_t *)(void *)(map + offsetof(struct mt_control_file, word)));
	(void)mt_raw_syscall(SYS_munmap, map, bytes);
}

/* Writes the time last: a process that reads in between sees no new request yet. */
static bool write_request(int fd)
{
	const size_t base = offsetof(struct mt_control_file, rescue), time_bytes = sizeof(uint64_t);
	const size_t rest_bytes = sizeof(asked.request) - time_bytes;

	_Static_assert(offsetof(struct mt_rescue_request, asked_ns) == 0, "the time comes first");
	return mt_os_write_at(fd, (const char *)&asked.request + time_bytes, rest_bytes,
			      base + time_bytes) == (ssize_t)rest_bytes &&
	       mt_os_write_at(fd, &asked.request, time_bytes, base) == (ssize_t)time_bytes;
}

/* Returns whether its files are those of the program before an exec, which kept pid and start time:
 * the new one reads no request. False if that is unknown. name: of its control file. */
static bool has_called_exec(const char *name, uint64_t pid)
{
	const size_t at = offsetof(struct mt_stats_file, head.stack_start);
	uint64_t before = 0, now;
	char path[NAME_BYTES], stat[1024];
	int fd;

	mt_format(path, sizeof(path), "%.*s.stats", (int)strcspn(name, "."), name);
	fd = open_others(path, O_RDONLY);
	if (fd < 0)
		return false;
	(void)mt_os_read_at(fd, &before, sizeof(before), at);
	mt_os_close(fd);
	mt_format(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
	now = mt_os_read_file(path, stat, sizeof(stat)) > 0 ? mt_os_procstat_number(stat, 28) : 0;
	return before && now && now != before;
}

static bool send_to(const char *name, const struct mt_file_owner *owner, void *unused)
{
	struct rescuer *next = &asked.list[asked.count];
	struct mt_control_file file;
	int fd;

	mt_assert(asked.count < MT_RESCUERS_COUNT);
	(void)unused;
	if (owner->pidns != asked.pidns || owner->pid == asked.request.pid ||
	    strlen(name) >= NAME_BYTES || (fd = open_others(name, O_RDWR)) < 0)
		return true;
	/* Now: of two processes that ask, the one that writes later has the later time. */
	asked.request.asked_ns = mt_os_now_ns();
	if (read_others(fd, &file) && file.is_rescuer == 1 &&
	    mt_raw_syscall(SYS_kill, owner->pid, 0) == 0 && !mt_file_owner_has_ended(owner) &&
	    !has_called_exec(name, owner->pid) && write_request(fd)) {
		*next = (struct rescuer){.asked_ns = asked.request.asked_ns, .is_open = true};
		memcpy(next->name, name, strlen(name) + 1);
		asked.count++;
		wake_other(fd);
	}
	mt_os_close(fd);
	return asked.count < MT_RESCUERS_COUNT;
}

uint32_t mt_control_rescue_send(const struct mt_rescue_request *request)
{
	static const char *const kinds[] = {"control", NULL};
	struct stat space;
	int kept = errno;

	asked.request = *request;
	asked.count = 0;
	if (mt_os_stat("/proc/self/ns/pid", &space) == 0 &&
	    mt_files_reopen_folder(&asked.folder) == MT_ERR_OK) {
		asked.pidns = space.st_ino;
		(void)mt_file_owner_each(asked.folder, kinds, send_to, NULL);
		mt_os_close(asked.folder);
	}
	errno = kept;
	return asked.count;
}

/* Asks again: another process had overwritten the request before it was read. */
static void send_again(struct rescuer *rescuer)
{
	int fd = open_others(rescuer->name, O_RDWR);

	asked.request.asked_ns = mt_os_now_ns();
	rescuer->is_open = fd >= 0 && write_request(fd);
	rescuer->asked_ns = asked.request.asked_ns;
	if (rescuer->is_open)
		wake_other(fd);
	if (fd >= 0)
		mt_os_close(fd);
}

/* A reply to a later request for the same device stands for one to ours, which was overwritten. */
static void read_reply(struct rescuer *rescuer)
{
	struct mt_control_file file;
	int fd = open_others(rescuer->name, O_RDONLY);
	bool is_read;

	rescuer->is_open = fd >= 0; /* else it has ended */
	if (fd < 0)
		return;
	is_read = read_others(fd, &file);
	mt_os_close(fd);
	if (!is_read) {
		rescuer->is_open = false;
	} else if (file.rescue_reply.asked_ns < rescuer->asked_ns) {
		return;
	} else if (memcmp(file.rescue_reply.device, asked.request.device,
			  sizeof(asked.request.device)) != 0) {
		send_again(rescuer);
	} else {
		rescuer->reply = file.rescue_reply;
		rescuer->is_open = !file.rescue_reply.is_final;
	}
}

void mt_control_rescue_read(struct mt_rescue_gain *out)
{
	bool is_there = mt_files_reopen_folder(&asked.folder) == MT_ERR_OK;

	*out = (struct mt_rescue_gain){.bytes = 0};
	mt_assert(asked.count <= MT_RESCUERS_COUNT);
	for (uint32_t i = 0; i < asked.count; i++) {
		struct rescuer *rescuer = &asked.list[i];

		if (is_there && rescuer->is_open)
			read_reply(rescuer);
		out->open_count += is_there && rescuer->is_open;
		out->freed_bytes += rescuer->reply.bytes;
		if (rescuer->reply.pid != asked.request.pid)
			continue;
		out->bytes += rescuer->reply.bytes;
		if (rescuer->reply.bytes > out->most_bytes) {
			out->most_bytes = rescuer->reply.bytes;
			out->most_pid = mt_os_parse_number(rescuer->name);
		}
	}
	if (is_there)
		mt_os_close(asked.folder);
}
