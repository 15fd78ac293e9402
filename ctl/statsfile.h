/* ctl/statsfile.h -- reads a stats file that may be anything: half written, cut, forged, of another
 * version. It is read with pread into memory of our own, never mapped (a file that shrinks under a
 * mapping is SIGBUS). After a successful read every index is within bounds and every text is ended
 * and printable; the figures themselves are the process's word. Knows no process and no directory:
 * that is statsdir.h. */
#ifndef MT_CTL_STATSFILE_H
#define MT_CTL_STATSFILE_H

#include <stdbool.h>

#include "ctl/error.h"
#include "ctl/text.h"
#include "core/stats_layout.h"

/* Reads the whole file. A checksum that does not hold is read again up to 50 times, 1 ms apart,
 * since a write may be in flight. INVALID: not a stats file, or of a version that is not read
 * (stats_layout.h has the rule). Slots that make no sense come back empty. */
enum mt_err mt_statsfile_read(int fd, struct mt_stats_file *out, struct mt_why *why);

/* The same for the head alone. */
enum mt_err mt_statsfile_read_head(int fd, struct mt_stats_head *out, struct mt_why *why);

/* The filled places of the table of devices, for a head of the same file: head->devices_count of
 * `out`. INVALID: it is cut short. */
enum mt_err mt_statsfile_read_devices(int fd, const struct mt_stats_head *head,
				      struct mt_stats_device *out, struct mt_why *why);

/* Tried once: a write that is in flight is INVALID. */
enum mt_err mt_statsfile_try_head(int fd, struct mt_stats_head *out, struct mt_why *why);

/* FNV-1a, 64 bit, by 8-byte words. */
uint64_t mt_statsfile_checksum(const void *words, size_t bytes);

/* The record of this number, or of this request; NULL where it is gone or was never there. A record
 * that was merged into the next one is answered by that one. */
const struct mt_stats_cleanup *mt_statsfile_record(const struct mt_stats_file *file,
						   uint64_t number);
const struct mt_stats_cleanup *mt_statsfile_record_of_request(const struct mt_stats_file *file,
							      uint64_t seq);

/* Words for the numbers of a record; "?" for what is out of range. */
const char *mt_statsfile_reason(uint32_t reason);
const char *mt_statsfile_level(uint32_t level);
const char *mt_statsfile_gc_state(uint32_t state);

/* What a cleanup came to, for people: its result, but "freed" only where RSS, its anonymous part or
 * the memory of a device fell by 1 MB at least. A page or two go back in any moment, and say
 * nothing of the cleanup. */
const char *mt_statsfile_outcome(const struct mt_stats_cleanup *record);
bool mt_statsfile_has_freed(const struct mt_stats_cleanup *record);

const char *mt_statsfile_door(uint64_t door);
const char *mt_statsfile_gpu_state(uint32_t state);
const char *mt_statsfile_oom_cause(uint32_t cause);
const char *mt_statsfile_pressure_level(uint64_t level);

/* "limit", "stall", ...: the word for this bit of a record's pressure_sources; NULL past the last.
 */
const char *mt_statsfile_pressure_source(size_t bit);

/* The percentage of a limit that is used; 0 where the limit is not known. */
double mt_statsfile_percent(uint64_t used_bytes, uint64_t limit_bytes);

/* "torch", "cupy", "numba": the words for the bits of a record's frameworks; NULL past the last. */
const char *mt_statsfile_framework(size_t place, uint32_t *out_bit);

/* Whether the process has called a function of libcuda that the shim wraps. */
bool mt_statsfile_uses_cuda(const struct mt_stats_head *head);

/* The CUDA version of the driver, "12.8", or "unknown". */
struct mt_figure mt_statsfile_driver(const struct mt_stats_head *head);

/* The alarm, or the out-of-memory report, of this number; NULL where it is gone or was never there.
 */
const struct mt_stats_alarm *mt_statsfile_alarm(const struct mt_stats_file *file, uint64_t number);
const struct mt_stats_oom *mt_statsfile_oom(const struct mt_stats_file *file, uint64_t number);

/* The value of a setting as text, NULL where the process has none of this name. */
const char *mt_statsfile_setting(const struct mt_stats_file *file, const char *name);

/* How many cleanups had a reason that this mtctl does not know. */
uint64_t mt_statsfile_other_cleanups(const struct mt_stats_head *head);

/* Whether the shim counts its cleanups by reason: those of version 3 did not. */
bool mt_statsfile_counts_cleanups(const struct mt_stats_head *head);

/* All fields of a snapshot, in the order of stats_fields.def, and of a device, in the order of
 * device_fields.def. */
struct mt_statsfile_field {
	const char *name, *help;
	size_t offset;   /* within struct mt_stats_snapshot, struct mt_stats_device */
	bool is_counter; /* only rises */
};
const struct mt_statsfile_field *mt_statsfile_fields(size_t *count);
const struct mt_statsfile_field *mt_statsfile_device_fields(size_t *count);
uint64_t mt_statsfile_value(const void *from, const struct mt_statsfile_field *field);

/* Whether the shim tells this figure of a snapshot at all; an older one does not know the last
 * ones, and their place is 0. */
bool mt_statsfile_tells(const struct mt_stats_head *head, const struct mt_statsfile_field *field);

#endif
