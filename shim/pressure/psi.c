#include "pressure/psi.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sys/raw_syscall.h"
#include "core/log.h"
#include "sys/os.h"
#include "core/cgroup_path.h"
#include "sys/format.h"

#define PSI_BYTES     512 /* two lines of some 70 bytes */
#define PAYLOAD_BYTES (MT_TEXT_MAX / 4 * 3)
#define DRAIN_BYTES   1024
/* reads in one sample; the rest waits for the next one */
#define DRAIN_READS 64

enum watch_kind { WATCH_NEW, WATCH_NONE, WATCH_PSI, WATCH_FIFO, WATCH_SOCKET };

static struct watch {
	enum watch_kind kind;
	int fd;
	dev_t device; /* identity of the file behind fd */
	ino_t inode;
	unsigned char payload[PAYLOAD_BYTES]; /* MEMORY_PRESSURE_WRITE */
	size_t payload_bytes;
} watch;

/* the file of the last totals; "": none yet */
static char last_path[PSI_BYTES + MT_CGROUP_PATH_BYTES];

/* ---- text ---- */

bool mt_psi_parse(const char *text, const char *line, uint64_t *out_us)
{
	static const char key[] = " total=";
	size_t length = strlen(line);
	char number[32];
	const char *at;

	while (text && (strncmp(text, line, length) != 0 || text[length] != ' ')) {
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	at = text ? strstr(text, key) : NULL;
	if (!at || memchr(text, '\n', (size_t)(at - text)))
		return false;
	at += sizeof(key) - 1;
	(void)mt_format(number, sizeof(number), "%.*s", (int)strcspn(at, " \n"), at);
	return mt_cgroup_path_number(number, out_us);
}

static int base64_value(char c)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *found = c ? strchr(alphabet, c) : NULL;

	return found ? (int)(found - alphabet) : -1;
}

int mt_psi_base64(const char *text, unsigned char *out, size_t out_bytes)
{
	size_t length = strlen(text);
	size_t padding = 0;
	size_t written = 0;
	uint32_t bits = 0;

	while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
		padding++;
	if (length % 4 || length / 4 * 3 - padding > out_bytes)
		return -1;
	for (size_t i = 0; i < length; i++) {
		int value = i < length - padding ? base64_value(text[i]) : 0;

		if (value < 0)
			return -1;
		bits = bits << 6 | (uint32_t)value;
		if (i % 4 != 3)
			continue;
		for (int shift = 16; shift >= 0; shift -= 8)
			if (written < length / 4 * 3 - padding)
				out[written++] = (unsigned char)(bits >> shift);
			else if (bits >> shift & 0xff)
				return -1; /* bits that the padding excludes */
		bits = 0;
	}
	return (int)written;
}

/* ---- totals ---- */

static bool parse_totals(const char *text, struct mt_psi_sample *out)
{
	uint64_t some, full = 0;

	if (!mt_psi_parse(text, "some", &some))
		return false;
	(void)mt_psi_parse(text, "full", &full);
	out->some_us = some;
	out->full_us = full;
	out->known = true;
	return true;
}

static bool read_totals(const char *path, struct mt_psi_sample *out)
{
	char text[PSI_BYTES];

	return mt_os_read_file(path, text, sizeof(text)) > 0 && parse_totals(text, out);
}

static bool read_watched_totals(struct mt_psi_sample *out)
{
	char text[PSI_BYTES];
	ssize_t got = mt_os_read_at(watch.fd, text, sizeof(text) - 1, 0);

	if (got <= 0)
		return false;
	text[got] = 0;
	return parse_totals(text, out);
}

/* Discards totals that come from another file than the last ones: after a move, or a failed
 * read. */
static void check_same_file(const char *path, struct mt_psi_sample *out)
{
	if (last_path[0] && strcmp(path, last_path) != 0)
		out->known = false;
	(void)mt_format(last_path, sizeof(last_path), "%s", path);
}

/* Returns the first file with totals. The watched file has no path here. */
static const char *find_totals(const char *root, const char *group, char *path, size_t path_bytes,
			       struct mt_psi_sample *out)
{
	if (watch.kind == WATCH_PSI && read_watched_totals(out))
		return "watched";
	(void)mt_format(path, path_bytes, "%s/memory.pressure", group);
	if (*group && read_totals(path, out))
		return path;
	(void)mt_format(path, path_bytes, "%s/proc/pressure/memory", root);
	return read_totals(path, out) ? path : NULL;
}

/* ---- the watch ---- */

static void end_watch(void)
{
	if (watch.kind != WATCH_NEW && watch.kind != WATCH_NONE)
		mt_os_close(watch.fd);
	watch.kind = WATCH_NONE;
}

/* Writes the trigger to a PSI file of the kernel, never to another file, which holds somebody's
 * data. A PSI file without a trigger never signals. */
static bool set_trigger(int fd)
{
	struct statfs where;

	if (fstatfs(fd, &where) != 0)
		return false;
	if (where.f_type != PROC_SUPER_MAGIC && where.f_type != CGROUP2_SUPER_MAGIC)
		return true;
	return watch.payload_bytes &&
	       write(fd, watch.payload, watch.payload_bytes) == (ssize_t)watch.payload_bytes;
}

static int open_psi(const char *path)
{
	struct mt_psi_sample unused;
	int fd = mt_os_open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0);

	if (fd == -EACCES || fd == -EROFS)
		fd = mt_os_open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0);
	if (fd >= 0 && (!read_totals(path, &unused) || !set_trigger(fd))) {
		mt_os_close(fd);
		return -EINVAL;
	}
	return fd;
}

/* Opens the FIFO for writing too, so that it does not end with its first writer (`echo >fifo`).
 * Writes the payload only where another process reads, else it would come back. */
static int open_fifo(const char *path)
{
	int writer = watch.payload_bytes ? mt_os_open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0)
					 : -ENXIO;
	int fd = mt_os_open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);

	if (fd == -EACCES)
		fd = mt_os_open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
	if (writer < 0 || fd < 0 || write(writer, watch.payload, watch.payload_bytes) < 0)
		watch.payload_bytes = 0;
	if (writer >= 0)
		mt_os_close(writer);
	return fd;
}

static int open_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
		int reason = errno;

		mt_os_close(fd);
		return -reason;
	}
	if (watch.payload_bytes)
		(void)send(fd, watch.payload, watch.payload_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	return fd;
}

/* Watches a PSI file, a FIFO or a socket. Anything else means no watch: /dev/null does so on
 * purpose. */
static void begin_watch(const char *root, const struct mt_launch_env *env)
{
	char path[2 * MT_TEXT_MAX];
	struct stat seen;
	int length = mt_psi_base64(env->pressure_write, watch.payload, sizeof(watch.payload));

	watch.kind = WATCH_NONE;
	watch.payload_bytes = length > 0 ? (size_t)length : 0;
	(void)mt_format(path, sizeof(path), "%s%s", root, env->pressure_watch);
	if (env->pressure_watch[0] != '/' || mt_os_stat(path, &seen) != 0)
		return;
	if (S_ISREG(seen.st_mode)) {
		watch.kind = WATCH_PSI;
		watch.fd = open_psi(path);
	} else if (S_ISFIFO(seen.st_mode)) {
		watch.kind = WATCH_FIFO;
		watch.fd = open_fifo(path);
	} else if (S_ISSOCK(seen.st_mode)) {
		watch.kind = WATCH_SOCKET;
		watch.fd = open_socket(path);
	}
	if (watch.kind != WATCH_NONE && watch.fd < 0)
		/* the listener's queue is full: try at the next sample */
		watch.kind = watch.fd == -EAGAIN ? WATCH_NEW : WATCH_NONE;
	if (watch.kind == WATCH_NONE || watch.kind == WATCH_NEW)
		return;
	if (mt_os_fstat(watch.fd, &seen) != 0)
		end_watch();
	watch.device = seen.st_dev;
	watch.inode = seen.st_ino;
}

/* Checks the descriptor. On old kernels the worker shares the descriptor table: the program may
 * close it and reuse its number for a file of its own. */
static bool is_still_ours(void)
{
	struct stat seen;

	return mt_os_fstat(watch.fd, &seen) == 0 && seen.st_dev == watch.device &&
	       seen.st_ino == watch.inode;
}

/* Reads everything. Returns whether there was something besides the payload that this process
 * wrote. */
static bool drain(bool *out_ended)
{
	unsigned char bytes[DRAIN_BYTES];
	bool any = false;

	*out_ended = false;
	for (int reads = 0; reads < DRAIN_READS; reads++) {
		ssize_t got = read(watch.fd, bytes, sizeof(bytes));
		bool is_own_payload;

		if (got < 0 && errno == EINTR)
			continue;
		*out_ended = got == 0 || (got < 0 && errno != EAGAIN);
		if (got <= 0)
			break;
		is_own_payload = watch.kind == WATCH_FIFO && watch.payload_bytes &&
				 (size_t)got >= watch.payload_bytes &&
				 memcmp(bytes, watch.payload, watch.payload_bytes) == 0;
		any |= !is_own_payload || (size_t)got > watch.payload_bytes;
		watch.payload_bytes = 0;
	}
	return any;
}

static bool read_event(void)
{
	struct pollfd poll_fd = {.fd = watch.fd,
				 .events = watch.kind == WATCH_PSI ? POLLPRI : POLLIN};
	struct timespec at_once = {0};
	bool event, ended;

	if (!is_still_ours()) {
		watch.kind = WATCH_NONE;
		return false;
	}
	if (mt_raw_syscall(SYS_ppoll, &poll_fd, 1, &at_once, NULL, 0) <= 0)
		return false;
	if (watch.kind == WATCH_PSI) {
		/* a removed cgroup signals POLLPRI and POLLERR for ever */
		ended = (poll_fd.revents & ~POLLPRI) != 0;
		event = !ended;
	} else {
		event = drain(&ended);
	}
	if (ended)
		end_watch();
	return event;
}

void mt_psi_read(const char *root, const char *group, const struct mt_launch_env *env,
		 struct mt_psi_sample *out)
{
	char path[PSI_BYTES + MT_CGROUP_PATH_BYTES];
	const char *found;

	memset(out, 0, sizeof(*out));
	/* The payload just written is left to its reader until the next sample. */
	if (watch.kind == WATCH_NEW)
		begin_watch(root, env);
	else if (watch.kind != WATCH_NONE)
		out->event = read_event();
	found = find_totals(root, group, path, sizeof(path), out);
	out->event_is_psi = watch.kind == WATCH_PSI && found && found != path;
	if (found)
		check_same_file(found, out);
}

void mt_psi_fork_child(void)
{
	watch.kind = WATCH_NEW;
	last_path[0] = 0;
}
