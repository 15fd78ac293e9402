#include "sys/rss.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"

static const char *skip_word(const char *at)
{
	while (*at && *at != ' ')
		at++;
	while (*at == ' ')
		at++;
	return at;
}

static MT_TLS int statm_fd; /* descriptor in this thread's own table, plus one; 0: none */

void mt_rss_keep_statm_open(void)
{
	int fd = mt_os_open("/proc/self/statm", O_RDONLY | O_CLOEXEC, 0);

	statm_fd = fd < 0 ? 0 : fd + 1;
}

static bool read_statm(char *text, size_t text_bytes)
{
	ssize_t got = statm_fd ? mt_os_read_at(statm_fd - 1, text, text_bytes - 1, 0) : -1;

	if (got <= 0)
		return mt_os_read_file("/proc/self/statm", text, text_bytes) > 0;
	text[got] = 0;
	return true;
}

bool mt_rss_read_quick(struct mt_rss_quick *out)
{
	char text[128];
	const char *at = text;
	uint64_t page = mt_os_page_bytes();
	uint64_t mapped;
	uint64_t resident;
	uint64_t shared;

	/* Source: proc(5), statm: size resident shared text lib data dt, in pages. */
	if (!read_statm(text, sizeof(text)))
		return false;
	mapped = mt_os_parse_number(at);
	at = skip_word(at);
	resident = mt_os_parse_number(at);
	at = skip_word(at);
	shared = mt_os_parse_number(at);
	out->mapped_bytes = mapped * page;
	out->rss_bytes = resident * page;
	out->anon_bytes = resident > shared ? (resident - shared) * page : 0;
	return true;
}

#define MARK       "\nVm" /* begins the first line about memory */
#define MARK_BYTES 3

/* Reads the lines of status about memory. The list of groups before them may exceed any buffer:
 * text that was searched is dropped. */
static bool read_memory_lines(const char *path, char *text, size_t text_bytes)
{
	size_t length = 0;
	uint64_t offset = 0;
	bool found = false;
	int fd = mt_os_open(path, O_RDONLY | O_CLOEXEC, 0);

	while (fd >= 0 && length < text_bytes - 1) {
		ssize_t got = mt_os_read_at(fd, text + length, text_bytes - 1 - length, offset);
		const char *from = text;

		if (got == -EINTR)
			continue;
		if (got <= 0)
			break;
		offset += (uint64_t)got;
		length += (size_t)got;
		text[length] = 0;
		if (!found && (from = strstr(text, MARK)))
			found = true;
		else if (!found && length > MARK_BYTES)
			from = text + length - MARK_BYTES;
		if (from != text && from) {
			length -= (size_t)(from - text);
			memmove(text, from, length + 1);
		}
		if (found && strstr(text, "\nVmSwap:") && text[length - 1] == '\n')
			break;
	}
	if (fd >= 0)
		mt_os_close(fd);
	return found;
}

bool mt_rss_read_full(struct mt_rss_full *out)
{
	return mt_rss_read_status("/proc/self/status", out);
}

bool mt_rss_read_status(const char *path, struct mt_rss_full *out)
{
	char text[4096];

	if (!read_memory_lines(path, text, sizeof(text)) || !strstr(text, "\nVmRSS:"))
		return false;
	out->rss_bytes = mt_os_parse_keyed_number(text, "VmRSS:") * 1024;
	out->peak_bytes = mt_os_parse_keyed_number(text, "VmHWM:") * 1024;
	out->anon_bytes = mt_os_parse_keyed_number(text, "RssAnon:") * 1024;
	out->file_bytes = mt_os_parse_keyed_number(text, "RssFile:") * 1024;
	out->shmem_bytes = mt_os_parse_keyed_number(text, "RssShmem:") * 1024;
	out->swap_bytes = mt_os_parse_keyed_number(text, "VmSwap:") * 1024;
	return true;
}

/* Reads how many bytes of anonymous pages are shared with forked processes: an upper bound, from
 * /proc/self/smaps_rollup. Pss_Anon counts a page divided by the number of processes that map it: a
 * shared page counts for half or less. Walks all page tables: some milliseconds for each GB.
 * Returns false, and leaves *out_bytes as it is, before Linux 5.3 and if /proc cannot be read. */
static bool read_shared(uint64_t *out_bytes)
{
	char text[2048];
	uint64_t anon;
	uint64_t own;

	if (mt_os_read_file("/proc/self/smaps_rollup", text, sizeof(text)) <= 0 ||
	    !strstr(text, "\nPss_Anon:"))
		return false;
	anon = mt_os_parse_keyed_number(text, "Anonymous:");
	own = mt_os_parse_keyed_number(text, "Pss_Anon:");
	*out_bytes = anon > own ? 2 * (anon - own) * 1024 : 0;
	return true;
}

bool mt_rss_read_huge(uint64_t *out_bytes)
{
	char text[2048];

	if (mt_os_read_file("/proc/self/smaps_rollup", text, sizeof(text)) <= 0 ||
	    !strstr(text, "\nAnonHugePages:"))
		return false;
	*out_bytes = mt_os_parse_keyed_number(text, "AnonHugePages:") * 1024;
	return true;
}

static uint64_t timeval_ns(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * MT_NS_PER_S + (uint64_t)time->tv_usec * 1000;
}

bool mt_rss_read_usage(struct mt_rss_usage *out)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) != 0)
		return false;
	out->minor_faults_count = (uint64_t)usage.ru_minflt;
	out->system_ns = timeval_ns(&usage.ru_stime);
	out->cpu_ns = out->system_ns + timeval_ns(&usage.ru_utime);
	return true;
}

/* ---- shared pages ---- */

/* a reply "many" is valid for this many times its cost */
#define PAUSE_SHARE 100

/* Counters, no ordering: a late value only asks the kernel again. A purge reads `forks` under the
 * purge lock, and a fork counts before it takes that lock. */
static _Atomic uint32_t forks;
static _Atomic uint32_t few_at;   /* number of forks when few pages were shared; 0: before any */
static _Atomic uint64_t again_ns; /* the kernel is not asked before this time */

uint32_t mt_rss_shared_forks(void)
{
	return mt_load_relaxed(&forks);
}

bool mt_rss_shared_are_known_few(void)
{
	return mt_rss_shared_forks() == mt_load_relaxed(&few_at);
}

bool mt_rss_shared_are_few(void)
{
	uint32_t now = mt_rss_shared_forks();
	uint64_t began = mt_os_now_ns();
	uint64_t ended;
	uint64_t bytes;

	if (now == mt_load_relaxed(&few_at))
		return true;
	if (began < mt_load_relaxed(&again_ns))
		return false;
	if (read_shared(&bytes) && bytes <= MT_SHARED_PAGES_MAX_BYTES) {
		mt_store_relaxed(&few_at, now);
		return true;
	}
	ended = mt_os_now_ns();
	mt_store_relaxed(&again_ns, ended + (ended - began) * PAUSE_SHARE);
	return false;
}

void mt_rss_shared_note_fork(void)
{
	mt_add_relaxed(&forks, 1);
	mt_store_relaxed(&again_ns, 0);
}
