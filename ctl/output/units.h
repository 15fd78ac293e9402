/* ctl/output/units.h -- numbers as users write them: "7e9", "7B", "7000M"; "16G", "16GiB", "500
 * MB"; "100ms", "2m"; "85%". "2,048" is not valid. Counts use powers of 1000, sizes powers of 1024.
 * Negative, infinite and hexadecimal numbers are not valid. Pure. */
#ifndef MT_CTL_OUTPUT_UNITS_H
#define MT_CTL_OUTPUT_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a count. K, M, B or G, and T may follow. */
bool mt_units_count(const char *text, double *out);

/* Reads a size in bytes. K, M, G or T must follow, with B or iB after it, in upper or lower case:
 * 16 alone could mean anything. */
bool mt_units_bytes(const char *text, double *out);

/* Reads a plain number. */
bool mt_units_number(const char *text, double *out);

/* Reads a duration in seconds: 0.5, 30s, 100ms, 2m or 2min, 1h, 1d. A plain number is seconds. */
bool mt_units_duration(const char *text, double *out_s);

/* Reads a percentage from 0 to 100: 85, 85%, 2.5 %. */
bool mt_units_percent(const char *text, double *out);

#endif
