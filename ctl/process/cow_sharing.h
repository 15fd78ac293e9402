/* ctl/process/cow_sharing.h -- whether what a forked child and its parent both have of their own at
 * one address was copied by a write, or was taken again by both in what was free at the fork. Smaps
 * cannot tell the two apart, the pages can: a copy still says mostly what the other says. Some
 * pages are compared; nothing is written, and no page is touched that is not resident in both. */
#ifndef MT_CTL_PROCESS_COW_SHARING_H
#define MT_CTL_PROCESS_COW_SHARING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/process/smaps.h"

/* The share of the compared pages that are alike, 0 to 1. False, and *out_share as it was: too few
 * could be compared, or they may not be read (ptrace's rules). */
bool mt_cow_sharing_share(pid_t child, const struct mt_smaps *child_smaps, pid_t parent,
			  const struct mt_smaps *parent_smaps, double *out_share);

/* Whether two pages are mostly alike: half of the words that are not 0 in both. False in
 * *out_tells: next to nothing is in them. Pure. */
bool mt_cow_sharing_alike(const uint64_t *one, const uint64_t *other, size_t words,
			  bool *out_tells);

#endif
