/* ctl/process/stats_file.h -- reads a stats file that may be anything: half written, cut, forged,
 * of another version. It is read with pread into memory of our own, never mapped (a file that
 * shrinks under a mapping is SIGBUS). After a successful read every index is within bounds and
 * every text is ended and printable; the figures themselves are the process's word. Knows no
 * process and no directory: that is stats_dir.h. */
#ifndef MT_CTL_PROCESS_STATS_FILE_H
#define MT_CTL_PROCESS_STATS_FILE_H

#include <stdbool.h>

#include "ctl/output/error.h"
#include "ctl/process/stats_words.h"
#include "core/stats_layout.h"

/* Reads the whole file. A checksum that does not hold is read again up to 50 times, 1 ms apart,
 * since a write may be in flight. INVALID: not a stats file, or of a version that is not read
 * (stats_layout.h has the rule). Slots that make no sense come back empty. */
enum mt_err mt_stats_file_read(int fd, struct mt_stats_file *out, struct mt_why *why);

/* The same for the head alone. */
enum mt_err mt_stats_file_read_head(int fd, struct mt_stats_head *out, struct mt_why *why);

/* The filled places of the table of devices, for a head of the same file: head->devices_count of
 * `out`. INVALID: it is cut short. */
enum mt_err mt_stats_file_read_devices(int fd, const struct mt_stats_head *head,
				       struct mt_stats_device *out, struct mt_why *why);

/* Tried once: a write that is in flight is INVALID. */
enum mt_err mt_stats_file_try_head(int fd, struct mt_stats_head *out, struct mt_why *why);

/* FNV-1a, 64 bit, by 8-byte words. */
uint64_t mt_stats_file_checksum(const void *words, size_t bytes);

/* The record of this number, or of this request; NULL where it is gone or was never there. A record
 * that was merged into the next one is answered by that one. */
const struct mt_stats_cleanup *mt_stats_file_cleanup(const struct mt_stats_file *file,
						     uint64_t number);
const struct mt_stats_cleanup *mt_stats_file_cleanup_of_request(const struct mt_stats_file *file,
								uint64_t seq);

/* Whether the process has called a function of libcuda that the shim wraps. */
bool mt_stats_file_uses_cuda(const struct mt_stats_head *head);

/* The alarm, or the out-of-memory report, of this number; NULL where it is gone or was never there.
 */
const struct mt_stats_alarm *mt_stats_file_alarm(const struct mt_stats_file *file, uint64_t number);
const struct mt_stats_oom *mt_stats_file_oom(const struct mt_stats_file *file, uint64_t number);

/* Whether the process has this setting, and its value is "0" or "off". */
bool mt_stats_file_is_off(const struct mt_stats_file *file, const char *name);

/* The value of a setting as a number; 0 where there is none, and where it is a word ("auto"). */
uint64_t mt_stats_file_number(const struct mt_stats_file *file, const char *name);

/* The value of a setting as text, NULL where the process has none of this name. */
const char *mt_stats_file_setting(const struct mt_stats_file *file, const char *name);

/* How many cleanups had a reason that this mtctl does not know. */
uint64_t mt_stats_file_other_cleanups(const struct mt_stats_head *head);

/* All fields of a snapshot, in the order of stats_fields.def, and of a device, in the order of
 * device_fields.def. */
struct mt_stats_file_field {
	const char *name, *help;
	size_t offset;   /* within struct mt_stats_snapshot, struct mt_stats_device */
	bool is_counter; /* only rises */
};
const struct mt_stats_file_field *mt_stats_file_fields(size_t *count);
const struct mt_stats_file_field *mt_stats_file_device_fields(size_t *count);
uint64_t mt_stats_file_value(const void *from, const struct mt_stats_file_field *field);

#endif
