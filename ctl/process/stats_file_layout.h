/* ctl/process/stats_file_layout.h -- where things lie in a stats file whose shim may be older or
 * newer than this mtctl, by the rule of stats_layout.h: within a version entries only grow at their
 * ends, and the head says how large they are there. What a newer shim has appended is passed over;
 * what an older one lacks is 0. Pure. */
#ifndef MT_CTL_PROCESS_STATS_FILE_LAYOUT_H
#define MT_CTL_PROCESS_STATS_FILE_LAYOUT_H

#include <stdbool.h>

#include "core/stats_layout.h"

/* what entries and the fixed part of the head may be larger than here */
#define MT_STATS_FILE_LAYOUT_GROWTH     4096u
#define MT_STATS_FILE_LAYOUT_FIELDS_MAX 1024u

/* No head is longer. */
#define MT_STATS_FILE_LAYOUT_HEAD_MAX                                                              \
	(offsetof(struct mt_stats_head, snapshot) + MT_STATS_FILE_LAYOUT_GROWTH +                  \
	 MT_STATS_FILE_LAYOUT_FIELDS_MAX * sizeof(uint64_t) + sizeof(uint64_t))

/* Whether the sizes and counts can be; of a version from MT_STATS_VERSION_OLDEST to
 * MT_STATS_VERSION. All below is for heads that passed. */
bool mt_stats_file_layout_can_be(const struct mt_stats_head *head);

/* From a head as it lies in the file, head->head_bytes long. Its sizes and counts stay those of the
 * file. */
void mt_stats_file_layout_take_head(const unsigned char *bytes, struct mt_stats_head *out);

/* What follows the head, all of it: its length, and each entry into its place. The head of `out` is
 * not touched. */
size_t mt_stats_file_layout_tail_bytes(const struct mt_stats_head *head);
void mt_stats_file_layout_take_tail(const struct mt_stats_head *head, const unsigned char *tail,
				    struct mt_stats_file *out);

/* The filled places of the table of devices alone: where they lie in the file, their length there,
 * and each into `out`. */
size_t mt_stats_file_layout_devices_at(const struct mt_stats_head *head);
size_t mt_stats_file_layout_devices_bytes(const struct mt_stats_head *head);
void mt_stats_file_layout_take_devices(const struct mt_stats_head *head, const unsigned char *from,
				       struct mt_stats_device *out);

#endif
