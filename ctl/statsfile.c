/* ctl/statsfile.c -- see statsfile.h. */
#include "ctl/statsfile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl/statslayout.h"
#include "core/checksum.h"

#define TRIES       50
#define WORTH_BYTES (UINT64_C(1) << 20)

/* The head as it lies in the file, of whatever length it says. */
union raw_head {
	struct mt_stats_head head;
	unsigned char bytes[MT_STATSLAYOUT_HEAD_MAX];
};

uint64_t mt_statsfile_checksum(const void *words, size_t bytes)
{
	return mt_checksum(MT_CHECKSUM_START, words, bytes);
}

/* What was read, up to `bytes`; short at the end of the file. */
static size_t read_at(int fd, void *out, size_t bytes, size_t offset)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = pread(fd, (char *)out + done, bytes - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

static bool is_known_version(uint32_t version)
{
	return version >= MT_STATS_VERSION_OLDEST && version <= MT_STATS_VERSION;
}

/* Magic, version, sizes: whether the head can be what it says. */
static enum mt_err check_shape(const struct mt_stats_head *head, size_t got, struct mt_why *why)
{
	if (got < offsetof(struct mt_stats_head, pid))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the stats file is cut short (%s)",
					mt_text_counted(got, "byte", "bytes").text);
	if (head->magic != MT_STATS_MAGIC)
		return mt_error_because(why, MT_ERR_INVALID, "refused: not a stats file");
	if (!is_known_version(head->version))
		return mt_error_because_version(why, "stats file", head->version, MT_STATS_VERSION);
	if (!mt_statslayout_can_be(head))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: sizes in the stats file make no sense");
	if (got < head->head_bytes)
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the stats file is cut short (%s)",
					mt_text_counted(got, "byte", "bytes").text);
	return MT_ERR_OK;
}

static enum mt_err check_raw(const union raw_head *raw, size_t got, struct mt_why *why)
{
	enum mt_err error = check_shape(&raw->head, got, why);
	uint64_t stored;
	size_t summed;

	if (error)
		return error;
	summed = raw->head.head_bytes - sizeof(stored);
	memcpy(&stored, raw->bytes + summed, sizeof(stored));
	if (stored != mt_statsfile_checksum(raw->bytes, summed))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the checksum of the stats file is wrong");
	return MT_ERR_OK;
}

static void clean_head(struct mt_stats_head *head)
{
	mt_text_clean(head->shim_version, sizeof(head->shim_version));
	mt_text_clean(head->comm, sizeof(head->comm));
	mt_text_clean(head->allocator, sizeof(head->allocator));
	mt_text_clean(head->evidence, sizeof(head->evidence));
	mt_text_clean(head->mode, sizeof(head->mode));
	mt_text_clean(head->conf, sizeof(head->conf));
	mt_text_clean(head->python, sizeof(head->python));
	mt_text_clean(head->cuda, sizeof(head->cuda));
	mt_text_clean(head->limit_source, sizeof(head->limit_source));
	mt_text_clean(head->rank, sizeof(head->rank));
	mt_text_clean(head->rank_source, sizeof(head->rank_source));
	/* it is a label of metrics, and sorts as a number */
	if (head->rank[strspn(head->rank, "0123456789")])
		memset(head->rank, 0, sizeof(head->rank));
}

/* Written by something else than this mtctl can read: what a write in flight leaves is a file
 * without magic, or a wrong sum. */
static bool is_of_others(const struct mt_stats_head *head, size_t got)
{
	struct mt_why why;

	return got >= offsetof(struct mt_stats_head, pid) && head->magic == MT_STATS_MAGIC &&
	       check_shape(head, MT_STATSLAYOUT_HEAD_MAX, &why) != MT_ERR_OK;
}

static void take_head(const union raw_head *raw, struct mt_stats_head *out)
{
	mt_statslayout_take_head(raw->bytes, out);
	clean_head(out);
}

static enum mt_err try_head(int fd, bool *is_final, struct mt_stats_head *out, struct mt_why *why)
{
	union raw_head raw;
	const size_t own = sizeof(raw.head); /* nearly always all of it */
	size_t got = read_at(fd, raw.bytes, own, 0);
	enum mt_err error;

	if (got == own && raw.head.head_bytes > own && raw.head.head_bytes <= sizeof(raw.bytes))
		got += read_at(fd, raw.bytes + own, raw.head.head_bytes - own, own);
	error = check_raw(&raw, got, why);

	if (!error)
		take_head(&raw, out);
	*is_final = !error || is_of_others(&raw.head, got);
	return error;
}

enum mt_err mt_statsfile_try_head(int fd, struct mt_stats_head *out, struct mt_why *why)
{
	bool is_final;

	return try_head(fd, &is_final, out, why);
}

enum mt_err mt_statsfile_read_head(int fd, struct mt_stats_head *out, struct mt_why *why)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	enum mt_err error = MT_ERR_INVALID;
	bool is_final = false;

	for (int try = 0; try < TRIES && !is_final; try++) {
		if (try)
			nanosleep(&pause, NULL);
		error = try_head(fd, &is_final, out, why);
	}
	return error;
}

static void clean_records(struct mt_stats_cleanup *records)
{
	for (size_t slot = 0; slot < MT_CLEANUPS_COUNT; slot++) {
		struct mt_stats_cleanup *record = &records[slot];

		if (!record->number || (record->number - 1) % MT_CLEANUPS_COUNT != slot)
			memset(record, 0, sizeof(*record));
		else if (record->result > MT_NULL_RESULT)
			record->result = MT_NULL_RESULT;
	}
}

static void clean_settings(struct mt_stats_setting *settings)
{
	for (size_t i = 0; i < MT_SETTINGS_COUNT; i++) {
		mt_text_clean(settings[i].name, sizeof(settings[i].name));
		mt_text_clean(settings[i].value, sizeof(settings[i].value));
		mt_text_clean(settings[i].origin, sizeof(settings[i].origin));
	}
}

static void clean_devices(struct mt_stats_device *devices, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		mt_text_clean(devices[i].name, sizeof(devices[i].name));
		mt_text_clean(devices[i].pci, sizeof(devices[i].pci));
		mt_text_clean(devices[i].mode, sizeof(devices[i].mode));
	}
}

enum mt_err mt_statsfile_read_devices(int fd, const struct mt_stats_head *head,
				      struct mt_stats_device *out, struct mt_why *why)
{
	const size_t bytes = mt_statslayout_devices_bytes(head);
	unsigned char *table = mt_error_check_memory(malloc(bytes + 1));
	bool is_whole = read_at(fd, table, bytes, mt_statslayout_devices_at(head)) == bytes;

	if (is_whole) {
		mt_statslayout_take_devices(head, table, out);
		clean_devices(out, head->devices_count);
	}
	free(table);
	return is_whole ? MT_ERR_OK
			: mt_error_because(why, MT_ERR_INVALID,
					   "refused: the stats file is cut short");
}

static void clean_ooms(struct mt_stats_oom *ooms)
{
	for (size_t slot = 0; slot < MT_OOMS_COUNT; slot++) {
		struct mt_stats_oom *oom = &ooms[slot];

		if (!oom->number || (oom->number - 1) % MT_OOMS_COUNT != slot)
			memset(oom, 0, sizeof(*oom));
		mt_text_clean(oom->function, sizeof(oom->function));
		mt_text_clean(oom->advice, sizeof(oom->advice));
	}
}

static void clean_alarms(struct mt_stats_alarm *alarms)
{
	for (size_t slot = 0; slot < MT_ALARMS_COUNT; slot++) {
		if (!alarms[slot].number || (alarms[slot].number - 1) % MT_ALARMS_COUNT != slot)
			memset(&alarms[slot], 0, sizeof(alarms[slot]));
		mt_text_clean(alarms[slot].advice, sizeof(alarms[slot].advice));
	}
}

/* What follows the head. */
static enum mt_err read_tail(int fd, struct mt_stats_file *file, struct mt_why *why)
{
	const size_t bytes = mt_statslayout_tail_bytes(&file->head);
	unsigned char *tail = mt_error_check_memory(malloc(bytes));
	bool is_whole = read_at(fd, tail, bytes, file->head.head_bytes) == bytes;

	if (is_whole)
		mt_statslayout_take_tail(&file->head, tail, file);
	free(tail);
	return is_whole ? MT_ERR_OK
			: mt_error_because(why, MT_ERR_INVALID,
					   "refused: the stats file is cut short");
}

enum mt_err mt_statsfile_read(int fd, struct mt_stats_file *out, struct mt_why *why)
{
	struct mt_stats_file *file = mt_error_check_memory(calloc(1, sizeof(*file)));
	enum mt_err error = mt_statsfile_read_head(fd, &file->head, why);

	if (!error)
		error = read_tail(fd, file, why);
	if (!error) {
		clean_settings(file->settings);
		clean_devices(file->devices, MT_DEVICES_COUNT);
		clean_ooms(file->ooms);
		clean_alarms(file->alarms);
		clean_records(file->records);
		*out = *file;
	}
	free(file);
	return error;
}

const struct mt_stats_cleanup *mt_statsfile_record(const struct mt_stats_file *file,
						   uint64_t number)
{
	const struct mt_stats_cleanup *record = &file->records[(number - 1) % MT_CLEANUPS_COUNT];

	return number && record->number == number ? record : NULL;
}

const struct mt_stats_cleanup *mt_statsfile_record_of_request(const struct mt_stats_file *file,
							      uint64_t seq)
{
	const struct mt_stats_cleanup *found = NULL;

	for (size_t slot = 0; slot < MT_CLEANUPS_COUNT && seq; slot++)
		if (file->records[slot].number && file->records[slot].request_seq == seq &&
		    (!found || file->records[slot].number > found->number))
			found = &file->records[slot];
	/* At most once around the ring, whatever the file says. */
	for (size_t step = 0; step < MT_CLEANUPS_COUNT && found && found->merged == 1; step++)
		found = mt_statsfile_record(file, found->number + 1);
	return found;
}

const char *mt_statsfile_reason(uint32_t reason)
{
	static const char *const words[] = {
#define X(name, text) text,
		MT_REASONS(X)
#undef X
	};

	return reason < MT_REASON_COUNT ? words[reason] : "?";
}

const char *mt_statsfile_level(uint32_t level)
{
	static const char *const words[MT_LEVEL_COUNT] = {"purge", "light", "heavy"};

	return level < MT_LEVEL_COUNT ? words[level] : "?";
}

static bool fell(uint64_t before, uint64_t after)
{
	return before > after && before - after >= WORTH_BYTES;
}

bool mt_statsfile_has_freed(const struct mt_stats_cleanup *record)
{
	return record->result == 1 &&
	       (fell(record->rss_before_bytes, record->rss_after_bytes) ||
		fell(record->anon_before_bytes, record->anon_after_bytes) ||
		fell(record->gpu_before_bytes, record->gpu_after_bytes) ||
		fell(record->pinned_before_bytes, record->pinned_after_bytes));
}

const char *mt_statsfile_outcome(const struct mt_stats_cleanup *record)
{
	static const char *const words[] = {"nothing to free", "freed less than 1 MB",
					    "nothing could be trimmed"};

	if (mt_statsfile_has_freed(record))
		return "freed";
	return record->result <= MT_NULL_RESULT ? words[record->result] : "?";
}

const char *mt_statsfile_gc_state(uint32_t state)
{
	static const char *const words[MT_GC_COUNT] = {
#define X(name, text) text,
		MT_GC_STATES(X)
#undef X
	};

	return state < MT_GC_COUNT ? words[state] : "?";
}

const char *mt_statsfile_door(uint64_t door)
{
	static const char *const words[] = {"none", "ours",    "passed on",
					    "lost", "ignored", "the program's alone"};

	return door < sizeof(words) / sizeof(words[0]) ? words[door] : "?";
}

const char *mt_statsfile_gpu_state(uint32_t state)
{
	static const char *const words[] = {
#define X(name, text) text,
		MT_GPU_STATES(X)
#undef X
	};

	return state < MT_GPU_STATE_COUNT ? words[state] : "?";
}

const char *mt_statsfile_oom_cause(uint32_t cause)
{
	static const char *const words[] = {
#define X(name, text) text,
		MT_OOM_CAUSES(X)
#undef X
	};

	return cause < MT_OOM_CAUSE_COUNT ? words[cause] : "?";
}

const char *mt_statsfile_pressure_level(uint64_t level)
{
	static const char *const words[MT_PRESSURE_LEVEL_COUNT] = {"none", "warn", "critical"};

	return level < MT_PRESSURE_LEVEL_COUNT ? words[level] : "?";
}

const char *mt_statsfile_pressure_source(size_t bit)
{
	static const char *const words[] = {
#define X(name, text) text,
		MT_PRESSURE_SOURCES(X)
#undef X
	};

	return bit < MT_PRESSURE_SOURCE_COUNT ? words[bit] : NULL;
}

double mt_statsfile_percent(uint64_t used_bytes, uint64_t limit_bytes)
{
	return limit_bytes ? 100.0 * (double)used_bytes / (double)limit_bytes : 0;
}

const char *mt_statsfile_framework(size_t place, uint32_t *out_bit)
{
	static const struct {
		uint32_t bit;
		const char *word;
	} frameworks[] = {{MT_FRAMEWORK_TORCH, "torch"},
			  {MT_FRAMEWORK_CUPY, "cupy"},
			  {MT_FRAMEWORK_NUMBA, "numba"}};

	if (place >= sizeof(frameworks) / sizeof(frameworks[0]))
		return NULL;
	*out_bit = frameworks[place].bit;
	return frameworks[place].word;
}

bool mt_statsfile_uses_cuda(const struct mt_stats_head *head)
{
	return head->cuda[0] || head->devices_count;
}

struct mt_figure mt_statsfile_driver(const struct mt_stats_head *head)
{
	struct mt_figure figure = {"unknown"};

	if (head->driver_version)
		snprintf(figure.text, sizeof(figure.text), "%u.%u", head->driver_version / 1000,
			 head->driver_version % 1000 / 10);
	return figure;
}

const struct mt_stats_oom *mt_statsfile_oom(const struct mt_stats_file *file, uint64_t number)
{
	const struct mt_stats_oom *oom = &file->ooms[(number - 1) % MT_OOMS_COUNT];

	return number && oom->number == number ? oom : NULL;
}

const struct mt_stats_alarm *mt_statsfile_alarm(const struct mt_stats_file *file, uint64_t number)
{
	const struct mt_stats_alarm *alarm = &file->alarms[(number - 1) % MT_ALARMS_COUNT];

	return number && alarm->number == number ? alarm : NULL;
}

const char *mt_statsfile_setting(const struct mt_stats_file *file, const char *name)
{
	for (size_t i = 0; i < file->head.settings_count; i++)
		if (strcmp(file->settings[i].name, name) == 0)
			return file->settings[i].value;
	return NULL;
}

uint64_t mt_statsfile_other_cleanups(const struct mt_stats_head *head)
{
	uint64_t sum = 0;

	for (size_t reason = MT_REASON_COUNT; reason < MT_REASONS_COUNT; reason++)
		sum += head->cleanups_count[reason];
	return sum;
}

bool mt_statsfile_counts_cleanups(const struct mt_stats_head *head)
{
	return head->version > MT_STATS_VERSION_OLDEST;
}

enum { KIND_gauge, KIND_counter };

const struct mt_statsfile_field *mt_statsfile_fields(size_t *count)
{
	static const struct mt_statsfile_field fields[] = {
#define X(name, kind, help) {#name, help, offsetof(struct mt_stats_snapshot, name), KIND_##kind},
		MT_STATS_FIELDS(X)
#undef X
	};

	*count = sizeof(fields) / sizeof(fields[0]);
	return fields;
}

const struct mt_statsfile_field *mt_statsfile_device_fields(size_t *count)
{
	static const struct mt_statsfile_field fields[] = {
#define X(name, kind, help) {#name, help, offsetof(struct mt_stats_device, name), KIND_##kind},
		MT_DEVICE_FIELDS(X)
#undef X
	};

	*count = sizeof(fields) / sizeof(fields[0]);
	return fields;
}

uint64_t mt_statsfile_value(const void *from, const struct mt_statsfile_field *field)
{
	uint64_t value;

	memcpy(&value, (const char *)from + field->offset, sizeof(value));
	return value;
}

bool mt_statsfile_tells(const struct mt_stats_head *head, const struct mt_statsfile_field *field)
{
	return field->offset < head->fields_count * sizeof(uint64_t);
}
