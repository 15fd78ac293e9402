#include "core/publish.h"

#include <stddef.h>
#include <string.h>

#include "core/config.h"
#include "core/files.h"
#include "core/stats_layout.h"
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
static enum mt_python_use python_use;
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

	mt_assert(is_ours);
	(void)mt_files_write_stats(pieces, 2);
}

static void fill_settings(const struct mt_config *config)
{
	mt_assert(is_ours);
	_Static_assert(MT_OPTION_COUNT <= MT_SETTINGS_COUNT, "the file has a place for each");
	for (int i = 0; i < MT_OPTION_COUNT; i++) {
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
	head->mode = identity->mode;
	fill_conf(identity->conf, head->conf, sizeof(head->conf));
	head->world_size = mt_config_launch_env()->world_size;
	mt_format(head->rank, sizeof(head->rank), "%s", mt_config_launch_env()->rank);
	mt_format(head->rank_source, sizeof(head->rank_source), "%s",
		  mt_config_launch_env()->rank_source);
	head->python = python_use;
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

void mt_publish_set_python(enum mt_python_use use)
{
	enter();
	stats_file.head.python = python_use = use;
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
#define X(name, known, figure) .name = from->figure,
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
	pieces[0] = sample_piece(mt_os_now_ns(), cleaned);
	pieces[1] = piece_of(stats_file.devices,
			     stats_file.head.devices_count * sizeof(stats_file.devices[0]));
	pieces[2] = head_piece();
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

/* The head may count it before it is written: a reader compares the number in the slot. */
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
	if (unwritten_count)
		unwritten_count += count;
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
