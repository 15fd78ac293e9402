/* ctl/process/cow_sharing.h -- estimates how many private pages of a forked child are copies of its
 * parent's pages. smaps cannot tell a page that was copied on write from a page that both allocated
 * after the fork. The content can: a copy still has mostly the same words. Reads a sample of pages
 * that are resident in both. Never writes, and makes no page resident. One thread may call. */
#ifndef MT_CTL_PROCESS_COW_SHARING_H
#define MT_CTL_PROCESS_COW_SHARING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/process/smaps.h"

/* Sets *out_share to the share of compared pages that have mostly the same content, 0 to 1. Returns
 * false where too few pages could be compared, or may not be read (ptrace(2), access mode
 * checking). */
bool mt_cow_sharing_share(pid_t child, const struct mt_smaps *child_smaps, pid_t parent,
			  const struct mt_smaps *parent_smaps, double *out_share);

/* Returns whether half of the words that are not 0 in both pages are equal. *out_tells is false
 * where nearly all words are 0. Pure. */
bool mt_cow_sharing_alike(const uint64_t *one, const uint64_t *other, size_t words,
			  bool *out_tells);

#endif
