#include "ctl/figures/stats_file.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/process/clock.h"
#include "ctl/process/read_file.h"

#define TRIES 50

/* Returns whether the file has the layout of this mtctl. A change of the layout raises the version;
 * the sizes detect a build without that. */
static bool is_own_layout(const struct mt_stats_head *head)
{
	return head->version == MT_STATS_VERSION && head->head_bytes == sizeof(*head) &&
	       head->fields_count == sizeof(head->snapshot) / sizeof(uint64_t) &&
	       head->cleanup_bytes == sizeof(struct mt_stats_cleanup) &&
	       head->sample_bytes == sizeof(struct mt_stats_sample) &&
	       head->device_bytes == sizeof(struct mt_stats_device) &&
	       head->oom_bytes == sizeof(struct mt_stats_oom) &&
	       head->limit_report_bytes == sizeof(struct mt_stats_limit_report) &&
	       head->class_bytes == sizeof(struct mt_stats_class);
}

static enum mt_err refuse_short(size_t got, struct mt_error_reason *why)
{
	return mt_error_because(why, MT_ERR_INVALID, "refused: the stats file is cut short (%s)",
				mt_text_counted(got, "byte", "bytes").text);
}

/* Checks magic, version, sizes, counts and checksum. `got`: bytes of the head that were read. */
static enum mt_err check_head(const struct mt_stats_head *head, size_t got,
			      struct mt_error_reason *why)
{
	if (got < offsetof(struct mt_stats_head, pid))
		return refuse_short(got, why);
	if (head->magic != MT_STATS_MAGIC)
		return mt_error_because(why, MT_ERR_INVALID, "refused: not a stats file");
	if (!is_own_layout(head))
		return mt_error_because_version(why, "stats file", head->version);
	if (got < sizeof(*head))
		return refuse_short(got, why);
	if (head->checksum !=
	    mt_stats_checksum(MT_CHECKSUM_START, head, offsetof(struct mt_stats_head, checksum)))
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the checksum of the stats file is wrong");
	if (head->settings_count > MT_SETTINGS_COUNT || head->devices_count > MT_DEVICES_COUNT ||
	    head->classes_count > MT_CLASSES_COUNT)
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: counts in the stats file make no sense");
	return MT_ERR_OK;
}

static void clean_head(struct mt_stats_head *head)
{
	mt_text_clean(head->shim_version, sizeof(head->shim_version));
	mt_text_clean(head->comm, sizeof(head->comm));
	mt_text_clean(head->allocator, sizeof(head->allocator));
	mt_text_clean(head->evidence, sizeof(head->evidence));
	mt_text_clean(head->conf, sizeof(head->conf));
	mt_text_clean(head->cuda, sizeof(head->cuda));
	mt_text_clean(head->limit_source, sizeof(head->limit_source));
	mt_text_clean(head->rank, sizeof(head->rank));
	mt_text_clean(head->rank_source, sizeof(head->rank_source));
	/* it is a label of metrics, and is sorted as a number */
	if (head->rank[strspn(head->rank, "0123456789")])
		memset(head->rank, 0, sizeof(head->rank));
}

static enum mt_err try_head(int fd, bool *is_final, struct mt_stats_head *out,
			    struct mt_error_reason *why)
{
	struct mt_stats_head head;
	size_t got = mt_read_file_at(fd, &head, sizeof(head), 0);
	enum mt_err error = check_head(&head, got, why);

	/* another read is useless if another version wrote the file; a write in progress leaves
	 * no magic or a wrong checksum */
	*is_final = !error || (got >= offsetof(struct mt_stats_head, pid) &&
			       head.magic == MT_STATS_MAGIC && !is_own_layout(&head));
	if (error)
		return error;
	clean_head(&head);
	*out = head;
	return MT_ERR_OK;
}

enum mt_err mt_stats_file_try_head(int fd, struct mt_stats_head *out, struct mt_error_reason *why)
{
	bool is_final;

	return try_head(fd, &is_final, out, why);
}

enum mt_err mt_stats_file_read_head(int fd, struct mt_stats_head *out, struct mt_error_reason *why)
{
	enum mt_err error = MT_ERR_INVALID;
	bool is_final = false;

	for (int try = 0; try < TRIES && !is_final; try++) {
		if (try)
			mt_clock_sleep_ms(1);
		error = try_head(fd, &is_final, out, why);
	}
	return error;
}

static void clean_cleanups(struct mt_stats_cleanup *records)
{
	for (size_t slot = 0; slot < MT_CLEANUPS_COUNT; slot++) {
		struct mt_stats_cleanup *cleanup = &records[slot];

		if (!cleanup->number || (cleanup->number - 1) % MT_CLEANUPS_COUNT != slot)
			memset(cleanup, 0, sizeof(*cleanup));
		else if (cleanup->result > MT_NULL_RESULT)
			cleanup->result = MT_NULL_RESULT;
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

enum mt_err mt_stats_file_read_devices(int fd, const struct mt_stats_head *head,
				       struct mt_stats_device *out, struct mt_error_reason *why)
{
	const size_t bytes = head->devices_count * sizeof(*out);

	if (mt_read_file_at(fd, out, bytes, offsetof(struct mt_stats_file, devices)) != bytes)
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the stats file is cut short");
	clean_devices(out, head->devices_count);
	return MT_ERR_OK;
}

static void clean_ooms(struct mt_stats_oom *ooms)
{
	for (size_t slot = 0; slot < MT_OOMS_COUNT; slot++) {
		struct mt_stats_oom *oom = &ooms[slot];

		if (!oom->number || (oom->number - 1) % MT_OOMS_COUNT != slot)
			memset(oom, 0, sizeof(*oom));
		mt_text_clean(oom->function, sizeof(oom->function));
	}
}

static void clean_limit_reports(struct mt_stats_limit_report *limit_reports)
{
	for (size_t slot = 0; slot < MT_LIMIT_REPORTS_COUNT; slot++) {
		if (!limit_reports[slot].number ||
		    (limit_reports[slot].number - 1) % MT_LIMIT_REPORTS_COUNT != slot)
			memset(&limit_reports[slot], 0, sizeof(limit_reports[slot]));
		mt_text_clean(limit_reports[slot].advice, sizeof(limit_reports[slot].advice));
	}
}

/* Reads the bytes after the head. */
static enum mt_err read_tail(int fd, struct mt_stats_file *file, struct mt_error_reason *why)
{
	const size_t bytes = sizeof(*file) - sizeof(file->head);

	if (mt_read_file_at(fd, (char *)file + sizeof(file->head), bytes, sizeof(file->head)) !=
	    bytes)
		return mt_error_because(why, MT_ERR_INVALID,
					"refused: the stats file is cut short");
	return MT_ERR_OK;
}

enum mt_err mt_stats_file_check(const struct mt_stats_file *file, struct mt_error_reason *why)
{
	return check_head(&file->head, sizeof(file->head), why);
}

void mt_stats_file_clean(struct mt_stats_file *file)
{
	struct mt_stats_setting *settings = file->settings;

	clean_head(&file->head);
	for (size_t i = 0; i < MT_SETTINGS_COUNT; i++) {
		mt_text_clean(settings[i].name, sizeof(settings[i].name));
		mt_text_clean(settings[i].value, sizeof(settings[i].value));
		mt_text_clean(settings[i].origin, sizeof(settings[i].origin));
	}
	clean_devices(file->devices, MT_DEVICES_COUNT);
	clean_ooms(file->ooms);
	clean_limit_reports(file->limit_reports);
	clean_cleanups(file->cleanups);
}

enum mt_err mt_stats_file_read(int fd, struct mt_stats_file *out, struct mt_error_reason *why)
{
	struct mt_stats_file *file = mt_error_check_memory(calloc(1, sizeof(*file)));
	enum mt_err error = mt_stats_file_read_head(fd, &file->head, why);

	if (!error)
		error = read_tail(fd, file, why);
	if (!error) {
		mt_stats_file_clean(file);
		*out = *file;
	}
	free(file);
	return error;
}

const struct mt_stats_cleanup *mt_stats_file_cleanup(const struct mt_stats_file *file,
						     uint64_t number)
{
	const struct mt_stats_cleanup *cleanup = &file->cleanups[(number - 1) % MT_CLEANUPS_COUNT];

	return number && cleanup->number == number ? cleanup : NULL;
}

const struct mt_stats_cleanup *mt_stats_file_cleanup_of_request(const struct mt_stats_file *file,
								uint64_t seq)
{
	const struct mt_stats_cleanup *found = NULL;

	for (size_t slot = 0; slot < MT_CLEANUPS_COUNT && seq; slot++)
		if (file->cleanups[slot].number && file->cleanups[slot].request_seq == seq &&
		    (!found || file->cleanups[slot].number > found->number))
			found = &file->cleanups[slot];
	/* Bounded, since a forged file may link the entries in a cycle. */
	for (size_t step = 0; step < MT_CLEANUPS_COUNT && found && found->merged == 1; step++)
		found = mt_stats_file_cleanup(file, found->number + 1);
	return found;
}

bool mt_stats_file_uses_cuda(const struct mt_stats_head *head)
{
	return head->cuda[0] || head->devices_count;
}

const struct mt_stats_oom *mt_stats_file_oom(const struct mt_stats_file *file, uint64_t number)
{
	const struct mt_stats_oom *oom = &file->ooms[(number - 1) % MT_OOMS_COUNT];

	return number && oom->number == number ? oom : NULL;
}

const struct mt_stats_limit_report *mt_stats_file_limit_report(const struct mt_stats_file *file,
							       uint64_t number)
{
	const struct mt_stats_limit_report *limit_report =
		&file->limit_reports[(number - 1) % MT_LIMIT_REPORTS_COUNT];

	return number && limit_report->number == number ? limit_report : NULL;
}

const char *mt_stats_file_setting(const struct mt_stats_file *file, const char *name)
{
	for (size_t i = 0; i < file->head.settings_count; i++)
		if (strcmp(file->settings[i].name, name) == 0)
			return file->settings[i].value;
	return NULL;
}

bool mt_stats_file_is_off(const struct mt_stats_file *file, const char *name)
{
	const char *value = mt_stats_file_setting(file, name);

	return value && (strcmp(value, "0") == 0 || strcmp(value, "off") == 0);
}

uint64_t mt_stats_file_number(const struct mt_stats_file *file, const char *name)
{
	const char *text = mt_stats_file_setting(file, name);
	uint64_t value;

	return text && mt_text_parse_u64(text, &value) ? value : 0;
}

uint64_t mt_stats_file_other_cleanups(const struct mt_stats_head *head)
{
	uint64_t sum = 0;

	for (size_t reason = MT_REASON_COUNT; reason < MT_REASONS_COUNT; reason++)
		sum += head->cleanups_by_reason[reason];
	return sum;
}
