#include "pressure/pressure_internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/cgroup.h"
#include "core/components.h"
#include "core/services.h"
#include "core/last_file.h"
#include "core/publish.h"
#include "core/thread.h"
#include "heap/account.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/loader.h"
#include "sys/main_thread.h"
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

/* ---- growth sites ---- */

#define LINES_MAX  6u   /* of Python, of one site */
#define LINE_BYTES 4400 /* of /proc/self/maps: a path has up to 4,096 */
#define TRIES      100  /* for the table, by the worker */

struct site {
	uint64_t bytes, largest_bytes, count;
	uint32_t lines_count;
	uintptr_t lines[LINES_MAX]; /* of Python; or one, the return address of a call of malloc */
};

static _Atomic bool is_on;              /* no ordering */
static _Atomic int64_t countdown_bytes; /* counter, no ordering */
static _Atomic int64_t step;            /* no ordering */
static _Atomic bool is_busy;            /* acquire and release around all below */
static struct site sites[MT_LAST_SITES_COUNT];
static uint32_t sites_count;
static uint64_t unknown_bytes;
static int64_t high_bytes; /* largest size of the heap since it was last smaller */

/* operator new(size_t), with an alignment, and without exceptions; new[] jumps to these, or calls.
 * Written by the worker before is_on is set. */
#define NEW_COUNT   3u
#define NEW_BYTES   160u /* more than such a function has */
#define FRAME_WORDS 6u
static const char *const new_names[NEW_COUNT] = {"_Znwm", "_ZnwmSt11align_val_t",
						 "_ZnwmRKSt9nothrow_t"};
static uintptr_t new_functions[NEW_COUNT];

static bool is_set(_Atomic bool *flag)
{
	return mt_load_relaxed(flag);
}

static bool enter(void)
{
	return !atomic_exchange_explicit(&is_busy, true, memory_order_acquire);
}

/* On the worker: a thread is in the table for some microseconds. */
static bool enter_patiently(void)
{
	for (int i = 0; i < TRIES; i++) {
		if (enter())
			return true;
		mt_os_sleep_ns(MT_NS_PER_MS / 10);
	}
	return false;
}

static void leave(void)
{
	mt_assert(mt_load_relaxed(&is_busy));
	mt_store_release(&is_busy, false);
}

static int64_t heap_bytes(void)
{
	struct mt_heap_size heap;

	return mt_reclaim_read_heap(&heap) ? heap.held_bytes : -1;
}

/* ---- the program's threads ---- */

bool mt_black_box_sites_count(uint64_t allocated_bytes)
{
	int64_t bytes = (int64_t)allocated_bytes;

	return is_set(&is_on) && mt_sub_relaxed(&countdown_bytes, bytes) <= bytes;
}

/* Returns the place of the line, however it is reached; NULL: there is no room. */
static struct site *find(const struct site *wanted)
{
	mt_assert(mt_load_relaxed(&is_busy));
	for (uint32_t i = 0; i < sites_count; i++)
		if (sites[i].lines[0] == wanted->lines[0])
			return &sites[i];
	mt_assert(sites_count <= MT_LAST_SITES_COUNT);
	if (sites_count == MT_LAST_SITES_COUNT)
		return NULL;
	sites[sites_count] = *wanted;
	return &sites[sites_count++];
}

static void add(const struct site *here, uint64_t bytes)
{
	struct site *site = here->lines_count ? find(here) : NULL;

	mt_assert(here->lines_count <= LINES_MAX);
	if (!site) {
		unknown_bytes += bytes;
		return;
	}
	site->bytes += bytes;
	site->count++;
	if (bytes > site->largest_bytes)
		site->largest_bytes = bytes;
}

/* Returns whether a call ends right before this address, which may be any number. Of x86-64: call
 * NEAR, call *REGISTER, call *NEAR. Of arm64: bl, blr. */
static bool is_behind_a_call(uintptr_t address)
{
#if defined(__x86_64__)
	uint8_t code[6];

	return mt_os_read_own((const void *)(address - sizeof(code)), code, sizeof(code)) ==
		       sizeof(code) &&
	       (code[1] == 0xe8 || code[4] == 0xff || (code[0] == 0xff && code[1] == 0x15));
#else
	uint32_t code;

	return mt_os_read_own((const void *)(address - sizeof(code)), &code, sizeof(code)) ==
		       sizeof(code) &&
	       ((code & 0xfc000000) == 0x94000000 || (code & 0xfffffc1f) == 0xd63f0000);
#endif
}

/* Returns the return address of the call of malloc; of C++'s operator new, which keeps no more than
 * a few words on the stack, that of the call of it. */
static uintptr_t caller(void)
{
	uintptr_t words[FRAME_WORDS], address = mt_allocation_caller.address;
	bool is_new = false;

	for (size_t i = 0; i < NEW_COUNT; i++)
		is_new |= new_functions[i] && address - new_functions[i] < NEW_BYTES;
	if (!is_new ||
	    mt_os_read_own(mt_allocation_caller.frame, words, sizeof(words)) != sizeof(words))
		return address;
	for (size_t i = 0; i < FRAME_WORDS; i++)
		if (is_behind_a_call(words[i]))
			return words[i];
	return address;
}

static void compare(void *unused)
{
	int64_t now = heap_bytes(), grown = now - high_bytes;
	int64_t enough = mt_load_relaxed(&step);
	struct site here = {.bytes = 0};

	(void)unused;
	/* The heap grows by no more than is allocated. */
	mt_store_relaxed(&countdown_bytes, grown < 0 && -grown > enough ? -grown : enough);
	if (now < 0 || grown < enough)
		return;
	high_bytes = now;
	here.lines_count = (uint32_t)mt_interpreter_lines(here.lines, LINES_MAX);
	if (!here.lines_count && mt_allocation_caller.address) {
		here.lines[0] = caller();
		here.lines_count = 1;
	}
	add(&here, (uint64_t)grown);
}

MT_COLD void mt_black_box_sites_note(void)
{
	int kept = errno;

	if (is_set(&is_on) && !mt_thread_is_ours() && !mt_loader_is_inside() &&
	    !mt_raw_clone_is_child() && enter()) {
		mt_os_own_stack_call(compare, NULL); /* the program's may be small */
		leave();
	}
	errno = kept;
}

/* ---- the sites, on the worker thread ---- */

/* Does nothing if it watches. step_bytes: growth that is worth a note. The lines are known once
 * mt_interpreter_prepare_lines has run. */
static void sites_start(uint64_t step_bytes)
{
	if (is_set(&is_on))
		return;
	if (!enter_patiently())
		return;
	high_bytes = heap_bytes();
	leave();
	mt_assert(mt_thread_is_ours() && step_bytes > 0);
	mt_store_relaxed(&step, (int64_t)step_bytes);
	mt_store_relaxed(&countdown_bytes, (int64_t)step_bytes);
	/* dlsym would wait for a constructor. */
	for (size_t i = 0; i < NEW_COUNT && !mt_loader_is_forked(); i++)
		new_functions[i] = (uintptr_t)mt_loader_symbol_beside(new_names[0], new_names[i]);
	mt_account_event_note_callers(true);
	mt_store_relaxed(&is_on, true);
}

static void forget(void)
{
	memset(sites, 0, sites_count * sizeof(sites[0]));
	sites_count = 0;
	unknown_bytes = 0;
	high_bytes = 0;
}

/* Forgets what was noted. */
static void sites_stop(void)
{
	if (!mt_exchange_relaxed(&is_on, false))
		return;
	mt_account_event_note_callers(false);
	if (!enter_patiently())
		return;
	forget();
	leave();
}

/* If the heap has become smaller by a quarter, what was noted shrinks with it: which of it was
 * freed is not known. */
static void sites_settle(void)
{
	int64_t now;

	if (!is_set(&is_on) || !enter_patiently())
		return;
	now = heap_bytes();
	if (now >= 0 && now < high_bytes - high_bytes / 4) {
		double kept = (double)now / (double)high_bytes;

		mt_assert(kept >= 0 && kept < 1);
		for (uint32_t i = 0; i < sites_count; i++)
			sites[i].bytes = (uint64_t)((double)sites[i].bytes * kept);
		unknown_bytes = (uint64_t)((double)unknown_bytes * kept);
		high_bytes = now;
		mt_store_relaxed(&countdown_bytes, 0);
	}
	leave();
}

/* Adds a line to a site's text, if it fits. */
static void add_text(struct mt_last_site *to, const char *text)
{
	size_t used = strlen(to->text), more = strlen(text);

	if (used + more + 2 > sizeof(to->text))
		return;
	if (used)
		to->text[used++] = '\n';
	memcpy(to->text + used, text, more + 1);
}

struct code {
	uint64_t address, base; /* base: where the first mapping of `path` begins */
	char path[400];
	struct mt_last_site *site;
};

/* A line of /proc/self/maps: "START-END RIGHTS OFFSET DEVICE INODE    PATH". Source: proc(5). */
static bool match_mapping(char *line, void *context)
{
	struct code *code = context;
	const char *path = strchr(line, '/');
	char *at;
	uint64_t start = strtoull(line, &at, 16), end = *at ? strtoull(at + 1, NULL, 16) : 0;

	if (!path)
		return code->address >= start && code->address < end;
	if (strcmp(path, code->path) != 0) {
		mt_format(code->path, sizeof(code->path), "%s", path);
		code->base = start;
	}
	if (code->address < start || code->address >= end)
		return false;
	if (!strstr(path, "/libmtshim.so"))
		mt_format(code->site->text, sizeof(code->site->text), "%s+0x%llx", code->path,
			  (unsigned long long)(code->address - code->base));
	return true;
}

/* Names the file that is mapped there, if there is one. */
static void describe_code(uintptr_t address, struct mt_last_site *to)
{
	static struct code code; /* the worker's stack is small */
	static char text[LINE_BYTES];

	code = (struct code){.address = address, .site = to};
	mt_os_each_line("/proc/self/maps", text, sizeof(text), match_mapping, &code);
}

static void describe(const struct site *from, struct mt_last_site *to)
{
	char text[256];

	*to = (struct mt_last_site){from->bytes, from->largest_bytes, from->count, {0}};
	for (uint32_t i = 0; i < from->lines_count; i++)
		if (mt_interpreter_line_text(from->lines[i], text, sizeof(text)))
			add_text(to, text);
		else
			describe_code(from->lines[i], to);
}

/* Returns the largest site below `bytes`, or of the same size behind index `after`. */
static const struct site *next_site(const struct site *last)
{
	const struct site *best = NULL;

	for (uint32_t i = 0; i < sites_count; i++) {
		const struct site *site = &sites[i];

		if (last &&
		    (site->bytes > last->bytes || (site->bytes == last->bytes && site <= last)))
			continue;
		if (!best || site->bytes > best->bytes)
			best = site;
	}
	return best;
}

/* Fills the sites, largest first, sites_count and unknown_bytes. */
static void sites_read(struct mt_last_file *out)
{
	const struct site *site = NULL;

	out->head.sites_count = 0;
	if (!enter_patiently())
		return;
	while ((site = next_site(site))) {
		mt_assert(out->head.sites_count < MT_LAST_SITES_COUNT);
		describe(site, &out->sites[out->head.sites_count++]);
	}
	out->head.unknown_bytes = unknown_bytes;
	leave();
}

static void sites_fork_child(void)
{
	mt_store_relaxed(&is_on, false);
	mt_account_event_note_callers(false);
	forget();
	mt_store_relaxed(&is_busy, false);
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
	sites_read(file);
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
	uint64_t step_bytes = now->limit_bytes / STEPS;

	if (!file) {
		void *area = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (area == MAP_FAILED)
			return;
		file = area;
	}
	is_watching = true;
	sites_start(mt_max_u64(step_bytes, MT_MIB));
}

void mt_black_box_stop(void)
{
	is_watching = false;
	sites_stop();
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
	sites_settle();
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
	sites_fork_child();
	mt_last_file_fork_child();
}
