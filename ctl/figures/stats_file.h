/* ctl/figures/stats_file.h -- reads a stats file, which may be half written, cut, forged, or of
 * another version. It is read with pread(2) into memory of mtctl, never mapped: a file that shrinks
 * under a mapping raises SIGBUS. After a successful read every index is in range and every text is
 * ended and printable. The figures themselves are what the process says. Knows no process and no
 * directory: that is stats_dir.h. One thread may call. */
#ifndef MT_CTL_FIGURES_STATS_FILE_H
#define MT_CTL_FIGURES_STATS_FILE_H

#include <stdbool.h>

#include "ctl/figures/figures.h"
#include "ctl/output/error.h"
#include "core/stats_layout.h"

/* Reads the whole file. If the checksum is wrong, reads again up to 50 times, 1 ms apart: a
 * write may be in progress. Returns MT_ERR_INVALID for a file that is no stats file, or of another
 * version. Invalid slots are returned empty. */
enum mt_err mt_stats_file_read(int fd, struct mt_stats_file *out, struct mt_error_reason *why);

/* The same for a copy in memory: mt_stats_file_check returns MT_ERR_INVALID if the head is not
 * valid; then mt_stats_file_clean empties invalid slots and cleans the text. */
enum mt_err mt_stats_file_check(const struct mt_stats_file *file, struct mt_error_reason *why);
void mt_stats_file_clean(struct mt_stats_file *file);

/* The same for the head alone. */
enum mt_err mt_stats_file_read_head(int fd, struct mt_stats_head *out, struct mt_error_reason *why);

/* Reads the table of devices for a head of the same file: head->devices_count entries of `out`.
 * Returns MT_ERR_INVALID if the file is cut short. */
enum mt_err mt_stats_file_read_devices(int fd, const struct mt_stats_head *head,
				       struct mt_stats_device *out, struct mt_error_reason *why);

/* mt_stats_file_read_head with one try: MT_ERR_INVALID may mean that a write is in progress. */
enum mt_err mt_stats_file_try_head(int fd, struct mt_stats_head *out, struct mt_error_reason *why);

/* Returns the cleanup of this number, or of this request; NULL if it is not in the file. A
 * cleanup that was merged into the next one is that one. */
const struct mt_stats_cleanup *mt_stats_file_cleanup(const struct mt_stats_file *file,
						     uint64_t number);
const struct mt_stats_cleanup *mt_stats_file_cleanup_of_request(const struct mt_stats_file *file,
								uint64_t seq);

/* Returns whether the process has called a function of libcuda that the shim wraps. */
bool mt_stats_file_uses_cuda(const struct mt_stats_head *head);

/* Return the report of this number of MT_RSS_LIMIT_MB, or of a device out of memory; NULL if it
 * is not in the file. */
const struct mt_stats_limit_report *mt_stats_file_limit_report(const struct mt_stats_file *file,
							       uint64_t number);
const struct mt_stats_oom *mt_stats_file_oom(const struct mt_stats_file *file, uint64_t number);

/* Returns whether the process has this setting with the value "0" or "off". */
bool mt_stats_file_is_off(const struct mt_stats_file *file, const char *name);

/* Returns the value of a setting as a number; 0 if it is missing or a word ("auto"). */
uint64_t mt_stats_file_number(const struct mt_stats_file *file, const char *name);

/* Returns the value of a setting as text, NULL if the process has no such setting. */
const char *mt_stats_file_setting(const struct mt_stats_file *file, const char *name);

/* Returns how many cleanups had a reason that this mtctl does not know. */
uint64_t mt_stats_file_other_cleanups(const struct mt_stats_head *head);

#endif
