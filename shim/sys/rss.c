#include "sys/rss.h"

#include <fcntl.h>
#include <stddef.h>
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

#define LINE_BYTES 4096 /* the list of groups may be longer */

struct status {
	struct mt_rss_full figures;
	bool is_known;
};

static bool note_line(char *line, void *context)
{
	static const struct {
		const char *key;
		size_t offset;
	} fields[] = {
		{"VmHWM:", offsetof(struct mt_rss_full, peak_bytes)},
		{"VmRSS:", offsetof(struct mt_rss_full, rss_bytes)},
		{"RssAnon:", offsetof(struct mt_rss_full, anon_bytes)},
		{"RssFile:", offsetof(struct mt_rss_full, file_bytes)},
		{"RssShmem:", offsetof(struct mt_rss_full, shmem_bytes)},
		{"VmSwap:", offsetof(struct mt_rss_full, swap_bytes)},
	};
	struct status *status = context;
	size_t i = 0;

	while (i < sizeof(fields) / sizeof(fields[0]) &&
	       strncmp(line, fields[i].key, strlen(fields[i].key)) != 0)
		i++;
	if (i == sizeof(fields) / sizeof(fields[0]))
		return false;
	*(uint64_t *)(void *)((char *)&status->figures + fields[i].offset) =
		mt_os_parse_number(line + strlen(fields[i].key)) * 1024;
	status->is_known |= fields[i].offset == offsetof(struct mt_rss_full, rss_bytes);
	return fields[i].offset == offsetof(struct mt_rss_full, swap_bytes); /* the last one */
}

bool mt_rss_read_full(struct mt_rss_full *out)
{
	return mt_rss_read_status("/proc/self/status", out);
}

bool mt_rss_read_status(const char *path, struct mt_rss_full *out)
{
	struct status status = {.is_known = false};
	char text[LINE_BYTES];

	mt_os_each_line(path, text, sizeof(text), note_line, &status);
	if (status.is_known)
		*out = status.figures;
	return status.is_known;
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
