#include "pressure/black_box.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "core/cgroup.h"
#include "core/components.h"
#include "core/interpreter.h"
#include "core/publish.h"
#include "core/thread.h"
#include "pressure/growth_sites.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/os.h"
#include "sys/rss.h"
#include "sys/saturating.h"

#define AGAIN_NS    MT_NS_PER_S        /* shortest time between two writes */
#define HORIZON_NS  (3 * MT_NS_PER_S)  /* growth that meets the limit sooner is written down */
#define WATCH_NS    (30 * MT_NS_PER_S) /* growth that meets it sooner is watched */
#define RATE_NS     (MT_NS_PER_S / 2)  /* growth is measured over about that time */
#define OWN_SHARE   8                  /* of the usage, of a process that writes */
#define STEPS       256                /* of growth, from nothing to the limit */
#define WATCH_SHARE 2                  /* of the limit, from which on growth is watched */

static struct mt_last_file *file; /* NULL: not mapped */
static bool is_watching, has_lines;
static bool is_critical;    /* the cause of the last write */
static uint64_t written_ns; /* the last try to write; 0: none since the last removal */
static uint64_t compose_ns, writes_count;
/* the usage at the beginning of the measurement of growth, and before it */
static uint64_t began_ns, began_bytes, before_ns, before_bytes;

/* ---- growth ---- */

/* Bytes a second, since the measurement before this one began. */
static uint64_t growth_rate(const struct mt_black_box_sample *now)
{
	uint64_t span_ns = now->now_ns - before_ns, grown;

	grown = mt_sat_sub(now->used_bytes, before_bytes);
	return before_ns && span_ns
		       ? (uint64_t)((double)grown * (double)MT_NS_PER_S / (double)span_ns)
		       : 0;
}

static void note_usage(const struct mt_black_box_sample *now)
{
	if (began_ns && now->now_ns - began_ns < RATE_NS)
		return;
	before_ns = began_ns ? began_ns : now->now_ns;
	before_bytes = began_ns ? began_bytes : now->used_bytes;
	began_ns = now->now_ns;
	began_bytes = now->used_bytes;
}

static bool meets_limit_within(const struct mt_black_box_sample *now, uint64_t rate,
			       uint64_t span_ns)
{
	uint64_t left = mt_sat_sub(now->limit_bytes, now->used_bytes);

	return rate && (double)left / (double)rate * (double)MT_NS_PER_S < (double)span_ns;
}

/* ---- the contents ---- */

/* What the whole cgroup holds: by v2's names, or v1's. */
static void read_group(struct mt_last_head *head)
{
	static const struct {
		const char *key, *old_key;
		size_t offset;
	} parts[] = {
		{"anon ", "total_rss ", offsetof(struct mt_last_head, group_anon_bytes)},
		{"file ", "total_cache ", offsetof(struct mt_last_head, group_file_bytes)},
		{"shmem ", "total_shmem ", offsetof(struct mt_last_head, group_shmem_bytes)},
		{"kernel ", "", offsetof(struct mt_last_head, group_kernel_bytes)},
	};
	char path[640], text[4096];

	if (!mt_cgroup_path_sibling(head->limit_path, "memory.stat", path, sizeof(path)) ||
	    mt_os_read_file(path, text, sizeof(text)) <= 0)
		return;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		uint64_t *to = (void *)((char *)head + parts[i].offset);

		if (!mt_cgroup_path_keyed(text, parts[i].key, to) && *parts[i].old_key)
			(void)mt_cgroup_path_keyed(text, parts[i].old_key, to);
	}
}

static bool read_process(uint64_t pid, struct mt_last_process *out)
{
	char path[64], text[512];
	const char *comm, *end;

	*out = (struct mt_last_process){.pid = pid};
	mt_format(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
	if (mt_os_read_file(path, text, sizeof(text)) <= 0)
		return false;
	out->rss_bytes = mt_os_procstat_number(text, 24) * mt_os_page_bytes();
	comm = strchr(text, '(');
	end = strrchr(text, ')');
	if (comm && end > comm)
		mt_format(out->comm, sizeof(out->comm), "%.*s", (int)(end - comm - 1), comm + 1);
	return true;
}

/* Keeps the largest ones, largest first. */
static void insert(struct mt_last_file *out, const struct mt_last_process *process)
{
	uint32_t at = out->head.processes_count;

	mt_assert(at <= MT_LAST_PROCESSES_COUNT);
	if (at == MT_LAST_PROCESSES_COUNT) {
		if (out->processes[--at].rss_bytes >= process->rss_bytes)
			return;
	} else {
		out->head.processes_count++;
	}
	for (; at && out->processes[at - 1].rss_bytes < process->rss_bytes; at--)
		out->processes[at] = out->processes[at - 1];
	mt_assert(at < MT_LAST_PROCESSES_COUNT);
	out->processes[at] = *process;
}

/* The others of the limit's cgroup, as far as they may be read. */
static void read_processes(struct mt_last_file *out)
{
	char path[640], text[4096];
	uint64_t own = (uint64_t)mt_os_getpid();
	struct mt_last_process process;

	out->head.processes_count = 0;
	out->head.processes_total = 0;
	if (!mt_cgroup_path_sibling(out->head.limit_path, "cgroup.procs", path, sizeof(path)) ||
	    mt_os_read_file(path, text, sizeof(text)) <= 0)
		return;
	for (const char *at = text;
	     at && *at && out->head.processes_total < MT_LAST_PROCESSES_MAX;) {
		uint64_t pid = mt_os_parse_number(at);

		out->head.processes_total++;
		if (pid != own && read_process(pid, &process))
			insert(out, &process);
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
}

static void read_command(struct mt_last_head *head)
{
	ssize_t bytes = mt_os_read_file("/proc/self/cmdline", head->command, sizeof(head->command));

	for (ssize_t i = 0; i + 1 < bytes; i++)
		if (!head->command[i])
			head->command[i] = ' ';
}

static void read_own(struct mt_last_head *head)
{
	struct mt_rss_full rss = {0};

	(void)mt_os_read_file("/proc/self/status", head->status, sizeof(head->status));
	(void)mt_rss_read_full(&rss);
	head->rss_bytes = rss.rss_bytes;
	head->anon_bytes = rss.anon_bytes;
	head->file_rss_bytes = rss.file_bytes;
	head->shmem_bytes = rss.shmem_bytes;
	head->swap_bytes = rss.swap_bytes;
}

static void compose(const struct mt_black_box_sample *now, uint64_t rate)
{
	struct mt_last_head *head = &file->head;

	mt_assert(mt_thread_is_ours());
	head->cause = now->is_critical ? MT_LAST_CRITICAL : MT_LAST_GROWTH;
	head->time_ns = mt_os_realtime_ns();
	head->used_bytes = now->used_bytes;
	head->limit_bytes = now->limit_bytes;
	head->growth_bytes = rate;
	mt_format(head->limit_path, sizeof(head->limit_path), "%s", now->source);
	head->oom_kills_count = mt_cgroup_path_oom_kills(head->limit_path);
	read_group(head);
	head->compose_ns = compose_ns;
	head->writes_count = ++writes_count;
	read_own(head);
	if (!*head->command)
		read_command(head);
	read_processes(file);
	mt_growth_sites_read(file);
	mt_components_publish(true);
	mt_publish_copy(&file->stats);
}

static void write_file(const struct mt_black_box_sample *now, uint64_t rate)
{
	uint64_t start_ns = mt_os_now_ns();

	compose(now, rate);
	mt_assert(now->limit_bytes > 0);
	(void)mt_last_file_write(file);
	is_critical = now->is_critical;
	written_ns = now->now_ns;
	compose_ns = mt_os_now_ns() - start_ns;
}

/* ---- the watch ---- */

static void watch(const struct mt_black_box_sample *now)
{
	uint64_t step = now->limit_bytes / STEPS;

	if (!file) {
		void *area = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (area == MAP_FAILED)
			return;
		file = area;
	}
	is_watching = true;
	mt_growth_sites_start(step > MT_MIB ? step : MT_MIB);
}

void mt_black_box_stop(void)
{
	is_watching = false;
	mt_growth_sites_stop();
	mt_last_file_remove();
	written_ns = began_ns = before_ns = 0;
}

/* Whether the process is about to be killed, or the one that another is killed for. */
static bool is_due(const struct mt_black_box_sample *now, uint64_t rate)
{
	if (!now->exact || now->own_bytes < now->used_bytes / OWN_SHARE)
		return false;
	return now->is_critical || (now->used_bytes > now->limit_bytes / WATCH_SHARE &&
				    meets_limit_within(now, rate, HORIZON_NS));
}

void mt_black_box_note(const struct mt_black_box_sample *now)
{
	uint64_t rate;

	mt_assert(mt_thread_is_ours());
	if (!now->limit_bytes)
		return;
	note_usage(now);
	rate = growth_rate(now);
	if (!is_watching &&
	    (now->used_bytes > now->limit_bytes / WATCH_SHARE ||
	     meets_limit_within(now, rate, WATCH_NS)) &&
	    mt_last_file_is_wanted())
		watch(now);
	if (!is_watching)
		return;
	mt_growth_sites_settle();
	if (is_due(now, rate)) {
		if (!written_ns || now->now_ns - written_ns >= AGAIN_NS ||
		    (now->is_critical && !is_critical))
			write_file(now, rate);
	} else if (written_ns && now->now_ns - written_ns >= AGAIN_NS) {
		mt_last_file_remove();
		written_ns = 0;
	}
}

void mt_black_box_prepare(void)
{
	if (!is_watching || has_lines || !mt_object_heap_is_there())
		return;
	has_lines = true;
	mt_interpreter_prepare_lines();
}

void mt_black_box_fork_child(void)
{
	if (file)
		(void)munmap(file, sizeof(*file));
	file = NULL;
	is_watching = false;
	began_ns = before_ns = written_ns = compose_ns = writes_count = 0;
	mt_growth_sites_fork_child();
	mt_last_file_fork_child();
}
