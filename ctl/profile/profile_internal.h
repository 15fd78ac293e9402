/* ctl/profile/profile_internal.h -- the steps of sites_collect.c, symbols.c and lines.c, for their
 * tests. */
#ifndef MT_CTL_PROFILE_PROFILE_INTERNAL_H
#define MT_CTL_PROFILE_PROFILE_INTERNAL_H

#include <stdint.h>

#include "ctl/output/error.h"

struct mt_heap_profile;
struct mt_lines;
struct mt_lines_file;
struct mt_sites;
struct mt_symbols;

/* Returns the name of a return address: "leak at leak.c:12", "PyList_Append in python3.11", "0x1a2b
 * in libx.so", "0x7f12". Printable; C++ names are mangled, for c++filt. The caller frees. */
char *mt_symbols_name(struct mt_symbols *symbols, uint64_t return_address);

/* The same without reading any file: "0x1a2b in libx.so", "0x7f12". */
char *mt_symbols_offset(const struct mt_symbols *symbols, uint64_t return_address);

/* Makes sites from a profile: scales, names and merges its stacks. Takes over the texts of its
 * lines of Python. Part of mt_sites_collect. */
void mt_sites_read(struct mt_heap_profile *file, struct mt_symbols *symbols, struct mt_sites *out);

/* Reads the file from an open descriptor into *out. Returns MT_ERR_INVALID, with the reason, for a
 * file that is not valid. The caller frees with mt_lines_file_free. */
enum mt_err mt_lines_file_read(int fd, struct mt_lines_file *out, struct mt_error_reason *why);
void mt_lines_file_free(struct mt_lines_file *file);

/* Makes lines from a file, which they take over. Part of mt_lines_collect. */
void mt_lines_read(struct mt_lines_file *file, struct mt_lines *out);

#endif
