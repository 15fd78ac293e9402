/* ctl/ui/top/compact_number.h -- numbers that are short enough for columns. ctl/output/text.h has
 * those for sentences. Pure. */
#ifndef MT_CTL_UI_TOP_COMPACT_NUMBER_H
#define MT_CTL_UI_TOP_COMPACT_NUMBER_H

#include "ctl/output/text.h"

/* up to 5 characters up to 9999 TB: "512K", "9.8M", "1.25G" */
struct mt_short_text mt_top_bytes(uint64_t bytes);
struct mt_short_text mt_top_change(uint64_t before, uint64_t after); /* "-311M", "+4.0M", "0" */
struct mt_short_text mt_top_ago(uint64_t now_ns,
				/* "12s", "59m", "23h", "99d"; "0s" for a time in the future */
				uint64_t then_ns);
struct mt_short_text mt_top_percent(double percent); /* "0.04", "3.1", "42" */

#endif
