/* ctl/output/units.h -- counts and sizes as people write them: "7e9", "7B", "7000M", "2,048" is
 * none; "16G", "16GiB", "500 MB". Counts go by thousands, sizes by 1024 as everywhere in mtctl.
 * Nothing negative, infinite or hexadecimal. Pure. */
#ifndef MT_CTL_OUTPUT_UNITS_H
#define MT_CTL_OUTPUT_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* K, M, B or G, T behind it. */
bool mt_units_count(const char *text, double *out);

/* In bytes; K, M, G, T, with B or iB behind it, in any case. A unit must be there: 16 alone may be
 * anything. */
bool mt_units_bytes(const char *text, double *out);

/* A plain number. */
bool mt_units_number(const char *text, double *out);

/* Seconds from the command line, with a fraction if one likes, up to a day. Says what is wrong. */
bool mt_units_parse_seconds(const char *text, uint64_t *out_ms);

#endif
